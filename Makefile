# Everything there is to do with the project. `make demo` and `make test` are the two to know.

CARGO ?= cargo
# cargo nextest runs the tests side by side; without it cargo test does.
NEXTEST := $(shell $(CARGO) nextest --version >/dev/null 2>&1 && echo yes)
GOLDEN ?= tests/golden/corpus

SEEDS ?= 0..300

.PHONY: help demo test fmt fmt-check clippy tests doctests doc golden faults bench deny render-chart
.NOTPARALLEL:

help:
	@echo "make demo    build, then watch the scheduler at work on an API server in memory"
	@echo "make test    all checks: format, lints, tests, docs, golden corpus"
	@echo "make fmt     format the code"
	@echo "make clippy  lints"
	@echo "make doc     API documentation"
	@echo "make golden  decisions recorded from kube-scheduler (GOLDEN=folder for others)"
	@echo "make faults  the scheduler in a world that goes wrong (SEEDS=A..B)"
	@echo "make bench   time per decision and memory per node and pod"
	@echo "make deny    licences, sources and bans (needs cargo-deny)"
	@echo "make render-chart  deploy/ from the chart (needs helm-python-sdk)"

demo:
	$(CARGO) build --release --bin loadmaster --example demo
	target/release/examples/demo

# The tests come last, so that their count ends the output.
test: fmt-check clippy doc golden faults doctests tests

fmt-check:
	$(CARGO) fmt --all --check

fmt:
	$(CARGO) fmt --all

clippy:
	$(CARGO) clippy --workspace --all-targets -- -D warnings

tests:
ifeq ($(NEXTEST),yes)
	$(CARGO) nextest run --workspace
else
	$(CARGO) test --workspace --lib --bins --tests
endif

doctests:
	$(CARGO) test --workspace --doc

doc:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps

golden:
	$(CARGO) run --release --example golden -- $(GOLDEN)

faults:
	$(CARGO) run --release --example faults -- --seeds $(SEEDS)

render-chart:
	python3 deploy/render.py

bench:
	$(CARGO) bench --bench decision
	$(CARGO) bench --bench one_node
	$(CARGO) bench --bench memory
	$(CARGO) bench --bench daemon

deny:
	$(CARGO) deny check bans licenses sources
