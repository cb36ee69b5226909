# SPDX-License-Identifier: BSD-3-Clause
# The front door; the build itself is meson's. BUILD=DIR builds elsewhere, FUZZ_SECONDS=N fuzzes longer.
# make test ONLY="e2e-ops interop-*" REPEAT=20 runs these programs so often and says which failed how often.
BUILD ?= build
FUZZ_SECONDS ?= 30
REPEAT ?= 1
ONLY ?=

.PHONY: all deps build programs demo test test-apps conformance bench bench-rivals fuzz deb dist format lint clean
all: build

deps:
	@scripts/deps.sh build

build: deps
	@test -f $(BUILD)/build.ninja || meson setup $(BUILD)
	@ninja -C $(BUILD)

# rnicd, rnicrun, rnicctl and the libraries alone: for CI.
programs: deps
	@test -f $(BUILD)/build.ninja || meson setup $(BUILD)
	@ninja -C $(BUILD) programs

demo: build
	@scripts/demo.sh $(BUILD)

test:
	@scripts/deps.sh build test deb lint
	@scripts/deps.sh siw || echo "make: the tests against Linux siw will be skipped"
	@test/run --repeat $(REPEAT) --only "$(ONLY)"

# Large programs as Debian has them, with verified data: QEMU's migration, Ceph, NetPIPE and HPC Challenge.
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

# Lays the C sources out by .clang-format.
format:
	@scripts/deps.sh lint
	@find lib app examples test -name '*.[ch]' | xargs clang-format-14 -i

# Looks for mistakes that the compilers do not see: in sources, scripts, spelling, man pages, units and packages.
lint: build
	@scripts/deps.sh build lint deb
	@scripts/lint.sh $(BUILD)

fuzz:
	@scripts/deps.sh build fuzz
	@test/fuzz/run $(FUZZ_SECONDS)

deb:
	@scripts/deps.sh build deb
	@scripts/deb.sh $(BUILD)/deb

# A release: sources, what the programs need at run time (SPDX), and sums.
dist: build
	@scripts/deps.sh deb
	@scripts/dist.sh $(BUILD) $(BUILD)/dist

clean:
	rm -rf $(BUILD) build build-sanitize build-clang build-fuzz
