# Every target works on a fresh machine: it installs what it needs first.

PYTHON ?= python3
PY := .venv/bin/python

# Parts of tools/budget.toml to run: make test PARTS="check conformance"
PARTS ?=

.DEFAULT_GOAL := help
.PHONY: help setup servers check test test-versions test-spark-versions test-lowest test-examples demo bench bench-peers bench-spark proof docs lock clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-19s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup:  ## Make .venv with the locked packages; an instant when it is there already
	@command -v $(PYTHON) >/dev/null || { echo "setup: there is no $(PYTHON); install Python 3.11 or newer, or type: make setup PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -B tools/setup.py

servers: setup  ## Install the servers that tests and benchmarks start; an instant when they are there already
	@$(PY) -B -m tools.servers

check: setup  ## Lint, format, types and layers, in under a minute
	@$(PY) tools/parts.py check

test: servers  ## Check and run every test, each part timed against its budget
	@$(PY) tools/parts.py $(PARTS)

test-versions: servers  ## Run a part of the tests on every Python from 3.11 on that is found
	@$(PY) -m tools.versions

test-spark-versions: servers  ## Run a part of the pipeline's tests on every minor version of Spark that is served
	@$(PY) -m tools.spark_versions

test-lowest: servers  ## Run a part of the tests with the lowest versions that pyproject.toml allows
	@$(PY) -m tools.lowest

test-examples: setup  ## Run the examples for Airflow, Dagster, dbt and Jupyter, each in an environment of its own
	@$(PY) -m tools.examples

demo: setup  ## Run jobs of several kinds and tenants through a store and report on them with Spark
	@$(PY) -m headrace.cli.main demo

bench: servers  ## Measure the stores, the worker and feeds beside raw references
	@$(PY) -m benchmarks.stores
	@$(PY) -m benchmarks.worker
	@$(PY) -m benchmarks.feeds

bench-peers: servers  ## Measure Headrace beside other queues, which it installs outside the tree, and write the page
	@$(PY) -m benchmarks.peers

bench-spark: servers  ## Measure reading, writing and fleets of Spark beside bare references
	@$(PY) -m benchmarks.spark
	@$(PY) -m benchmarks.history
	@$(PY) -m benchmarks.fleet

proof: servers  ## Run the long proofs, and what `make test` leaves out of the conformance suite and of the pipeline's tests
	@$(PY) -m pytest -q -n 3 --dist worksteal --everything tests/conformance
	@$(PY) -m pytest -q -n 2 --dist worksteal --everything -m proof tests/pipeline
	@$(PY) -m tests.proof

docs: setup  ## Test the documentation
	@$(PY) -m pytest tests/docs

lock:  ## Resolve requirements/*.txt again from pyproject.toml
	@$(PYTHON) -B -m tools.lock

clean:  ## Remove .venv and all files left by the tools
	rm -rf .venv .venv-spark .venv-versions .venv-lowest .venv-examples build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
