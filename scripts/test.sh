#!/usr/bin/env bash
# Runs all tests in stages, and continues after a failed stage. At the end there is one line per stage with its number of
# tests and its amount of work in its own unit (statements, kills, seeds, ...). The last line counts the tests of all
# stages.
#   scripts/test.sh [stage...]     default: all stages: setup lint cargo schedules build codecs mtr compare clients suites
#                                  isolation online_ddl kill ddl_kill flip replication spider full-disk backup migrate soak monitoring simulate c-library
#   STATEMENTS=250000 TRANSACTIONS=3000 KILLS=20 LOAD_KILLS=10 DDL_KILLS=10 ONLINE_ROUNDS=4 ROUNDS=15 REPLICATION_KILLS=5 RESTORE_TARGETS=3 MINUTES=1 SEEDS=300 SCHEDULES=200    sizes of some stages (the defaults)
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

[ $# -gt 0 ] || set -- setup lint cargo schedules build codecs mtr compare clients suites isolation online_ddl kill ddl_kill flip replication spider full-disk backup migrate soak monitoring simulate c-library
RESULTS=$BUILD/test
SEEDS=${SEEDS:-300} SCHEDULES=${SCHEDULES:-200}
REPORTED_LINES_MAX=12
# Most of the time of a program with unit tests, in seconds. The slowest one takes about a twentieth of it.
PROGRAM_SECONDS_MAX=900
PASSED=0 FAILED=0
SUMMARY=() FAILURES=()
mkdir -p "$RESULTS"
cd "$ROOT"

# Prints the numbers of passed and failed tests in a stage's output.
count() { # STAGE LOG STATUS
    local counted
    case $1 in
        setup | lint | build) counted="0 0" ;; # no tests
        cargo | schedules*)
            counted=$(awk '/^test result:/ { for (i = 1; i < NF; i++) { if ($(i + 1) ~ /^passed/) p += $i; if ($(i + 1) ~ /^failed/) f += $i } }
                END { print p + 0, f + 0 }' "$2") ;;
        mtr)
            counted=$(awk '/\[ pass \]/ { p++ } /\[ fail \]/ { f++ } END { print p + 0, f + 0 }' "$2") ;;
        python-tests) counted="$(sed -nE 's/^Ran ([0-9]+) tests?.*/\1/p' "$2" | tail -1) 0" ;;
        simulate) counted="$(($3 == 0)) 0" ;; # one test
        *) counted=$(sed -nE 's/^([0-9]+) passed, ([0-9]+) failed$/\1 \2/p' "$2" | tail -1) ;;
    esac
    # A stage with a non-zero exit status has at least one failure. A stage that ran no tests has failed.
    case $1:$counted in
        setup:* | lint:* | build:*) [ "$3" = 0 ] || counted="0 1" ;;
        *: | *:" 0" | *:"0 0") counted="0 1" ;;
        *" 0") [ "$3" = 0 ] || counted="${counted% *} 1" ;;
    esac
    echo "$counted"
}

# Prints the amount of work of a stage, in its own unit.
amount() { # STAGE LOG
    case $1 in
        lint) sed -nE 's/^([0-9]+) passed, ([0-9]+) failed$/\1 checks passed, \2 failed/p' "$2" | tail -1 ;;
        cargo) echo "tests of $(grep -c '^ *\(Running\|Doc-tests\)' "$2") programs and crates" ;;
        schedules*) echo "$SCHEDULES interleavings of each test" ;;
        simulate) echo "$SEEDS seeds" ;;
        *) sed -n 's/^ran: //p' "$2" | tail -1 ;;
    esac
}

stage() { # NAME COMMAND...
    local name=$1 status=0 began=$SECONDS counted verdict
    shift
    printf '\n== %s: %s\n' "$name" "$*"
    "$@" 2>&1 | tee "$RESULTS/$name.log"
    status=${PIPESTATUS[0]}
    counted=$(count "$name" "$RESULTS/$name.log" "$status")
    PASSED=$((PASSED + ${counted% *}))
    FAILED=$((FAILED + ${counted#* }))
    case $counted in
        "0 0") verdict=done ;;
        *) verdict="${counted% *} passed, ${counted#* } failed" ;;
    esac
    SUMMARY+=("$(printf '%-16s %-24s %5d s  %s' "$name" "$verdict" $((SECONDS - began)) "$(amount "$name" "$RESULTS/$name.log")")")
    printf '== %s: %s\n' "$name" "$verdict"
    # Repeats the first lines that report a failure, with the indented lines below them, at the end: only the end of a
    # truncated log remains.
    if [ "${counted#* }" != 0 ]; then
        FAILURES+=("$name:" "$(awk -v most="$REPORTED_LINES_MAX" '
            shown < most && /^[ \t]/ && below { print; shown++; next }
            { below = 0 }
            shown < most && tolower($0) ~ /fail|differ|error|panicked|lost|missing/ && !/ 0 failed| ok$/ { print; shown++; below = 1 }' \
            "$RESULTS/$name.log" | cut -c1-240 | sed 's/^/    /')")
    fi
}

for name; do
    case $name in
        setup) stage setup scripts/setup.sh ;;
        lint) stage lint scripts/lint.sh ;;
        # A test that never ends must not keep the others from running.
        cargo)
            stage cargo cargo --config "target.'cfg(unix)'.runner = ['timeout', '--foreground', '$PROGRAM_SECONDS_MAX']" \
                test --workspace --no-fail-fast
            ;;
        schedules)
            stage schedules env SCHEDULES="$SCHEDULES" cargo test -p teak-transactions --features schedules --test schedules
            stage schedules-memtable env SCHEDULES="$SCHEDULES" cargo test -p teak-tree --features schedules --test schedules
            ;;
        build) stage build make --no-print-directory build ;;
        codecs) stage codecs plugin/tests/run.sh ;;
        mtr) stage mtr mtr/run.sh ;;
        suites)
            # shellcheck disable=SC2086
            stage suites python3 -m tests.server_suites.run ${SUITE_TESTS:---quick}
            ;;
        clients) stage clients python3 -m tests.clients.run dump pymysql ;;
        kill)
            stage kill python3 -m tests.crash.run --kills="${KILLS:-20}"
            stage kill-binlog python3 -m tests.crash.run --kills=8 --seed=2 --cache=8M --server-option=--log-bin=kill \
                --server-option=--binlog-format=row --server-option=--sync-binlog=1
            # Segments of the log are recycled often.
            stage kill-log python3 -m tests.crash.run --kills=6 --seed=3 --cache=8M --server-option=--teak-log-size-max=32M
            stage kill-encryption python3 -m tests.crash.run --kills=8 --seed=4 --cache=8M --rotate-keys
            stage kill-loads python3 -m tests.crash.loads --kills="${LOAD_KILLS:-10}"
            ;;
        compare) stage compare python3 -m tests.sql.run --statements="${STATEMENTS:-250000}" --seed=1 ;;
        ddl_kill) stage ddl_kill python3 -m tests.ddl_crash.run --kills="${DDL_KILLS:-10}" --seed=1 ;;
        online_ddl)
            stage online-ddl python3 -m tests.online_ddl.run --rounds="${ONLINE_ROUNDS:-4}"
            ;;
        isolation)
            stage python-tests python3 -m unittest tests.harness.test_wire tests.harness.test_server tests.harness.test_time_limit tests.isolation.test_checker tests.soak.test_bounds tests.soak.test_disk tests.soak.test_sessions tests.monitoring.test_monitoring bench.load.test_load bench.memory.test_memory bench.rivals.test_rivals bench.space.test_space
            stage isolation python3 -m tests.isolation.run --transactions="${TRANSACTIONS:-3000}"
            ;;
        full-disk) stage full-disk python3 -m tests.full_disk.run ;;
        backup)
            make --no-print-directory tools
            stage backup python3 -m tests.backup.run
            stage increments python3 -m tests.backup.increments --quick
            stage restore python3 -m tests.backup.restore --targets="${RESTORE_TARGETS:-3}"
            ;;
        migrate)
            make --no-print-directory tools
            stage migrate python3 -m tests.migrate.run
            ;;
        flip) stage flip python3 -m tests.corruption.run --rounds="${ROUNDS:-15}" --seed=1 ;;
        replication) stage replication python3 -m tests.replication.run --seconds=3 --kills="${REPLICATION_KILLS:-5}" ;;
        spider) stage spider python3 -m tests.spider.run --seconds=2 ;;
        soak) stage soak python3 -m tests.soak.run --minutes="${MINUTES:-1}" --kill-minutes=0.4 --tables=200 ;;
        monitoring)
            make --no-print-directory tools
            stage monitoring python3 -m tests.monitoring.run
            stage top python3 -m tests.monitoring.top
            ;;
        old-data) stage old-data python3 -m tests.series.old_data ;; # only in a system of tests/series
        c-library) stage c-library python3 -m tests.c_library.run ;;
        simulate) stage simulate make --no-print-directory simulate SEEDS="$SEEDS" ;;
        *) fail "There is no stage $name." ;;
    esac
done

printf '\n'
printf '%s\n' "${SUMMARY[@]}"
[ "$FAILED" = 0 ] || printf '%s\n' "${FAILURES[@]}"
printf '%d passed, %d failed\n' "$PASSED" "$FAILED"
[ "$FAILED" = 0 ]
