#!/bin/bash
# Tests of a build for another machine (make aarch64): cross_tests.sh BUILD UNIT... JAX's programs of the corpus, compiled; then
# the CPU backend's unit tests unit_cpu_UNIT.
set -u
build=$(cd "$1" && pwd)
shift
emulator=$(sed -n 's/^CMAKE_CROSSCOMPILING_EMULATOR:[^=]*=//p' "$build/CMakeCache.txt" | tr ';' ' ')
printf '#!/bin/sh\nexec %s %s/hilo "$@"\n' "$emulator" "$build" > "$build/emulated"
chmod +x "$build/emulated"
status=0
HILO=$build/emulated tools/py.sh tests/xla/compare_run.py --no-snapshots --files='*jax/*' --on=--platform=cpu --timeout 120 || status=1
for unit; do
  $emulator "$build/tests/unit_cpu_$unit" > "$build/unit.log" 2>&1 || { cat "$build/unit.log"; status=1; }
  tail -n 1 "$build/unit.log" | sed "s/^/unit_cpu_$unit: /"
done
exit $status
