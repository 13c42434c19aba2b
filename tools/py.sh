#!/bin/sh
# Runs a Python test in the environment of `make venv`, or skips it (77), saying so.
python=${HILO_PYTHON:-build/venv/bin/python}
if ! "$python" -c 'import jaxlib' 2>/dev/null; then
  echo "skipped: no Python with jax here; make venv"
  exit 77
fi
export JAX_PLATFORMS=cpu PYTHONDONTWRITEBYTECODE=1
exec "$python" "$@"
