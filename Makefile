# `make demo` and `make test` need Python 3.11 or newer, nothing else. `make help` lists the rest.

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/installed
BORROW := import pathlib, sys, sysconfig; here = sysconfig.get_path("purelib"); \
	there = sysconfig.get_path("purelib", vars={"base": sys.argv[1]}); \
	pathlib.Path(there, "borrowed.pth").write_text(here)

# What pytest has compiled is kept: with a test file it is most of what a run takes.
unexport PYTHONDONTWRITEBYTECODE
# So is what Node.js has: the conformance suite is started hundreds of times.
export NODE_COMPILE_CACHE := $(CURDIR)/.interop/compiled

# Each process takes its tests in their order, for those of a file share servers, and in the end those of others.
PYTEST := $(BIN)/python -m pytest --numprocesses=auto --dist=worksteal --quiet
# What has neither sockets nor processes, and one look at each transport that is real.
HERE := tests/unit tests/memory tests/smoke
COVER :=

.PHONY: help demo test wires check nightly coverage more costs lint lint-all types mypy pyright public-types docs links errors protocol matrix interop recordings debian conformance conformance-everywhere simulate siege soak mutants fuzz bench bench-quick release clean

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' Makefile | expand -t 16

test: .venv/test  ## run after every change, and to see that everything works here; four minutes on two cores
	$(PYTEST) -m "not wires and not nightly" $(COVER) $(HERE)

# What fails here is looked at once more, alone: it may have been the machine.
wires: .venv/test  ## run the tests with processes, signals, sockets and terminals; six minutes
	$(BIN)/python tests/support/second_look.py --quiet -m "wires and not nightly" $(COVER) -- tests/memory/matrix tests/wires

demo: .venv/run  ## run the example of the README
	$(BIN)/python examples/demo.py

check: .venv/dev  ## run everything that must pass before a change is merged, in a quarter of an hour
	$(MAKE) --no-print-directory test wires
	$(MAKE) --no-print-directory --jobs=2 types lint
	$(MAKE) --no-print-directory conformance demo

# Everything that takes long, needs other programs, or measures: time, memory, descriptors, latency. Each is run, whatever
# became of those before it; what failed is named in the end. What measures comes first: nothing else may run beside it.
NIGHTLY := costs bench-quick coverage lint-all more docs conformance-everywhere

nightly: .venv/dev .venv/docs interop debian  ## run everything else there is; an hour and a half
	@failed=; for part in $(NIGHTLY) 'fuzz SECONDS=2'; do \
		echo "== $$part ($$(date +%H:%M))"; $(MAKE) --no-print-directory $$part || failed="$$failed $${part%% *}"; \
	done; [ -z "$$failed" ] || { echo "failed:$$failed"; exit 1; }

# Where coverage is measured, tests take three times as long.
coverage: .venv/dev
	$(MAKE) --no-print-directory test COVER="--cov --cov-report= --cov-fail-under=0 --hypothesis-profile=fresh"
	$(MAKE) --no-print-directory wires COVER="--cov --cov-append --cov-report=term:skip-covered --hypothesis-profile=fresh"

more: .venv/dev interop debian
	$(PYTEST) -m nightly --hypothesis-profile=fresh --ignore=tests/nightly/costs

# Processor time, memory and durations: one after another, with nothing beside them.
costs: .venv/dev
	$(BIN)/python -m pytest --quiet tests/nightly/costs

# flake8 looks for what is asynchronous (see .flake8), and reads each file several times with LibCST, which takes a second. So
# it gets what users import and copy, where it has changed in the last twenty commits; nightly all files.
ASYNCHRONOUS := grep -lE '\basync\b|\btrio\.'
CHANGED := git diff --diff-filter=d --name-only HEAD~20 -- 'trio_mcp/*.py' 'examples/*.py'

lint: .venv/dev  ## check style, formatting, asynchronous code that has changed, and changelog fragments
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(CHANGED) | xargs --no-run-if-empty $(ASYNCHRONOUS) | xargs --no-run-if-empty $(BIN)/flake8
	$(BIN)/towncrier build --draft --version next >/dev/null

lint-all: .venv/dev
	$(BIN)/flake8 $$($(ASYNCHRONOUS) -r --include='*.py' examples trio_mcp benchmarks tests)

types: mypy pyright public-types  ## check types with mypy and pyright, and that all public names have them

# What needs POSIX, and is imported nowhere else.
POSIX := ^trio_mcp/(_bench/|_cli/_benching)

mypy: .venv/dev
	$(BIN)/mypy
	$(BIN)/mypy --platform win32 --cache-dir=.mypy_cache/win32 --exclude '$(POSIX)' trio_mcp

pyright: .venv/dev
	$(BIN)/pyright

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

# Fails at a warning: a link within the site that leads nowhere, a name of ours that is not there, a page in no menu.
docs: .venv/docs  ## build the documentation into build/docs/html; a minute
	$(BIN)/python docs/site/assemble.py build/docs/source
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --nitpicky --jobs=auto --write-all \
		--doctree-dir=build/docs/doctrees --conf-dir=docs/site build/docs/source build/docs/html

links: .venv/docs  ## see whether the links to other sites lead somewhere; needs the network
	$(BIN)/python docs/site/assemble.py build/docs/source
	$(BIN)/python -m sphinx --quiet --builder=linkcheck --doctree-dir=build/docs/doctrees --conf-dir=docs/site \
		build/docs/source build/docs/links

# Fails where no section of the page takes a text.
errors: .venv/test  ## write into docs/errors.md the texts of all errors
	$(BIN)/python docs/site/error_texts.py --fill

# Fails where a section of the specification has neither a test nor a reason.
protocol: .venv/dev  ## write docs/protocol.md from the marks of the tests
	$(BIN)/python -m pytest -q --collect-only --protocol-table=docs/protocol.md

# Fails where a scenario does not run over a transport, and there is no reason.
matrix: .venv/dev  ## write into docs/transports.md what runs over which transport
	$(BIN)/python -m pytest -q --collect-only --matrix-table=docs/transports.md tests/memory/matrix

interop: .venv/dev  ## install the other implementations that tests talk to
	$(BIN)/python tests/nightly/interop/environments.py

# What `make test` replays of them. `NAMES=server-python-2.3-2026-07-28` records one of tests/data/interop anew.
recordings: .venv/dev  ## record what other implementations say, for tests that replay it
	PYTHONPATH=tests/support $(BIN)/python tests/nightly/interop/recorded_peers.py $(NAMES)

# The official conformance suite, every scenario: fails where the score has fallen below tests/conformance/baseline.toml.
conformance: .venv/test  ## run the official conformance suite
	$(BIN)/python tests/nightly/interop/environments.py node conformance-0.2
	$(BIN)/python tests/conformance/run.py

# The same over the other host and through a proxy, and the suite for authorization servers.
conformance-everywhere: .venv/test
	$(BIN)/python tests/nightly/interop/environments.py node conformance-0.2
	$(BIN)/python tests/conformance/run.py --http lean 'server/*'
	$(BIN)/python tests/conformance/run.py --http lean --through-proxy 'server/*'
	$(BIN)/python tests/conformance/authorization.py

# The proxy that docs/deployment.md is tested with, a browser for WebSockets, and Redis: Debian's, where this runs as root.
# Elsewhere those tests are skipped.
DEBIAN := nginx chromium redis-server

debian:
	@PATH="$$PATH:/usr/sbin:/usr/local/sbin"; \
	for program in $(DEBIAN); do command -v $$program >/dev/null || missing="$$missing $$program"; done; \
	if [ -z "$$missing" ]; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
		apt-get install -qq -y --no-install-recommends $$missing >/dev/null; \
	else echo "not installed:$$missing; the tests with these are skipped" >&2; fi

# Random programs of both ends over wires that misbehave, judged by their logs: fails where a promise is broken. With
# SEED=n one is played again, made short and drawn; with WIRES=lines,http only over these.
SEEDS := 10000

simulate: .venv/test  ## play SEEDS=10000 random programs, three minutes on two cores; SEED=n plays one again
	$(BIN)/python -m tests.simulation $(if $(SEED),--seed $(SEED),--seeds $(SEEDS)) $(if $(WIRES),--wires $(WIRES))

# Plays every attack there is against a server over every transport, beside an honest client, then the attacks with
# patience on a mock clock, and writes what came of them into docs/security.md. As root, for at a Unix socket the attacker
# is another user. For a part: .venv/bin/python tests/nightly/siege/besiege.py --host lean 'unread-*'
siege: .venv/dev  ## play every attack against a server, and write docs/security.md; an hour and a half
	$(BIN)/python tests/nightly/siege/besiege.py --fill
	$(BIN)/python tests/nightly/siege/patience.py --fill

# Lets a server and its clients do anything at random for so many minutes, then nothing, and fails if anything is left, if
# memory grows or if the idle server takes time. A seed is printed: make soak SEED=4f2a MINUTES=30
MINUTES ?= 10
SEED ?=

soak: .venv/dev  ## let clients come and die for MINUTES=10, and see that nothing is left; a table and a plot
	$(BIN)/python tests/nightly/soak/soak.py --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) --plot .benchmarks/soak.svg

# Plants wrong implementations, one at a time, and fails if neither the simulator nor a test notices one. For some of
# them: .venv/bin/python tests/nightly/mutants/plant.py --tests 'parks-*'
mutants: .venv/dev  ## plant wrong implementations, and see what notices each
	$(BIN)/python tests/nightly/mutants/plant.py

# Fuzzes the readers of what others send, each for so many seconds. What is found is kept in tests/fuzz/corpus, and the
# exit status is not zero. The names: .venv/bin/python tests/fuzz/fuzz.py --list
SECONDS := 60
TARGETS := *

fuzz: .venv/dev  ## fuzz each reader of what others send for SECONDS=60; some of them: TARGETS='sse request-*'
	set -f; $(BIN)/python tests/fuzz/fuzz.py --seconds $(SECONDS) $(TARGETS)

# Measures everything beside other implementations, which it installs, and shows and keeps what it finds. About 25 minutes.
# For a part: .venv/bin/python -m benchmarks run --only echo; all there is to say: .venv/bin/python -m benchmarks --help
bench: .venv/dev  ## measure everything beside other implementations; 25 minutes
	$(BIN)/python -m benchmarks run

# Whether everything can be measured, in three minutes: every cell has a number; how fast anything is, is not looked at,
# but how that grows is.
bench-quick: .venv/dev  ## see whether everything can be measured, and that nothing grows too steeply; three minutes
	$(BIN)/python -m benchmarks run --quick
	$(BIN)/python -m benchmarks growth --quick

# From the built wheel, in an environment that has nothing else, away from the clone: what somebody gets who installs it.
release: .venv/release  ## build dist/, check it, and run the demo from the wheel in an environment of its own
	rm -rf dist build/release
	$(BIN)/python -m build --quiet --outdir dist
	$(BIN)/python -m twine check --strict dist/*
	$(PYTHON) -m venv build/release
	build/release/bin/python -m pip install --quiet dist/*.whl
	cp -r examples build/release/examples
	cd build/release && bin/trio-mcp --version && bin/python examples/demo.py

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

.venv/release: .venv/run
	$(BIN)/python -m pip install --quiet --group release
	touch $@

.venv/docs: .venv/run
	$(BIN)/python -m pip install --quiet --editable . --group docs
	touch $@
