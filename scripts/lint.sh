#!/usr/bin/env bash
# Formatting, clippy, rustdoc, licences and tidiness. Each is a check that passes or fails; the last line counts them.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

PASSED=0 FAILED=0
check() { # NAME COMMAND...
    local name=$1 log status
    shift
    log=$(mktemp)
    "$@" >"$log" 2>&1
    status=$?
    cat "$log"
    if [ "$status" = 0 ]; then
        say "$name: passed"
        PASSED=$((PASSED + 1))
    else
        say "$name: FAILED"
        FAILED=$((FAILED + 1))
    fi
    rm -f "$log"
}

cd "$ROOT"
check "cargo fmt" cargo fmt --all --check
check "cargo fmt of bench/rivals" cargo fmt --manifest-path bench/rivals/Cargo.toml --check
check "clippy" cargo clippy --quiet --workspace --all-targets -- -D warnings
check "rustdoc" env RUSTDOCFLAGS="-D warnings" cargo doc --quiet --workspace --no-deps
check "clang-format" bash -c 'git ls-files "plugin/*.cc" "plugin/*.h" "examples/c/*.c" | xargs clang-format --dry-run -Werror'
check "tidy" python3 -m scripts.tidy
check "the tests of tidy" python3 -m unittest -q scripts.tidy.test_tidy
if cargo deny --version >/dev/null 2>&1; then
    # Not --offline: the check includes crates for other systems, which may have to be downloaded.
    check "licences (cargo deny)" cargo deny --locked check bans licenses sources
else
    say "licences: skipped, cargo-deny is not installed (cargo install --locked cargo-deny)"
fi
echo "$PASSED passed, $FAILED failed"
[ "$FAILED" = 0 ]
