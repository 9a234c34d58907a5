#!/usr/bin/env bash
# Unpacks Spider's plugin, in the release of the installed server, from Debian's package into build/spider, where the
# harness finds it (--plugin=ha_spider). Nothing is installed. Does nothing if the plugin is already there.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"

SERVER_PLUGINS=/usr/lib/mysql/plugin
SPIDER=$BUILD/spider

PACKAGE=mariadb-plugin-spider
version=$(dpkg-query -W -f '${Version}' mariadb-server-core)
[ ! -e "$SERVER_PLUGINS/ha_spider.so" ] || exit 0
[ "$(cat "$SPIDER/version" 2>/dev/null)" != "$version" ] || exit 0

say "fetching Spider's plugin, MariaDB $(upstream_version "$version")"
rm -rf "$SPIDER" "$SPIDER.new"
mkdir -p "$SPIDER.new/package"
(cd "$SPIDER.new" && apt-get -q download "$PACKAGE=$version" >download.log 2>&1) ||
    { tail -5 "$SPIDER.new/download.log" >&2; fail "$PACKAGE $version could not be downloaded (apt-get download)."; }
dpkg-deb -x "$SPIDER.new/$PACKAGE"_*.deb "$SPIDER.new/package"
mv "$SPIDER.new/package/usr/lib/mysql/plugin/ha_spider.so" "$SPIDER.new/"
rm -rf "$SPIDER.new/package" "$SPIDER.new/$PACKAGE"_*.deb
echo "$version" >"$SPIDER.new/version"
mv "$SPIDER.new" "$SPIDER"
