#!/usr/bin/env bash
# Runs SEEDS schedules of the crash simulator in release mode. A failure prints the seed that repeats it.
#   scripts/simulate.sh [SEEDS [FIRST_SEED]]
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

cd "$ROOT"
say "crash simulator: ${1:-1000} seeds"
cargo run --quiet --release -p teak-simulator -- --seeds "${1:-1000}" ${2:+--first "$2"}
