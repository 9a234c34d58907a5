#!/usr/bin/env bash
# Runs the memtable's unit tests under Miri, which detects undefined behaviour and data races, and emulates weak memory
# orders.
#   scripts/miri.sh [SEEDS]     SEEDS: number of schedules of the multi-threaded test, 8 by default
# Miri is a component of nightly toolchains: rustup component add miri rust-src --toolchain nightly
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

SEEDS=${1:-8}
cd "$ROOT"
if ! cargo +nightly miri --version >/dev/null 2>&1; then
    echo "Miri is not installed. Nothing was tested. To install it:" >&2
    echo "    rustup toolchain install nightly --component miri,rust-src" >&2
    exit 1
fi
export CARGO_TARGET_DIR=$BUILD/target-miri
# The tests read environment variables (proptest's settings), which Miri's isolation forbids.
FLAGS=-Zmiri-disable-isolation
say "the memtable's tests under Miri"
MIRIFLAGS=$FLAGS cargo +nightly miri test --quiet -p teak-tree --lib memtable::
say "readers and writers in threads, with $SEEDS seeds"
MIRIFLAGS="$FLAGS -Zmiri-many-seeds=0..$SEEDS" \
    cargo +nightly miri test --quiet -p teak-tree --lib memtable::tests::readers_see_whole
