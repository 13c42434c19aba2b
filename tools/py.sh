#!/bin/sh
# Runs a Python test in the environment of `make venv`, or skips it (77), saying so. HILO_NEWEST_PYTHON is that of
# `make venv-newest`, and unset where that could not be made: then the tests say what they could not ask.
python=${HILO_PYTHON:-build/venv/bin/python}
if ! "$python" -c 'import jaxlib' 2>/dev/null; then
  echo "skipped: no Python with jax here; make venv"
  exit 77
fi
"$HILO_NEWEST_PYTHON" -c 'import jaxlib' 2>/dev/null || unset HILO_NEWEST_PYTHON
export JAX_PLATFORMS=cpu PYTHONDONTWRITEBYTECODE=1
exec "$python" "$@"
