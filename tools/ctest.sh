#!/bin/bash
# Runs CTest and says what was skipped and why: ctest.sh BUILD [CTEST_OPTIONS...]. Its summary stands last; its exit
# status is ours. A test that skips all it has ends with 77; one that skips a part says so in its output.
build=$1
output=$build/ctest.log
ctest --test-dir "$build" --output-on-failure "${@:2}" | tee "$output"
status=${PIPESTATUS[0]}

# CTest keeps what each test printed in a log: "N/M Testing: NAME", then the text between "Output:" and "<end of output>".
# The lines there that speak of skipping: "skipped: WHY", cmocka's "[  SKIPPED ] TEST", a tally's "..., N skipped".
whole=$(sed -n 's/^\t *[0-9]* - \(.*\) (Skipped)$/\1/p' "$output")
echo
echo "skipped, $(grep -c . <<<"$whole") tests as a whole:"
awk -v whole="$whole" '
  BEGIN { n = split(whole, names, "\n"); for (k = 1; k <= n; k++) is_whole[names[k]] = 1 }
  function say(why) { if (!((name, why) in said)) print "  " name (name in is_whole ? ": " : ", in part: ") why; said[name, why] = has_said[name] = 1 }
  /^[0-9]+\/[0-9]+ Testing: / { name = $3; inside = 0 }
  /^Output:$/ { inside = 1 }
  /^<end of output>$/ { inside = 0 }
  inside && /^skipped: / { say(substr($0, 10)) }
  inside && /^\[  SKIPPED \] / && !/test\(s\)/ { say(substr($0, 14)) }
  inside && /, [0-9]+ skipped$/ { say($0) }
  END { for (k = 1; k <= n; k++) if (!(names[k] in has_said)) print "  " names[k] ": it does not say why" }
  ' "$build"/Testing/Temporary/LastTest.log
echo
grep '% tests passed, ' "$output" | tail -n 1
exit "$status"
