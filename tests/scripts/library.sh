#!/bin/bash
# The programs of docs/library.md compile as C and C++ against the library, and print what the page shows.
command -v python3 > /dev/null || { echo "skipped: python3 is not installed"; exit 77; }
python3 tools/library.py "$HILO_BUILD"
