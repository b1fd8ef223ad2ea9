#!/bin/sh
# Builds catalogd_VERSION_all.deb. Needs: sudo apt install build-essential debhelper
# usage: packaging/build-deb.sh [FOLDER]     where to put it (default: dist)
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
to=$(mkdir -p "${1:-$top/dist}" && cd "${1:-$top/dist}" && pwd)
ours=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' "$top/catalogd.py")
theirs=$(sed -n '1s/^catalogd (\(.*\)) .*/\1/p' "$top/packaging/debian/changelog")
if [ "$ours" != "$theirs" ]; then
    echo "catalogd.py is version $ours, packaging/debian/changelog is $theirs" >&2
    exit 1
fi

# debhelper requires debian/ at the top of the tree that it builds.
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir "$tree/catalogd"
cp "$top/catalogd.py" "$top/send_to_switch.py" "$top/README.md" "$top/CHANGELOG.md" \
    "$top/packaging/nginx.conf" "$top/packaging/Caddyfile" \
    "$top/packaging/litestream.yml" "$top/packaging/"*.md "$tree/catalogd"
cp -R "$top/packaging/debian" "$tree/catalogd"
(cd "$tree/catalogd" && dpkg-buildpackage --build=binary --no-sign) >"$tree/log" 2>&1 || {
    cat "$tree/log" >&2
    exit 1
}
mv "$tree"/*.deb "$to"
echo "$to/catalogd_${ours}_all.deb"
