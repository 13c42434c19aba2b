#!/bin/sh
# Unpacks packages of another architecture into a folder: sysroot.sh FOLDER ARCHITECTURE PACKAGE... Debian's or Ubuntu's, from
# the archives that this system takes its own from. Nothing is installed, and who calls need not be root.
set -eu
folder=$1 architecture=$2
shift 2
[ "$(cat "$folder/packages" 2>/dev/null)" != "$*" ] || exit 0
command -v apt-get >/dev/null || { echo "sysroot.sh: no apt-get here" >&2; exit 1; }
apt=$folder/apt
rm -rf "$folder"
mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
apt=$(cd "$apt" && pwd)
: > "$apt/status"
get() {
  apt-get -q -o Dir::State="$apt" -o Dir::State::status="$apt/status" -o Dir::Cache="$apt/cache" \
    -o APT::Architecture="$architecture" -o APT::Architectures="$architecture" -o Debug::NoLocking=1 \
    -o APT::Sandbox::User="$(id -un)" "$@" > "$apt/log" 2>&1 || { cat "$apt/log" >&2; exit 1; }
}
get update
(cd "$apt/cache" && get download "$@")
for package in "$apt"/cache/*.deb; do
  dpkg-deb -x "$package" "$folder"
done
# What is linked statically needs nothing where it runs.
find "$folder/usr/lib" -name '*.a' | while read -r archive; do
  rm -f "${archive%.a}.so"
done
rm -rf "$apt"
echo "$*" > "$folder/packages"
