#!/usr/bin/env bash
# Runs every fuzz target (or those named) for some seconds each, on a nightly toolchain, with libFuzzer and
# AddressSanitizer. What breaks one is left in fuzz/artifacts; what it learned in fuzz/corpus.
#   scripts/fuzz.sh [SECONDS [TARGET...]]
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

SECONDS_EACH=${1:-60}
[ $# -eq 0 ] || shift
rustc +nightly --version >/dev/null 2>&1 || fail "Fuzzing needs a nightly Rust toolchain: rustup toolchain install nightly."
FUZZ=${FUZZ_DIRECTORY:-$ROOT/fuzz}
[ -f "$FUZZ/Cargo.toml" ] || fail "There are no fuzz targets."
TARGET=$(rustc +nightly -vV | sed -n 's/^host: //p')
TARGETS=$(awk '/^\[/ { bin = ($0 == "[[bin]]") } bin && /^name/ { gsub(/.*= *"|".*/, ""); print }' "$FUZZ/Cargo.toml")
# shellcheck disable=SC2086
[ $# -gt 0 ] || set -- $TARGETS

# What cargo-fuzz would pass, so that it need not be installed.
COVERAGE="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters"
COVERAGE+=" -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares"
say "building the fuzz targets"
RUSTFLAGS="$COVERAGE --cfg fuzzing -Zsanitizer=address -Ccodegen-units=1 -Cdebug-assertions" \
    CARGO_TARGET_DIR=$BUILD/target-fuzz cargo +nightly build --quiet --release --manifest-path "$FUZZ/Cargo.toml" --target "$TARGET"

FAILED=0 PASSED=0
for target; do
    say "fuzzing $target for $SECONDS_EACH s"
    mkdir -p "$FUZZ/corpus/$target" "$FUZZ/artifacts/$target"
    if "$BUILD/target-fuzz/$TARGET/release/$target" -max_total_time="$SECONDS_EACH" -rss_limit_mb=4096 -timeout=20 \
        -print_final_stats=1 -verbosity=0 -artifact_prefix="$FUZZ/artifacts/$target/" "$FUZZ/corpus/$target"; then
        PASSED=$((PASSED + 1))
    else
        say "$target FAILED: the input is in fuzz/artifacts/$target"
        FAILED=$((FAILED + 1))
    fi
done
echo "$PASSED passed, $FAILED failed"
[ "$FAILED" = 0 ]
