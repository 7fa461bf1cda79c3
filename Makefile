# `make` or `make help` lists what there is to make.
PYTHON ?= python3
VENV ?= .venv
PIP ?= $(VENV)/bin/pip
OUT ?= results/demo
WORKERS ?= auto
ARGS ?=
# A lock file: its versions are installed first, checked by their hashes. CI uses .ci/lock/dev.txt.
LOCK ?=

.DEFAULT_GOAL := help
.PHONY: help demo slurm-demo slurm-packages check test fault fuzz lint leaderboard docs clean

help:  ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

demo: $(VENV)/.installed-standard  ## Install (570 MB), run the demo in two processes, draw it (1 minute)
	$(VENV)/bin/hpcosim run scenarios/demo.yaml --explain --out $(OUT) --force
	$(VENV)/bin/hpcosim show draw $(OUT)
	$(VENV)/bin/hpcosim report $(OUT)

slurm-demo: slurm-packages $(VENV)/.installed-standard  ## Let a scheduler watch, then drive a real Slurm (2 minutes); needs root on Debian
	scenarios/slurm/demo.sh $(VENV)/bin/python results/slurm-demo

slurm-packages:
	@scenarios/slurm/install.sh

check: $(VENV)/.installed-dev  ## Run the fast tests (at most 3 minutes, up to 10 beside other work); ARGS="tests/server" chooses some
	$(VENV)/bin/python -m pytest -m "not slow" --hypothesis-profile=fast --numprocesses=$(WORKERS) --dist=worksteal $(ARGS)

test: $(VENV)/.installed-dev  ## Run all tests, WORKERS=auto at a time (tests/README.md has the time)
	$(VENV)/bin/python -m pytest --numprocesses=$(WORKERS) --dist=worksteal $(ARGS)

fault: SEEDS ?= 10000
fault: $(VENV)/.installed-dev  ## Run the fault suite: SEEDS=10000 simulated runs, and processes (10 to 25 minutes)
	$(VENV)/bin/python -m pytest tests/fault --fault-long --fault-seeds=$(SEEDS) --numprocesses=$(WORKERS) --dist=worksteal $(ARGS)

fuzz: SEEDS ?= 20000
fuzz: $(VENV)/.installed-dev  ## Run the fuzzer of scenarios: SEEDS=20000 random scenarios (10 to 30 minutes)
	$(VENV)/bin/python -m pytest tests/fuzz --fuzz-seeds=$(SEEDS) --numprocesses=$(WORKERS) --dist=worksteal $(ARGS)

lint: $(VENV)/.installed-dev  ## Check style, format, types and the order of imports (1 minute, up to 3 beside other work)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

leaderboard: $(VENV)/.installed-dev  ## Verify the submissions in scenarios/suites, and write their leaderboard
	$(VENV)/bin/hpcosim benchmark leaderboard scenarios/suites --out scenarios/suites/LEADERBOARD.md

docs: $(VENV)/.installed-docs  ## Build the documentation into site/ (1 minute); open site/index.html
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/python -m mkdocs build --strict

clean:  ## Remove the environment, results and caches
	rm -rf $(VENV) .venv-batsim-* results site build dist *.egg-info

# pip compiles no modules of an editable installation: without it each start may compile them anew.
# One stamp for each set of extras, so that no target installs what only another needs.
$(VENV)/.installed-%: pyproject.toml .ci/constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "error: Python 3.11 or later is needed; say which: make PYTHON=python3.12")'
	@echo "Installing hpcosim[$*] into $(VENV); the first time this takes minutes."
	$(PYTHON) -m venv $(VENV)
	@[ -z "$(LOCK)" ] || $(PIP) install --no-deps --require-hashes --requirement $(LOCK)
	$(PIP) install --disable-pip-version-check --constraint .ci/constraints.txt --editable '.[$*]'
	$(VENV)/bin/python -m compileall -q protocol server scheduler_client scenarios
	@touch $@
