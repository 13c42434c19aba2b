#!/bin/sh
# Makes a Python environment: venv.sh [--from=3.N] [--to=3.M] FOLDER PACKAGE... (the first Python of 3.11, or of 3.N, or later, and
# not after 3.M, is taken: of those in PATH, then of those that pyenv holds).
from=11 to=99
case $1 in --from=3.*) from=${1#--from=3.}; shift ;; esac
case $1 in --to=3.*) to=${1#--to=3.}; shift ;; esac
folder=$1
shift
held=$(ls -d "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.*/bin/python 2>/dev/null)
for python in python3.14 python3.13 python3.12 python3.11 python3 $held; do
  if command -v $python >/dev/null &&
      $python -c "import sys, venv, ensurepip; sys.exit(not (3, $from) <= sys.version_info[:2] <= (3, $to))" 2>/dev/null; then
    $python -m venv "$folder" && "$folder/bin/pip" install -q --disable-pip-version-check "$@"
    exit
  fi
done
echo "no Python of 3.$from or later with venv (package python3-venv)" >&2
exit 1
