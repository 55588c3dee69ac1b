# Targets call `uv run ...`; uv is fetched into .tools/ when it is missing. `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
export UV_PYTHON_DOWNLOADS ?= never
UV = $(shell tools/uv.sh || echo "uv-is-missing")
RUN = $(UV) run --frozen
LINT = $(UV) run --frozen --group lint
ARGS ?=
TESTS ?= tests
WORKERS ?= 2

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

.PHONY: demo
demo: ## the whole control plane on a simulated GPU cluster, in about a minute
	$(RUN) berth demo $(ARGS)

.PHONY: up
up: ## start everything and keep it running until Ctrl-C
	$(RUN) berth up $(ARGS)

.PHONY: test
test: ## the tests (TESTS=path, ARGS="-k name")
	$(RUN) pytest -n $(WORKERS) $(TESTS) $(ARGS)

.PHONY: lint
lint: ## style, layers, types, contract drift
	$(LINT) ruff format --check .
	$(LINT) ruff check .
	$(LINT) lint-imports
	$(LINT) mypy proto/src libs/*/src services/*/src
	$(RUN) python -m berth.contracts.generate --check
	$(RUN) python tools/nats_permissions.py --check

.PHONY: format
format: ## rewrite the code in its style
	$(LINT) ruff format .
	$(LINT) ruff check --fix .

.PHONY: contracts
contracts: ## write schemas, subject table and CRDs from the contract
	$(RUN) python -m berth.contracts.generate
	$(RUN) python tools/nats_permissions.py

.PHONY: bench
bench: ## benchmarks: medians and ratios against a baseline of the same run
	@for each in tests/bench/bench_*.py; do echo "== $$each"; $(RUN) python $$each || exit 1; done

.PHONY: e2e
e2e: ## the whole control plane as processes, against the simulated API
	$(RUN) pytest -m e2e tests/e2e tests/deploy $(ARGS)

.PHONY: chaos
chaos: ## kill -9 of every service and of the bus, lost buckets, in the middle of a workload
	$(RUN) pytest -m chaos -s tests/chaos $(ARGS)

.PHONY: images
images: ## container images of every service (needs Docker)
	@for service in $$(ls services); do docker build --build-arg SERVICE=$$service -t berth/$$service:dev . || exit 1; done
	docker build --build-arg SERVICE=simulated-api -t berth/simulated-api:dev .
