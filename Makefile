# From a fresh clone to a running demo with nothing but make and Python 3.11 or newer:
#   make demo     what balancing brings to four streams, live, in under two minutes; leaves demo-report.html behind
#   make test     linters, types and all tests
#   make test-lab all tests of the lab: experiments, simulations, random input, broken engines, torture in a short form
#   make quick    linters, types, unit and property tests without the slow ones: two minutes, for the inner loop
#   make lint     linters and types only
#   make bench    the figures the project promises, measured here
#   make docs     the site of docs/ in site/, strict: open site/index.html
#   make setup    .venv, its packages and Java; the others run it first
#   make lock     requirements.lock from what .venv holds now
#   make clean    remove all that these have made

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
LOG := .venv/install.log
WITH_JAVA = JAVA_HOME="$$(scripts/java.sh)"
BENCH ?= --workers 8 --slow 4 --factor 10 --cost-us 20 --seconds 15 --balance round-robin,credits

# Without bytecode on disk each of many processes would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-lab quick lint bench docs lock clean

help:
	@sed -n '/^#   make/s/^#   //p' Makefile

setup: $(STAMP)
	@scripts/java.sh --install >/dev/null

$(STAMP): requirements.lock pyproject.toml lab/pyproject.toml src/evenflow/_version.py
	@command -v $(PYTHON) >/dev/null || { echo "setup: there is no $(PYTHON): install Python 3.11 or newer" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "setup: $$($(PYTHON) --version) is too old: make setup PYTHON=<a Python 3.11 or newer>" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "setup: $(PYTHON) lacks its venv module (Debian, Ubuntu: apt-get install python3-venv)" >&2; exit 1; }
	@$(BIN)/python -c 'import pip' 2>/dev/null || $(PYTHON) -m venv --clear .venv
	@echo "setup: installing $$(grep -c == requirements.lock) packages into .venv, this takes a minute or two" >&2
	@{ $(PIP) install --no-compile -r requirements.lock && $(PIP) install --no-deps -e . -e lab; } >$(LOG) 2>&1 || \
		{ cat $(LOG) >&2; echo "setup: pip has failed, see above; mend it and run make again" >&2; exit 1; }
	@touch $@

demo: setup
	@$(WITH_JAVA) $(BIN)/evenflow demo

test: lint
	@scripts/chromium.sh --install >/dev/null || true # without one, the browser tests are skipped and say why
	$(WITH_JAVA) scripts/test.sh

test-lab: setup
	$(WITH_JAVA) scripts/test.sh lab

quick: lint
	scripts/test.sh quick

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: setup
	$(WITH_JAVA) $(BIN)/python -m evenflow_lab.bench foundation
	$(WITH_JAVA) $(BIN)/evenflow bench ordered $(BENCH)

docs: setup
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "docs: open site/index.html"

lock: setup
	@$(BIN)/python scripts/lock.py >requirements.lock.new && mv requirements.lock.new requirements.lock

clean:
	rm -rf .venv build dist src/*.egg-info lab/*.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	rm -rf spark-warehouse metastore_db derby.log demo-report.html
	find src lab tests examples scripts -name __pycache__ -prune -exec rm -rf {} +
	rm -rf site
