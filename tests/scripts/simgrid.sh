#!/bin/bash
# hilo sim --net=simgrid: where SimGrid is installed what --net=messages says, of one exchange and of a program; where it is not, what to do.
cd "$(dirname "$0")/../.." || exit 2
hilo=${HILO:-build/hilo}
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
bad=0
cat > "$tmp/step.hlo" <<'END'
HloModule step, is_scheduled=true, replica_count=8

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

ENTRY main {
  x = f32[512,512] parameter(0)
  y = f32[512,512] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  s = f32[512,512] all-reduce-start(y), replica_groups={{0,1,2,3},{4,5,6,7}}, to_apply=add
  d = f32[512,512] all-reduce-done(s)
  p = f32[512,512] collective-permute(d), source_target_pairs={{0,1},{1,2},{2,3},{5,0}}
  ROOT g = f32[4096,512] all-gather(p), replica_groups={}, dimensions={0}
}
END
# Where it is missing, or another library.
HILO_SIMGRID=$tmp/nothing.so "$hilo" sim --system=h100 --net=simgrid "$tmp/step.hlo" > "$tmp/out" 2> "$tmp/err"
[ $? = 4 ] && grep -q 'apt-get install libsimgrid' "$tmp/err" || { echo "a missing library:"; cat "$tmp/err"; bad=1; }
HILO_SIMGRID=libz.so.1 "$hilo" sim --system=h100 --net=simgrid "$tmp/step.hlo" > "$tmp/out" 2> "$tmp/err"
[ $? = 4 ] && grep -q 'has no simgrid_init' "$tmp/err" || { echo "another library:"; cat "$tmp/err"; bad=1; }
"$hilo" sim --system=h100 --net=simgrid "$tmp/step.hlo" > /dev/null 2> "$tmp/err"
if [ $? = 4 ] && grep -q 'not installed' "$tmp/err"; then
  echo "skipped: SimGrid is not installed (libsimgrid-dev)"
  [ $bad = 0 ] && exit 77
  exit 1
fi
for net in messages simgrid; do
  "$hilo" sim --system=h100 --net=$net --json "$tmp/step.hlo" > "$tmp/$net.json" || bad=1
done
cmp "$tmp/messages.json" "$tmp/simgrid.json" || bad=1
"$hilo" sim --system=h100 --devices=24 --exchange=all-reduce --messages --net=simgrid --json > "$tmp/exchange.json" || bad=1
# Its files are gone, and what it cannot hold is said.
TMPDIR=$tmp/none "$hilo" sim --system=h100 --net=simgrid "$tmp/step.hlo" > /dev/null 2> "$tmp/err"
[ $? = 5 ] && grep -q "cannot write $tmp/none/" "$tmp/err" || { echo "no folder for its files:"; cat "$tmp/err"; bad=1; }
mkdir "$tmp/files"
TMPDIR=$tmp/files "$hilo" sim --system=h100 --net=simgrid "$tmp/step.hlo" > /dev/null || bad=1
rmdir "$tmp/files" || bad=1
"$hilo" sim --system=tpu-v5p-pod --exchange=barrier --net=simgrid > /dev/null 2> "$tmp/err"
[ $? = 6 ] && grep -q '4096' "$tmp/err" || { echo "too many devices:"; cat "$tmp/err"; bad=1; }
python3 - "$tmp" <<'END' || bad=1
import json, sys
rows = json.load(open(f"{sys.argv[1]}/exchange.json"))[0]["algorithms"]
assert len(rows) > 5 and all(abs(r["simgrid_seconds"] - r["message_seconds"]) <= 1e-9 * r["message_seconds"] for r in rows), rows
run = json.load(open(f"{sys.argv[1]}/simgrid.json"))[0]
assert len(run["exchanges"]) == 3 and all(e["seconds"] > 0 for e in run["exchanges"]), run["exchanges"]
END
exit $bad
