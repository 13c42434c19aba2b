#!/bin/sh
# Makes a Python environment: venv.sh FOLDER PACKAGE... (the first Python of 3.11 or later is taken).
folder=$1
shift
for python in python3.14 python3.13 python3.12 python3.11 python3; do
  if command -v $python >/dev/null && $python -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    $python -m venv "$folder" && "$folder/bin/pip" install -q --disable-pip-version-check "$@"
    exit
  fi
done
echo "no Python of 3.11 or later with venv (package python3-venv)" >&2
exit 1
