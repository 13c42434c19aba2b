#!/bin/bash
# A program whose memory the system limits works within the limit, and says which it was when that is too little.
hilo=${HILO:-build/hilo}
nm "$hilo" 2>/dev/null | grep -q __asan_init && { echo "skipped: the sanitizer needs all addresses"; exit 77; }
program='HloModule m
ENTRY e {
  p = f32[4] parameter(0)
  ROOT n = f32[4] negate(p)
}'
fail() { echo "$1" >&2; exit 1; }
for kind in v d; do
  for limit in 24000 40000 80000; do
    n=$(ulimit -$kind $limit && echo "$program" | "$hilo" opt --pipeline=cpu - 2>&1 | grep -c negate)
    [ "$n" -ge 1 ] || fail "ulimit -$kind $limit: $n"
  done
done
# Of what does not fit the end is an error that names the limit.
big='HloModule big
ENTRY e {
  c = f32[] constant(1)
  ROOT b = f32[64,1024,1024] broadcast(c), dimensions={}
}'
out=$(ulimit -v 100000 && echo "$big" | "$hilo" run - 2>&1)
status=$?
[ $status -ne 0 ] && [ $status -lt 128 ] || fail "too little memory ended with status $status: $out"
grep -q "memory" <<<"$out" || fail "too little memory was not said: $out"
echo "limits: kept"
