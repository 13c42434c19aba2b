#!/bin/bash
# tools/jax_tests.py: outcomes of tests that pass, fail, are skipped, hang or end the process, and what two runs differ in.
python=${HILO_PYTHON:-build/venv/bin/python}
"$python" -c 'import pytest' 2> /dev/null || { echo "skipped: no Python with pytest here; make venv"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/tests"
cat > "$work/tests/made_up_test.py" << 'END'
import os, time, unittest

class Made(unittest.TestCase):
    def test_passes(self): pass
    def test_fails(self): self.assertEqual(1, int(os.environ["ONE"]), "in row 17")
    def test_is_skipped(self): self.skipTest("no device")
    def test_crashes(self): os.environ["ONE"] == "1" or os.abort()
    def test_hangs(self): time.sleep(0 if os.environ["ONE"] == "1" else 600)
    def test_part_fails(self):
        for i in range(3):
            with self.subTest(i=i): self.assertNotEqual(i, int(os.environ["ONE"]))
    def test_raises(self):
        if os.environ["ONE"] == "2": raise ValueError("shape f32[3,17] of %add.5")
    def test_raises_too(self):
        if os.environ["ONE"] == "2": raise ValueError("shape f32[4,1] of %add.6")
END
run() { "$python" tools/jax_tests.py run "$work/tests" made_up_test --backend cpu "$@" > "$work/said" || exit 1; }
outcomes() {
  "$python" - "$1/made_up_test.json" << 'END'
import json, sys
result = json.load(open(sys.argv[1]))
print(result["finished"], " ".join(sorted(t.split("test_")[1] + "=" + row["outcome"] for t, row in result["tests"].items())))
END
}
same() { [ "$1" = "$2" ] || { printf 'found:    %s\nexpected: %s\n' "$1" "$2"; exit 1; }; }

run --out "$work/one" --env ONE=1
same "$(outcomes "$work/one")" \
  "True crashes=passed fails=passed hangs=passed is_skipped=skipped part_fails=failed passes=passed raises=passed raises_too=passed"
run --out "$work/two" --env ONE=2 --test-timeout 2
same "$(outcomes "$work/two")" \
  "True crashes=crashed fails=failed hangs=timeout is_skipped=skipped part_fails=failed passes=passed raises=failed raises_too=failed"

"$python" tools/jax_tests.py compare "$work/one" "$work/two" --failures --least 0.1 > "$work/compared"
same $? 1
grep -q '^made_up_test .* 6 / 1 / 1 .* 1 / 6 / 1 (1 crashed, 1 too long) .* 16.67%' "$work/compared" || { cat "$work/compared"; exit 1; }
grep -q "^## 2 x ValueError: shape fN\[N,N\] of '~'$" "$work/compared" || { cat "$work/compared"; exit 1; }

# Again: only what did not pass is run, and replaced.
run --out "$work/two" --env ONE=1 --again
same "$(outcomes "$work/two")" \
  "True crashes=passed fails=passed hangs=passed is_skipped=skipped part_fails=failed passes=passed raises=passed raises_too=passed"
"$python" tools/jax_tests.py compare "$work/one" "$work/two" --least 1 > "$work/compared"
same $? 0

# The time of a file: what did not get its turn is missing, and said to be.
run --out "$work/three" --env ONE=2 --test-timeout 60 --file-timeout 8 -k "hangs or passes"
same "$(outcomes "$work/three")" "False "
echo "7 checks of tools/jax_tests.py"
