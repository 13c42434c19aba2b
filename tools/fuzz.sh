#!/bin/bash
# Runs one fuzz target: fuzz.sh NAME FOLDER [SECONDS], FOLDER with the programs fuzz_NAME and fuzz_seeds.
#
# Without SECONDS it always does the same: every input that ever failed (tests/fuzz/regressions/NAME), then RUNS new inputs
# from a fixed seed, starting from those and from seeds of the target's own kind made of our golden files and fixtures.
# With SECONDS it runs that long from any seed, also from the real programs of HILO_CORPUS; what reaches new code stays in
# FOLDER/corpus/NAME for the next time, and what fails in FOLDER/crashes/NAME-*.
name=$1 folder=$2 seconds=$3
RUNS=${FUZZ_RUNS:-10000}
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root" || exit 2
program=$folder/fuzz_$name
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
mkdir -p "$folder/corpus/$name" "$folder/crashes" "$work/found" "$work/seeds"
export ASAN_OPTIONS=allocator_may_return_null=1:detect_stack_use_after_return=0:$ASAN_OPTIONS
export UBSAN_OPTIONS=print_stacktrace=1:$UBSAN_OPTIONS

sources=(tests/golden tests/fixtures)
[ ! -d tests/fuzz/seeds/$name ] || sources+=("tests/fuzz/seeds/$name")
[ -z "$seconds" ] || sources+=("${HILO_CORPUS:-../shared/corpus}")
"$folder/fuzz_seeds" "$name" "$work/seeds" "${sources[@]}" || { echo "fuzz.$name: no seeds"; exit 1; }
"$folder/fuzz_seeds" --dictionary "$name" > "$work/words" || { echo "fuzz.$name: no words"; exit 1; }
starts=("$work/seeds")
for start in tests/fuzz/regressions/$name tests/fuzz/seeds/$name; do
  [ ! -d "$start" ] || starts+=("$start")
done

# What it finds is no skipped test, which its usual exit status of 77 would mean.
options=(-error_exitcode=1 -timeout=20 -rss_limit_mb=2048 -max_len=65536 -dict="$work/words" -print_final_stats=1
  -artifact_prefix="$folder/crashes/$name-")
if [ -n "$seconds" ]; then
  "$program" "${options[@]}" -max_total_time="$seconds" "$folder/corpus/$name" "${starts[@]}"
  exit
fi
failures=(tests/fuzz/regressions/"$name"/*)
[ ! -e "${failures[0]}" ] || "$program" "${options[@]}" "${failures[@]}" || exit 1
# In an order of our own: that of a folder is the file system's.
find "${starts[@]}" -type f | LC_ALL=C sort > "$work/list"
paste -sd, "$work/list" | tr -d '\n' > "$work/seed_inputs"
"$program" "${options[@]}" -use_cmp=0 -seed=1 -runs=$(($(wc -l < "$work/list") + RUNS)) \
  -seed_inputs="@$work/seed_inputs" "$work/found"
