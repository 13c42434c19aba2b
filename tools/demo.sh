#!/bin/bash
# Shows what Hilo does on a bundled program: a training step of a small network as JAX hands it to XLA,
# with the inputs and XLA's results of one step. demo.sh PROGRAM
set -u
cd "$(dirname "$0")/.." || exit 2
hilo=$(realpath "${1:-build/hilo}") || exit 2
out=$(mktemp -d) || exit 2
trap 'rm -rf "$out"' EXIT
cd tests/fixtures/mlp_train || exit 2
failed=0

# step "what it shows" STATUS command...: runs it, shows the command and at most 16 lines, expects the exit status.
step() {
  local status n
  printf '\n# %s\n$ %s\n' "$1" "${*:3}"
  (PATH=$(dirname "$hilo"):$PATH; cd "$out" && eval "${@:3}") > "$out/.text" 2>&1
  status=$?
  n=$(wc -l < "$out/.text")
  head -n 16 "$out/.text" | cut -c 1-110
  [ "$n" -le 16 ] || echo "  ... ($((n - 16)) more lines)"
  [ "$status" = "$2" ] || { echo "(exit status $status, expected $2)"; failed=1; }
}

cp before.hlo after.hlo module.hlo.pb args.npz results.npz "$out" || exit 2
sed 's/ tanh(/ tahn(/; s/dimensions={0,1}/dimensions={0,7}/' before.hlo > "$out/typo.hlo"

step "Is the dump well-formed: the module before and after XLA's optimiser, and as a proto?" 0 \
  hilo check before.hlo after.hlo module.hlo.pb
step "What does it cost?" 0 hilo stats --brief before.hlo
step "Replay the saved step: are these XLA's results?" 0 hilo run before.hlo --args args.npz --expect results.npz
step "And after the optimiser?" 0 'hilo run after.hlo --args args.npz --expect results.npz | tail -n 1'
step "The proto as text: byte for byte what XLA prints" 0 'hilo convert module.hlo.pb | cmp - before.hlo && echo same'
step "A copy with two mistakes" 3 hilo check typo.hlo
echo
[ $failed = 0 ] && echo "demo: all went well" || echo "demo: a step failed"
exit $failed
