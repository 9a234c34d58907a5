#!/usr/bin/env bash
# Formatting, clippy, licences, tidiness: each is a check that passes or fails; the last line counts them.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

PASSED=0 FAILED=0
check() { # NAME COMMAND...
    local name=$1 log
    shift
    log=$(mktemp)
    if "$@" >"$log" 2>&1; then
        say "$name: passed"
        PASSED=$((PASSED + 1))
    else
        cat "$log"
        say "$name: FAILED"
        FAILED=$((FAILED + 1))
    fi
    rm -f "$log"
}

cd "$ROOT"
check "cargo fmt" cargo fmt --all --check
check "clippy" cargo clippy --quiet --workspace --all-targets -- -D warnings
check "tidy" scripts/tidy.py
if cargo deny --version >/dev/null 2>&1; then
    # Without --offline: crates of other systems are not here, and their licences count too.
    check "licences (cargo deny)" cargo deny --locked check bans licenses sources
else
    say "licences: left out, cargo-deny is not installed (cargo install --locked cargo-deny)"
fi
echo "$PASSED passed, $FAILED failed"
[ "$FAILED" = 0 ]
