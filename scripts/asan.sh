#!/usr/bin/env bash
# Runs the suite `teak` (or the named tests) on the plugin compiled with AddressSanitizer; `make asan` builds it first.
# The server is the installed one, with the sanitizer's runtime preloaded: memory accesses are checked in the plugin's
# C++ code, allocation and release of heap memory in server and plugin. Leaks are not checked, because the server itself
# does not free all memory at exit.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

export TEAK_PLUGIN=$BUILD/asan/ha_teak.so
[ -e "$TEAK_PLUGIN" ] || fail "There is no build/asan/ha_teak.so: run make asan."
SERVER_PRELOAD=$(g++ -print-file-name=libasan.so)
[ -e "$SERVER_PRELOAD" ] || fail "The compiler has no libasan.so."
SERVER_PRELOAD=$(readlink -f "$SERVER_PRELOAD")
export SERVER_PRELOAD
export ASAN_OPTIONS=detect_leaks=0:abort_on_error=1:detect_odr_violation=0:alloc_dealloc_mismatch=0:allow_user_poisoning=0
export MTR_VAR=$BUILD/mtr-var-asan
say "AddressSanitizer: $TEAK_PLUGIN with $SERVER_PRELOAD preloaded"
exec "$ROOT/mtr/run.sh" "$@"
