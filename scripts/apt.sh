# Installed packages, and apt with its output in a file; sourced after common.sh by scripts that install packages.

installed_version() {
    { dpkg-query -W -f '${db:Status-Abbrev} ${Version}\n' "$1" 2>/dev/null || true; } | awk '$1 == "ii" { print $2 }'
}

need_root() { # WHAT FOR
    [ "$(id -u)" = 0 ] || command -v sudo >/dev/null ||
        fail "Packages must be installed ($1): run this as root, or install sudo."
}

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

# apt's output goes to a file, which is shown only if apt fails.
apt_quietly() {
    local log=$BUILD/apt.log
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -y -q "$@" >"$log" 2>&1 ||
        { tail -20 "$log" >&2; fail "apt-get $1 failed, its output is in build/apt.log."; }
}

LISTS_FRESH=
refresh_lists() {
    [ -z "$LISTS_FRESH" ] || return 0
    say "refreshing the package lists"
    apt_quietly update
    LISTS_FRESH=yes
}
