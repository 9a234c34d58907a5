#!/usr/bin/env bash
# Installs the library that `make bench-rivals` needs in addition to scripts/setup.sh, if it is missing: RocksDB, which the
# benchmark links. cargo downloads and compiles LMDB, redb and fjall.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$ROOT/scripts/apt.sh"

PACKAGE=librocksdb-dev

mkdir -p "$BUILD"
if [ -z "$(installed_version $PACKAGE)" ]; then
    command -v apt-get >/dev/null || fail "This setup uses apt-get: elsewhere install RocksDB's library and headers."
    need_root "$PACKAGE"
    refresh_lists
    say "installing $PACKAGE"
    apt_quietly install --no-install-recommends $PACKAGE
fi
