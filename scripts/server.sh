#!/usr/bin/env bash
# A private MariaDB server in a directory of its own: no network port, no system service, nothing outside DIR
# (except the socket, under /tmp, when DIR's path is too long for one).
#
#   scripts/server.sh start DIR [--cache=256M] [--no-teak] [--plugin=ha_rocksdb]... [any mariadbd option]...
#   scripts/server.sh stop DIR | kill DIR | status DIR
#   scripts/server.sh client DIR [options of the mariadb client]...
#   scripts/server.sh socket DIR | pid DIR
#
# --cache gives each engine's cache the same size. The plugin is build/ha_teak.so, or TEAK_PLUGIN. SERVER_TIMEOUT is
# how long a start may take, in seconds (default 120). SERVER_PRELOAD is preloaded into the server (sanitizers).
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() { sed -n '2,/^set/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2; }

[ $# -ge 2 ] || usage
COMMAND=$1 DIR=$2
shift 2
case $COMMAND in
    start) mkdir -p "$DIR" ;;
    stop) [ -d "$DIR" ] || exit 0 ;;
esac
[ -d "$DIR" ] || fail "There is no server directory $DIR."
DIR=$(cd "$DIR" && pwd)

# A socket's path holds 107 bytes.
SOCKET=$DIR/server.sock
[ ${#SOCKET} -le 100 ] || SOCKET=/tmp/teak-$(printf '%s' "$DIR" | cksum | cut -d' ' -f1).sock

server_pid() { # of the living server of DIR, else nothing
    local pid
    pid=$(cat "$DIR/server.pid" 2>/dev/null) || return 0
    if [ -n "$pid" ] && tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -qF -- "--datadir=$DIR/data "; then
        echo "$pid"
    fi
}

# Where nobody collects it, a process that has ended stays as a zombie.
alive() { # PID
    local status
    status=$(cat "/proc/$1/status" 2>/dev/null) || return 1
    ! { grep -q '^State:[[:space:]]*Z' <<<"$status" && grep -q '^Threads:[[:space:]]*1$' <<<"$status"; }
}

show_log() {
    echo "The last lines of $DIR/error.log:" >&2
    tail -n 30 "$DIR/error.log" >&2 || true
}

answers() { mariadb --no-defaults --socket="$SOCKET" -uroot --connect-timeout=2 -e 'DO 1' >/dev/null 2>&1; }

user_option() { if [ "$(id -u)" = 0 ]; then echo --user=root; fi; }

install_system_tables() {
    [ ! -d "$DIR/data/mysql" ] || return 0
    rm -rf "$DIR/data.new"
    mkdir -p "$DIR/tmp"
    # A server that starts removes what it takes for left over in its directory of temporary files.
    # shellcheck disable=SC2046
    TMPDIR=$DIR/tmp mariadb-install-db --no-defaults $(user_option) --datadir="$DIR/data.new" --auth-root-authentication-method=normal \
        --skip-test-db --innodb-buffer-pool-size=16M >"$DIR/install.log" 2>&1 ||
        { tail -n 20 "$DIR/install.log" >&2; fail "mariadb-install-db failed ($DIR/install.log)."; }
    mv "$DIR/data.new" "$DIR/data"
}

start() {
    [ -z "$(server_pid)" ] || fail "A server already runs in $DIR."
    command -v mariadbd >/dev/null || fail "There is no mariadbd: run scripts/setup.sh."
    local options=() plugins=() teak=yes argument
    for argument; do
        case $argument in
            --no-teak) teak= ;;
            --plugin=*) plugins+=("${argument#*=}") ;;
            --cache=*) options+=(--innodb-buffer-pool-size="${argument#*=}" --loose-teak-cache-size="${argument#*=}"
                --loose-rocksdb-block-cache-size="${argument#*=}") ;;
            *) options+=("$argument") ;;
        esac
    done
    if [ -n "$teak" ]; then
        [ -e "${TEAK_PLUGIN:-$BUILD/ha_teak.so}" ] || fail "There is no ${TEAK_PLUGIN:-build/ha_teak.so}: run make build."
        plugins+=(ha_teak)
    fi
    make_plugin_dir "$BUILD/plugins${TEAK_PLUGIN:+-$(basename "$(dirname "$TEAK_PLUGIN")")}"
    install_system_tables
    mkdir -p "$DIR/tmp"
    rm -f "$SOCKET" "$DIR/server.pid"
    local command=(mariadbd --no-defaults --datadir="$DIR/data" --socket="$SOCKET" --skip-networking
        --pid-file="$DIR/server.pid" --tmpdir="$DIR/tmp" --plugin-maturity=experimental
        --plugin-dir="$BUILD/plugins${TEAK_PLUGIN:+-$(basename "$(dirname "$TEAK_PLUGIN")")}"
        --secure-file-priv= --skip-log-bin)
    local plugin
    for plugin in ${plugins[@]+"${plugins[@]}"}; do command+=(--plugin-load-add="$plugin"); done
    # shellcheck disable=SC2207
    command+=($(user_option) ${options[@]+"${options[@]}"})
    printf '%s\n' "${command[*]}" >"$DIR/command"
    LD_PRELOAD=${SERVER_PRELOAD:-} setsid nohup "${command[@]}" >>"$DIR/error.log" 2>&1 </dev/null &
    local pid=$! deadline=$((SECONDS + ${SERVER_TIMEOUT:-120}))
    echo "$pid" >"$DIR/server.pid"
    until answers; do
        if ! alive "$pid"; then
            show_log
            fail "The server in $DIR ended while it started."
        fi
        if [ $SECONDS -ge $deadline ]; then
            show_log
            kill -9 "$pid"
            fail "The server in $DIR was not ready after ${SERVER_TIMEOUT:-120} s."
        fi
        sleep 0.1
    done
}

stop() {
    local pid
    pid=$(server_pid)
    [ -n "$pid" ] || return 0
    kill "$pid"
    local deadline=$((SECONDS + ${SERVER_TIMEOUT:-120}))
    while alive "$pid"; do
        if [ $SECONDS -ge $deadline ]; then
            show_log
            kill -9 "$pid"
            fail "The server in $DIR did not stop within ${SERVER_TIMEOUT:-120} s and was killed."
        fi
        sleep 0.05
    done
    rm -f "$DIR/server.pid"
}

case $COMMAND in
    start) start "$@" ;;
    stop) stop ;;
    kill)
        pid=$(server_pid)
        [ -z "$pid" ] || kill -9 "$pid"
        ;;
    status)
        pid=$(server_pid)
        if [ -n "$pid" ]; then echo "running, pid $pid, socket $SOCKET"; else echo "not running"; exit 1; fi
        ;;
    client)
        [ -n "$(server_pid)" ] || fail "No server runs in $DIR."
        exec mariadb --no-defaults --socket="$SOCKET" -uroot "$@"
        ;;
    socket) echo "$SOCKET" ;;
    pid) server_pid ;;
    *) usage ;;
esac
