#!/usr/bin/env bash
# Replaces mariadb-test (mysqltest) under tests/server_suites/run.py: runs a test to its end even after failed
# statements, and writes its output to $SUITES_OUTPUT/TEST[,COMBINATION]. Does not compare it with a result file. The
# runner's own checks before and after a test run unchanged.
set -u
ARGUMENTS=()
for argument; do
    case $argument in
        --test-file=*/include/* | --test-file=include/*) exec /usr/bin/mariadb-test "$@" ;;
        --result-file=* | --record) ;;
        *) ARGUMENTS+=("$argument") ;;
    esac
done
[ -n "${MTR_TEST_NAME:-}" ] || exec /usr/bin/mariadb-test "$@"
NAME=$MTR_TEST_NAME${MTR_COMBINATIONS:+,$MTR_COMBINATIONS}
OUTPUT=$SUITES_OUTPUT/${NAME//\//-}
LOGS=$(mktemp -d "$SUITES_OUTPUT/log.XXXXXX")
STATUS=0
rm -f "$OUTPUT"
/usr/bin/mariadb-test "${ARGUMENTS[@]}" --continue-on-error --record --result-file="$OUTPUT" --logdir="$LOGS" || STATUS=$?
# If a test ends early, saves its output up to that point.
[ -e "$OUTPUT" ] || cat "$LOGS"/*.log >"$OUTPUT" 2>/dev/null
rm -rf "$LOGS"
exit $STATUS
