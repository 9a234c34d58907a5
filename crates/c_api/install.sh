#!/usr/bin/env bash
# Installs the C library: headers, static and shared library, and the file for pkg-config.
#   install.sh DIRECTORY PREFIX [DESTDIR]
# DIRECTORY is where cargo wrote libteak_c_api.a and libteak_c_api.so.
set -euo pipefail

built=$1 prefix=$2 destination=${3:-}$2
here=$(dirname "$0")
version=$(sed -n 's/^#define TEAK_VERSION_STRING "\(.*\)"$/\1/p' "$here/include/teak.h")
major=${version%%.*}

install -d "$destination/include" "$destination/lib/pkgconfig"
install -m 644 "$here/include/teak.h" "$here/include/teak_server.h" "$destination/include"
install -m 644 "$built/libteak_c_api.a" "$destination/lib/libteak.a"
install -m 755 "$built/libteak_c_api.so" "$destination/lib/libteak.so.$version"
ln -sf "libteak.so.$version" "$destination/lib/libteak.so.$major"
ln -sf "libteak.so.$major" "$destination/lib/libteak.so"
sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" "$here/teak.pc.in" >"$destination/lib/pkgconfig/teak.pc"
