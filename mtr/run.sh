#!/usr/bin/env bash
# Runs Teak's suite in MariaDB's test runner.
#
#   mtr/run.sh                        the suite `teak`
#   mtr/run.sh teak.types teak.alter  some tests
#   mtr/run.sh --suite=parts --mysqld=--default-storage-engine=TEAK ...    any options of mariadb-test-run
#   RECORD=1 mtr/run.sh teak.types    writes the result file mtr/suite/teak/r/types.result; with 11.8, its difference to 10.11's
#
# The runner expects its tests, suites, the server and the plugins in one tree. build/mtr-root is such a tree of links,
# with Teak's suite and plugin added; the system's tree is not changed.
#   mtr/suite/NAME            a suite of the project
#   mtr/overlay/teak/SUITE    runs a suite of the server with Teak (--suite=SUITE-teak)
# RECORD=1 requires named tests. WITHOUT_TEAK=1 runs without the plugin (to see another engine's results).
# TEAK_PLUGIN names another build of the plugin, MTR_PARALLEL the number of workers (2), MTR_VAR the directory of results.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../scripts/common.sh"

SYSTEM=/usr/share/mysql/mysql-test # of 10.11
[ -d "$SYSTEM" ] || SYSTEM=/usr/share/mariadb/mariadb-test
TREE=$BUILD/mtr-root
VAR=${MTR_VAR:-$BUILD/mtr-var}

[ -f "$SYSTEM/mariadb-test-run.pl" ] || fail "MariaDB's tests are not installed: run scripts/setup.sh."
[ -n "${WITHOUT_TEAK:-}" ] || [ -e "${TEAK_PLUGIN:-$BUILD/ha_teak.so}" ] || fail "There is no ${TEAK_PLUGIN:-build/ha_teak.so}: run make build."

link_all() { # FROM TO EXCEPT: makes links in TO to everything in FROM except EXCEPT
    local entry
    mkdir -p "$2"
    for entry in "$1"/*; do
        [ "$(basename "$entry")" = "${3:-}" ] || [ -e "$2/$(basename "$entry")" ] || ln -sfn "$entry" "$2/"
    done
}

make_tree() {
    local suite
    mkdir -p "$TREE/lib/mysql"
    ln -sfn /usr/bin "$TREE/bin"
    ln -sfn /usr/sbin "$TREE/sbin"
    ln -sfn /usr/share "$TREE/share"
    "$ROOT/scripts/server.sh" plugins "$TREE/lib/mysql/plugin"
    [ -n "${WITHOUT_TEAK:-}" ] || [ -e "$TREE/lib/mysql/plugin/ha_teak.so" ] || fail "There is no link to the plugin in $TREE."
    # Client plugins are in the library directory of the architecture.
    link_all /usr/lib "$TREE/lib" mysql 2>/dev/null || true
    for suite in "$SYSTEM"/*; do
        case $(basename "$suite") in
            suite | plugin) link_all "$suite" "$TREE/$(basename "$SYSTEM")/$(basename "$suite")" ;;
        esac
    done
    link_all "$SYSTEM" "$TREE/$(basename "$SYSTEM")"
    for suite in "$ROOT"/mtr/suite/*/; do
        if [ -d "$suite" ]; then ln -sfn "${suite%/}" "$TREE/$(basename "$SYSTEM")/suite/"; fi
    done
    for suite in "$ROOT"/mtr/overlay/*/; do
        if [ -d "$suite" ]; then ln -sfn "${suite%/}" "$TREE/$(basename "$SYSTEM")/plugin/"; fi
    done
}

make_tree
OPTIONS=(--vardir="$VAR" --parallel="${MTR_PARALLEL:-2}" --force --max-test-fail=0 --retry=0 --suite-timeout=60
    --testcase-timeout=5 --mysqld=--plugin-maturity=experimental)
# A socket's path has at most 107 bytes, and the runner's sockets are under its tmpdir.
TMP=$(mktemp -d /tmp/teak-mtr.XXXXXX)
trap 'rm -rf "$TMP"' EXIT
OPTIONS+=(--tmpdir="$TMP")
# Results are those of 10.11. For 11.8, RECORD=1 writes the differences (suite/teak/combinations).
RESULTS=$ROOT/mtr/suite/teak/r
COMBINATION=
case $(mariadbd --no-defaults --version) in *" 11.8."*) COMBINATION=mariadb_11_8 ;; esac
[ -z "${RECORD:-}" ] || [ -n "$COMBINATION" ] || OPTIONS+=(--record)
record_differences() {
    local output name
    for output in "$RESULTS"/*.reject; do
        [ -e "$output" ] || continue
        name=$(basename "$output" .reject)
        name=${name%%,*}
        diff -a -u --label "r/$name.result" --label "r/$name.reject" "$RESULTS/$name.result" "$output" \
            >"$RESULTS/$name,$COMBINATION.rdiff" || true
        rm "$output"
    done
}
[ -z "${SERVER_PRELOAD:-}" ] || OPTIONS+=(--mysqld-env="LD_PRELOAD=$SERVER_PRELOAD")
# shellcheck disable=SC2206
OPTIONS+=(${MTR_OPTIONS:-})
[ $# -gt 0 ] || set -- --suite=teak

say "mariadb-test-run $* (results in ${VAR#"$ROOT"/})"
cd "$TREE/$(basename "$SYSTEM")"
STATUS=0
perl ./mariadb-test-run.pl "${OPTIONS[@]}" "$@" || STATUS=$?
if [ -n "${RECORD:-}" ] && [ -n "$COMBINATION" ]; then record_differences; fi
exit $STATUS
