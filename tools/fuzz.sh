#!/bin/bash
# Runs one fuzz target for FUZZ_SECONDS (60): fuzz.sh NAME PROGRAM. Starts from tests/fuzz/seeds/NAME
# where there is one, else from the golden files and fixtures; what it finds new stays in the build folder.
name=$1 program=$2
work=$(dirname "$program")/corpus/$name
mkdir -p "$work"
seeds=(tests/fuzz/seeds/"$name")
[ -d "${seeds[0]}" ] || seeds=(tests/golden tests/fixtures)
export ASAN_OPTIONS=allocator_may_return_null=1:detect_stack_use_after_return=0:$ASAN_OPTIONS
# What it finds is no skipped test, which its usual exit status of 77 would mean.
exec "$program" -error_exitcode=1 -max_total_time="${FUZZ_SECONDS:-60}" -timeout=10 -rss_limit_mb=2048 -max_len=65536 \
  -print_final_stats=1 -artifact_prefix="$work-crash-" "$work" "${seeds[@]}"
