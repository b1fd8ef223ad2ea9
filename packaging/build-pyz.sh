#!/bin/sh
# Builds catalogd.pyz: one file with the program and its packages, for Python 3.11 or later.
# usage: packaging/build-pyz.sh [FOLDER]     where to put it (default: dist)
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
to=$(mkdir -p "${1:-$top/dist}" && cd "${1:-$top/dist}" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

packages=$(sed -n 's/^# dependencies = \["\(.*\)"\]$/\1/p' "$top/catalogd.py" | sed 's/", "/ /g')
# Word splitting is intended: each word is a package.
# shellcheck disable=SC2086
python3 -m pip install --quiet --disable-pip-version-check --no-compile \
    --target "$tree" $packages
rm -rf "$tree/bin"
cp "$top/catalogd.py" "$top/send_to_switch.py" "$tree"  # that one is served to devices
echo "import catalogd; raise SystemExit(catalogd.main())" >"$tree/__main__.py"
python3 -m zipapp --compress --python "/usr/bin/env python3" \
    --output "$to/catalogd.pyz" "$tree"
chmod 755 "$to/catalogd.pyz"
echo "$to/catalogd.pyz"
