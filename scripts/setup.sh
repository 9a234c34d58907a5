#!/usr/bin/env bash
# Prepares a Debian machine for `make build`: installs the server, client, tests, headers and source of one MariaDB
# release, and the compilers. Installs only missing packages, so a second run is short. Does not change apt's
# configuration: the source package is fetched through a private one under build/apt.
#
#   scripts/setup.sh                      everything
#   MARIADB_SOURCE=DIR scripts/setup.sh   with your own MariaDB source tree (its release determines the packages)
#   CORE_LIBRARY=FILE scripts/setup.sh    to build with a core that was compiled elsewhere: Rust is not needed
set -euo pipefail
trap 'echo "error: setup stopped in line $LINENO of scripts/setup.sh" >&2' ERR
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$ROOT/scripts/apt.sh"

RUST_MINIMUM=1.88
SERVER_PACKAGES=(mariadb-server mariadb-server-core mariadb-client mariadb-client-core mariadb-common mariadb-backup
    mariadb-test mariadb-test-data libmariadb3 libmariadb-dev libmariadbd-dev)
# MyRocks, for the benchmarks; the embedded server, whose package has a name that depends on the release of Debian.
OPTIONAL_PACKAGES=(mariadb-plugin-rocksdb libmariadbd19 libmariadbd19t64)
TOOL_PACKAGES=(g++ clang-format make dpkg-dev xz-utils ca-certificates python3 python3-venv pkg-config sysbench)
DOWNLOADS=$BUILD/downloads
SOURCE=${MARIADB_SOURCE:-$BUILD/mariadb-source}

mkdir -p "$BUILD"

# ---- what is there ---------------------------------------------------------------------------------------------------

missing_tools() {
    local package
    for package in "${TOOL_PACKAGES[@]}"; do
        [ -n "$(installed_version "$package")" ] || echo "$package"
    done
}

# True if scripts/mariadb-version, or the given source, allows VERSION.
wanted_release() {
    local series
    if [ -n "${MARIADB_SOURCE:-}" ]; then
        [ "$(source_version "$MARIADB_SOURCE")" = "$(upstream_version "$1")" ]
        return
    fi
    for series in $(wanted_series); do
        if [ -n "$(echo "$1" | in_series "$series")" ]; then return 0; fi
    done
    return 1
}

wanted_series() { sed 's/#.*//' "$ROOT/scripts/mariadb-version"; }

# True when every server package is installed in VERSION.
packages_match() {
    local package
    for package in "${SERVER_PACKAGES[@]}"; do
        [ "$(installed_version "$package")" = "$1" ] || return 1
    done
}

check_rust() {
    command -v cargo >/dev/null && command -v rustc >/dev/null ||
        fail "Rust $RUST_MINIMUM or newer is needed and there is none: install it with rustup."
    local have
    have=$(rustc --version | awk '{ print $2 }')
    [ "$(printf '%s\n' "$RUST_MINIMUM" "${have%%-*}" | sort -V | head -1)" = "$RUST_MINIMUM" ] ||
        fail "Rust $RUST_MINIMUM or newer is needed, this is $have: run 'rustup update stable'."
}

# ---- apt -------------------------------------------------------------------------------------------------------------

# Runs apt with the machine's sources as deb-src, and with all state under build/apt.
private_apt() {
    local tool=$1; shift
    "$tool" -o Dir::Etc::sourcelist="$BUILD/apt/sources.list" -o Dir::Etc::sourceparts="$BUILD/apt/sources.list.d" \
        -o Dir::State::lists="$BUILD/apt/lists" -o Dir::Cache="$BUILD/apt/cache" -o Dir::Cache::pkgcache= \
        -o Dir::Cache::srcpkgcache= -o APT::Sandbox::User=root -o APT::Get::List-Cleanup=false "$@"
}

PRIVATE_LISTS_FRESH=
refresh_private_lists() {
    [ -z "$PRIVATE_LISTS_FRESH" ] || return 0
    say "reading the list of source packages (private apt configuration under build/apt)"
    rm -rf "$BUILD/apt"
    mkdir -p "$BUILD/apt/sources.list.d" "$BUILD/apt/lists/partial" "$BUILD/apt/cache/archives/partial"
    # Copies only the files that name an archive with the server, because other archives may have no source packages.
    local file archive archives wanted
    archives=$(apt-cache madison mariadb-server | awk -F'|' '{ split($3, part, " "); print part[1] }' | sort -u)
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
        [ -f "$file" ] || continue
        wanted=
        for archive in $archives; do
            if grep -qF "${archive%/}" "$file"; then wanted=yes; fi
        done
        [ -n "$wanted" ] || continue
        case $file in
            *.sources) sed -E 's/^Types:.*/Types: deb-src/' "$file" ;;
            *.list) sed -nE 's/^deb(-src)?[[:space:]]/deb-src /p' "$file" | sort -u ;;
            *) continue ;;
        esac >"$BUILD/apt/sources.list.d/$(basename "$file")"
    done
    : >"$BUILD/apt/sources.list"
    private_apt apt-get -q update >"$BUILD/apt/update.log" 2>&1 ||
        { tail -5 "$BUILD/apt/update.log" >&2; fail "The list of source packages cannot be read (build/apt/update.log)."; }
    PRIVATE_LISTS_FRESH=yes
}

binary_versions() { apt-cache madison "$1" | awk -F'|' '$3 ~ /Packages/ { gsub(/ /, "", $2); print $2 }' | sort -u; }
source_versions() {
    private_apt apt-cache madison mariadb | awk -F'|' '$3 ~ /Sources/ { gsub(/ /, "", $2); print $2 }' | sort -u
}

in_series() { # SERIES: prints the versions of stdin that belong to the series
    local version upstream
    while read -r version; do
        upstream=$(upstream_version "$version")
        case $upstream in "$1" | "$1".*) echo "$version" ;; esac
    done
}

newest_first() { # sorts the Debian versions of stdin; sort -V suffices, because releases differ only in numbers
    sort -rV
}

# Lists the versions for which the server, its tests and libmariadbd-dev (and the source, unless one is given) are
# available; the preferred version first.
candidate_versions() {
    local series offered package
    offered=$(binary_versions mariadb-server)
    for package in mariadb-test libmariadbd-dev; do
        offered=$(comm -12 <(echo "$offered") <(binary_versions "$package"))
    done
    if [ -n "${MARIADB_SOURCE:-}" ]; then
        echo "$offered" | in_series "$(source_version "$MARIADB_SOURCE")" | newest_first
        return
    fi
    offered=$(comm -12 <(echo "$offered") <(source_versions))
    for series in $(wanted_series); do
        echo "$offered" | in_series "$series" | newest_first
    done
}

# ---- steps -----------------------------------------------------------------------------------------------------------

# Fails if another release is installed and has databases of its own.
check_replaceable() {
    local have wanted=$1 data
    have=$(installed_version mariadb-server)
    [ -n "$have" ] && [ "$have" != "$wanted" ] || return 0
    data=$(find /var/lib/mysql -mindepth 1 -maxdepth 1 -type d ! -name mysql ! -name sys ! -name performance_schema \
        ! -name test ! -name '#*' 2>/dev/null | head -1)
    [ -z "$data" ] || fail "MariaDB $(upstream_version "$have") with databases of its own is installed and Teak's build" \
        "needs $(upstream_version "$wanted"): use another machine, or give the source of the installed release in MARIADB_SOURCE."
    say "replacing MariaDB $(upstream_version "$have") by $(upstream_version "$wanted")"
}

# Prints the needed packages, and all other MariaDB packages that are installed, as NAME=VERSION.
pinned_packages() {
    local version=$1 package
    {
        printf '%s\n' "${SERVER_PACKAGES[@]}"
        for package in "${OPTIONAL_PACKAGES[@]}"; do
            if binary_versions "$package" | grep -qxF "$version"; then echo "$package"; fi
        done
        dpkg-query -W -f '${source:Package} ${db:Status-Abbrev} ${Package}\n' | awk '$1 == "mariadb" && $2 == "ii" { print $3 }'
    } | sort -u | sed "s/\$/=$version/"
}

# Downloads the packages. False if an archive lists the packages of VERSION but does not have them.
download_packages() {
    local packages
    packages=$(pinned_packages "$1")
    say "downloading MariaDB $(upstream_version "$1"): server, client, test suite, headers"
    # shellcheck disable=SC2086
    (apt_quietly install --download-only --no-install-recommends --allow-downgrades $packages)
}

# Installs the packages. A temporary policy-rc.d prevents Debian from starting the server.
install_packages() {
    local version=$1 policy=/usr/sbin/policy-rc.d made= status=0 packages
    packages=$(pinned_packages "$version")
    if [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
        as_root chmod 755 "$policy"
        made=yes
    fi
    say "installing them"
    # shellcheck disable=SC2086
    (apt_quietly install --no-install-recommends --allow-downgrades $packages) || status=$?
    if [ -n "$made" ]; then as_root rm -f "$policy"; fi
    return $status
}

install_tools() {
    local tools
    tools=$(missing_tools | tr '\n' ' ')
    [ -n "$tools" ] || return 0
    need_root "${tools% }"
    refresh_lists
    say "installing $tools"
    # shellcheck disable=SC2086
    apt_quietly install --no-install-recommends $tools
}

# Downloads the source. False if an archive lists the source of VERSION but does not have it.
fetch_source() {
    local version=$1 upstream
    upstream=$(upstream_version "$version")
    if [ "$(source_version "$SOURCE")" = "$upstream" ] && [ -e "$SOURCE/.unpacked" ]; then return; fi
    refresh_private_lists
    say "fetching the source of MariaDB $upstream (about 115 MB)"
    mkdir -p "$DOWNLOADS"
    if ! (cd "$DOWNLOADS" && private_apt apt-get -q source --download-only "mariadb=$version" >source.log 2>&1); then
        say "the archive lists it but does not give it (build/downloads/source.log)"
        return 1
    fi
    say "unpacking it into build/mariadb-source"
    rm -rf "$SOURCE" "$SOURCE.new"
    (cd "$DOWNLOADS" && dpkg-source --no-check --no-copy -x "mariadb_${version#*:}.dsc" "$SOURCE.new" >unpack.log 2>&1) ||
        { tail -5 "$DOWNLOADS/unpack.log" >&2; fail "The source package cannot be unpacked (build/downloads/unpack.log)."; }
    touch "$SOURCE.new/.unpacked"
    mv "$SOURCE.new" "$SOURCE"
}

# Server headers include this header, which the build of the server creates as a copy.
make_probes_header() {
    mkdir -p "$BUILD/include"
    cmp -s "$SOURCE/include/probes_mysql_nodtrace.h.in" "$BUILD/include/probes_mysql_nodtrace.h" ||
        cp "$SOURCE/include/probes_mysql_nodtrace.h.in" "$BUILD/include/probes_mysql_nodtrace.h"
}

finish() {
    local upstream=$1
    make_probes_header
    [ "$(source_version "$SOURCE")" = "$upstream" ] ||
        fail "The source in $SOURCE is MariaDB $(source_version "$SOURCE"), the installed server is $upstream: they must be one release."
    echo "$upstream" | cmp -s - "$BUILD/mariadb-version" || echo "$upstream" >"$BUILD/mariadb-version"
    say "ready: MariaDB $upstream, its source in ${SOURCE#"$ROOT"/}, ${CORE_LIBRARY:-$(rustc --version | cut -d' ' -f1,2)}, g++ $(g++ -dumpfullversion)"
}

main() {
    command -v apt-get >/dev/null || fail "This setup knows Debian's apt only; elsewhere install MariaDB with its test suite and headers and set MARIADB_SOURCE."
    [ -n "${CORE_LIBRARY:-}" ] || check_rust
    if [ -n "${MARIADB_SOURCE:-}" ]; then
        [ -r "$MARIADB_SOURCE/sql/handler.h" ] || fail "MARIADB_SOURCE=$MARIADB_SOURCE holds no MariaDB source (sql/handler.h is missing)."
    fi
    install_tools

    # A repeated run: all packages are already installed, in one release.
    local have
    have=$(installed_version mariadb-server)
    if [ -n "$have" ] && wanted_release "$have" && packages_match "$have" && [ "$(source_version "$SOURCE")" = "$(upstream_version "$have")" ] &&
        { [ -n "${MARIADB_SOURCE:-}" ] || [ -e "$SOURCE/.unpacked" ]; }; then
        finish "$(upstream_version "$have")"
        return
    fi

    need_root "MariaDB's server, client, test and development packages"
    if [ -z "$(binary_versions mariadb-server)" ] || [ -z "$have" ]; then refresh_lists; fi
    [ -n "${MARIADB_SOURCE:-}" ] || refresh_private_lists
    local candidate version=
    for candidate in $(candidate_versions); do
        if [ -z "${MARIADB_SOURCE:-}" ]; then fetch_source "$candidate" || continue; fi
        if ! packages_match "$candidate"; then
            check_replaceable "$candidate"
            refresh_lists
            download_packages "$candidate" || continue
            install_packages "$candidate" || exit 1
        fi
        version=$candidate
        break
    done
    [ -n "$version" ] || fail "No release of MariaDB $(wanted_series | xargs) can be had here both as packages and as source;" \
        "offered as packages are: $(binary_versions mariadb-server | xargs)."
    finish "$(upstream_version "$version")"
}

main "$@"
