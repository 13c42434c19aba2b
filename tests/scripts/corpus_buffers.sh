#!/bin/bash
# The memory of the corpus' optimised modules is at most 5% more than the report that XLA wrote beside each, and what
# `hilo stats` calls their peak is within 5% of it.
corpus=${HILO_CORPUS:-../shared/corpus}
[ -d "$corpus/roberta" ] || { echo "skipped: no corpus at HILO_CORPUS"; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# The first line of a report that names a total: "Total bytes: N", of older versions "Total bytes used: N".
total() {
  sed -n 's/^Total bytes[a-z ]*: \([0-9]*\).*/\1/p' "$1" | head -n 1
}

passed=0 failed=0
while IFS= read -r -d '' report; do
  module=${report%-memory-usage-report.txt}
  rm -rf "$scratch/dump"
  peak=$("$HILO" stats --json "$module.txt" | sed -n 's/.*"peak_memory": \([0-9]*\).*/\1/p')
  target=cpu
  [[ $module == *gpu_after* ]] && target=gpu
  "$HILO" opt --passes= --target=$target "$module.txt" --xla_dump_to="$scratch/dump" --xla_dump_hlo_as_text -o "$scratch/out" || exit 1
  ours=$(total "$scratch"/dump/*memory-usage-report.txt) xla=$(total "$report")
  echo "${module#"$corpus"/}: $ours bytes, stats $peak, XLA $xla"
  if [ "$xla" -gt 0 ] && [ $((ours * 100)) -le $((xla * 105)) ] && [ $((peak * 100)) -le $((xla * 105)) ] &&
    [ $((peak * 100)) -ge $((xla * 95)) ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
  fi
done < <(find "$corpus/roberta" "$corpus/dumps" "$corpus/newest/gpu" "$corpus/newest/cpu_passes" -name '*after_optimizations-memory-usage-report.txt' -print0)
echo "$passed passed, $failed failed"
[ $passed -ge 70 ] && [ $failed = 0 ]
