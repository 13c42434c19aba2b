#!/bin/bash
# The golden-test runner itself: it must pass what is right, fail what is wrong, and mend it with --update.
run=$HILO_BUILD/tests/run
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0
expect() {  # what the runner must end with, for the files of that name
  local last
  last=$("$run" --hilo "$HILO" --timeout 5 --filter "$2" "$work" "${@:3}" | tail -n 1)
  [ "$last" = "$1" ] || { echo "FAIL $2: '$last' instead of '$1'"; failed=1; }
}
printf '// RUN: echo a; echo; echo %%s\nHloModule x\n// OUT:\n// a\n//\n// right.hlo\n' > "$work/right.hlo"
printf '# RUN: echo a > %%t.x; cat %%t.x; echo %%t\n# OUT:\n# a\n# %%t\n' > "$work/right-hash.txt"
printf '// RUN: echo %%s:6:3: error: too big >&2; exit 3\n// ERR: 6:3: error: too\n' > "$work/bad-right.hlo"
printf '// RUN: exit 1\n// RUN: true\n// EXIT: 1\n' > "$work/right-exit.hlo"
printf '// RUN: echo a\n// OUT:\n// b\n' > "$work/wrong-out.hlo"
printf '// RUN: echo a\n' > "$work/wrong-more.hlo"
printf '// RUN: exit 1\n' > "$work/wrong-exit.hlo"
printf '// RUN: true\n' > "$work/bad-wrong-zero.hlo"
printf '// RUN: kill -9 $$\n' > "$work/bad-wrong-crash.hlo"
printf '// RUN: echo "%%s:1:1: error: x" >&2\n// ERR: 1:1: error: y\n' > "$work/wrong-err.hlo"
printf '// RUN: echo "%%s:1:1: warning: unforeseen" >&2\n' > "$work/wrong-warning.hlo"
printf 'no case at all\n' > "$work/right.md"
expect "4 passed, 0 failed" right
expect "0 passed, 7 failed" wrong
expect "5 passed, 2 failed" wrong --update  # a bad- case that does not fail stays wrong
expect "5 passed, 2 failed" wrong --jobs 2
expect "4 passed, 0 failed" right --update
exit $failed
