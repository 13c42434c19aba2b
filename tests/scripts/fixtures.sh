#!/bin/bash
# The fixtures (real JAX programs): every form is valid, and running each gives XLA's results.
failed=0 n=0
try() {
  n=$((n + 1))
  "$HILO" "$@" > /dev/null 2> "$HILO_BUILD/fixtures.err" || {
    echo "FAIL ($?) hilo $*"
    cat "$HILO_BUILD/fixtures.err"
    failed=1
  }
}
for folder in tests/fixtures/*/; do
  for file in before.hlo after.hlo module.hlo.pb program.mlir program.mlirbc program.jaxpr; do
    try check "$folder$file"
    try run "$folder$file" --args "${folder}args.npz" --expect "${folder}results.npz"
  done
done
echo "$n commands"
[ $failed = 0 ] && [ $n -ge 48 ]
