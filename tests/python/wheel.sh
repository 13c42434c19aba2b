#!/bin/sh
# The wheel of `make wheel`, installed into an environment of its own beside the packages of build/venv: the tests of modules and of
# the plugin run with it, away from the source tree's package, and the program is there. Skipped (77) without a wheel as new as the build.
build=${HILO_BUILD:-build}
python=${HILO_PYTHON:-build/venv/bin/python}
wheel=$(ls -t "$build"/wheels/hilo-*.whl 2>/dev/null | head -n 1)
skip() { echo "skipped: $1"; exit 77; }
"$python" -c 'import jaxlib' 2>/dev/null || skip "no Python with jax here; make venv"
[ -n "$wheel" ] || skip "no wheel; make wheel"
[ "$wheel" -nt "$build/libhilo_core.so" ] || skip "the wheel is older than the build; make wheel"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
set -e
"$python" -m venv --without-pip "$folder/venv"
installed=$("$folder/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
"$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > "$installed/others.pth"
"$python" -m pip --disable-pip-version-check -q --python "$folder/venv/bin/python" install --no-deps --no-index "$wheel"
# Libraries of the system that a wheel may not count on.
foreign=$(ldd "$installed"/hilo/*.so | grep -E 'lib(protobuf-c|pcre2|jansson|zstd)' | grep -v "$folder" || true)
[ -z "$foreign" ] || { echo "the wheel takes from the system: $foreign"; exit 1; }
"$folder/venv/bin/hilo" --version
unset HILO_BUILD
export HILO_TEST_INSTALLED=1
HILO="$folder/venv/bin/hilo" tests/python/run.sh "$folder/venv/bin/python" tests/python/test_module.py
tests/python/run.sh "$folder/venv/bin/python" tests/python/test_plugin.py
