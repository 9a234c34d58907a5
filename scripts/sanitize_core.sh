#!/usr/bin/env bash
# Runs the core's tests under sanitizers, with a nightly toolchain or with nightly's flags on the installed one:
# AddressSanitizer, then ThreadSanitizer. ThreadSanitizer must instrument the standard library, too, so it runs only if the
# library's source (rust-src) is installed.
#   scripts/sanitize_core.sh [address|thread]...      CRATES="-p teak-tree ..." limits the tested crates
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

use_nightly
TARGET=$(rustc $NIGHTLY -vV | sed -n 's/^host: //p')
STANDARD=$(rustc $NIGHTLY --print sysroot)/lib/rustlib/src/rust/library
[ $# -gt 0 ] || set -- address thread
cd "$ROOT"
FAILED=0 PASSED=0
for sanitizer; do
    BUILD_STANDARD=()
    case $sanitizer in
        thread)
            if [ ! -d "$STANDARD" ]; then
                say "ThreadSanitizer left out: it needs rust-src (rustup component add rust-src${NIGHTLY:+ --toolchain nightly})"
                continue
            fi
            BUILD_STANDARD=(-Zbuild-std) ;;
    esac
    say "tests under the $sanitizer sanitizer"
    # A C program that links the core needs the sanitizer runtime that rustc links into Rust programs.
    RUNTIME=$(find "$(rustc $NIGHTLY --print sysroot)/lib/rustlib/$TARGET/lib" -name "librustc-*_rt.${sanitizer:0:1}san.a")
    # Only Rust code is instrumented, not the C code of the codecs. shellcheck disable=SC2086
    if RUSTFLAGS="-Zsanitizer=$sanitizer" RUSTDOCFLAGS="-Zsanitizer=$sanitizer" ASAN_OPTIONS=detect_leaks=0 \
        TEAK_C_LINK="-Wl,--whole-archive $RUNTIME -Wl,--no-whole-archive -lrt -lm" \
        CARGO_TARGET_DIR=$BUILD/target-$sanitizer cargo $NIGHTLY test --quiet ${BUILD_STANDARD[@]+"${BUILD_STANDARD[@]}"} \
        --target "$TARGET" ${CRATES:---workspace} --lib --tests --no-fail-fast; then
        PASSED=$((PASSED + 1))
    else
        FAILED=$((FAILED + 1))
    fi
done
echo "$PASSED passed, $FAILED failed"
[ "$FAILED" = 0 ]
