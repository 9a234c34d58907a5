#!/usr/bin/env bash
# Runs every fuzz target (or the named targets) for some seconds each, with libFuzzer, its coverage and AddressSanitizer.
# It uses a nightly toolchain, or makes the installed one accept nightly's flags; it does not need cargo-fuzz. Failing
# inputs are in fuzz/artifacts, the corpus in fuzz/corpus.
#   scripts/fuzz.sh [SECONDS [TARGET...]]
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

SECONDS_EACH=${1:-60}
[ $# -eq 0 ] || shift
FUZZ=$ROOT/fuzz
use_nightly
TARGET=$(rustc $NIGHTLY -vV | sed -n 's/^host: //p')
TARGETS=$(awk '/^\[/ { bin = ($0 == "[[bin]]") } bin && /^name/ { gsub(/.*= *"|".*/, ""); print }' "$FUZZ/Cargo.toml")
# shellcheck disable=SC2086
[ $# -gt 0 ] || set -- $TARGETS

# The flags of cargo-fuzz.
COVERAGE="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters"
COVERAGE+=" -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares"
say "building the fuzz targets"
export RUSTFLAGS="$COVERAGE --cfg fuzzing -Zsanitizer=address -Ccodegen-units=1"
export CARGO_TARGET_DIR=$BUILD/target-fuzz
BUILT=$CARGO_TARGET_DIR/$TARGET/release
CARGO=(cargo $NIGHTLY build --quiet --release --manifest-path "$FUZZ/Cargo.toml" --target "$TARGET")
"${CARGO[@]}" "${@/#/--bin=}" --example seeds
ASAN_OPTIONS=detect_leaks=0 "$BUILT/examples/seeds" "$FUZZ/corpus"

FAILED=0 PASSED=0
for target; do
    say "fuzzing $target for $SECONDS_EACH s"
    mkdir -p "$FUZZ/artifacts/$target"
    # For such small inputs, no single allocation may be much larger than the largest block (64 MiB).
    if "$BUILT/$target" -max_total_time="$SECONDS_EACH" -rss_limit_mb=2048 -malloc_limit_mb=80 -timeout=20 \
        -print_final_stats=1 -verbosity=0 -artifact_prefix="$FUZZ/artifacts/$target/" "$FUZZ/corpus/$target"; then
        PASSED=$((PASSED + 1))
    else
        say "$target FAILED: the input is in fuzz/artifacts/$target"
        FAILED=$((FAILED + 1))
    fi
done
echo "$PASSED passed, $FAILED failed"
[ "$FAILED" = 0 ]
