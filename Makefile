# `make demo` and `make test` create a virtual environment in .venv and install into it.

VENV ?= .venv
PYTHON ?= python3

ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
else
BIN := $(VENV)/bin
endif

# PyTorch comes by its exact version first, so that nothing else pulls in another build of it.
TORCH := $(shell sed -n 's/^ *"\(torch==[^"]*\)".*/\1/p' pyproject.toml)

INSTALLED := $(VENV)/.posformer-installed
INSTALLED_DEV := $(VENV)/.posformer-installed-dev

.PHONY: help demo test test-all lint format clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' Makefile

demo: $(INSTALLED)  ## install, then recognize the example images, print a position forest
	$(BIN)/posformer recognize examples
	$(BIN)/posformer forest '\frac{y^{\beta_1}_2 B}{C}'

test: lint  ## lint, then run all tests that are not slow, with coverage
	$(BIN)/pytest -m "not slow" --cov

test-all: lint  ## lint, then run all tests
	$(BIN)/pytest

lint: $(INSTALLED_DEV)  ## check style, imports and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

format: $(INSTALLED_DEV)  ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## remove build products and the virtual environment
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
		{ echo "posformer needs Python 3.10 or newer; try: make PYTHON=python3.12" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(INSTALLED): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet -e .
	@touch $@

$(INSTALLED_DEV): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet '$(TORCH)'
	$(BIN)/python -m pip install --quiet -e '.[dev]'
	@touch $@
