#!/bin/bash
# Fails where anything but src/ir writes a module, a computation, an instruction or an edge: all edits go through
# hilo/edit.h, which notes what was there (hl_undo). Compiles every other source against an ir.h in which
# the fields of these structs are const, down to what they point to.
cd "$(dirname "$0")/.." || exit 2
build=${HILO_BUILD:-build}
[ -d "$build/gen/proto" ] || { echo "skipped: nothing built in $build"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/hilo"
awk '
  /^(typedef )?struct (HlUse|HlCall|HlControl|HlInst|HlComp|HlModule) \{/ { inside = 1; print; next }
  /^}/ { inside = 0 }
  inside && match($0, /^  [A-Za-z][^\/;]*;/) {
    field = substr($0, 3, RLENGTH - 2)
    rest = substr($0, RLENGTH + 1)
    if (!gsub(/\*/, "*const ", field))
      field = "const " field
    print "  " field rest
    fields++
    next
  }
  { print }
  END { exit (fields < 60) }  # a change of style must not make the check vacuous
' include/hilo/ir.h > "$dir/hilo/ir.h" || { echo "door: the structs of ir.h were not understood" >&2; exit 1; }

flags=(-std=c17 -fsyntax-only -Werror=discarded-qualifiers -Wno-duplicate-decl-specifier -D_GNU_SOURCE= -DSIMD_LEVEL=2
       '-DHILO_VERSION="0"' "-I$dir" -Iinclude -Isrc "-I$build/gen"
       $(pkg-config --cflags libprotobuf-c libpcre2-8 jansson zlib libzstd 2>/dev/null))
find src -name '*.c' ! -path 'src/ir/*' -print0 |
  xargs -0 -P "$(nproc)" -n 16 "${CC:-cc}" "${flags[@]}" > "$dir/out" 2>&1
status=$?
if [ $status != 0 ]; then
  grep 'error:' "$dir/out" >&2
  echo "door: write through hilo/edit.h" >&2
  exit 1
fi
echo "door: nothing but src/ir writes a module"
