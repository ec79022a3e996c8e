# Lumbre's house: every target sets up what it needs. `make help` lists them.
# Needs make, a shell and Python 3.11 or newer; PYTHON= names another interpreter than the one found.

SHELL := /bin/sh
.DEFAULT_GOAL := help
PYTHON ?=
ARGS ?=
ASK ?= Why is the sky blue?
IN := .venv/bin/

# The interpreter is searched only when a target needs it, and only once.
FIND = python=$$(PYTHON='$(PYTHON)' sh tools/python.sh) || exit 1
ENVIRONMENT = $(FIND); "$$python" -E tools/environment.py

.PHONY: help setup setup-dev run test test-slow bench bench-router bench-decision check lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

setup: ## make .venv with what Lumbre runs on
	@$(ENVIRONMENT) base $(if $(PYTHON),named)

setup-dev: ## make .venv with what the tests and checks need as well
	@$(ENVIRONMENT) dev $(if $(PYTHON),named)

run: setup ## start Lumbre, ask it a first question (ASK=) and serve; ARGS= goes to `lumbre up`
	@$(IN)python -E tools/foreground.py $(IN)lumbre up --ask '$(subst ','\'',$(ASK))' $(ARGS)

test: setup-dev ## run the tests; ARGS= goes to pytest
	@$(IN)python -m pytest $(ARGS)

test-slow: setup-dev ## run the tests marked slow
	@$(IN)python -m pytest -m slow $(ARGS)

bench: setup ## measure the gateway beside nginx, and write docs/benchmarks.md; needs gcc, wrk and nginx
	@$(IN)python -m bench.gateway.run --write $(ARGS)

bench-router: setup ## time the mesh router beside a plain Dijkstra, and write docs/benchmarks.md
	@$(IN)python -m bench.router.run --write $(ARGS)

bench-decision: setup ## time the decision, a switch and the ledger, and soak the gateway for ten minutes; needs gcc, wrk, nginx
	@$(IN)python -m bench.decision.run --write $(ARGS)

check: setup-dev ## style, types, imports, shape, traces
	@$(IN)ruff check .
	@$(IN)ruff format --check .
	@$(IN)mypy
	@$(IN)lint-imports --no-logo
	@$(IN)python tools/shape.py
	@$(IN)python tools/traces.py

lock: setup ## write the locks again; UPGRADE=1 takes newer releases
	@$(IN)python tools/locks.py $(if $(UPGRADE),--upgrade)

clean: ## remove .venv and what the tools left
	@rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
