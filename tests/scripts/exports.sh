#!/bin/bash
# What libhilo.so exports is what the public headers declare: no less, no more.
lib=${HILO_BUILD:-build}/libhilo.so
[ -e "$lib" ] || { echo "skipped: no $lib in this build"; exit 77; }
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
for header in include/hilo/*.h; do echo "#include \"hilo/${header##*/}\""; done >"$work/all.c"
${CC:-cc} -E -P -std=c11 -Iinclude "$work/all.c" >"$work/all.i" || exit 1
# The functions declared and not defined there: a name, its parameters, and what ends a declaration. Tables are extern.
tr '\n' ' ' <"$work/all.i" | grep -oE '\bhl_[a-z0-9_]+ *\([^;{]*\)( __attribute__ *\(\([^;{]*\)\))* *;' |
  grep -oE '^hl_[a-z0-9_]+' >"$work/words"
tr '\n' ' ' <"$work/all.i" | grep -oE '\bextern [^;{}"()]*;' | grep -oE '\bhl_[a-z0-9_]+' >>"$work/words"
# A call in an inline function looks like a declaration, and names one that there is besides; inline functions themselves
# end in a body.
grep -oE '\bstatic inline [^;{(]*\bhl_[a-z0-9_]+' "$work/all.i" | grep -oE 'hl_[a-z0-9_]+$' | sort -u >"$work/inline"
sort -u "$work/words" | comm -23 - "$work/inline" >"$work/declared"
nm -D --defined-only "$lib" | awk '{print $3}' | sed 's/@.*//' | sort -u >"$work/exported"
bad=$(comm -23 "$work/declared" "$work/exported" | sed 's/$/: declared, and not exported/'
  comm -13 "$work/declared" "$work/exported" | sed 's/$/: exported, and not declared/')
[ -z "$bad" ] || { echo "$bad" >&2; exit 1; }
n=$(wc -l <"$work/exported")
[ "$n" -gt 400 ] || { echo "only $n symbols?" >&2; exit 1; }
echo "exports: $n symbols, those of include/hilo"
