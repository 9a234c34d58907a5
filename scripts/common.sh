# Paths and messages, sourced by the other scripts.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
BUILD=$ROOT/build

say() { printf '%s\n' "-- $*"; }
fail() { printf '%s\n' "error: $*" >&2; exit 1; }

# The upstream part of a Debian version: 1:10.11.18-0+deb12u1 -> 10.11.18, 1:11.8.9+ds-0+deb13u1 -> 11.8.9
upstream_version() { local version=${1#*:}; version=${version%%-*}; printf '%s\n' "${version%%+*}"; }

# The release of an unpacked MariaDB source tree; empty if DIR is not a source tree.
source_version() {
    [ -r "$1/VERSION" ] || return 0
    awk -F= '/^MYSQL_VERSION_MAJOR/ { a = $2 } /^MYSQL_VERSION_MINOR/ { b = $2 } /^MYSQL_VERSION_PATCH/ { c = $2 }
        END { printf "%d.%d.%d\n", a, b, c }' "$1/VERSION"
}

# Sets NIGHTLY to the argument that selects a nightly toolchain for cargo and rustc. If there is none, sets a variable
# that makes the installed toolchain accept nightly's flags.
use_nightly() {
    NIGHTLY=+nightly
    rustc +nightly --version >/dev/null 2>&1 && return
    say "no nightly toolchain: the installed one, with RUSTC_BOOTSTRAP=1"
    NIGHTLY=
    export RUSTC_BOOTSTRAP=1
}
