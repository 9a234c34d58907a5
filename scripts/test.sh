#!/usr/bin/env bash
# Everything that must hold, stage by stage; every stage runs, also after a failed one, and ends with its count. The
# last line is the sum. The exit status is that of the worst stage.
#   scripts/test.sh [stage...]     stages: setup lint cargo schedules build codecs mtr compare clients suites isolation kill ddl_kill
#                                  flip replication spider full-disk simulate
#   STATEMENTS=250000 TRANSACTIONS=3000 KILLS=20 DDL_KILLS=10 ROUNDS=15 REPLICATION_KILLS=5 SEEDS=300    how long some of them go on
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

[ $# -gt 0 ] || set -- setup lint cargo schedules build codecs mtr compare clients suites isolation kill ddl_kill flip replication spider full-disk simulate
RESULTS=$BUILD/test
PASSED=0 FAILED=0
SUMMARY=()
mkdir -p "$RESULTS"
cd "$ROOT"

# Counts from a stage's output, as "passed failed".
count() { # STAGE LOG STATUS
    local counted
    case $1 in
        cargo | schedules)
            counted=$(awk '/^test result:/ { for (i = 1; i < NF; i++) { if ($(i + 1) ~ /^passed/) p += $i; if ($(i + 1) ~ /^failed/) f += $i } }
                END { print p + 0, f + 0 }' "$2") ;;
        mtr)
            counted=$(awk '/\[ pass \]/ { p++ } /\[ fail \]/ { f++ } END { print p + 0, f + 0 }' "$2") ;;
        *)
            counted=$(sed -nE 's/^([0-9]+) passed, ([0-9]+) failed$/\1 \2/p' "$2" | tail -1) ;;
    esac
    # A stage without a count of its own is one check; a stage that failed has a failure, whatever it counted.
    if [ -z "$counted" ]; then counted="$(($3 == 0)) 0"; fi
    if [ "$3" != 0 ] && [ "${counted#* }" = 0 ]; then counted="${counted% *} 1"; fi
    if [ "$counted" = "0 0" ]; then counted="0 1"; fi
    echo "$counted"
}

stage() { # NAME COMMAND...
    local name=$1 status=0 began=$SECONDS counted
    shift
    printf '\n== %s: %s\n' "$name" "$*"
    "$@" 2>&1 | tee "$RESULTS/$name.log"
    status=${PIPESTATUS[0]}
    counted=$(count "$name" "$RESULTS/$name.log" "$status")
    PASSED=$((PASSED + ${counted% *}))
    FAILED=$((FAILED + ${counted#* }))
    SUMMARY+=("$(printf '%-10s %5d passed, %d failed  (%d s)' "$name" "${counted% *}" "${counted#* }" $((SECONDS - began)))")
    printf '== %s: %d passed, %d failed\n' "$name" "${counted% *}" "${counted#* }"
    # The first lines that tell what failed, with what is indented below them, again beside the sums: where a log is
    # cut, its end is what is left.
    if [ "${counted#* }" != 0 ]; then
        SUMMARY+=("$(awk -v most="${TELL:-12}" '
            told < most && /^[ \t]/ && below { print; told++; next }
            { below = 0 }
            told < most && tolower($0) ~ /fail|differ|error|panicked|lost|missing/ && !/ 0 failed| ok$/ { print; told++; below = 1 }' \
            "$RESULTS/$name.log" | cut -c1-240 | sed 's/^/    /')")
    fi
}

for name; do
    case $name in
        setup) stage setup scripts/setup.sh ;;
        lint) stage lint scripts/lint.sh ;;
        cargo) stage cargo cargo test --workspace --no-fail-fast ;;
        schedules) stage schedules cargo test -p teak-transactions --features schedules --test schedules ;;
        build) stage build make --no-print-directory build ;;
        codecs) stage codecs plugin/tests/run.sh ;;
        mtr) stage mtr scripts/mtr.sh ;;
        suites) stage suites scripts/suites.py --quick ;;
        clients) stage clients tests/clients/run.sh dump pymysql ;;
        kill)
            stage kill scripts/kill_test.py --kills="${KILLS:-20}"
            stage kill-binlog scripts/kill_test.py --kills=8 --seed=2 --cache=8M --server-option=--log-bin=kill \
                --server-option=--binlog-format=row --server-option=--sync-binlog=1
            ;;
        compare) stage compare scripts/compare_sql.py --statements="${STATEMENTS:-250000}" --seed=1 ;;
        ddl_kill) stage ddl_kill scripts/ddl_kill_test.py --kills="${DDL_KILLS:-10}" --seed=1 ;;
        isolation)
            stage checker env PYTHONPATH=tests python3 -m unittest -q isolation.test_checker
            stage isolation scripts/isolation.py --transactions="${TRANSACTIONS:-3000}"
            ;;
        full-disk) stage full-disk scripts/full_disk_test.py ;;
        flip) stage flip scripts/flip_test.py --rounds="${ROUNDS:-15}" --seed=1 ;;
        replication) stage replication scripts/replication_test.py --seconds=3 --kills="${REPLICATION_KILLS:-5}" ;;
        spider) stage spider scripts/spider_test.py --seconds=2 ;;
        simulate) stage simulate scripts/simulate.sh "${SEEDS:-300}" ;;
        *) fail "There is no stage $name." ;;
    esac
done

printf '\n'
printf '%s\n' "${SUMMARY[@]}"
printf '%d passed, %d failed\n' "$PASSED" "$FAILED"
[ "$FAILED" = 0 ]
