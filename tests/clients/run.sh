#!/usr/bin/env bash
# Stock clients and tools against Teak and InnoDB: each program does the same on both and compares all that it reads.
#   tests/clients/run.sh [program...]
# Programs: dump mydumper jdbc pymysql mysql2 rust sqlalchemy django. Each prints PASS and FAIL lines; the last line
# counts them. What a program needs is installed first, by package name, from Debian, PyPI, npm, Maven Central and
# crates.io, into build/clients where that is possible.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"

ALL=(dump mydumper jdbc pymysql mysql2 rust sqlalchemy django)
HERE=$ROOT/tests/clients
WORK=$BUILD/clients
SERVER=$WORK/server-$$
ENGINES=(TEAK InnoDB)
PASSED=0 FAILED=0

# ---- what the programs need --------------------------------------------------------------------------------------

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

debian() { # COMMAND PACKAGE...: installs the packages when there is no such command
    local command=$1
    shift
    if command -v "$command" >/dev/null; then return; fi
    say "installing $*"
    { as_root apt-get -y -q update && as_root env DEBIAN_FRONTEND=noninteractive apt-get -y -q install \
        --no-install-recommends "$@"; } >"$WORK/apt.log" 2>&1 || { tail -20 "$WORK/apt.log" >&2; return 1; }
}

python_packages() { # REQUIREMENT...: into the programs' own environment
    local have requirement missing=()
    [ -x "$WORK/venv/bin/python" ] || python3 -m venv "$WORK/venv" || return 1
    have=$("$WORK/venv/bin/pip" list --format=freeze --disable-pip-version-check 2>/dev/null)
    for requirement; do
        grep -qixF "$requirement" <<<"$have" || missing+=("$requirement")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    say "installing ${missing[*]}"
    "$WORK/venv/bin/pip" install --quiet --disable-pip-version-check "${missing[@]}"
}

requirement() { grep -i "^$1==" "$HERE/requirements.txt"; }

# ---- the server --------------------------------------------------------------------------------------------------

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

start_server() {
    CLIENTS_PORT=$(free_port) || return 1
    "$ROOT/scripts/server.sh" start "$SERVER" --cache=64M --skip-networking=0 --bind-address=127.0.0.1 \
        --port="$CLIENTS_PORT" --innodb-flush-log-at-trx-commit=2 || return 1
    CLIENTS_SOCKET=$("$ROOT/scripts/server.sh" socket "$SERVER")
    export CLIENTS_PORT CLIENTS_SOCKET CLIENTS_WORK=$WORK
}

stop_server() {
    "$ROOT/scripts/server.sh" stop "$SERVER"
    cp "$SERVER/error.log" "$WORK/error.log"
    rm -rf "$SERVER"
}

fill() { # clients_teak and clients_innodb, as schema.sql and rows.sql say
    local engine database
    for engine in "${ENGINES[@]}"; do
        database=clients_${engine,,}
        "$ROOT/scripts/server.sh" client "$SERVER" --default-character-set=utf8mb4 <<SQL || return 1
DROP DATABASE IF EXISTS $database;
CREATE DATABASE $database CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci;
USE $database;
SET default_storage_engine = $engine;
SOURCE $HERE/schema.sql;
SOURCE $HERE/rows.sql;
SQL
    done
}

# ---- the programs ------------------------------------------------------------------------------------------------

run_dump() { python3 "$HERE/dump.py"; }

run_mydumper() { debian mydumper mydumper && python3 "$HERE/mydumper.py"; }

run_pymysql() { python_packages "$(requirement pymysql)" && "$WORK/venv/bin/python" "$HERE/pymysql_client.py"; }

run_sqlalchemy() {
    python_packages "$(requirement pymysql)" "$(requirement sqlalchemy)" &&
        "$WORK/venv/bin/python" "$HERE/sqlalchemy_client.py"
}

run_django() {
    python_packages "$(requirement pymysql)" "$(requirement django)" &&
        "$WORK/venv/bin/python" "$HERE/django_client.py"
}

run_jdbc() {
    debian javac default-jdk-headless && debian mvn maven || return 1
    if [ ! -e "$WORK/java/lib/.pom" ] || ! cmp -s "$HERE/jdbc/pom.xml" "$WORK/java/lib/.pom"; then
        rm -rf "$WORK/java"
        mkdir -p "$WORK/java/lib"
        mvn -q -B -f "$HERE/jdbc/pom.xml" dependency:copy-dependencies -DoutputDirectory="$WORK/java/lib" || return 1
        cp "$HERE/jdbc/pom.xml" "$WORK/java/lib/.pom"
    fi
    mkdir -p "$WORK/java/classes"
    javac -Xlint:all -Werror -d "$WORK/java/classes" -cp "$WORK/java/lib/*" "$HERE"/jdbc/*.java &&
        java -Xmx256m -cp "$WORK/java/classes:$WORK/java/lib/*" Main
}

run_mysql2() {
    debian node nodejs && debian npm npm || return 1
    mkdir -p "$WORK/node"
    cp "$HERE/mysql2/package.json" "$HERE"/mysql2/*.js "$WORK/node/"
    (cd "$WORK/node" && npm install --silent --no-package-lock --no-audit --no-fund && node main.js)
}

run_rust() { CARGO_TARGET_DIR=$WORK/rust cargo run --quiet --locked --manifest-path "$HERE/rust/Cargo.toml"; }

program() { # NAME
    local name=$1 log=$WORK/$1.log status passed failed
    printf '\n== %s\n' "$name"
    fill && "run_$name" 2>&1 | tee "$log"
    status=$?
    passed=$(grep -c '^PASS ' "$log")
    failed=$(grep -c '^FAIL ' "$log")
    if [ "$status" != 0 ] && [ "$failed" = 0 ] || [ "$passed" = 0 ] && [ "$failed" = 0 ]; then
        echo "FAIL $name: the program ended with status $status after $passed checks"
        failed=1
    fi
    PASSED=$((PASSED + passed)) FAILED=$((FAILED + failed))
    SUMMARY+=("$(printf '%-10s %4d passed, %d failed' "$name" "$passed" "$failed")")
}

[ $# -gt 0 ] || set -- "${ALL[@]}"
for name; do
    case " ${ALL[*]} " in *" $name "*) ;; *) fail "There is no program $name: ${ALL[*]}." ;; esac
done
mkdir -p "$WORK"
trap stop_server EXIT
start_server || fail "No server, no test."
SUMMARY=()
for name; do
    : >"$WORK/$name.log"
    program "$name"
done
printf '\n'
printf '%s\n' "${SUMMARY[@]}"
printf '%d passed, %d failed\n' "$PASSED" "$FAILED"
[ "$FAILED" = 0 ]
