#!/bin/bash
# The golden files with a host whose locale writes numbers with a comma: nothing that is read or printed may differ.
# The locale is made here, of the system's sources of locales (Debian: package locales).
build=${HILO_BUILD:-build}
sources=/usr/share/i18n
command -v localedef >/dev/null && [ -f $sources/locales/de_DE ] ||
  { echo "skipped: no sources of locales to make one of (package locales)"; exit 77; }
export LOCPATH=$build/locale
mkdir -p "$LOCPATH" || exit 1
[ -d "$LOCPATH/de_DE.UTF-8" ] || localedef -i de_DE -f UTF-8 "$LOCPATH/de_DE.UTF-8" || exit 1
export HILO_TEST_LOCALE=de_DE.UTF-8 LD_PRELOAD=$build/tests/libcomma.so
"$build/hilo" --version >/dev/null || exit 1
exec "$build/tests/run" --hilo "${HILO:-$build/hilo}" tests/golden
