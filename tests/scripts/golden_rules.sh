#!/bin/bash
# Every pass and every rule has a golden test where it fires and one where it must not.
command -v python3 > /dev/null || { echo "skipped: no python3"; exit 77; }
exec python3 tools/golden_rules.py "$HILO"
