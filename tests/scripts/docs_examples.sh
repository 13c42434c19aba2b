#!/bin/bash
# The commands shown in README.md and docs/ print what the pages say they print.
command -v python3 > /dev/null || { echo "skipped: python3 is not installed"; exit 77; }
python3 tools/docs_examples.py "$HILO"
