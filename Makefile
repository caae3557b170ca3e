# The everyday commands. `make setup` once, then the rest in its environment.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

.PHONY: setup format lint type test test-changed test-all test-gpu build bench docs
setup:  ## an environment with everything a developer needs
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install "torch==2.13.0"
	$(BIN)/pip install -e ".[dev]"
	$(BIN)/pre-commit install
format:
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
lint:
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
type:
	$(BIN)/pyright --pythonpath $(BIN)/python
test:  ## every property once: some 12 minutes on two cores, caches cold
	$(BIN)/pytest -n 2
test-changed:  ## tests that a change reaches, nearest first, at most some 4 minutes: make test-changed SINCE=main~3
	$(BIN)/pytest -n 2 --changed $(SINCE)
test-all:  ## with the slow ones, or a part of them: make test-all SHARD=2/12
	$(BIN)/pytest -n 2 -m "not gpu and not sweep" $(if $(SHARD),--shard $(SHARD))
test-gpu:  ## on a machine with an NVIDIA GPU
	$(BIN)/pytest -m gpu
build:  ## sdist, wheel from it, and a smoke test of the wheel away from the checkout
	rm -rf dist && $(BIN)/python -m build
	$(PYTHON) -m venv build/smoke && build/smoke/bin/pip install -q "torch==2.13.0" dist/*.whl
	cd build && smoke/bin/python -m embodied.evaluate swarm/hover --policy shipped --episodes 16
docs:  ## the site, in build/site; its search needs a server: python -m http.server -d build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
bench:
	$(BIN)/python -m embodied.bench --json benchmarks/results/bench.json
