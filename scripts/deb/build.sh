#!/usr/bin/env bash
# Builds the Debian packages into build/deb, and checks them with lintian.
#   SERVER_RELEASES="10.11.18 10.11.19" scripts/deb/build.sh    releases of the server that the packages support
# A release that is not the one of `make setup` is downloaded from the archives that apt uses. VERSION_SUFFIX is appended to
# the version of the packages, for tests of upgrades; OUT is another directory for the results.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
. "$ROOT/scripts/apt.sh"
. "$ROOT/debian/server_headers.sh"

RELEASES=${SERVER_RELEASES:-$(cat "$BUILD/mariadb-version")}
OUT=${OUT:-$BUILD/deb}
WORK=$BUILD/deb-work
RUST_MINIMUM=1.88
PACKAGES=(debhelper dpkg-dev fakeroot lintian xz-utils)
# CARGO_TARGET_DIR is also used by the package build, so that a second build is short.
export CARGO_TARGET_DIR=$BUILD/target-deb

cd "$ROOT"

install_tools() {
    local package missing=()
    for package in "${PACKAGES[@]}"; do
        [ -n "$(installed_version "$package")" ] || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    need_root "${missing[*]}"
    refresh_lists
    say "installing ${missing[*]}"
    apt_quietly install --no-install-recommends "${missing[@]}"
}

# Collects the headers of a release into $WORK/server.
server_headers() { # RELEASE
    local release=$1 target=$WORK/server/$1 public=/usr/include/mariadb/server source=$BUILD/mariadb-source scratch=
    [ ! -e "$target/generated" ] || return 0
    rm -rf "$target" && mkdir -p "$target"
    if [ "$(release_of_headers "$public")" != "$release" ] || [ "$(release_of_source "$source")" != "$release" ]; then
        say "downloading the headers and the source of MariaDB $release"
        scratch=$WORK/download-$release
        rm -rf "$scratch" && mkdir -p "$scratch"
        # The lists of source packages are those of `make setup`.
        (cd "$scratch" && download_public_headers "$release" && download_source "$release" \
            -o Dir::Etc::sourcelist="$BUILD/apt/sources.list" -o Dir::Etc::sourceparts="$BUILD/apt/sources.list.d" \
            -o Dir::State::lists="$BUILD/apt/lists" -o Dir::Cache="$scratch" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=) ||
            fail "MariaDB $release cannot be supported: its headers or its source are not available here."
        public=$scratch/dev$public source=$scratch/source
        [ "$(release_of_headers "$public")" = "$release" ] && [ "$(release_of_source "$source")" = "$release" ] ||
            fail "The downloaded headers or sources are not those of MariaDB $release."
    fi
    collect_headers "$public" "$source" "$target"
    [ -z "$scratch" ] || rm -rf "$scratch"
}

# Copies the tracked files, and those that are not ignored, into the tree of the source package.
copy_repository() { # TREE
    git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
        if [ -e "$file" ]; then printf '%s\0' "$file"; fi
    done | tar -c --null -T - | tar -x -C "$1"
}

prepare_tree() { # TREE
    rm -rf "$1" && mkdir -p "$1"
    copy_repository "$1"
    python3 -m scripts.deb.vendor "$WORK/vendor"
    cp -al "$WORK/vendor" "$1/vendor"
    mkdir -p "$1/.cargo" "$1/server"
    cat >"$1/.cargo/config.toml" <<'END'
[source.crates-io]
replace-with = "vendored-sources"

[source.vendored-sources]
directory = "vendor"
END
    local release
    for release in $RELEASES; do
        server_headers "$release"
        cp -a "$WORK/server/$release" "$1/server/$release"
    done
    python3 -m scripts.deb.copyright "$1" >"$1/debian/copyright"
    rm "$1/debian/copyright.in"
}

# The profile for which the build does not depend on the packages of Rust.
profiles() {
    local have
    have=$(dpkg-query -W -f '${Version}' rustc 2>/dev/null || true)
    if [ -z "$have" ] || dpkg --compare-versions "$have" lt "$RUST_MINIMUM"; then echo "-Ppkg.teak.rustup"; fi
}

build_packages() { # TREE
    local upstream=$1 suffix=${VERSION_SUFFIX:-}
    local version
    version=$(dpkg-parsechangelog -l debian/changelog -S Version)
    upstream=${version%-*}
    grep -qx "version = \"$upstream\"" Cargo.toml || fail "debian/changelog has version $upstream, Cargo.toml another."
    if [ -n "$suffix" ]; then sed -i "1s/($version)/($version$suffix)/" "$1/debian/changelog"; fi
    say "making the source package"
    tar -C "$WORK" --exclude "${1##*/}/debian" --sort=name --owner=0 --group=0 --numeric-owner -c "${1##*/}" |
        xz -T0 -1 >"$WORK/teak_$upstream.orig.tar.xz"
    say "building the packages of version $version$suffix for MariaDB $RELEASES (build/deb-work/build.log)"
    # The variables of an outer make do not apply.
    # shellcheck disable=SC2046
    (cd "$1" && env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS dpkg-buildpackage -us -uc -j"${JOBS:-$(nproc)}" $(profiles)) >"$WORK/build.log" 2>&1 ||
        { tail -30 "$WORK/build.log" >&2; fail "The packages cannot be built (build/deb-work/build.log)."; }
}

main() {
    install_tools
    [ -r "$BUILD/mariadb-version" ] || fail "run make setup first"
    local version tree release
    for release in $RELEASES; do
        case $release in
            10.11.*) ;;
            *) fail "Packages are built for MariaDB 10.11 only; for $release use make build." ;;
        esac
    done
    version=$(dpkg-parsechangelog -l debian/changelog -S Version)
    tree=$WORK/teak-${version%-*}
    mkdir -p "$WORK" "$OUT"
    rm -f "$WORK"/teak_* "$WORK"/*.deb
    prepare_tree "$tree"
    build_packages "$tree"
    say "checking them with lintian"
    # Compressed data can contain any word; and these packages are not uploaded to Debian, which would close a bug.
    lintian --allow-root --info --display-info --pedantic --suppress-tags spelling-error-in-binary,initial-upload-closes-no-bugs \
        --fail-on error,warning,info,pedantic "$WORK"/*.changes
    rm -f "$OUT"/*
    mv "$WORK"/teak_* "$WORK"/*.deb "$OUT"
    rm -rf "$tree"
    say "built in ${OUT#"$ROOT"/}:"
    (cd "$OUT" && ls -1 -- *.deb)
}

main "$@"
