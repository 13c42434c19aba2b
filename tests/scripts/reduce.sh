#!/bin/bash
# What 'hilo reduce' promises of a module of 5,000 instructions: a planted failure, a test that crashes, one that fails three
# times of ten, each under ten instructions within five minutes; tests that hang and eat memory end at their limits; an
# interruption leaves the best so far, and a later call goes on with it; the number of jobs changes nothing.
hilo=$(realpath "${HILO:-build/hilo}")
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
fail() { echo "$1" >&2; exit 1; }

awk -v n=5000 'BEGIN {
  srand(7); shape = "f32[16,16]"
  print "HloModule big\n\nplus {\n  pa = f32[] parameter(0)\n  pb = f32[] parameter(1)\n  ROOT ps = f32[] add(pa, pb)\n}\n\nENTRY main {"
  for (k = 0; k < 8; k++) { v[k] = "in" k; print "  in" k " = " shape " parameter(" k ")" }
  print "  zero = f32[] constant(0)"
  at = 8
  for (k = 0; k < n; k++) {
    low = at > 40 ? at - 40 : 0
    a = v[low + int(rand() * (at - low))]; b = v[low + int(rand() * (at - low))]; r = rand(); name = "v" k
    if (k == int(n / 2)) {
      print "  planted.a = " shape " cosine(" a ")"
      print "  planted.b = " shape " dot(planted.a, " b "), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
      name = "planted.c"; print "  planted.c = " shape " tanh(planted.b)"
    } else if (r < 0.3) {
      print "  h" k " = " shape " add(" a ", " b ")\n  " name " = " shape " sine(h" k ")"
    } else if (r < 0.5) print "  " name " = " shape " " (r < 0.4 ? "multiply" : "maximum") "(" a ", " b ")"
    else if (r < 0.8) print "  " name " = " shape " " (r < 0.6 ? "tanh" : r < 0.7 ? "sine" : "negate") "(" a ")"
    else if (r < 0.9) {
      print "  d" k " = " shape " dot(" a ", " b "), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
      print "  " name " = " shape " tanh(d" k ")"
    } else {
      print "  r" k " = f32[16] reduce(" a ", zero), dimensions={1}, to_apply=plus"
      print "  b" k " = " shape " broadcast(r" k "), dimensions={0}\n  " name " = " shape " tanh(b" k ")"
    }
    v[at++] = name
  }
  types = shape; values = "planted.c"
  for (k = 100; k < at; k += 250) { types = types ", " shape; values = values ", " v[k] }
  print "  ROOT out = (" types ") tuple(" values ")\n}"
}' > big.hlo
n=$("$hilo" check big.hlo | sed 's/.* \([0-9]*\) instructions.*/\1/')
[ "$n" -ge 5000 ] || fail "the module has $n instructions"

has='grep -q "cosine(" "$1" && grep -q "dot(" "$1"'
printf '#!/bin/sh\n%s && exit 1\nexit 0\n' "$has" > planted.sh
printf '#!/bin/sh\n%s && kill -SEGV $$\nexit 0\n' "$has" > crash.sh
printf '#!/bin/bash\n%s && [ $((RANDOM %% 10)) -lt 3 ] && exit 1\nexit 0\n' "$has" > flaky.sh
printf '#!/bin/sh\n%s && sleep 600\nexit 0\n' "$has" > hang.sh
chmod +x ./*.sh
lines() { grep -c ' = ' "$1"; }  # instructions, and not the header

# try NAME LEAST-SECONDS OPTIONS...: reduces big.hlo into NAME.hlo
try() {
  local name=$1; shift
  local start=$SECONDS
  "$hilo" reduce big.hlo -o "$name.hlo" "$@" > "$name.log" 2>&1 || fail "$name: $(tail -n 3 "$name.log")"
  "$hilo" check -q "$name.hlo" || fail "$name: not valid"
  [ "$(lines "$name.hlo")" -lt 10 ] || fail "$name: $(lines "$name.hlo") instructions are left"
  [ $((SECONDS - start)) -lt 300 ] || fail "$name: $((SECONDS - start)) s"
  grep -q "still bad" "$name.log" || fail "$name: not verified: $(tail -n 1 "$name.log")"
  echo "$(tail -n 1 "$name.log")"
}
try planted --jobs=1 -- ./planted.sh
try again --jobs=4 -- ./planted.sh
cmp planted.hlo again.hlo || fail "the result depends on the number of jobs"
try crash --crash -- ./crash.sh
try flaky --runs=20 -- ./flaky.sh
for k in 1 2 3; do ./planted.sh crash.hlo && fail "crash.hlo is not bad"; done
./planted.sh flaky.hlo && fail "flaky.hlo is not bad"

# A hang that is none of the failure's ends at the limit and counts as no failure; one that is, is found.
printf '#!/bin/sh\ngrep -q "cosine(" "$1" || sleep 600\nexit 1\n' > stuck.sh; chmod +x stuck.sh
"$hilo" reduce planted.hlo -o stuck.hlo --time-limit=3 -- ./stuck.sh > stuck.log 2>&1 || fail "stuck: $(cat stuck.log)"
grep -q 'cosine(' stuck.hlo || fail "a candidate that hangs was taken"
"$hilo" reduce planted.hlo -o hang.hlo --hang --time-limit=3 -- ./hang.sh > hang.log 2>&1 || fail "hang: $(cat hang.log)"
./planted.sh hang.hlo && fail "hang.hlo does not hang"

# What eats memory ends there.
if command -v python3 > /dev/null; then
  printf '#!/bin/sh\ngrep -q "dot(" "$1" || exec python3 -c "import time; x = bytearray(1 << 30); x[::4096] = b\\"1\\" * len(x[::4096]); time.sleep(60)"\nexit 1\n' > eats.sh
  chmod +x eats.sh
  start=$SECONDS
  "$hilo" reduce planted.hlo -o eats.hlo --memory-limit=300 --time-limit=50 -- ./eats.sh > eats.log 2>&1 || fail "eats: $(cat eats.log)"
  grep -q 'dot(' eats.hlo || fail "a candidate that ate too much was taken"
fi

# Interrupted: the best is in its file, nothing is left behind, and a later call goes on.
printf '#!/bin/sh\nsleep 0.3\nexec ./planted.sh "$1"\n' > slow.sh; chmod +x slow.sh
mkdir tmp
TMPDIR=$dir/tmp "$hilo" reduce big.hlo -o part.hlo --jobs=1 -- ./slow.sh > part.log 2>&1 &
pid=$!
for k in $(seq 200); do [ -s part.log ] && [ "$(wc -l < part.log)" -ge 3 ] && break; sleep 0.1; done
kill -TERM $pid
wait $pid
[ $? = 7 ] || fail "interrupted: status $?"
grep -q "the best so far" part.log || fail "interrupted: $(cat part.log)"
./planted.sh part.hlo && fail "what an interruption left is not bad"
[ "$(lines part.hlo)" -lt "$n" ] || fail "an interruption lost what was found"
[ -z "$(ls tmp)" ] || fail "left behind: $(ls tmp)"
"$hilo" reduce big.hlo --resume -o part.hlo -- ./planted.sh > resumed.log 2>&1 || fail "resumed: $(cat resumed.log)"
[ "$(lines part.hlo)" -lt 10 ] || fail "resumed: $(lines part.hlo) instructions are left"
grep -q "instructions of $n" resumed.log && fail "resumed from the beginning"

# Numbers that the test looks at go with the module: what the interpreter and the passes disagree about.
"$hilo" reduce big.hlo -o pass.hlo --passes=algsimp --break-rule=B7 --check-each > pass.log 2>&1 || fail "pass: $(cat pass.log)"
[ "$(lines pass.hlo)" -lt 10 ] || fail "pass: $(lines pass.hlo) instructions are left"
"$hilo" opt pass.hlo --passes=algsimp --break-rule=B7 --check-each --args pass.npz > pass.opt 2>&1
[ $? = 1 ] || fail "pass.hlo with pass.npz shows nothing: $(cat pass.opt)"
tail -n 1 pass.log
"$hilo" reduce big.hlo -o cpu.hlo --mismatch=cpu --tolerance=0 > cpu.log 2>&1
status=$?
[ $status = 0 ] || { [ $status = 1 ] && grep -q "is not bad" cpu.log; } || fail "cpu: $(cat cpu.log)"
echo "reduce: done"
