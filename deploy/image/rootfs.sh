#!/bin/sh
# Writes the root file system of kiln's image: node, the libraries that it loads, and kiln. There is no shell and no package manager.
#
# Usage: rootfs.sh KILN_TARBALL DIRECTORY
# Needs node, npm and ldd, and uses strip where it is installed. NODE names another node than that on the PATH.
set -eu
umask 022

tarball=$(realpath "$1")
mkdir -p "$2"
root=$(realpath "$2")
# A directory of mktemp is closed to the user of the image.
chmod 755 "$root"
node=$(realpath "${NODE:-$(command -v node)}")

# The program, with the dependencies for this machine.
mkdir -p "$root/opt/kiln"
npm install --prefix "$root/opt/kiln" --omit=dev --no-audit --no-fund --no-package-lock --loglevel=error "$tarball"
sqlite=$root/opt/kiln/node_modules/better-sqlite3
binary=$("$node" -e '
  new (require(process.argv[1]))(":memory:")
  const loaded = process.report.getReport().sharedObjects.find((path) => path.endsWith(".node"))
  console.log(require("node:path").relative(process.argv[1], loaded))' "$sqlite")
case $binary in ..* | "") echo "rootfs.sh: better-sqlite3 loaded no binary of its own" >&2; exit 1 ;; esac
# Sources of SQLite, and binaries of other platforms.
rm -rf "$sqlite/deps" "$sqlite/src"
find "$sqlite" -name '*.node' ! -path "$sqlite/$binary" -delete
find "$sqlite" -type d -empty -delete

mkdir -p "$root/usr/local/bin"
cp "$node" "$root/usr/local/bin/node"
if command -v strip > /dev/null; then strip "$root/usr/local/bin/node"; fi
printf '#!/usr/local/bin/node\nimport "/opt/kiln/node_modules/kiln/bin/kiln.mjs"\n' > "$root/usr/local/bin/kiln"
chmod 755 "$root/usr/local/bin/node" "$root/usr/local/bin/kiln"

for library in $(ldd "$node" "$sqlite/$binary" | grep -o '/[^ ]*\.so[^ ]*' | sort -u); do
  mkdir -p "$root$(dirname "$library")"
  cp -L "$library" "$root$library"
done

mkdir -p "$root/etc" "$root/data" "$root/tmp"
echo 'kiln:x:65532:65532:kiln:/data:/sbin/nologin' > "$root/etc/passwd"
echo 'kiln:x:65532:' > "$root/etc/group"
chmod 1777 "$root/tmp"
chmod 700 "$root/data"
chown 65532:65532 "$root/data"
