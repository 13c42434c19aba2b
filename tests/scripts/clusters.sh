#!/bin/bash
# The pmap step of RoBERTa, from JAX's dump for 8 devices, on clusters of 8, 32 and 4,096: the same computing, more and more of it exposed.
cd "$(dirname "$0")/../.." || exit 2
hilo=${HILO:-build/hilo}
dump=${HILO_CORPUS:-../shared/corpus}/roberta/8_devices/module_0213.pmap_train_step.cpu_after_optimizations.txt
[ -f "$dump" ] || { echo "skipped: no $dump"; exit 77; }
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
bad=0
for n in 8 32 4096; do
  "$hilo" sim --system=tpu-v4-pod --devices=$n --page="$tmp/$n.html" --timeline="$tmp/$n.pftrace" --json "$dump" > "$tmp/$n.json" || bad=1
done
"$hilo" sim --system=tpu-v4-pod --chakra="$tmp/step" "$dump" > /dev/null || bad=1
"$hilo" sim --system=tpu-v4-pod --json "$tmp/step.0.et" > "$tmp/again.json" || bad=1
python3 - "$tmp" <<'END' || bad=1
import json, os, sys
folder = sys.argv[1]
runs = {n: json.load(open(f"{folder}/{n}.json"))[0] for n in (8, 32, 4096)}
assert all(run["classes"] == 1 and run["devices"] == n for n, run in runs.items()), runs
assert runs[8]["computing"] == runs[32]["computing"] == runs[4096]["computing"] > 0
assert 0 < runs[8]["exposed"] < runs[32]["exposed"] < runs[4096]["exposed"]
assert len(runs[8]["lines"]) > 1 and runs[8]["lines"][0]["file"].endswith("roberta_step.py")
assert abs(sum(e["exposed"] for e in runs[8]["exchanges"]) + runs[8]["computing"] - runs[8]["seconds"]) < 1e-9
again = json.load(open(f"{folder}/again.json"))[0]
assert abs(again["seconds"] / runs[8]["seconds"] - 1) < 1e-9, (again["seconds"], runs[8]["seconds"])
for n in runs:
    assert os.path.getsize(f"{folder}/{n}.pftrace") > 10000 and "</html>" in open(f"{folder}/{n}.html").read()
print("clusters:", ", ".join(f"{n} devices {1e3 * run['seconds']:.2f} ms" for n, run in runs.items()))
END
# The page, in a browser where there is one.
browser=$(command -v chromium || command -v chromium-browser)
if [ -n "$browser" ]; then
  timeout 60 "$browser" --headless --no-sandbox --disable-gpu --virtual-time-budget=3000 --dump-dom "file://$tmp/8.html" 2> /dev/null > "$tmp/dom"
  for what in 'data-ready="yes"' Timeline Exchanges 'By source line' 'What if' 'all-reduce'; do
    grep -q "$what" "$tmp/dom" || { echo "the page lacks $what"; bad=1; }
  done
else
  echo "no Chromium: the page is not opened"
fi
exit $bad
