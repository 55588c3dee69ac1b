# Targets call `uv run ...`; uv is fetched into .tools/ when it is missing. `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
export UV_PYTHON_DOWNLOADS ?= never
# Tests start hundreds of processes: a module is compiled once and not in each of them, also where images forbid it.
export PYTHONDONTWRITEBYTECODE :=
UV = $(shell tools/uv.sh || echo "uv-is-missing")
RUN = $(UV) run --frozen
LINT = $(UV) run --frozen --group lint
ARGS ?=
TESTS ?= tests
# One more than there are cores to count on: tests with real servers mostly wait for them.
WORKERS ?= 3

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

.PHONY: demo
demo: ## the whole control plane on a simulated GPU cluster, in about a minute
	$(RUN) berth demo $(ARGS)

.PHONY: up
up: ## start everything and keep it running until Ctrl-C
	$(RUN) berth up $(ARGS)

# A seed of the simulation is the same run in every process only if sets of texts are gone through in the same order.
.PHONY: test
test: ## the tests (TESTS=path, ARGS="-k name")
	PYTHONHASHSEED=0 $(RUN) pytest -n $(WORKERS) --dist worksteal $(TESTS) $(ARGS)

.PHONY: lint
lint: ## style, layers, types, contract drift
	$(LINT) ruff format --check .
	$(LINT) ruff check .
	$(LINT) lint-imports
	$(LINT) mypy proto/src libs/*/src services/*/src
	$(RUN) python -m berth.contracts.generate --check
	$(RUN) python tools/nats_permissions.py --check
	$(RUN) python tools/strategy_sample.py --check
	$(LINT) python tools/protos.py --check

.PHONY: format
format: ## rewrite the code in its style
	$(LINT) ruff format .
	$(LINT) ruff check --fix .

.PHONY: contracts
contracts: ## write schemas, subject table, AsyncAPI document, CRDs and permissions from the contract; messages from each .proto
	$(RUN) python -m berth.contracts.generate
	$(RUN) python tools/nats_permissions.py
	$(RUN) python tools/agent_components.py
	$(RUN) python tools/strategy_sample.py
	$(LINT) python tools/protos.py

.PHONY: bench
bench: ## benchmarks: medians and ratios against a baseline of the same run (OUT=folder: JSON and pictures; BENCHES="openb quality")
	@for each in $(or $(BENCHES),$(patsubst tests/bench/bench_%.py,%,$(wildcard tests/bench/bench_*.py))); do \
	  echo "== tests/bench/bench_$$each.py"; \
	  BERTH_BENCH_OUT=$(abspath $(OUT)) PYTHONPATH=. $(RUN) python tests/bench/bench_$$each.py $(ARGS) || exit 1; \
	done
	@[ -z "$(OUT)" ] || $(UV) run --frozen --group plots python tests/bench/plots.py $(OUT)

.PHONY: bench-cluster
bench-cluster: ## the race with kube-scheduler on a real API server (ARGS="--nodes 5000"); needs `make e2e-assets`
	KUBEBUILDER_ASSETS="$$(tools/kube/assets.sh kube-apiserver etcd kubectl kube-scheduler)" $(RUN) python tests/bench/cluster $(ARGS)

.PHONY: parity
parity: ## random worlds decided by a real kube-scheduler and by Berth: what differs (ARGS="--worlds 200 --seed 7 --features taints")
	KUBEBUILDER_ASSETS="$$(tools/kube/assets.sh kube-apiserver etcd kubectl kube-scheduler)" $(RUN) python -m tests.parity $(ARGS)

.PHONY: e2e
e2e: ## the whole control plane as processes, against the simulated API and a real API server (see e2e-assets)
	@folder=$$(tools/kube/assets.sh --print 2>/dev/null | tail -1); [ -z "$$folder" ] || export KUBEBUILDER_ASSETS=$$folder; \
	  $(RUN) pytest -m e2e tests/e2e tests/deploy tests/attack $(ARGS)

.PHONY: e2e-assets
e2e-assets: ## get kube-apiserver, etcd and kubectl: KUBEBUILDER_ASSETS, setup-envtest, or built with Go (once)
	@tools/kube/assets.sh $(BINARIES)

.PHONY: e2e-cluster
e2e-cluster: ## Berth on a whole real node: kubelet, containers, cgroups (root; says what is missing; REPORT=docs/real-node.md ACTS="lend hold")
	@$(RUN) python tests/cluster/requirements.py
	@folder=$$(tools/kube/assets.sh --all) && $(MAKE) --no-print-directory images ARGS= && \
	  KUBEBUILDER_ASSETS=$$folder BERTH_CLUSTER_REPORT="$(REPORT)" BERTH_CLUSTER_LOGS="$(LOGS)" BERTH_CLUSTER_ACTS="$(ACTS)" \
	  $(RUN) pytest -m cluster -s tests/cluster $(ARGS)

.PHONY: bench-node
bench-node: ## a service beside batch pods on a whole real node, with the agent and without (as e2e-cluster; REPORT=docs/real-node.md)
	@$(MAKE) --no-print-directory e2e-cluster ACTS=beside

.PHONY: e2e-kernel
e2e-kernel: ## every knob of control groups version 2 on Debian's kernel, booted in qemu without KVM (gets both, as root)
	@tools/kernel/assets.sh >/dev/null && $(RUN) pytest -m e2e tests/kernel $(ARGS)

.PHONY: e2e-yarn
e2e-yarn: ## yarn-operator against a real pair of ResourceManagers and a NodeManager (Java 17, Maven: gets 90 MB once; says what is missing)
	@tools/yarn/assets.sh >/dev/null || true; $(RUN) pytest -m e2e tests/yarn $(ARGS)

.PHONY: manifests-check
manifests-check: ## every manifest in k8s/ against a real API server, by server-side dry run (see e2e-assets)
	@folder=$$(tools/kube/assets.sh --print 2>/dev/null | tail -1); [ -z "$$folder" ] || export KUBEBUILDER_ASSETS=$$folder; \
	  $(RUN) pytest -m e2e tests/deploy/test_manifests*.py $(ARGS)

.PHONY: chaos
chaos: ## faults under load on real processes: kills, old and empty stores, partitions, pauses, a failing API; prints a table
	$(RUN) pytest -m chaos -s tests/chaos $(ARGS)

.PHONY: model
model: ## the model of the placement transaction: each rule taken away, all rules under faults (ARGS="-v --seconds 20 R5")
	$(RUN) python -m tests.model $(ARGS)

SEEDS ?= 100
.PHONY: simulate
simulate: ## so many more seeds of the whole control plane under faults, in one process each (SEEDS=1000; may be stopped)
	$(RUN) python -m tests.simulation --seeds $(SEEDS) $(ARGS)

.PHONY: simulate-planted
simulate-planted: ## in how many seeds each planted bug is found (SEEDS=40; ARGS='"R5 uid" --held 5' for one, and without it)
	$(RUN) python -m tests.simulation.planted --seeds $(SEEDS) $(ARGS)

.PHONY: images
images: ## container images of everything, and their sizes (needs Docker; ARGS="nats cli" for some)
	@python3 tools/images/build.py $(ARGS)

.PHONY: images-check
images-check: ## sizes of the images that are there; fails when one is missing or too large
	@python3 tools/images/build.py --check $(ARGS)
