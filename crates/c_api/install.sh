#!/usr/bin/env bash
# Installs the C library: headers, static and shared library, and the file for pkg-config.
#   install.sh DIRECTORY PREFIX [DESTDIR [LIBRARY-DIRECTORY]]
# DIRECTORY is where cargo wrote libteak_c_api.a and libteak_c_api.so.
set -euo pipefail

built=$1 prefix=$2 destination=${3:-}
libraries=${4:-$prefix/lib}
here=$(dirname "$0")
version=$(sed -n 's/^#define TEAK_VERSION_STRING "\(.*\)"$/\1/p' "$here/include/teak.h")
abi=$(sed -n 's/^const ABI: u32 = \(.*\);$/\1/p' "$here/build.rs")
into=$destination$libraries headers=$destination$prefix/include

install -d "$headers" "$into/pkgconfig"
install -m 644 "$here/include/teak.h" "$here/include/teak_server.h" "$headers"
install -m 644 "$built/libteak_c_api.a" "$into/libteak.a"
install -m 755 "$built/libteak_c_api.so" "$into/libteak.so.$abi.$version"
ln -sf "libteak.so.$abi.$version" "$into/libteak.so.$abi"
ln -sf "libteak.so.$abi" "$into/libteak.so"
sed -e "s|@PREFIX@|$prefix|" -e "s|@LIBRARIES@|$libraries|" -e "s|@VERSION@|$version|" "$here/teak.pc.in" >"$into/pkgconfig/teak.pc"
