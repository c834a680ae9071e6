# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
export HF_HUB_OFFLINE = 1
export TOKENIZERS_PARALLELISM = false

.PHONY: install demo test test-fast bench check docs clean
install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test,check]'
	touch $@

demo: install          ## the method on a synthetic table: AP and F1 against labels, plot, matches
	$(BIN)/pairsieve demo --out demo-out

test: install          ## every test that needs no GPU
	$(BIN)/python -m pytest -n 2 --dist loadgroup

test-fast: install     ## what needs no browser, database server, kill, cluster or real data: a minute or two
	HYPOTHESIS_PROFILE=fast $(BIN)/python -m pytest -n 2 --dist loadgroup -m 'not slow and not shared'

bench: install         ## list the benches, with the command of each
	$(BIN)/python -m experiments.bench

check: install         ## style, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: install          ## docs/cli.md and docs/settings.md from the code, the other pages from stored results
	$(BIN)/python docs/generate.py
	$(BIN)/python -m experiments page
	$(BIN)/python -m experiments.paper_start --page docs/paper.md
	$(BIN)/python -m experiments.bench.performance
	$(BIN)/python -m experiments.bench.promises_page
	$(BIN)/python -m experiments.bench.strangers --page
	$(BIN)/python -m experiments.bench.fields --page

clean:
	rm -rf $(VENV) demo-out .pytest_cache .mypy_cache .ruff_cache
