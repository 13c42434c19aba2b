#!/bin/bash
# The index of a dump: what several processes do to it at a time, what a killed one leaves, what becomes of changed files, of
# a damaged index, of a folder that cannot be written, of a full disk.
hilo=$(realpath "${HILO:-build/hilo}")
work=$(mktemp -d) || exit 2
trap 'chmod -R u+w "$work" 2>/dev/null; umount "$work/small" 2>/dev/null; rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache
fail() { echo "$1" >&2; exit 1; }
cd "$work" || exit 2
"$hilo" index . >/dev/null 2>"$work/err" || true
grep -q "built without SQLite" "$work/err" && { echo "skipped: built without SQLite"; exit 77; }
rm -f hilo-index.db

# A program under a number, in two states; `op` is what the optimised one computes.
program() {  # folder number op
  printf 'HloModule jit_f%s, entry_computation_layout={(f32[%s]{0})->f32[%s]{0}}\n\nENTRY main {\n  p = f32[%s] parameter(0)\n  ROOT n = f32[%s] negate(p), metadata={op_name="jit(f)/neg" source_file="/u/f.py" source_line=%s}\n}\n' \
    $2 $2 $2 $2 $2 $2 > "$1/module_$(printf %04d $2).jit_f$2.before_optimizations.txt"
  printf 'HloModule jit_f%s, is_scheduled=true, entry_computation_layout={(f32[%s]{0})->f32[%s]{0}}\n\nENTRY main {\n  p = f32[%s] parameter(0)\n  ROOT %s.7 = f32[%s] %s(p), metadata={op_name="jit(f)/neg" source_file="/u/f.py" source_line=%s}\n}\n' \
    $2 $2 $2 $2 $3 $2 $3 $2 > "$1/module_$(printf %04d $2).jit_f$2.cpu_after_optimizations.txt"
}
found() {  # arguments of find; how many it must find
  local n
  n=$("$hilo" find "${@:1:$#-1}" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["matches"])')
  [ "$n" = "${!#}" ] || fail "find ${*:1:$#-1}: $n, not ${!#}"
}
command -v python3 >/dev/null || { echo "skipped: python3 is not installed"; exit 77; }

N=300
mkdir dump
for ((k = 1; k <= N; k++)); do program dump $k abs; done

# --- Two who write and four who ask, at a time; whoever asks sees whole programs: as many abs as negate, in one question.
"$hilo" index dump --quiet & one=$!
"$hilo" index dump --quiet & two=$!
for reader in 1 2 3 4; do
  (for turn in 1 2 3 4 5; do
    "$hilo" find dump --no-update --regex 'abs|negate' --files --most=0 --quiet >/dev/null 2>"err$reader.$turn"
    [ $? -le 1 ] || { cat "err$reader.$turn"; exit 1; }
  done) & readers+=" $!"
done
wait $one || fail "the first who writes ended with $?"
wait $two || fail "the second who writes ended with $?"
for reader in $readers; do wait $reader || fail "someone who asks failed"; done
found dump --op=abs $N
found dump --op=negate $N
[ "$("$hilo" index dump --json | python3 -c 'import json, sys; r = json.load(sys.stdin)[0]; print(len(r["programs"]), sum(len(p["files"]) for p in r["programs"]), r["read_now"])')" = "$N $((2 * N)) 0" ] ||
  fail "the programs of two who write"

# --- Killed in the middle, any number of times, it goes on.
rm -f dump/hilo-index.db*
for delay in 0.01 0.02 0.03 0.05 0.08; do
  "$hilo" index dump --quiet & victim=$!
  sleep $delay
  kill -9 $victim 2>/dev/null
  wait $victim 2>/dev/null
done
found dump --op=abs $N
found dump --source=f.py:17 2

# --- Files that change, come, go, move; one of the same size and time.
before=$(stat -c %y dump/module_0017.jit_f17.cpu_after_optimizations.txt)
sed -i 's/abs.7/cos.7/' dump/module_0017.jit_f17.cpu_after_optimizations.txt
touch -d "$before" dump/module_0017.jit_f17.cpu_after_optimizations.txt
sed -i 's/abs.7/exponential.7/' dump/module_0018.jit_f18.cpu_after_optimizations.txt
rm dump/module_0019.*
mkdir dump/sub && mv dump/module_0020.* dump/sub
program dump 1000 sine
found dump --name=cos.7 1
found dump --name=exponential.7 1
found dump --op=abs $((N - 1))
found dump --op=negate $N
found dump --module=jit_f19 --file=module_0019 0
found dump --file=sub/ --op=abs 1
found dump --op=sine --source=:1000 1
touch dump/*.txt  # other times, the same content
[ "$("$hilo" index dump --json | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["read_now"])')" = 0 ] ||
  fail "what only was touched was read again"

# --- A damaged index is made anew, or said to be damaged; nothing crashes.
for at in 0 50 100 4096 8192 20000 60000; do
  printf 'garbage and garbage and garbage' | dd of=dump/hilo-index.db bs=1 seek=$at conv=notrunc status=none
  "$hilo" find dump --op=abs >/dev/null 2>err
  status=$?
  [ $status -le 5 ] || fail "a damaged index: status $status"
  [ $status = 0 ] || grep -q "index" err || fail "a damaged index: $(cat err)"
  "$hilo" index --anew dump --quiet 2>err || fail "anew: $(cat err)"
  found dump --op=abs $((N - 1))
done
echo rubbish > dump/hilo-index.db
"$hilo" find dump --op=abs >/dev/null 2>err || fail "rubbish: $(cat err)"
grep -q "made anew" err || fail "rubbish was not said: $(cat err)"
: > dump/hilo-index.db
found dump --op=abs $((N - 1))

# --- Another database is left alone.
if command -v sqlite3 >/dev/null; then
  sqlite3 other.db 'CREATE TABLE t(x); INSERT INTO t VALUES(1)'
  "$hilo" find dump --op=abs --index=other.db >/dev/null 2>err && fail "another database was taken"
  [ "$(sqlite3 other.db 'SELECT x FROM t')" = 1 ] || fail "another database was changed"
fi

# --- A folder that cannot be written has its index in the cache; without one it is in memory.
rm -f dump/hilo-index.db*
mkdir "$XDG_CACHE_HOME" && chmod 777 "$XDG_CACHE_HOME"
chmod a-w dump && chmod 755 "$work"
as_other=()
[ "$(id -u)" != 0 ] || as_other=(setpriv --reuid=65534 --regid=65534 --clear-groups)
if [ "$(id -u)" != 0 ] || { command -v setpriv >/dev/null && "${as_other[@]}" "$hilo" --version >/dev/null 2>&1; }; then
  "${as_other[@]}" "$hilo" find dump --op=sine --quiet >/dev/null 2>err || fail "a folder that cannot be written: $(cat err)"
  [ ! -e dump/hilo-index.db ] && ls "$XDG_CACHE_HOME"/hilo/*.db >/dev/null || fail "the index is not in the cache"
  XDG_CACHE_HOME=/nowhere HOME=/nowhere "${as_other[@]}" "$hilo" find dump --op=sine >/dev/null 2>err ||
    fail "without a cache: $(cat err)"
  grep -q "is not kept" err || fail "without a cache nothing was said"
else
  echo "not tried: a folder that cannot be written (root can write everywhere)"
fi
chmod u+w dump

# --- A full disk is an error, and what was there stays.
mkdir small
if mount -t tmpfs -o size=2m none small 2>/dev/null; then
  for ((k = 1; k <= 10; k++)); do program small $k abs; done
  "$hilo" index small --quiet || fail "a small disk: $?"
  for ((k = 11; k <= 60; k++)); do program small $k cosine; done
  dd if=/dev/zero of=small/fill bs=4k status=none 2>/dev/null
  "$hilo" index small --quiet >/dev/null 2>err
  status=$?
  [ $status = 5 ] && grep -Eq "full|No space" err || fail "a full disk: status $status: $(cat err)"
  found small --no-update --file=module_0003 --op=abs 1
  rm small/fill
  found small --op=cosine 50
  umount small
else
  echo "not tried: a full disk (mounting one is not allowed)"
fi
echo "dump_index: kept"
