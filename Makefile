# Every target is one line of `make help`. Nothing is installed or fetched unless it is missing.

PORT ?= 6379
PREFIX ?= /usr/local
DESTDIR ?=
# How long each fuzz target runs, and the chaos.
SECONDS ?= 60
# Most of a test's time is waiting for a server, so more of them than cores.
TEST_THREADS ?= 8

# For the tests' harness and for scripts/: an absolute path, because servers start in directories of their own.
ifneq ($(SERVER),)
export LOCKSTOCK_SERVER := $(if $(findstring /,$(SERVER)),$(abspath $(SERVER)),$(SERVER))
endif

MODULE := target/release/liblockstock.so
TOOL := target/release/lockstock
OUTBOX := target/release/lockstock-outbox
# All but what compiles a database (the outbox), a library for pictures (the benchmark), TLS (the command line) and tokio (the client).
LIGHT := --workspace --exclude lockstock-outbox --exclude lockstock-bench --exclude lockstock-cli --exclude lockstock-client
# Built together, so that what they share is compiled once: alone, each would have other features of its dependencies.
PROGRAMS := cargo build --quiet --locked $(LIGHT) --bins
DEMO := $(PROGRAMS) && target/debug/lockstock-demo
BENCH := cargo run --quiet --locked --release -p lockstock-bench
TEST := cargo test --quiet --locked --test suite --
SUITE := $(TEST) --test-threads=$(TEST_THREADS)
# In memory where that is possible: what is killed there has lost no more, and nobody waits for a disk that others use.
CHAOS := $(PROGRAMS) && $(if $(wildcard /dev/shm/.),TMPDIR=/dev/shm) target/debug/lockstock-chaos

# That the judge of `make chaos` sees what it should, in histories made by hand and from a server that breaks its word.
JUDGE = cargo test --quiet --locked $(LIGHT) --bin lockstock-chaos -- check:: && $(CHAOS) --prove --seconds 5

# Where rustup puts cargo, for shells that were started before it did.
export PATH := $(PATH):$(HOME)/.cargo/bin

.DEFAULT_GOAL := help
.PHONY: help run demo build faults tools install dist deb test test-panics test-tools test-outbox test-clients test-clients-go test-clients-java test-clients-php test-clients-rust test-fresh test-docs release-check release-files test-package test-monitoring test-servers test-upgrade test-large test-leaks soak test-valgrind chaos
.PHONY: bench bench-instructions bench-outbox explore simulation check check-all deny asan miri fuzz site servers server-source deps clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "SERVER=path, with any of them, starts this server and not the redis-server from the PATH: SERVER=valkey-server make test"

run: ## Start a server with the module (PORT=6379); ctrl-C stops it
	@scripts/run $(PORT)

demo: build ## Watch the five programs that lockstock replaces, played for real (QUICK=1: in ten seconds)
	@$(DEMO)

build: deps ## Build the module: target/release/liblockstock.so
	cargo build --release --locked

$(MODULE):
	$(MAKE) build

tools: deps ## Build the programs for the command line: target/release/lockstock and lockstock-outbox
	cargo build --release --locked -p lockstock-cli -p lockstock-outbox

$(TOOL) $(OUTBOX) &:
	$(MAKE) tools

install: $(MODULE) $(TOOL) $(OUTBOX) ## Install the module, its example configuration and the command line (PREFIX=/usr/local DESTDIR=)
	@PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" scripts/package install

dist: build tools ## target/dist: the module, its example configuration, the command line and the licence in one archive, with its checksum
	@scripts/package dist

deb: build tools ## target/dist: a Debian package for redis-server and valkey-server
	@scripts/package deb

# The release build ends with one compiler on one core, so the others run beside it.
test: deps ## The checks, and the tests that need a server; not those of the two programs and of the clients
	@$(MAKE) --jobs=3 check build faults
	$(MAKE) test-panics
	$(DEMO) --check
	$(SUITE)
	$(JUDGE)
	$(CHAOS) --seconds 54 --scenes kill-always,clients-stopped,carts,expiring,listener,unread,shared,renames,crowds

test-panics: faults ## A panic in every entry from the server, and before every step of every transition, in a debug build
	LOCKSTOCK_MODULE=target/debug/liblockstock.so $(SUITE) --ignored panics:: interrupted::

faults: deps
	cargo build --quiet --locked $(LIGHT) --lib

test-tools: build ## The program for the command line, with commands, terminals and servers that it loses; compiles TLS
	cargo clippy --quiet --locked -p lockstock-cli --all-targets -- -D warnings
	cargo test --quiet --locked -p lockstock-cli -- --test-threads=$(TEST_THREADS)

test-outbox: build ## lockstock-outbox with SQLite, PostgreSQL and MariaDB, which it installs (Debian: apt-get); compiles drivers
	@scripts/deps databases
	cargo clippy --quiet --locked -p lockstock-outbox --all-targets -- -D warnings
	cargo test --quiet --locked -p lockstock-outbox -- --test-threads=$(TEST_THREADS)

test-clients: build ## The clients for Python, Node and Rust on Redis 7.0 and Valkey 9.1, alone and in a cluster (QUICK=1: one server, nothing broken)
	@scripts/test-clients

test-clients-go: build ## The package for Go and its examples on both servers, and what docs/clients.md says of its libraries (needs Go)
	@scripts/servers
	@scripts/test-client-programs go

test-clients-java: build ## The same of clients/java (needs a JDK; Maven, or the jars in LOCKSTOCK_JARS)
	@scripts/servers
	@scripts/test-client-programs java

test-clients-php: build ## What docs/clients.md says of phpredis (needs PHP with it)
	@scripts/servers
	@scripts/test-client-programs php

test-clients-rust: build ## What docs/clients.md says of redis-rs; compiles tokio
	@scripts/servers
	@scripts/test-client-programs rust

test-fresh: ## README.md as a new user follows it, on systems made for it with nothing installed (needs root and mmdebstrap)
	@scripts/test-fresh

# The tag of this commit, if it has one: without it, everything but the tag is checked.
TAG ?= $(shell git tag --points-at HEAD 'v*' 2>/dev/null)

release-check: ## All of a release but its upload: versions, tests, packages, lists of parts, checksums (TAG=v1.2.3)
	@scripts/release agree $(TAG)
	$(MAKE) test
	$(MAKE) release-files

release-files: ## The files of a release for this machine, checked: target/release-files
	rm -rf target/dist target/release-files
	$(MAKE) test-package
	@scripts/release files
	cp -r target/dist target/release-files
	@MACHINES=$$(uname -m) scripts/release gather target/release-files

test-package: build tools ## The packages made, installed and loaded by every server that is here; linters for images and workflows
	@scripts/test-package

test-monitoring: build ## What contrib/ has for monitoring, loaded by redis_exporter and Prometheus (installed, or Debian's packages unpacked)
	@scripts/test-monitoring

test-docs: build ## The programs in Python and Node on the pages of the documentation, and examples/ (needs Node, curl and sqlite3)
	cargo build --quiet --release --locked -p lockstock-outbox
	@scripts/python
	npm install --prefix examples/shop --no-package-lock --no-audit --no-fund --silent
	LOCKSTOCK_PYTHON=$(CURDIR)/target/python/bin/python $(TEST) --ignored docs::python docs::shop docs::examples

test-servers: check-all build ## All checks, and the tests that need a server, the outbox's with SQLite too, on every supported server (SERVER: on that one)
	@scripts/servers
	@scripts/test-servers $(TEST_THREADS)

test-upgrade: build ## The upgrade from an older module and back (OLD=path of its liblockstock.so)
	@test -f "$(OLD)" || { echo 'make test-upgrade: OLD=path of an older liblockstock.so' >&2; exit 1; }
	LOCKSTOCK_OLD_MODULE=$(abspath $(OLD)) $(TEST) --include-ignored server::upgrade

test-large: build ## A million orders, locks, waits and places in line, ten thousand waiters, with figures; takes minutes
	cargo test --locked --test suite -- --ignored --nocapture --test-threads=1 large crowd::
	LOCKSTOCK_CYCLES=1000000 $(TEST) --nocapture waiting_leaves_nothing_behind

test-leaks: build ## A million operations of each command, after which no memory is missing; takes minutes
	$(TEST) --ignored --nocapture --test-threads=1 leaks::

soak: build ## A mixed load for MINUTES=20, after which memory and latency are what they were
	LOCKSTOCK_SOAK_SECONDS=$$(($(or $(MINUTES),20) * 60)) $(TEST) --ignored --nocapture soak::

test-valgrind: build ## The tests with every server under valgrind (TESTS="waiting:: session::": only those)
	@scripts/test-valgrind $(TESTS)

chaos: build ## Attack servers under load and judge every answer (SECONDS=60 SCENES=a,b SEED=n)
	$(JUDGE)
	$(CHAOS) --seconds $(SECONDS) $(if $(SCENES),--scenes $(SCENES)) $(if $(SEED),--seed $(SEED))

bench: build ## Speed and memory beside the alternatives (QUICK=1: in a few minutes)
	@$(BENCH)

bench-instructions: build ## Only the instructions for an operation, which are the same in every run (needs valgrind)
	@ONLY=instructions,guard $(BENCH)

bench-outbox: build ## Events a second into PostgreSQL, beside a loop of single INSERTs, and the lag of one sale: target/bench/outbox.svg
	@scripts/deps databases
	cargo build --quiet --locked --release -p lockstock-outbox
	LOCKSTOCK_OUTBOX=$(CURDIR)/target/release/lockstock-outbox cargo test --quiet --locked -p lockstock-outbox --test outbox -- --ignored --nocapture --test-threads=1 bench::

explore: ## Every history of a small world of locks and of a small world of sales, as long as SECONDS=60 for each allows
	LOCKSTOCK_EXPLORE=$(SECONDS) cargo test --release --locked --lib -- --nocapture --test-threads=1 every_history_of

simulation: ## A hundred nodes and a million requests a second, from the costs that a run of the benchmark measured: target/bench/simulation.svg
	@mkdir -p target/bench
	@$(BENCH) --bin simulation -- docs/bench/redis-7.0.15/costs.json target/bench/simulation.svg

check: deps ## Formatting, lints and the tests that need no server
	@scripts/deps lints
	cargo fmt --all --check
	cargo clippy $(LIGHT) --all-targets --locked -- -D warnings
	@if command -v cargo-deny >/dev/null; then cargo deny --locked --log-level error check bans licenses sources; fi
	cargo test --quiet --locked $(LIGHT) --exclude lockstock-chaos --lib --bins

deny: ## Licences and sources of everything that is compiled in, and known advisories (needs cargo-deny and the net)
	cargo deny --locked check

check-all: check ## The same of the benchmark, the client and the two programs, too; compiles plotters and drivers of databases
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo test --quiet --locked -p lockstock-bench

asan: deps ## The tests that need no server, under AddressSanitizer, leaks apart (rustup's nightly)
	@rustup toolchain list | grep --quiet '^nightly' || rustup toolchain install --profile minimal nightly
	ASAN_OPTIONS=detect_leaks=0 RUSTFLAGS=-Zsanitizer=address cargo +nightly test --quiet --locked --lib --target $$(rustc -vV | sed -n 's/^host: //p') --target-dir target/asan

miri: ## The tests of src/core under Miri (rustup's nightly)
	@rustup component add --toolchain nightly miri rust-src
	PROPTEST_CASES=4 MIRIFLAGS=-Zmiri-disable-isolation cargo +nightly miri test --lib core::

fuzz: build ## Coverage-guided fuzzing, then random commands against the models (SECONDS=60 for each; rustup's nightly)
	@scripts/fuzz $(SECONDS)
	LOCKSTOCK_STEPS=$$(($(SECONDS) * 1000)) $(SUITE) against_model

site: ## The pages as a site with a search: target/site (needs mdBook: cargo install --locked mdbook@0.4.52)
	@scripts/site.py

servers: ## Fetch the other supported servers into .servers/
	@scripts/servers
	@scripts/servers list

server-source: ## Build a server from sources into .servers/, with the allocator that the servers' own images have; takes some minutes
	@scripts/servers source

deps: ## Install what is missing for building and running (Debian: apt-get)
	@scripts/deps

clean: ## Remove what was built, and the data of `make run`
	cargo clean
	rm -rf .run
