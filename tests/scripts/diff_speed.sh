#!/bin/bash
# A pair of modules of 20,000 instructions and more is compared within a second, two directories of 500 files within ten: of
# processor time, for other work shares the machine.
hilo=${HILO:-build/hilo} corpus=${HILO_CORPUS:-../shared/corpus}
model=$corpus/models/hlo_llama31_8b_bf16_1x8.hlo
[ -e "$model" ] || { echo "skipped: no corpus at $corpus"; exit 77; }
nm "$hilo" 2> /dev/null | grep -q __asan_init && { echo "skipped: sanitizers take their time"; exit 77; }
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
fail() { echo "$1" >&2; exit 1; }
TIMEFORMAT='%U %S'
# seconds LIMIT WHAT COMMAND...: fails where it takes longer; its status stays in $status.
seconds() {
  local limit=$1 what=$2 spent
  shift 2
  spent=$({ time "$@" > "$tmp/out" 2> "$tmp/err"; echo $? > "$tmp/status"; } 2>&1)
  status=$(cat "$tmp/status")
  spent=$(awk '{print $1 + $2}' <<< "$spent")
  echo "$what: $spent s"
  awk -v spent="$spent" -v limit="$limit" 'BEGIN {exit !(spent < limit)}' || fail "$what takes more than $limit s"
}
sed 's/ tanh(/ logistic(/; s/ exponential(/ tanh(/; s/ rsqrt(/ sqrt(/' "$model" > "$tmp/b.hlo"
seconds 1 "two versions of a model" "$hilo" diff --brief "$model" "$tmp/b.hlo"
[ "$status" = 1 ] || fail "the versions differ, and the status was $status: $(cat "$tmp/err")"
seconds 1 "two models" "$hilo" diff --brief "$corpus/models/clip.train.jit_train_step.hlo" "$corpus/models/gemma3_4b.train.jit_train_step.hlo"
mkdir "$tmp/one" "$tmp/two"
n=0
for file in "$corpus"/newest/cpu_passes/*/*.txt; do
  case $file in *after_optimizations-*) continue ;; esac
  [ $((n++)) -lt 500 ] || break
  cp "$file" "$tmp/one/"
  sed 's/ tanh(/ logistic(/' "$file" > "$tmp/two/${file##*/}"
done
[ "$n" -ge 500 ] || fail "only $n files"
seconds 10 "two directories of 500 files" "$hilo" diff "$tmp/one" "$tmp/two"
[ "$status" = 1 ] || fail "the directories differ, and the status was $status: $(tail -n 3 "$tmp/err")"
tail -n 1 "$tmp/out"
