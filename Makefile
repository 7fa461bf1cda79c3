# `make` or `make help` lists what there is to make.
PYTHON ?= python3
VENV ?= .venv
PIP ?= $(VENV)/bin/pip
OUT ?= results/demo
WORKERS ?= auto
SEEDS ?= 10000
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help demo check test fault lint docs clean

help:  ## List the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 16

demo: $(VENV)/.installed-plot  ## Install, run the demo in two processes, draw it (1 minute)
	$(VENV)/bin/hpcosim run scenarios/demo.yaml --explain --out $(OUT) --force
	$(VENV)/bin/hpcosim draw $(OUT)
	$(VENV)/bin/hpcosim report $(OUT)

check: $(VENV)/.installed-dev  ## Run the fast tests (3 minutes); ARGS="tests/server" chooses some
	$(VENV)/bin/python -m pytest -m "not slow" --hypothesis-profile=fast --durations=5 $(ARGS)

test: $(VENV)/.installed-dev  ## Run all tests, WORKERS=auto at a time (20 minutes on two cores)
	$(VENV)/bin/python -m pytest --numprocesses=$(WORKERS) --dist=worksteal $(ARGS)

fault: $(VENV)/.installed-dev  ## Run the fault suite: SEEDS=10000 simulated runs, then processes (10 minutes)
	$(VENV)/bin/python -m pytest tests/fault --fault-long --fault-seeds=$(SEEDS) --numprocesses=$(WORKERS) --dist=worksteal $(ARGS)

lint: $(VENV)/.installed-dev  ## Check style, format, types and the order of imports (1 minute)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

docs: $(VENV)/.installed-docs  ## Build the documentation into site/ (1 minute); open site/index.html
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/python -m mkdocs build --quiet --strict

clean:  ## Remove the environment, results and caches
	rm -rf $(VENV) .venv-batsim-* results site build dist *.egg-info

# One stamp for each set of extras, so that no target installs what only another needs.
$(VENV)/.installed-%: pyproject.toml .ci/constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "error: Python 3.11 or later is needed; say which: make PYTHON=python3.12")'
	@echo "Installing hpcosim[$*] into $(VENV); the first time this takes minutes."
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --disable-pip-version-check --constraint .ci/constraints.txt --editable '.[$*]'
	@touch $@
