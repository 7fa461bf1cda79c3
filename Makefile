# Two commands do all: `make demo` runs the main job, `make test` runs every test.
PYTHON ?= python3
VENV ?= .venv
OUT ?= results/demo

.PHONY: demo test clean

demo: $(VENV)/.installed-plot
	$(VENV)/bin/hpcosim run scenarios/demo.yaml --out $(OUT)
	$(VENV)/bin/hpcosim draw $(OUT)

test: $(VENV)/.installed-dev
	$(VENV)/bin/python -m pytest

clean:
	rm -rf $(VENV) results build *.egg-info

# One stamp for each set of extras, so that neither command installs what only the other needs.
$(VENV)/.installed-%: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "error: Python 3.11 or later is needed; say which: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $@
