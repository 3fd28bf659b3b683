# `make run` and `make test` are all it takes; both begin with a Python of 3.11 or newer and nothing else.
# Every path is relative, so the checkout may lie in a folder with spaces in its name.

PYTHON ?= python3
PY := .venv/bin/python
set_up := PYTHON="$(PYTHON)" sh .ci/set-up
# Three at a time, each file by one of them: most of a test's time is waiting for processes.
pytest := $(PY) -m pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder
unexport PYTHONDONTWRITEBYTECODE # hundreds of processes would each compile what they import

.DEFAULT_GOAL := help
.PHONY: help run test test-all test-cluster check audit bench docs clean

help: ## say what there is
	@sed -n 's/^\([a-z-]*\):.*## /make \1\t/p' Makefile | expand -t 16

run: ## set up, run the suite `smoke` on this machine, print the table
	@$(set_up) torch
	@$(PY) -m builder run
	@echo "next, for a shell that knows ferry: . .venv/bin/activate && ferry --help" >&2

test: ## set up, run the quick tests
	@$(set_up) torch notebook report dev
	@$(pytest) -m "not slow and not cluster"

test-all: ## the tests that `test` leaves out: services, packaging, long kills
	@$(set_up) torch notebook report dev
	@$(pytest) -m slow

test-cluster: ## the tests of jobs on a real Slurm, which take their time
	@$(set_up) torch notebook report dev
	@$(PY) -m pytest -m cluster

check: ## format, lint, types
	@$(set_up) torch notebook report dev
	@$(PY) -m ruff format --check .
	@$(PY) -m ruff check .
	@$(PY) -m mypy

audit: ## hold runs against their raw logs, documents against runs and code
	@$(set_up) torch notebook report dev
	@$(PY) -m builder audit
	@$(PY) -m builder audit README.md CHANGELOG.md --run
	@$(PY) -m tests.readme --check

bench: ## measure gpuferry's own cost; figures also go to runs/bench-latest.json
	@$(set_up) torch
	@$(PY) -m tests.bench

docs: ## write the generated parts of README.md
	@$(set_up) torch notebook report dev
	@$(PY) -m tests.readme

clean: ## remove what the commands above made; runs stay
	@rm -rf .venv dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find builder harness model tests -name __pycache__ -type d -prune -exec rm -rf {} +
