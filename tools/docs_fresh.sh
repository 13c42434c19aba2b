#!/bin/bash
# Fails when a generated page in docs/gen is not what the program prints today; --update writes it anew.
cd "$(dirname "$0")/.." || exit 2
hilo=${HILO:-build/hilo}
[ -x "$hilo" ] || { echo "skipped: $hilo is not built"; exit 77; }
mkdir -p docs/gen
bad=0
for page in ops passes rules targets flags; do
  [ "$1" = --update ] && "$hilo" docs "$page" > "docs/gen/$page.md"
  if ! "$hilo" docs "$page" | diff -u "docs/gen/$page.md" -; then
    echo "docs/gen/$page.md is not what '$hilo docs $page' prints: tools/docs_fresh.sh --update" >&2
    bad=1
  fi
done
[ $bad = 0 ] && echo "docs: the generated pages are fresh"
exit $bad
