#!/bin/bash
# Fails where the sources ask the C library for something that the host's locale changes: a number with a point, what a
# letter is, the order of strings. base/number.c asks for its own locale, base/ascii.h knows the letters; the printf of
# HlBufs, arenas and diagnostics goes by them.
cd "$(dirname "$0")/.." || exit 2
sources=$(find src -name '*.[ch]' ! -path src/base/number.c)
calls='(v(s|sn|f|as)?printf|strto(d|f|ld)|atof|is(alpha|digit|alnum|space|xdigit|upper|lower|print|punct|graph|cntrl|blank)|to(lower|upper)|strn?casecmp|strcoll|strxfrm|setlocale|strftime|wcs[a-z]+|mbs?to[a-z]+)'
found=$(grep -nE "(^|[^_a-zA-Z0-9.>])$calls\(" $sources | grep -vE ':[0-9]+: *//')
# A call of the printf and scanf families, whole, with a conversion of a double.
found+=$(for source in $sources; do
  tr '\n' ' ' <"$source" | grep -oE '(^|[^_a-zA-Z0-9])((v?s?n?f?printf)|(v?s?f?scanf))\([^;]*;' |
    grep -E '%[-+ #0-9.*]*[lL]?[aAeEfFgG]' | sed "s|^|$source: |"
done)
[ -z "$found" ] && { echo "locale: numbers and letters are the same everywhere"; exit 0; }
echo "$found" >&2
exit 1
