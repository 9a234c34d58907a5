#!/usr/bin/env bash
# Tests of the key and row codecs inside a real server: builds the engine TEAKCODEC, starts a private server, compares the
# codec with every collation's own comparison, reads rows of earlier schema versions, then runs the same random SQL on TEAKCODEC and on InnoDB.
#
#   plugin/tests/run.sh [--seed=N] [--pairs=N] [--rows=N] [--asan] [--measure] [--keep]
#
# Prints the number of comparisons and 'N passed, M failed'; failures are described in build/codec-test/error.log and
# build/codec-test/*.diff. --keep leaves the server running, to examine a difference; --measure prints the cost of
# encoding and decoding.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$HERE/../../scripts/common.sh"

SEED=1 PAIRS=1500 ROWS=120 SANITIZE='' MEASURE='' KEEP=''
for argument; do
    case $argument in
        --seed=*) SEED=${argument#*=} ;;
        --pairs=*) PAIRS=${argument#*=} ;;
        --rows=*) ROWS=${argument#*=} ;;
        --asan) SANITIZE=yes ;;
        --measure) MEASURE=yes ;;
        --keep) KEEP=yes ;;
        *) sed -n '2,/^set/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2 ;;
    esac
done
SOURCE=${MARIADB_SOURCE:-$BUILD/mariadb-source}
HEADERS=${SERVER_HEADERS:-/usr/include/mariadb/server}
[ -r "$SOURCE/sql/handler.h" ] || fail "There is no MariaDB source in $SOURCE: run scripts/setup.sh."
WORK=${CODEC_TEST_DIR:-$BUILD/codec-test}
OUT=$WORK/plugins${SANITIZE:+-asan}
SOCKET=/tmp/teak-codec-$$.sock
mkdir -p "$OUT" "$WORK/objects${SANITIZE:+-asan}"

exec 9>"$WORK/lock"
flock -n 9 || fail "Another run is using $WORK; CODEC_TEST_DIR names another directory."

# ---- build -----------------------------------------------------------------------------------------------------------

FLAGS=(-I"$HERE/.." -I"$HERE/../../crates/c_api/include" -std=gnu++17 -fPIC -O2 -g -Wall -Wextra -Werror -fno-strict-aliasing -DMYSQL_DYNAMIC_PLUGIN -DMYSQL_SERVER
    -DHAVE_CONFIG_H -DDBUG_OFF -isystem "$HEADERS" -isystem "$SOURCE/sql" -isystem "$SOURCE/include"
    -isystem "$BUILD/include" -isystem "$SOURCE/wsrep-lib/include" -isystem "$SOURCE/wsrep-lib/wsrep-API/v26")
[ -z "$SANITIZE" ] || FLAGS+=(-fsanitize=address -fno-omit-frame-pointer)
say "building the test engine"
OBJECTS=() COMPILERS=()
for source in "$HERE"/../format/*.cc "$HERE"/*.cc; do
    object=$WORK/objects${SANITIZE:+-asan}/$(basename "${source%.cc}").o
    OBJECTS+=("$object")
    if [ ! -e "$object" ] || [ -n "$(find "$HERE" "$HERE/../format" -maxdepth 1 \( -name '*.h' -o -path "$source" \) -newer "$object")" ] ||
        [ "$source" -nt "$object" ]; then
        [ "${#COMPILERS[@]}" -lt "$(nproc)" ] || { wait "${COMPILERS[0]}"; COMPILERS=("${COMPILERS[@]:1}"); }
        g++ "${FLAGS[@]}" -c "$source" -o "$object" &
        COMPILERS+=($!)
    fi
done
for compiler in ${COMPILERS[@]+"${COMPILERS[@]}"}; do wait "$compiler"; done
g++ "${FLAGS[@]}" -shared -Wl,-Bsymbolic-functions -o "$OUT/ha_teakcodec.so" "${OBJECTS[@]}" -lmysqlservices

# ---- server ----------------------------------------------------------------------------------------------------------

DATA=$WORK/data
rm -rf "$DATA" "$WORK/error.log" "$WORK"/*.diff
as_user=()
[ "$(id -u)" != 0 ] || as_user=(--user=root)
mariadb-install-db --no-defaults "${as_user[@]}" --datadir="$DATA" --auth-root-authentication-method=normal --skip-test-db \
    >"$WORK/install.log" 2>&1 || { tail -5 "$WORK/install.log" >&2; fail "mariadb-install-db failed."; }
PRELOAD=
[ -z "$SANITIZE" ] || PRELOAD=$(g++ -print-file-name=libasan.so)
# Turns user poisoning off. The test engine contains inline functions of the server that poison memory if they are
# compiled with the sanitizer. The server is compiled without it and never unpoisons this memory.
LD_PRELOAD=$PRELOAD ASAN_OPTIONS=detect_leaks=0:detect_odr_violation=0:alloc_dealloc_mismatch=0:allow_user_poisoning=0 \
    mariadbd --no-defaults "${as_user[@]}" --datadir="$DATA" --socket="$SOCKET" --skip-networking --plugin-dir="$OUT" \
    --plugin-maturity=experimental --plugin-load-add=ha_teakcodec --log-error="$WORK/error.log" --skip-log-bin \
    --innodb-flush-log-at-trx-commit=0 --innodb-buffer-pool-size=64M >"$WORK/server.out" 2>&1 9>&- &
SERVER=$!
client() { mariadb --no-defaults --socket="$SOCKET" -uroot --default-character-set=utf8mb4 "$@"; }
server_died() { tail -20 "$WORK/error.log" >&2; fail "The server ended during the tests ($WORK/error.log)."; }
stop_server() {
    kill "$SERVER" 2>/dev/null || true
    wait "$SERVER" 2>/dev/null || true
    rm -f "$SOCKET"
}
trap stop_server EXIT
for _ in $(seq 300); do
    client -e 'DO 1' 2>/dev/null && break
    kill -0 "$SERVER" 2>/dev/null || { tail -20 "$WORK/error.log" >&2; fail "The server did not start."; }
    sleep 0.1
done

# ---- tests -----------------------------------------------------------------------------------------------------------

TESTS_PASSED=0 TESTS_FAILED=0
verdict() { # NAME FAULTS
    if [ "$2" = 0 ]; then TESTS_PASSED=$((TESTS_PASSED + 1)); else
        TESTS_FAILED=$((TESTS_FAILED + 1))
        say "$1: FAILED"
    fi
}
counter() { client -N -e "SHOW STATUS LIKE 'teakcodec_$1'" | awk '{ print $2 }'; }

say "writing the example of docs/design/format.md"
SAME=0
example() { sed -n '/^## Keys and rows/,/^## [^K]/p' "$ROOT/docs/design/format.md" | sed -n "/^\`\`\`$1/,/^\`\`\`\$/p" | grep -v '^```'; }
EXPECTED=$(example hex | sed 's/|.*//' | tr -d ' \n')
client -e 'CREATE DATABASE page'
{ echo 'SET default_storage_engine=TEAKCODEC;'; example sql; } | client page
ACTUAL=$(client -N -e "SHOW STATUS LIKE 'teakcodec_last_row'" | awk '{ print $2 }')
FAULTS=0
if [ "$EXPECTED" != "$ACTUAL" ]; then
    say "the page says $EXPECTED"
    say "the codec says $ACTUAL"
    FAULTS=1
fi
verdict "the example of docs/design/format.md" $FAULTS

say "reading rows of earlier schema versions, by the example of docs/design/format.md"
# The history only, which follows a header of 40 bytes.
HISTORY=$(sed -n '/^### Metadata of a table/,/^## /p' "$ROOT/docs/design/format.md" | sed -n '/^```hex/,/^```$/p' | grep -v '^```' |
    sed 's/|.*//' | tr -d ' \n' | cut -c81-)
BEFORE=$(counter passed)
client -e "SET GLOBAL teakcodec_history = '$HISTORY'"
FAULTS=$(counter failed)
[ "$(counter passed)" -gt "$BEFORE" ] || { say "nothing was checked"; FAULTS=1; }
verdict "rows of earlier schema versions" "$FAULTS"
BEFORE=$(counter failed)

say "comparing strings of every collation ($PAIRS pairs each)"
client -e "SET GLOBAL teakcodec_collation_pairs = $PAIRS"
verdict "collations" $(($(counter failed) - BEFORE))
BEFORE=$(counter failed)

say "running random SQL on both engines (seed $SEED)"
PYTHONDONTWRITEBYTECODE=1 python3 "$HERE/generate.py" --seed="$SEED" --rows="$ROWS" "$WORK"
client -e 'CREATE DATABASE innodb_side; CREATE DATABASE codec_side'
for engine in innodb codec; do
    name=InnoDB
    [ $engine = innodb ] || name=TEAKCODEC
    { echo "SET default_storage_engine=$name;"; cat "$WORK/schema.sql"; } | client --force "${engine}_side" \
        >"$WORK/$engine.schema" 2>&1
    client --force "${engine}_side" <"$WORK/rows.sql" >"$WORK/$engine.rows" 2>&1
    client --force -N "${engine}_side" <"$WORK/queries.sql" >"$WORK/$engine.queries" 2>&1
done
for result in schema rows queries; do
    if diff "$WORK/innodb.$result" "$WORK/codec.$result" >"$WORK/$result.diff"; then
        rm "$WORK/$result.diff"
        FAULTS=0
    else
        say "different $result: $(grep -c '^[<>]' "$WORK/$result.diff") lines, see $WORK/$result.diff"
        FAULTS=1
    fi
    if [ $result = schema ] && grep -q ERROR "$WORK/codec.schema"; then
        head -3 "$WORK/codec.schema" >&2
        FAULTS=1
    fi
    verdict "random SQL: $result" $FAULTS
    SAME=$((SAME + $(wc -l <"$WORK/innodb.$result")))
done
kill -0 "$SERVER" 2>/dev/null || server_died
if [ -n "$MEASURE" ]; then
    client codec_side -e "OPTIMIZE TABLE $(client -N codec_side -e 'SHOW TABLES' | paste -sd,)" >/dev/null
    sed -n 's/.*TEAKCODEC \(.* ns.*\)/\1/p' "$WORK/error.log"
fi
if [ -n "$KEEP" ]; then
    say "the server is up: mariadb --no-defaults --socket=$SOCKET -uroot; end it with Enter"
    read -r _ || true
fi
verdict "rows of random SQL, decoded again" $(($(counter failed) - BEFORE))
COMPARED=$(($(counter passed) + $(counter failed) + SAME))
client -e 'SHUTDOWN'
wait "$SERVER" 2>/dev/null || true
sed -n 's/.*TEAKCODEC \(.*\)/\1/p' "$WORK/error.log" | grep -v ' ns' | head -20 || true
echo "ran: $COMPARED comparisons of keys, rows and answers"
echo "$TESTS_PASSED passed, $TESTS_FAILED failed"
[ "$TESTS_FAILED" = 0 ]
