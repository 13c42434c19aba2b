#!/bin/bash
# What one can see of a program for the processor: a profile, machine code, what perf and GDB are told.
hilo=${HILO:-build/hilo}
fail() { echo "$1" >&2; exit 1; }
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
cat > "$here/p.hlo" <<'END'
HloModule p
goes {
  s = (s32[], f32[30,700]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(1100)
  ROOT r = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[30,700]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[30,700] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  k = f32[] constant(0.5)
  h = f32[30,700] broadcast(k), dimensions={}
  m = f32[30,700] multiply(x, h), metadata={op_name="jit(f)/mul" source_file="/src/model.py" source_line=12}
  a = f32[30,700] add(m, h), metadata={op_name="jit(f)/add" source_file="/src/model.py" source_line=12}
  ROOT t = (s32[], f32[30,700]) tuple(j, a)
}
ENTRY main {
  z = s32[] constant(0)
  x = f32[30,700] parameter(0)
  t = (s32[], f32[30,700]) tuple(z, x)
  w = (s32[], f32[30,700]) while(t), condition=goes, body=body
  y = f32[30,700] get-tuple-element(w), index=1
  ROOT e = f32[30,700] exponential(y)
}
END
cd "$here" || exit 1
[[ $hilo = /* ]] || hilo=$OLDPWD/$hilo
args=(--no-compare --reference=none --platform=cpu)

# A profile: events in order, a loop's runs up to the limit, the rest summed and said.
note=$("$hilo" run p.hlo "${args[@]}" --threads=2 --profile t.json --stats 2>&1) || fail "$note"
grep -q "peaks .* GFLOP/s" <<< "$note" || fail "no peaks: $note"
if command -v python3 > /dev/null; then
  python3 - "$note" <<'END' || fail "the trace is wrong"
import json
import sys
trace = json.load(open("t.json"))
facts, bars = trace["otherData"], [e for e in trace["traceEvents"] if e["ph"] == "X"]
assert facts["peak_f32_flops"] > 1e8 and facts["peak_bytes"] > 1e7, facts
assert facts["threads"] == 2 and facts["most_events_of_a_step"] == 1000 and facts["events_lost"] == 0
lanes = {e["tid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"}
runs = [b for b in bars if b["name"] == "run"]
assert len(runs) == 1
steps, last = {}, 0
for b in bars:
    if b["tid"] != runs[0]["tid"] or b["name"] == "run":
        assert b["tid"] in lanes, b
        continue
    assert b["ts"] >= last and b["ts"] + b["dur"] <= runs[0]["ts"] + runs[0]["dur"] + 1, b
    last = b["ts"]
    assert {"step", "op", "flops", "bytes", "of_peak_flops", "of_peak_bytes"} <= b["args"].keys()
    steps.setdefault(b["args"]["step"], []).append(b)
assert max(map(len, steps.values())) <= 1000
assert any(b.get("args", {}).get("source") == "/src/model.py:12" and b["args"]["op_name"] in ("jit(f)/add", "jit(f)/mul")
           for b in bars), "no step knows its source"
summed = [b for b in bars if "runs" in b["args"]]  # the loop turns 1100 times
assert facts["runs_summed"] == sum(b["args"]["runs"] for b in summed) >= 100, facts
assert all(lanes[b["tid"]] == "further runs of steps, summed" and b["dur"] > 0 for b in summed)
assert "stand there summed" in sys.argv[1]
print(f"{len(bars)} bars of {len(steps)} steps")
END
fi
"$hilo" run p.hlo --platform=reference --profile t.json > /dev/null 2>&1 && fail "a profile of the reference platform"

# Machine code.
"$hilo" opt p.hlo --emit=tile | grep -q "multiply v" || fail "no tile program"
if ! grep -q avx2 /proc/cpuinfo; then
  echo "skipped: machine code, perf and GDB: this machine has no AVX2"
  exit 77
fi
"$hilo" opt p.hlo --emit=tile | grep -q "vmulps" && fail "--emit=tile shows machine code"
code=$("$hilo" opt p.hlo --emit=asm)
for word in "segment" "vmulps [yz]mm" "vaddps [yz]mm" "vzeroupper" " ret$" "%.* = f32\[30,700\]"; do
  grep -qE "$word" <<< "$code" || fail "--emit=asm has no $word: $code"
done

# perf: what the map names is where code was.
for ask in option variable; do
  if [ $ask = option ]; then "$hilo" run p.hlo "${args[@]}" --perf-map > /dev/null & else
    HILO_PERF_MAP=1 "$hilo" run p.hlo "${args[@]}" > /dev/null &
  fi
  pid=$!
  wait $pid || fail "--perf-map: the run failed"
  map=/tmp/perf-$pid.map
  grep -qE "^[0-9a-f]+ [0-9a-f]+ hilo:.* model.py:12$" "$map" || fail "$map does not name the kernel"
  rm -f "$map"
done

# GDB: it knows the symbol while the program runs.
command -v gdb > /dev/null || { echo "skipped: GDB is not installed"; exit 77; }
gdb -q -batch -nx -ex 'set debuginfod enabled off' -ex 'set breakpoint pending on' -ex 'break cpu_frame_give' \
  -ex run -ex 'info functions hilo:' --args "$hilo" run p.hlo "${args[@]}" --gdb > gdb.txt 2>&1
if grep -qE "ptrace|Could not trace|not being run" gdb.txt; then
  echo "skipped: GDB may not run a program here"
  exit 77
fi
grep -q "hilo:.* model.py:12" gdb.txt || fail "GDB does not know the kernel: $(tail -20 gdb.txt)"
echo "cpu_seeing: a profile, machine code, perf and GDB"
