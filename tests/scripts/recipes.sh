#!/bin/bash
# What docs/hacking.md tells to write for a new op, attribute, pass, command and element type is all that it takes.
command -v python3 > /dev/null || { echo "skipped: python3 is not installed"; exit 77; }
python3 tools/recipes.py "$HILO_BUILD/recipes" -DCMAKE_BUILD_TYPE=Debug "-DCMAKE_C_FLAGS_DEBUG=-O0 -g0" -DHILO_WERROR=ON
