#!/bin/bash
# Fails on a mutable global: a symbol of ours in a writable section (.data, .bss, common, thread-local).
# Tables of constants are const, and so do not show up (.data.rel.ro is written by the loader only).
# Names that may stay, each with its reason, are rows "NAME reason" in tools/globals.allow.
cd "$(dirname "$0")/.." || exit 2
build=${HILO_BUILD:-build}
objects=$(find "$build"/CMakeFiles/hilo_{objects,simd_v*}.dir -name '*.o' 2>/dev/null)
[ -n "$objects" ] || { echo "skipped: nothing built in $build"; exit 77; }
allowed=$(awk '!/^#/ && NF {print $1}' tools/globals.allow)
found=$(for object in $objects; do
  objdump -t "$object" | awk -v object="${object#*.dir/}" '
    $0 ~ /[[:space:]](\.data|\.bss|\.tdata|\.tbss|\*COM\*)/ && $0 !~ /\.data\.rel\.ro/ && $0 !~ / d[[:space:]]+\./ {
      if ($NF !~ /^\./) print $NF, object
    }'
done | grep -vxF -e '' | while read -r name object; do
  grep -qxF "${name%%.[0-9]*}" <<<"$allowed" || echo "$object: mutable global $name"
done)
[ -z "$found" ] && { echo "globals: none is mutable"; exit 0; }
echo "$found" >&2
exit 1
