# Every target is one line of `make help`. Nothing is installed or fetched unless it is missing.

PORT ?= 6379
# Most of a test's time is waiting for a server, so more of them than cores.
TEST_THREADS ?= 8

MODULE := target/release/liblockstock.so
DEMO := cargo run --quiet --locked --example demo
SUITE := cargo test --quiet --test suite -- --test-threads=$(TEST_THREADS)
# In memory where that is possible: what is killed there has lost no more, and nobody waits for a disk that others use.
CHAOS := $(if $(wildcard /dev/shm/.),TMPDIR=/dev/shm) cargo run --quiet --locked --example chaos --

# That the judge of `make chaos` sees what it should, in histories made by hand and from a server that breaks its word.
JUDGE = cargo test --quiet --locked --example chaos -- check:: && $(CHAOS) --prove --seconds 5

# Where rustup puts cargo, for shells that were started before it did.
export PATH := $(PATH):$(HOME)/.cargo/bin

.DEFAULT_GOAL := help
.PHONY: help run demo build test test-servers test-large chaos bench check miri servers deps clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## Start redis-server with the module (PORT=6379); ctrl-C stops it
	@scripts/run $(PORT)

demo: build ## Watch the five programs that lockstock replaces, played for real (QUICK=1: in ten seconds)
	@$(DEMO)

build: deps ## Build the module: target/release/liblockstock.so
	cargo build --release --locked

test: check build ## All checks, and all tests on the installed redis-server
	$(DEMO) -- --check
	$(SUITE)
	$(JUDGE)
	$(CHAOS) --seconds 8 --scenes kill-always

test-servers: build ## The tests that need a server, on every supported server
	@scripts/servers
	@scripts/test-servers $(TEST_THREADS)

test-large: build ## Sales of a million orders, with figures; takes minutes
	cargo test --quiet --test suite -- --ignored --nocapture --test-threads=1 large::

chaos: build ## Attack servers under load and judge every answer (SECONDS=60 SERVER=path SCENES=a,b SEED=n)
	$(JUDGE)
	$(if $(SERVER),LOCKSTOCK_SERVER=$(if $(findstring /,$(SERVER)),$(abspath $(SERVER)),$(SERVER))) $(CHAOS) --seconds $(or $(SECONDS),60) \
		$(if $(SCENES),--scenes $(SCENES)) $(if $(SEED),--seed $(SEED))

bench: build ## What a hand-over costs, against BLPOP and LPUSH (LOCKSTOCK_SERVER=path for another server)
	cargo bench --bench handover

check: deps ## Formatting, lints and the tests that need no server
	@scripts/deps lints
	cargo fmt --check
	cargo clippy --all-targets --locked -- -D warnings
	cargo test --quiet --lib --locked

miri: ## The tests of src/core under Miri (rustup's nightly)
	@rustup component add --toolchain nightly miri rust-src
	PROPTEST_CASES=4 MIRIFLAGS=-Zmiri-disable-isolation cargo +nightly miri test --lib core::

servers: ## Fetch the other supported servers into .servers/
	@scripts/servers
	@scripts/servers list

deps: ## Install what is missing for building and running (Debian: apt-get)
	@scripts/deps

clean: ## Remove what was built, and the data of `make run`
	cargo clean
	rm -rf .run
