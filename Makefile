# Two commands a newcomer needs: `make demo` and `make test`. Both set up their own virtual environment.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

.PHONY: demo test test-slow test-adapters test-cluster test-lowest check docs fuzz bench bench-smoke clean

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

$(VENV)/docs.stamp: pyproject.toml $(VENV)/install.stamp
	$(BIN)/python -m pip install -q -e '.[docs]'
	@touch $@

demo: $(VENV)/install.stamp  ## install, compare the policies of the paper's navigation task, write a report
	$(BIN)/polidiff demo navigation --report diff.html

test: $(VENV)/test.stamp  ## everything this machine can run in a few minutes
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow and not adapters and not cluster"

test-slow: $(VENV)/test.stamp  ## coverage of intervals over many seeds, large sizes
	$(BIN)/python -m pytest -n 2 --dist worksteal -m slow

# Libraries that cannot live in one environment each get their own; together they span Gymnasium 1.0, 1.2 and the newest.
# ADAPTERS="sb3" runs one of them; TORCH names the build of torch to install.
ADAPTERS ?= sb3 d3rlpy tianshou rllib
TORCH    ?= torch==2.13.0
needs_sb3      = stable-baselines3 onnx onnxruntime skl2onnx mo-gymnasium 'gymnasium[box2d]'
needs_d3rlpy   = d3rlpy
needs_tianshou = tianshou
needs_rllib    = 'ray[rllib]>=2.40'
tests_sb3      = tests/policies/adapters/test_stable_baselines.py tests/policies/adapters/test_torch.py \
                 tests/policies/adapters/test_onnx.py tests/policies/adapters/test_files.py \
                 tests/worlds/test_gymnasium_rewards.py tests/test_examples.py
tests_d3rlpy   = tests/policies/adapters/test_d3rlpy.py
tests_tianshou = tests/policies/adapters/test_tianshou.py
tests_rllib    = tests/policies/adapters/test_rllib.py
import_sb3      = stable_baselines3, torch, onnxruntime, skl2onnx
import_d3rlpy   = d3rlpy
import_tianshou = tianshou
import_rllib    = ray.rllib

.PRECIOUS: .venv-%/adapters.stamp
.venv-%/adapters.stamp: pyproject.toml
	$(PYTHON) -m venv .venv-$*
	.venv-$*/bin/python -m pip install -q --upgrade pip
	.venv-$*/bin/python -m pip install -q $(TORCH) $(needs_$*) pytest hypothesis pandas -e .
	@touch $@

test-adapter-%: .venv-%/adapters.stamp
	.venv-$*/bin/python -W ignore -c "import gymnasium, $(import_$*); print('$*: gymnasium', gymnasium.__version__)"
	.venv-$*/bin/python -m pytest -W default $(tests_$*) tests/worlds/test_gymnasium_tables.py \
	  tests/worlds/test_gymnasium_stepper.py tests/worlds/test_gymnasium_vector.py

test-adapters: $(ADAPTERS:%=test-adapter-%)  ## every model library for real, each in an environment of its own

.venv-cluster/cluster.stamp: pyproject.toml
	$(PYTHON) -m venv .venv-cluster
	.venv-cluster/bin/python -m pip install -q --upgrade pip
	.venv-cluster/bin/python -m pip install -q -e '.[ray,dask,pandas,gym]' pytest hypothesis
	@touch $@

test-cluster: .venv-cluster/cluster.stamp  ## the same bytes on processes, Dask and Ray, also after workers and nodes are lost
	.venv-cluster/bin/python -m pytest -m cluster tests/cluster
	.venv-cluster/bin/python -m pytest tests/worlds/test_shard_files.py -k fsspec

# Cases of benchmarks.answers that are asked with the lowest and the newest libraries; LOWEST="log_ward" asks another.
LOWEST ?= classifier frozen_lake navigation_table log_lake log_offers
.venv-lowest/lowest.stamp: pyproject.toml
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install -q --upgrade pip
	$(PYTHON) -m benchmarks.lowest > .venv-lowest/requirements.txt
	.venv-lowest/bin/python -m pip install -q -r .venv-lowest/requirements.txt -e .
	@touch $@

test-lowest: .venv-lowest/lowest.stamp $(VENV)/test.stamp  ## the same answers with the lowest libraries allowed and the newest
	.venv-lowest/bin/python -m benchmarks.answers run out/lowest --only $(LOWEST)
	$(BIN)/python -m benchmarks.answers run out/newest --only $(LOWEST)
	$(BIN)/python -m benchmarks.answers compare out/lowest out/newest --within 1e-8

check: $(VENV)/check.stamp $(VENV)/test.stamp  ## style, types, direction of imports
	$(BIN)/ruff check src tests benchmarks examples
	$(BIN)/ruff format --check src tests benchmarks examples
	$(BIN)/mypy
	$(BIN)/python -m pytest -n 0 tests/test_architecture.py

docs: $(VENV)/docs.stamp $(VENV)/test.stamp  ## the site with its gallery, under site/; a broken link is an error
	$(BIN)/python -m tests.docs.gallery docs/gallery
	$(BIN)/mkdocs build --strict
	$(BIN)/python -m tests.docs.site site

fuzz: $(VENV)/test.stamp  ## whatever may come in from outside, 10,000 cases a door, for hours; POLIDIFF_DOORS="whole studies" is one
	$(BIN)/python -m benchmarks fuzz

bench: $(VENV)/test.stamp  ## all benchmarks, results under benchmarks/results/
	$(BIN)/python -m benchmarks

bench-smoke: $(VENV)/test.stamp  ## every benchmark once, at its smallest size
	$(BIN)/python -m benchmarks --smoke

clean:
	rm -rf $(VENV) .venv-* build dist out site diff.html
