#!/bin/bash
# Shows what Hilo does on a bundled program: a training step of a small network as JAX hands it to XLA,
# with the inputs and XLA's results of one step. demo.sh PROGRAM
set -u
cd "$(dirname "$0")/.." || exit 2
hilo=${1:-build/hilo} dump=tests/fixtures/mlp_train
out=$(mktemp -d) || exit 2
trap 'rm -rf "$out"' EXIT
failed=0

step() {
  printf '\n# %s\n$ hilo %s\n' "$1" "${*:2}"
  "$hilo" "${@:2}" > "$out/text" 2>&1
  local status=$?
  head -n 24 "$out/text" | cut -c 1-150
  local n
  n=$(wc -l < "$out/text")
  [ "$n" -le 24 ] || echo "... ($((n - 24)) more lines)"
  [ $status = 0 ] || { echo "(exit status $status)"; failed=1; }
}

step "Is the dump well-formed?" check $dump/before.hlo $dump/after.hlo $dump/module.hlo.pb
step "What is in it?" stats $dump/before.hlo
step "Replay the saved step: are these XLA's results?" run $dump/before.hlo --args $dump/args.npz --expect $dump/results.npz
step "The same, after XLA's own optimiser" run $dump/after.hlo --args $dump/args.npz --expect $dump/results.npz
step "The proto and the text are the same module" diff $dump/before.hlo $dump/module.hlo.pb
echo
[ $failed = 0 ] && echo "demo: all went well" || echo "demo: a step failed"
exit $failed
