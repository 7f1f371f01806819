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

# One process per available core, each with one thread; the tests of a file share a process.
WORKERS ?= logical
PYTEST := $(BIN)/pytest -n $(WORKERS) --maxprocesses 4 --dist loadfile
# The tests of the core install: they need neither PyTorch nor other extras.
CORE_TESTS := tests/latex tests/ink tests/search tests/image/test_loading.py tests/image/test_lines.py

# Mutated inputs of every kind; results are in build/fuzz.
SEED ?= 0
FUZZ := $(BIN)/python tests/fuzz/run_fuzz.py --cases 10000 --seed $(SEED)

INSTALLED := $(VENV)/.posformer-installed
INSTALLED_DEV := $(VENV)/.posformer-installed-dev

.PHONY: help demo serve web test test-all test-lowest fuzz lint format lock pin-image sbom clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' Makefile

demo: $(INSTALLED)  ## install, then recognize the example images, print a position forest
	$(BIN)/posformer recognize examples
	$(BIN)/posformer forest '\frac{y^{\beta_1}_2 B}{C}'

serve: $(INSTALLED)  ## serve the web page, which recognizes here or in the browser (if there is Node.js)
	$(BIN)/python -m pip install --quiet -e '.[serve]'
	$(if $(shell command -v npm),$(MAKE) web,@echo "npm is absent: the page recognizes on the server only" >&2)
	$(BIN)/posformer serve

web: | $(BIN)/python  ## add ONNX Runtime Web to the package, for `posformer build-web`; needs Node.js 20
	npm ci --prefix web --omit=dev --ignore-scripts --no-audit --no-fund
	$(BIN)/python scripts/add_web_runtime.py

test test-all fuzz: export OMP_NUM_THREADS := 1

test: lint  ## lint, then run all tests that are not slow, with coverage
	$(PYTEST) -m "not slow" --cov

test-all: lint  ## lint, then run all tests, and mutated inputs for five minutes
	$(PYTEST)
	$(FUZZ) --minutes 5

fuzz: $(INSTALLED_DEV)  ## run 10,000 mutated inputs; make SEED=1 fuzz for others
	$(FUZZ)

test-lowest: | $(BIN)/python  ## test the core install with the oldest supported libraries
	$(PYTHON) -m venv $(VENV)-lowest
	$(VENV)-lowest/$(notdir $(BIN))/python -m pip install --quiet -r requirements/lowest.txt filelock fonttools hypothesis pytest pytest-timeout sympy
	$(VENV)-lowest/$(notdir $(BIN))/python -m pip install --quiet --no-deps -e .
	$(VENV)-lowest/$(notdir $(BIN))/python -m pytest -p no:cacheprovider $(CORE_TESTS)
	$(VENV)-lowest/$(notdir $(BIN))/posformer recognize examples

lint: $(INSTALLED_DEV)  ## check style, imports and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

format: $(INSTALLED_DEV)  ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

LOCK := uv pip compile --quiet --universal --python-version 3.12 --generate-hashes --no-header --no-emit-index-url

lock: $(INSTALLED_DEV)  ## update the libraries of the container: requirements/{build,container}.txt
	echo '# What builds the package in the container: see Dockerfile. Written by `make lock`.' >requirements/build.txt
	echo 'hatchling>=1.26' | $(BIN)/$(LOCK) - >>requirements/build.txt
	echo '# What the container installs, with the hash of every file: see Dockerfile. Written by `make lock`.' >requirements/container.txt
	$(BIN)/$(LOCK) --extra serve --extra formats pyproject.toml >>requirements/container.txt

pin-image:  ## update the digest of the container's base image to that of its tag; needs Docker
	@image=$$(sed -n 's/^FROM \(python:[^@]*\)@.*/\1/p' Dockerfile | head -n 1) && \
	digest=$$(docker buildx imagetools inspect --format '{{.Manifest.Digest}}' "$$image") && \
	sed -i.bak "s/@sha256:[0-9a-f]*/@$$digest/" Dockerfile && rm Dockerfile.bak && echo "$$image@$$digest"

sbom: $(INSTALLED_DEV)  ## write a software bill of materials and the list of licenses to build/
	@mkdir -p build
	$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --of JSON -o build/sbom.cdx.json $(BIN)/python
	$(BIN)/pip-licenses --python $(BIN)/python --from mixed --with-urls --format markdown --output-file build/licenses.md

clean:  ## remove build products and the virtual environment
	rm -rf $(VENV) $(VENV)-lowest web/node_modules build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
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
