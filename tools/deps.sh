#!/bin/sh
# Installs the Debian or Ubuntu packages named that are missing; does nothing when none is.
missing=
for package; do
  dpkg -s "$package" 2>/dev/null | grep -q '^Status: install ok installed' || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
if ! command -v apt-get >/dev/null; then
  echo "install these (Debian's names), or what your system calls them:$missing" >&2
  exit 1
fi
sudo=
[ "$(id -u)" = 0 ] || sudo=sudo
echo "installing:$missing"
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -q || exit 1
# The runtime of clang's sanitizers is a package of its own only since Debian 12; before, clang brings it.
wanted=
for package in $missing; do
  if apt-cache show "$package" >/dev/null 2>&1; then
    wanted="$wanted $package"
  elif [ "$package" != libclang-rt-dev ]; then
    echo "this system has no package $package" >&2
    exit 1
  fi
done
[ -z "$wanted" ] || $sudo apt-get install -y --no-install-recommends $wanted
