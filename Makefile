# A thin front for meson: one screen. `make help` lists the targets.
BUILD ?= build
PYTHON ?= python3
T ?=
PEER ?=
ORACLE ?=
ROUNDS ?= 1
# Where tools/setup puts meson and ninja if the system has none.
export PATH := $(CURDIR)/build-tools/bin:$(PATH)

all: $(BUILD)/build.ninja           ## build the library, the extension, the examples
	@sh tools/refresh $(BUILD)
	@ninja -C $(BUILD)
	@$(LINK)
	@$(LACKS)

# What an engine that was not found costs, in one line at the end.
LACKS = $(BUILD)/print lacks
LINK = if ls $(BUILD)/python/_C.*.so >/dev/null 2>&1; then sh tools/devlink $(BUILD); else echo "this build is without: Python (3.10 or newer, with python3-dev)"; fi

$(BUILD)/build.ninja:
	@sh tools/setup
	@CC="$$(command -v ccache >/dev/null && echo 'ccache gcc' || echo gcc)" meson setup $(BUILD) $(OPTIONS)

demo: $(BUILD)/build.ninja          ## train on handwritten digits, write weights and a picture
	@sh tools/refresh $(BUILD)
	@ninja -C $(BUILD) examples/demo
	@$(LACKS)
	@$(BUILD)/examples/demo

test: all                           ## run all tests, or those whose name contains T
	@$(PYTHON) tests/run.py --build $(BUILD) $(T)

san:                                ## the tests under sanitizers; those in C again with allocations that fail
	@$(MAKE) --no-print-directory build-san/build.ninja BUILD=build-san \
	    OPTIONS="-Db_sanitize=address,undefined -Db_lundef=false -Doptimization=1 -Ddebug=true -Disa=3"
	@sh tools/refresh build-san
	@ninja -C build-san
	@$(PYTHON) tests/run.py --build build-san --sanitized $(T)

parity: all                         ## compare with PyTorch, operation by operation: ORACLE=folder of opinfo.py, T=names
	@$(PYTHON) tests/parity/run.py --oracle "$(ORACLE)" $(if $(PEER),--python $(PEER)) $(T)

parity-san:                         ## the same under the sanitizers, whose reports fail it
	@$(MAKE) --no-print-directory build-parity/build.ninja BUILD=build-parity \
	    OPTIONS="-Db_sanitize=address,undefined -Db_lundef=false -Doptimization=1 -Ddebug=true -Disa=3"
	@sh tools/refresh build-parity
	@ninja -C build-parity
	@sh tools/devlink build-parity build-parity/package
	@$(PYTHON) tests/parity/run.py --oracle "$(ORACLE)" $(if $(PEER),--python $(PEER)) --package build-parity/package \
	    --sanitized build-parity/reports $(T)

mutate:                             ## change the library in many places, one at a time: do the tests notice? T=names
	@$(PYTHON) tests/mutate $(T)

SECONDS ?= 60
SEED ?= 1
fuzz: all fuzz-operations           ## run each fuzz target of tests/fuzz, or those named by T, for SECONDS (needs clang)
	@CC="$$(command -v ccache >/dev/null && echo 'ccache clang' || echo clang)" meson setup build-fuzz -Dfuzz=true -Dpython=disabled -Disa=3 \
	    -Db_sanitize=address,undefined -Db_lundef=false -Doptimization=1 -Ddebug=true $$([ -f build-fuzz/build.ninja ] && echo --reconfigure) >/dev/null
	@ninja -C build-fuzz $(patsubst tests/fuzz/%.c,tests/fuzz_%,$(wildcard tests/fuzz/*.c))
	@$(PYTHON) tests/fuzz/run.py --seconds $(SECONDS) --python "$$($(PYTHON) tests/run.py --build $(BUILD) --environment)" $(T)

fuzz-operations:                    ## call every operation with arguments drawn from its schema, under the sanitizers, for SECONDS
	@$(MAKE) --no-print-directory build-san/build.ninja BUILD=build-san \
	    OPTIONS="-Db_sanitize=address,undefined -Db_lundef=false -Doptimization=1 -Ddebug=true -Disa=3"
	@sh tools/refresh build-san
	@ninja -C build-san
	@sh tools/devlink build-san build-san/package
	@$(PYTHON) tests/fuzz/operations.py --package build-san/package --seconds $(SECONDS) --seed $(SEED)

tsan:                               ## eight threads that train, load and save, under the thread sanitizer
	@$(MAKE) --no-print-directory build-tsan/build.ninja BUILD=build-tsan \
	    OPTIONS="-Db_sanitize=thread -Db_lundef=false -Doptimization=1 -Ddebug=true -Disa=3 -Dpython=disabled"
	@sh tools/refresh build-tsan
	@ninja -C build-tsan tests/test_threads
	@TSAN_OPTIONS=halt_on_error=1 OMP_NUM_THREADS=1 build-tsan/tests/test_threads # one thread each: the runtime of OpenMP says nothing to the sanitizer

bench: all                          ## time it all, beside PyTorch with PEER=a-python-that-has-it
	@ninja -C $(BUILD) bench/calls >/dev/null
	@$(BUILD)/bench/calls
	@ninja -C $(BUILD) bench/engines >/dev/null 2>&1 && $(BUILD)/bench/engines || echo "built without oneDNN, so nothing to put products beside"
	@$(PYTHON) bench/ratios.py $(if $(PEER),--peer $(PEER)) --rounds $(ROUNDS) calls kernels breadth training inference around memory -- $(T)

docs: all                           ## make the documents as a site, in BUILD/site
	@$(PYTHON) tools/site $(BUILD) $(BUILD)/site
	@echo "$(BUILD)/site/index.html"

fmt:                                ## tabs and blanks of the C files as they should be
	@python3 tests/style.py --write

install: all                        ## install library, archive, headers, files for pkg-config and CMake, manual page; PREFIX=folder
	@$(if $(PREFIX),meson configure $(BUILD) --prefix="$(abspath $(PREFIX))" && ninja -C $(BUILD) >/dev/null)
	@meson install -C $(BUILD) --quiet
	@ldconfig 2>/dev/null || true       # of root; others' programs find the library by the path that pkg-config and CMake put in

wheel:                              ## a wheel that carries what it needs, in dist/
	@sh tools/wheel

cuda:                               ## compile the kernels of CUDA devices with nvcc, for sm_75 to sm_120
	@$(MAKE) --no-print-directory $(BUILD)/build.ninja
	@ninja -C $(BUILD) cuda

cuda-wheel: cuda                    ## a wheel rushlight-cuda with CUDA devices for the package of the wheel, in dist/
	@ninja -C $(BUILD) librushlight_cuda.so
	@$(PYTHON) tools/cuda_wheel $(BUILD)

gpu: all cuda                       ## tests and figures on a GPU of NVIDIA's; PEER=a Python that has PyTorch, to compare with
	@$(PYTHON) tests/run.py --build $(BUILD) real
	@$(PYTHON) bench/ratios.py --device cuda $(if $(PEER),--peer $(PEER)) calls kernels training

clean:
	@rm -rf build build-bare build-tools build-san build-tsan build-fuzz build-parity build-pip build-pip-venv

help:
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile

.PHONY: all demo wheel test san fuzz fuzz-operations tsan parity parity-san mutate bench docs cuda cuda-wheel gpu fmt install clean help
