#!/usr/bin/env bash
# Runs every fuzz target (or those named) for some seconds each; needs a nightly toolchain and cargo-fuzz.
#   scripts/fuzz.sh [SECONDS [TARGET...]]
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

SECONDS_EACH=${1:-60}
[ $# -eq 0 ] || shift
rustc +nightly --version >/dev/null 2>&1 || fail "Fuzzing needs a nightly Rust toolchain: rustup toolchain install nightly."
cargo +nightly fuzz --version >/dev/null 2>&1 || fail "Fuzzing needs cargo-fuzz: cargo install cargo-fuzz."
[ -d "$ROOT/fuzz" ] || fail "There are no fuzz targets."
cd "$ROOT"
FAILED=0 PASSED=0
[ $# -gt 0 ] || set -- $(cargo +nightly fuzz list)
for target; do
    say "fuzzing $target for $SECONDS_EACH s"
    if cargo +nightly fuzz run "$target" -- -max_total_time="$SECONDS_EACH" -rss_limit_mb=4096 -verbosity=0; then
        PASSED=$((PASSED + 1))
    else
        FAILED=$((FAILED + 1))
    fi
done
echo "$PASSED passed, $FAILED failed"
[ "$FAILED" = 0 ]
