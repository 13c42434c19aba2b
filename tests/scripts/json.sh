#!/bin/bash
# What --json prints is what the schemas say.
command -v python3 > /dev/null || { echo "skipped: python3 is not installed"; exit 77; }
python3 tools/json_reports.py "$HILO"
