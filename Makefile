# make install | demo | check | test : each does its own set-up from a fresh clone; only python3 and make are needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
E2E := .venv-e2e
BENCH := .venv-bench
CLIENTS := .venv-clients
BENCH_GATEWAY := .venv-bench-gateway
BENCH_START := .venv-bench-start
DOCS := .venv-docs
NEWEST := .venv-newest
LOCKER := .venv-lock
export NO_MKDOCS_2_WARNING := 1
# The tests start the command hundreds of times: compiling the source anew for each would double what that costs.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install demo docs docs-pages golden mutants check check-wheel format test test-long test-newest lock e2e-tools test-e2e test-clients bench bench-codec bench-gateway bench-start clean

help:
	@echo "make install   set up $(VENV) with midstream and its development tools"
	@echo "make demo      one conversation handed through five models, no key needed (sets up first)"
	@echo "make test      run the tests on all cores (sets up first)"
	@echo "make test-long  the same with every case of each product and all examples of each property (about 10 minutes)"
	@echo "make e2e-tools install the system packages that some tests need (Debian and Ubuntu, as root); without them those tests say that they did not run"
	@echo "make test-e2e  official clients against the doubles, a real llama.cpp server, a real proxy and a real PostgreSQL (installs into $(E2E); about 10 minutes)"
	@echo "make test-clients  the newest coding agents from npm through the gateway (installs them into .clients, 2 GB; about 25 minutes)"
	@echo "make test-newest  the tests with the newest versions of everything, instead of those that requirements/ pins (sets up .venv-newest)"
	@echo "make lock      pin the newest versions in requirements/ (needs a package index)"
	@echo "make docs      build the documentation into site/, strict (sets up $(DOCS) first)"
	@echo "make docs-pages  write the pages anew that are made from the code"
	@echo "make golden    write the hashes of what is sent and read anew, and say which changed; their commit says why"
	@echo "make check     formatting, lint, types, import direction, the documentation's links and references"
	@echo "make check-wheel  build the wheel and try it in a fresh environment for each Python found (a few minutes)"
	@echo "make format    reformat the code"
	@echo "make bench-codec  what encoding and decoding cost, in memory"
	@echo "make bench     midstream beside other clients, over loopback (installs them into $(BENCH); about 5 minutes)"
	@echo "make bench-gateway  midstream's gateway beside others, over loopback (installs them into $(BENCH_GATEWAY); about 10 minutes)"
	@echo "make mutants   change the source in 200 places, one at a time, and see whether a test notices (an hour)"
	@echo "make bench-start  how long the command takes to start, beside llm and kimi-cli (installs them into $(BENCH_START); about 2 minutes)"
	@echo "make clean     remove $(VENV) and caches"

install: $(STAMP)

$(STAMP): pyproject.toml requirements/dev.txt scripts/install-venv
	@PYTHON="$(PYTHON)" VENV="$(VENV)" sh scripts/install-venv
	@touch $(STAMP)

demo: $(STAMP)
	@$(BIN)/midstream demo

check: $(STAMP) $(DOCS)/.installed
	$(BIN)/ruff format --check src tests benchmarks examples
	$(BIN)/ruff check src tests benchmarks examples
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(DOCS)/bin/mkdocs --quiet build --site-dir "$(DOCS)/checked-site"

$(DOCS)/.installed: requirements/docs.txt scripts/install-docs
	@PYTHON="$(PYTHON)" VENV="$(DOCS)" sh scripts/install-docs
	@touch $(DOCS)/.installed

docs: $(DOCS)/.installed
	$(DOCS)/bin/mkdocs build

docs-pages: $(STAMP)
	$(BIN)/python -m tests.docs.reference
	$(BIN)/python -m tests.sim.rules_page

check-wheel:
	@PYTHON="$(PYTHON)" sh scripts/check-wheel

format: $(STAMP)
	$(BIN)/ruff format src tests benchmarks
	$(BIN)/ruff check --fix src tests benchmarks

test: $(STAMP)
	$(BIN)/pytest -q -n auto --dist worksteal

test-long: $(STAMP)
	MIDSTREAM_LONG=1 $(BIN)/pytest -q -n auto --dist worksteal

golden: $(STAMP)
	@$(BIN)/python -m tests.golden

test-newest:
	@PYTHON="$(PYTHON)" VENV="$(NEWEST)" LOCK=none sh scripts/install-venv
	$(NEWEST)/bin/pytest -q -n auto --dist worksteal

lock:
	@PYTHON="$(PYTHON)" VENV="$(LOCKER)" sh scripts/lock

mutants: $(STAMP)
	@$(BIN)/python -m tests.mutants

e2e-tools:
	@sh scripts/install-e2e-tools

$(E2E)/.installed: pyproject.toml $(wildcard requirements/e2e*.txt) tests/e2e/npm/package.json scripts/install-e2e
	@PYTHON="$(PYTHON)" VENV="$(E2E)" sh scripts/install-e2e

test-e2e: $(E2E)/.installed
	$(E2E)/bin/pytest -q tests/e2e

test-clients:
	@PYTHON="$(PYTHON)" VENV="$(CLIENTS)" sh scripts/install-clients
	MIDSTREAM_TEST_LIMIT=900 $(CLIENTS)/bin/pytest -q tests/clients

bench-codec: $(STAMP)
	@$(BIN)/python -m benchmarks.codec

$(BENCH)/.installed: pyproject.toml benchmarks/peers.txt scripts/install-bench
	@PYTHON="$(PYTHON)" VENV="$(BENCH)" sh scripts/install-bench
	@touch $(BENCH)/.installed

bench: $(BENCH)/.installed
	@$(BENCH)/bin/python -m benchmarks.peers

$(BENCH_GATEWAY)/.installed: pyproject.toml benchmarks/gateway/npm/package.json scripts/install-bench-gateway
	@PYTHON="$(PYTHON)" VENV="$(BENCH_GATEWAY)" sh scripts/install-bench-gateway
	@touch $(BENCH_GATEWAY)/.installed

bench-gateway: $(BENCH_GATEWAY)/.installed
	@$(BENCH_GATEWAY)/bin/python -m benchmarks.gateway --write

$(BENCH_START)/.installed: pyproject.toml scripts/install-bench-start
	@PYTHON="$(PYTHON)" VENV="$(BENCH_START)" sh scripts/install-bench-start
	@touch $(BENCH_START)/.installed

bench-start: $(BENCH_START)/.installed
	@$(BENCH_START)/bin/python -m benchmarks.start --write

clean:
	rm -rf $(VENV) $(NEWEST) $(LOCKER) $(DOCS) site $(BENCH) $(BENCH)-newer $(BENCH_GATEWAY) $(BENCH_GATEWAY)-litellm $(BENCH_START) $(BENCH_START)-newer benchmarks/gateway/npm/node_modules $(E2E) $(E2E)-langchain $(E2E)-litellm $(E2E)-mcp $(CLIENTS) .clients tests/e2e/npm/node_modules .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
