# Two commands a newcomer needs: `make demo` and `make test`. Both set up their own virtual environment.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

.PHONY: demo test test-slow check bench bench-smoke clean

$(VENV)/pip.stamp:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --upgrade pip
	@touch $@

$(VENV)/install.stamp: pyproject.toml $(VENV)/pip.stamp
	$(BIN)/python -m pip install -q -e .
	@touch $@

$(VENV)/test.stamp: pyproject.toml $(VENV)/install.stamp
	$(BIN)/python -m pip install -q -e '.[test]'
	@touch $@

$(VENV)/check.stamp: pyproject.toml $(VENV)/install.stamp
	$(BIN)/python -m pip install -q -e '.[check]'
	@touch $@

demo: $(VENV)/install.stamp  ## install, compare the policies of the paper's navigation task, write a report
	$(BIN)/polidiff demo navigation --report diff.html

test: $(VENV)/test.stamp  ## everything this machine can run in a few minutes
	$(BIN)/python -m pytest -n 2 -m "not slow and not adapters and not cluster"

test-slow: $(VENV)/test.stamp  ## coverage of intervals over many seeds, large sizes
	$(BIN)/python -m pytest -n 2 -m slow

check: $(VENV)/check.stamp $(VENV)/test.stamp  ## style, types, direction of imports
	$(BIN)/ruff check src tests benchmarks examples reproductions
	$(BIN)/ruff format --check src tests benchmarks examples reproductions
	$(BIN)/mypy
	$(BIN)/python -m pytest -n 0 tests/test_architecture.py

bench: $(VENV)/test.stamp  ## all benchmarks, results under benchmarks/results/
	$(BIN)/python -m benchmarks

bench-smoke: $(VENV)/test.stamp  ## every benchmark once, at its smallest size
	$(BIN)/python -m benchmarks --smoke

clean:
	rm -rf $(VENV) .venv-* build dist out diff.html
