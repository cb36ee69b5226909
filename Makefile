# SPDX-License-Identifier: BSD-3-Clause
# Shortcuts; meson does the build. BUILD=DIR builds in another folder, FUZZ_SECONDS=N fuzzes longer.
# make test ONLY="e2e-ops interop-*" REPEAT=20 runs these test programs 20 times and says how often each failed.
BUILD ?= build
FUZZ_SECONDS ?= 30
REPEAT ?= 1
ONLY ?=

.PHONY: all deps build programs pgo demo test test-asan test-apps conformance bench bench-rivals fuzz deb dist format lint clean
all: build

deps:
	@scripts/deps.sh build

build: deps
	@test -f $(BUILD)/build.ninja || meson setup $(BUILD)
	@ninja -C $(BUILD)

# Only rnicd, rnicrun, rnicctl and the libraries: for CI.
programs: deps
	@test -f $(BUILD)/build.ninja || meson setup $(BUILD)
	@ninja -C $(BUILD) programs

# All that is installed, in the folder $(BUILD)-pgo: compiled twice, the second time by what a test run has executed.
pgo: deps
	@scripts/pgo.sh $(BUILD)-pgo

demo: build
	@scripts/demo.sh $(BUILD)

test:
	@scripts/deps.sh build test deb lint
	@scripts/deps.sh siw || echo "make: the tests against Linux siw will be skipped"
	@test/run --repeat $(REPEAT) --only "$(ONLY)"

# The end-to-end tests once more, with rnicd under AddressSanitizer and UndefinedBehaviorSanitizer.
test-asan:
	@scripts/deps.sh build test
	@test/run --repeat $(REPEAT) --only "$(ONLY)" asan

# Large programs of Debian, unmodified, with verified data: QEMU's migration, Ceph, MPI, and servers over sockets.
test-apps:
	@scripts/deps.sh build test apps
	@test/run --repeat $(REPEAT) apps

conformance: build
	@scripts/deps.sh siw || echo "make: Linux siw will not be tested"
	@RNIC_BUILD=$(abspath $(BUILD)) python3 test/conformance/datagrams.py
	@RNIC_BUILD=$(abspath $(BUILD)) python3 test/conformance/conform.py --matrix

bench: build
	@scripts/deps.sh bench
	@$(BUILD)/test/bench/bench_limits
	@python3 test/bench/bench.py --build $(BUILD)

# Linux siw and rxe in a guest, for the report of make bench. Takes some minutes.
bench-rivals: build
	@scripts/deps.sh bench siw
	@python3 test/bench/siw.py --build $(BUILD)
	@test ! -e $(BUILD)/bench/results.json || python3 test/bench/bench.py --build $(BUILD) --redraw

# Formats the C sources by .clang-format.
format:
	@scripts/deps.sh lint
	@find lib app examples test -name '*.[ch]' | xargs clang-format-14 -i

# Finds mistakes that compilers do not find: in sources, scripts, spelling, man pages, units and packages.
lint: build
	@scripts/deps.sh build lint deb
	@scripts/lint.sh $(BUILD)

fuzz:
	@scripts/deps.sh build fuzz
	@test/fuzz/run $(FUZZ_SECONDS)

deb:
	@scripts/deps.sh build deb
	@scripts/deb.sh $(BUILD)/deb

# A release: the sources, a list of the packages that the programs need at run time (SPDX), and checksums.
dist: build
	@scripts/deps.sh deb
	@scripts/dist.sh $(BUILD) $(BUILD)/dist

clean:
	rm -rf $(BUILD) $(BUILD)-pgo build build-sanitize build-clang build-fuzz
