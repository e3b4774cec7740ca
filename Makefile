# `make demo` and `make test` need Python 3.11 or newer, nothing else. `make help` lists the rest.

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/installed
BORROW := import pathlib, sys, sysconfig; here = sysconfig.get_path("purelib"); \
	there = sysconfig.get_path("purelib", vars={"base": sys.argv[1]}); \
	pathlib.Path(there, "borrowed.pth").write_text(here)

# What pytest has compiled is kept: with a test file it is most of what a run takes.
unexport PYTHONDONTWRITEBYTECODE

# A file's tests stay together, for they share servers.
PYTEST := $(BIN)/python -m pytest --numprocesses=auto --dist=loadfile --quiet
QUICK := tests/core tests/codec tests/schema tests/types tests/peer tests/server tests/client
COVER :=

.PHONY: help demo quick test more check lint types public-types protocol matrix interop debian conformance siege bench bench-quick clean

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' Makefile | expand -t 16

demo: .venv/run  ## run the example of the README
	$(BIN)/python examples/demo.py

quick: .venv/test  ## run after every change: no network, no other implementations; 40 seconds on two cores
	$(PYTEST) -m "not slow and not interop and not thorough" --hypothesis-profile=quick $(QUICK)

test: .venv/test  ## see that everything works here, in a few minutes
	$(PYTEST) -m "not slow and not interop" $(COVER)

check: .venv/dev  ## run everything that must pass before a change is merged, in half an hour
	$(MAKE) --no-print-directory test COVER="--cov --cov-report="
	$(MAKE) --no-print-directory --jobs=3 lint types interop debian
	$(MAKE) --no-print-directory more conformance bench-quick demo

# What `test` leaves out, and the coverage of both. pytest-cov brings the data of the workers home.
more: .venv/dev interop debian  ## run the tests that are slow, or need other implementations
	$(PYTEST) -m "slow or interop" --cov --cov-append --cov-report=term:skip-covered

# flake8 looks for what is asynchronous (see .flake8), at a second a file, so it gets the files where anything is.
lint: .venv/dev  ## check style, formatting, asynchronous code and changelog fragments
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/flake8 $$(grep -rlE --include='*.py' '\basync\b|\btrio\.' benchmarks examples tests trio_mcp)
	$(BIN)/towncrier build --draft --version next >/dev/null

types: .venv/dev  ## check types with mypy and pyright, and that all public names have them
	$(BIN)/mypy
	$(BIN)/mypy --platform win32 trio_mcp
	$(BIN)/pyright
	$(MAKE) --no-print-directory public-types

# What users' type checkers see: every public name has a known type. pyright looks only at what is really installed,
# so the package goes into an environment of its own, which borrows the dependencies from the other.
public-types: .venv/dev
	$(BIN)/python -m venv --clear --without-pip $(INSTALLED)
	$(BIN)/python -m pip --python $(INSTALLED)/bin/python install --quiet --no-deps --no-compile .
	$(BIN)/python -c '$(BORROW)' $(INSTALLED)
	VIRTUAL_ENV=$(CURDIR)/$(INSTALLED) PATH="$(CURDIR)/$(INSTALLED)/bin:$$PATH" \
		$(BIN)/pyright --verifytypes trio_mcp --ignoreexternal >$(INSTALLED)/report \
		|| { cat $(INSTALLED)/report; exit 1; }
	grep 'completeness score: 100%' $(INSTALLED)/report

# Fails where a section of the specification has neither a test nor a reason.
protocol: .venv/dev  ## write docs/protocol.md from the marks of the tests
	$(BIN)/python -m pytest -q --collect-only --protocol-table=docs/protocol.md

# Fails where a scenario does not run over a transport, and there is no reason.
matrix: .venv/dev  ## write into docs/transports.md what runs over which transport
	$(BIN)/python -m pytest -q --collect-only --matrix-table=docs/transports.md tests/matrix

interop: .venv/dev  ## install the other implementations that tests talk to
	$(BIN)/python tests/interop/environments.py

# The official conformance suite, every scenario, servers over both hosts, and through a proxy on one of them: fails
# where the score has fallen below tests/conformance/baseline.toml.
conformance: interop  ## run the official conformance suite
	$(BIN)/python tests/conformance/run.py
	$(BIN)/python tests/conformance/run.py --http lean 'server/*'
	$(BIN)/python tests/conformance/run.py --http lean --through-proxy 'server/*'
	$(BIN)/python tests/conformance/authorization.py

# The proxy that docs/deployment.md is tested with, and a browser for WebSockets: Debian's, where this runs as root.
# Elsewhere those tests are skipped.
DEBIAN := nginx chromium

debian:
	@PATH="$$PATH:/usr/sbin:/usr/local/sbin"; \
	for program in $(DEBIAN); do command -v $$program >/dev/null || missing="$$missing $$program"; done; \
	if [ -z "$$missing" ]; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
		apt-get install -qq -y --no-install-recommends $$missing >/dev/null; \
	else echo "not installed:$$missing; the tests with these are skipped" >&2; fi

# Plays every attack there is against a server over both hosts, beside an honest client, and writes what came of it into
# docs/security.md. Three quarters of an hour; for a part: .venv/bin/python tests/siege/besiege.py --http lean 'unread-*'
siege: .venv/dev  ## play every attack against a server, and write docs/security.md; three quarters of an hour
	$(BIN)/python tests/siege/besiege.py --fill

# Measures everything beside other implementations, which it installs, and shows and keeps what it finds. About 25 minutes.
# For a part: .venv/bin/python -m benchmarks run --only echo; all there is to say: .venv/bin/python -m benchmarks --help
bench: .venv/dev  ## measure everything beside other implementations; 25 minutes
	$(BIN)/python -m benchmarks run

# Whether everything can be measured, in two minutes: every cell has a number; how fast anything is, is not looked at.
bench-quick: .venv/dev  ## see whether everything can be measured; two minutes
	$(BIN)/python -m benchmarks run --quick

clean:  ## remove what was installed and measured
	rm -rf .venv .interop .benchmarks .coverage* htmlcov build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis

.venv/pip:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	touch $@

.venv/run: .venv/pip pyproject.toml
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

.venv/test: .venv/run
	$(BIN)/python -m pip install --quiet --editable . --group test
	touch $@

.venv/dev: .venv/test
	$(BIN)/python -m pip install --quiet --editable . --group dev
	touch $@
