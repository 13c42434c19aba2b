#!/bin/bash
# A data set of programs: the same again from what came out, going on after a kill, changed inputs, a full disk, many files.
hilo=$(realpath "${HILO:-build/hilo}")
work=$(mktemp -d) || exit 2
trap 'umount "$work/small" 2>/dev/null; rm -rf "$work"' EXIT
fail() { echo "$1" >&2; exit 1; }
cd "$work" || exit 2
command -v python3 >/dev/null || { echo "skipped: python3 is not installed"; exit 77; }

# Of every three files the third is the first under other names and with other metadata.
cat > make.py <<'PY'
import os, sys
folder, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for k in range(first, last):
    graph = k - 2 if k % 3 == 2 else k
    text = f"""HloModule jit_f.{k}

ENTRY main.{k} {{
  x.{k} = f32[{graph + 1}] parameter(0), metadata={{op_name="f{k}/x"}}
  y.{k} = f32[{graph + 1}] negate(x.{k}), metadata={{op_name="f{k}/neg" source_file="f{k}.py" source_line={k}}}
  ROOT z.{k} = f32[{graph + 1}] add(x.{k}, y.{k})
}}
"""
    path = f"{folder}/{k // 1000:03}"
    os.makedirs(path, exist_ok=True)
    with open(f"{path}/m{k:06}.txt", "w") as f:
        f.write(text)
PY
same() {  # two folders hold the same texts
  diff -r --exclude=hilo-clean.jsonl "$1" "$2" >differences || fail "$1 and $2 differ: $(head -n 5 differences)"
}

N=3000
python3 make.py in 0 $N
echo "HloModule broken" > in/broken.hlo
echo "hello" > in/notes.txt
"$hilo" clean in -o whole >report 2>errors
[ $? = 3 ] || fail "a file that cannot be read: status $?"
grep -q "in/broken.hlo: error:" errors || fail "the file that cannot be read was not named"
grep -q "^$N modules in $((N + 2)) files: $((N * 2 / 3)) kept, $((N / 3)) duplicates; 1 file without a program; 1 not read" report ||
  fail "the counts: $(tail -n 2 report)"
python3 - whole/hilo-clean.jsonl <<'PY' || fail "the report names the wrong files"
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])][1:]
for row in rows:
    if row["state"] != "duplicate":
        continue
    k = int(row["file"].split("/m")[1][:6])
    assert k % 3 == 2 and row["of"] == f"in/{(k - 2) // 1000:03}/m{k - 2:06}.txt", row
assert sum(row["state"] == "duplicate" for row in rows) == len(rows) // 3, len(rows)
PY
grep -rlq "metadata\|jit_f\|f1.py" whole --include=*.hlo && fail "metadata or names were left"

# --- What came out gives itself; twice does nothing.
"$hilo" clean whole -o again -q || fail "again: $?"
same whole again
"$hilo" clean in -o whole >report 2>/dev/null
grep -q "$((N + 2)) done earlier" report || fail "twice: $(tail -n 2 report)"

# --- Killed at any time, it goes on to the same.
for delay in 0.02 0.05 0.1 0.1 0.2; do
  "$hilo" clean in -o killed -q 2>/dev/null & victim=$!
  sleep $delay
  kill -9 $victim 2>/dev/null
  wait $victim 2>/dev/null
done
printf '{"file": "in/000/m0000' >> killed/hilo-clean.jsonl  # what a crash of the system may leave
: > killed/000/m000000.hlo.1-0.tmp
"$hilo" clean in -o killed -q 2>/dev/null
[ $? = 3 ] || fail "after kills: status $?"
same whole killed
[ "$(grep -c . killed/hilo-clean.jsonl)" = "$(grep -c . whole/hilo-clean.jsonl)" ] || fail "lines of the report after kills"

# --- A kept file that changes, a text that is gone: what hung on them is done again.
sed -i 's/negate/abs/' in/000/m000003.txt
rm killed/000/m000006.hlo
"$hilo" clean in -o killed -q 2>/dev/null
cp -r in in2 && mv in in1 && mv in2 in
rm -rf fresh && "$hilo" clean in -o fresh -q 2>/dev/null
[ "$(cat $(find killed -name '*.hlo') | sort | md5sum)" = "$(cat $(find fresh -name '*.hlo') | sort | md5sum)" ] ||
  fail "after changes other texts are there than from the start"

# --- Two at a time in one folder: one says so. Other options in one folder: an error.
"$hilo" clean in -o busy -q 2>/dev/null & one=$!
sleep 0.02
"$hilo" clean in -o busy -q 2>err
status=$?
wait $one
[ $status = 5 ] && grep -q "another process" err || [ $status = 3 ] || fail "two at a time: $status $(cat err)"
"$hilo" clean in -o busy --keep-names -q 2>err
[ $? = 3 ] && grep -q "other options" err || fail "other options: $(cat err)"

# --- The folder inside of what is read; files of one name from two places; several modules in a file.
mkdir mixed mixed/a && cp in/000/m000001.txt mixed/ && cat in/000/m000004.txt in/000/m000007.txt > mixed/a/two.txt
cp in/000/m000010.txt mixed/a/m000001.txt
"$hilo" clean mixed mixed/a/m000001.txt -o mixed/out -q || fail "a folder inside: $?"
"$hilo" clean mixed mixed/a/m000001.txt -o mixed/out -q || fail "a folder inside, again: $?"
[ "$(cd mixed/out && find . -name '*.hlo' | sort | tr '\n' ' ')" = "./a/m000001.hlo ./a/two.0.hlo ./a/two.1.hlo ./m000001.hlo " ] ||
  fail "names: $(cd mixed/out && find . -name '*.hlo' | sort | tr '\n' ' ')"

# --- A full disk ends it; with room again it goes on to the same.
mkdir small
if mount -t tmpfs -o size=1m none small 2>/dev/null; then
  "$hilo" clean in -o small/out -q 2>err
  [ $? = 5 ] && grep -q "No space" err || fail "a full disk: $(cat err)"
  for f in $(find small/out -name '*.hlo' | head -n 50); do
    "$hilo" check -q "$f" || fail "a full disk left half of $f"
  done
  mount -o remount,size=64m small
  "$hilo" clean in -o small/out -q 2>/dev/null
  [ $? = 3 ] || fail "after a full disk: $?"
  same fresh small/out
  umount small
else
  echo "not tried: a full disk (mounting one is not allowed)"
fi

# --- Memory does not grow with what is read: ten times as many files take about as much.
peak() { python3 -c 'import resource, subprocess, sys; subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)' "$@"; }
if ! nm "$hilo" 2>/dev/null | grep -q __asan_init; then
  python3 make.py few 0 2000 && python3 make.py more 0 20000
  small_peak=$(peak "$hilo" clean few -o few.out) large_peak=$(peak "$hilo" clean more -o more.out)
  [ $((large_peak - small_peak)) -lt 20000 ] || fail "2,000 files take $small_peak KiB, 20,000 $large_peak"
fi
echo "clean: kept"
