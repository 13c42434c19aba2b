#!/bin/sh
# Runs a test of the Python package from the source tree: run.sh oldest|pinned|newest TEST, with the Python that has that release of
# JAX (make venv-oldest, venv, venv-newest). It wants 3.9 or later, NumPy and, where the test has a line "# needs jax", JAX;
# else it is skipped (77), with a reason. A program in the place of the word is the Python.
release=$1 test=$2
case $release in
  oldest) python=${HILO_OLDEST_PYTHON:-build/venv-oldest/bin/python} ;;
  pinned) python=${HILO_PYTHON:-build/venv/bin/python} ;;
  newest) python=${HILO_NEWEST_PYTHON:-build/venv-newest/bin/python} ;;
  *) python=$release ;;
esac
needs=numpy
grep -q '^# needs jax' "$test" && needs=jaxlib
if ! "$python" -c "import sys, $needs; sys.exit(sys.version_info < (3, 9))" 2>/dev/null; then
  echo "skipped: $python is no Python of 3.9 or later with $needs (make venv, venv-oldest, venv-newest)"
  exit 77
fi
[ -n "$HILO_TEST_INSTALLED" ] || export PYTHONPATH=$PWD/python
export PYTHONDONTWRITEBYTECODE=1
unset XLA_FLAGS JAX_PLATFORMS
exec "$python" "$test"
