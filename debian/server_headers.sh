# shellcheck shell=bash
# Collects the headers that a shim for one release of the server needs. Sourced by teak-build-shim and by the build of the
# packages. The development packages of Debian lack the server's internal headers, which are in its source package.

# The upstream part of a Debian version: 1:10.11.18-0+deb12u1 -> 10.11.18, 1:11.8.9+ds-0+deb13u1 -> 11.8.9
release_of() { local version=${1#*:}; version=${version%%-*}; printf '%s\n' "${version%%+*}"; }

# The release of installed headers, or nothing.
release_of_headers() { # DIRECTORY
    sed -nE 's/^#define MYSQL_SERVER_VERSION[[:space:]]+"([0-9.]+).*/\1/p' "$1/mysql_version.h" 2>/dev/null || true
}

# The release of a source tree, or nothing.
release_of_source() { # DIRECTORY
    [ -r "$1/VERSION" ] || return 0
    awk -F= '/^MYSQL_VERSION_MAJOR/ { a = $2 } /^MYSQL_VERSION_MINOR/ { b = $2 } /^MYSQL_VERSION_PATCH/ { c = $2 }
        END { printf "%d.%d.%d\n", a, b, c }' "$1/VERSION"
}

# Copies the headers from the directory of the installed ones and a source tree.
collect_headers() { # PUBLIC SOURCE OUT
    mkdir -p "$3/source" "$3/generated"
    cp -RL "$1" "$3/public"
    (cd "$2" && find sql include wsrep-lib/include wsrep-lib/wsrep-API/v26 libservices -type f \
        \( -name '*.h' -o -name '*.hpp' -o -name '*.inl' -o -path 'libservices/*.c' \) -print0 |
        tar -c --null -T -) | tar -x -C "$3/source"
    # The build of the server creates this header as a copy.
    cp "$2/include/probes_mysql_nodtrace.h.in" "$3/generated/probes_mysql_nodtrace.h"
}

# Prints the version of the package that has a release; a full version of a package stands for itself.
package_version() { # RELEASE PACKAGE TYPE APT-OPTION...
    local release=$1 package=$2 type=$3 version
    shift 3
    apt-cache "$@" madison "$package" | awk -F'|' -v type="$type" '$3 ~ type { gsub(/ /, "", $2); print $2 }' | sort -rV |
        while read -r version; do
            if [ "$version" = "$release" ] || [ "$(release_of "$version")" = "$release" ]; then
                printf '%s\n' "$version"
                break
            fi
        done
}

# Downloads libmariadbd-dev into the current directory, and unpacks it into `dev`. False with a message if there is none.
download_public_headers() { # RELEASE
    local version
    version=$(package_version "$1" libmariadbd-dev Packages)
    [ -n "$version" ] || { echo "apt offers no package libmariadbd-dev of MariaDB $1" >&2; return 1; }
    apt-get -q -o APT::Sandbox::User=root download "libmariadbd-dev=$version" >download.log 2>&1 ||
        { tail -3 download.log >&2; return 1; }
    dpkg-deb -x libmariadbd-dev_*.deb dev
    rm -f libmariadbd-dev_*.deb
}

# Downloads the source package into the current directory, and unpacks it into `source`. False with a message if there is
# none.
download_source() { # RELEASE APT-OPTION...
    local release=$1 version
    shift
    version=$(package_version "$release" mariadb Sources "$@")
    [ -n "$version" ] ||
        { echo "apt offers no source package of MariaDB $release (it needs deb-src entries, and apt-get update)" >&2; return 1; }
    apt-get -q -o APT::Sandbox::User=root "$@" source --download-only "mariadb=$version" >source.log 2>&1 ||
        { grep '^E:' source.log >&2; echo "the archive lists the source package mariadb $version, but does not have it" >&2; return 1; }
    dpkg-source --no-check --no-copy -x "mariadb_${version#*:}.dsc" source >unpack.log 2>&1 || { tail -3 unpack.log >&2; return 1; }
}
