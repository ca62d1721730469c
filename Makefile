# Every verb works on a bare machine with Python 3.11+ and make.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed

.PHONY: install format check test test-slow test-browser demo bench clean

install: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: Python 3.11 or newer is needed; try make PYTHON=python3.11"; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --constraint constraints.txt --editable '.[dev]'
	touch $@

format: $(INSTALLED)
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

check: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# One process a core, one thread a process: small products gain nothing from
# more threads, and wait for each other.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto \
  --dist worksteal

test: $(INSTALLED)
	$(PYTEST)

test-slow: $(INSTALLED)
	$(PYTEST) -m slow

# Needs Debian's chromium; without it the tests say so and are skipped.
test-browser: $(INSTALLED)
	$(PYTEST) -m browser

demo: $(INSTALLED)
	$(BIN)/bert demo

bench: $(INSTALLED)
	$(BIN)/python benchmarks/tokenizer.py
	$(BIN)/python benchmarks/inference.py
	$(BIN)/python benchmarks/embedding.py --texts 64
	$(BIN)/python benchmarks/data.py
	$(BIN)/python benchmarks/pretraining.py
	$(BIN)/python benchmarks/squad_features.py
	$(BIN)/python benchmarks/inspect_page.py
	$(BIN)/python benchmarks/finetune.py --limit 160 --dev-limit 200 --epochs 1 --seeds 2

clean:
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
