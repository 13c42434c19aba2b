#!/bin/bash
# Each public header compiles on its own, and all of them together, in C11 and in C++17.
cd "$(dirname "$0")/.." || exit 2
shopt -s nullglob
bad=0 n=0
for header in include/hilo/*.h; do
  n=$((n + 1))
  echo "#include \"hilo/${header##*/}\"" |
    ${CC:-cc} -std=c11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -Iinclude -x c - || bad=1
  if command -v "${CXX:-c++}" >/dev/null; then
    echo "#include \"hilo/${header##*/}\"" |
      ${CXX:-c++} -std=c++17 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -Iinclude -x c++ - || bad=1
  fi
done
all=$(printf '#include "hilo/%s"\n' $(cd include/hilo && echo *.h))
${CC:-cc} -std=c11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -Iinclude -x c - <<<"$all" || bad=1
if command -v "${CXX:-c++}" >/dev/null; then
  ${CXX:-c++} -std=c++17 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -Iinclude -x c++ - <<<"$all" || bad=1
fi
echo "headers: $n tried$([ $bad = 0 ] && echo ", each stands alone, and all together")"
[ $bad = 0 ] && [ $n -ge 15 ]
