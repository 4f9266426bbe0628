# nvshare-guard: `make` alone lists the targets. Each target does its own set-up.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-cluster test check lint types rooms native test-fast bench drills frameworks mutants gpu-check \
        cluster-up cluster-down image lock clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "%-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) native ## the virtual environment and the C libraries (every target below calls it)

$(READY): requirements/dev.txt pyproject.toml tests/setup.sh
	@PYTHON="$(PYTHON)" sh tests/setup.sh $(VENV)
	@touch $(READY)

native: ## the hook and the software GPU, in build/
	@$(MAKE) --no-print-directory -s -C simgpu
	@$(MAKE) --no-print-directory -s -C hook

demo: setup ## the main job in a minute: a refused pod, the fix, turns on a software GPU (no root, no cluster)
	@$(BIN)/python -m testbed.demo

demo-cluster: setup ## the whole story on a real Kubernetes node (root; KEEP=1 leaves it up for playing)
	@$(BIN)/python -m testbed.demo.cluster $(if $(KEEP),--keep)

test: setup ## everything, as CI runs it: the tests on a node beside all others
	@$(BIN)/python -m tests.runners.everything

check: setup lint types rooms test-fast ## what every commit must pass, under two minutes

lint: $(READY)
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: $(READY)
	@$(BIN)/mypy

rooms: $(READY)
	@$(BIN)/lint-imports --no-cache

test-fast: setup
	@$(BIN)/python -m pytest -q -n 2 --dist loadfile -m "not slow and not cluster and not node"

bench: setup ## the speed tables: every tests/bench/<room>/bench_*.py (ROOM=hook for one room)
	@$(BIN)/python -m tests.runners.bench $(ROOM)

drills: setup ## full counts of drills and fuzzing, up to an hour: every tests/drills/<room>/drill_*.py (ROOM=… for one room)
	@$(BIN)/python -m tests.runners.drills $(ROOM)

mutants: setup ## break one line at a time of the pure folders: does a fast test notice? About an hour; ROOM=contract COUNT=50 SEED=2
	@nice $(BIN)/python -m tests.runners.mutants $(ROOM) $(if $(COUNT),--count $(COUNT)) $(if $(SEED),--seed $(SEED))

frameworks: setup ## PyTorch, JAX and others on the software GPU: bare, hooked, beside a competitor (20 minutes cold; ONLY=jax)
	@$(BIN)/python -m testbed.frameworks $(if $(ONLY),--only "$(ONLY)")

gpu-check: setup ## the bench tables on a real card ("not run" where there is none)
	@$(BIN)/python -m tests.runners.gpu_check

cluster-up: setup ## a real Kubernetes node on this machine (root)
	@$(BIN)/python -m testbed.cluster up

cluster-down: setup ## take it away again, with all it left
	@$(BIN)/python -m testbed.cluster down

image: setup ## the image from the Dockerfile, into the node's containerd where one runs (root)
	@$(BIN)/python -m testbed.cluster image

lock: $(READY) ## write requirements/*.txt from pyproject.toml
	@sh requirements/lock.sh

clean: ## remove what was built here (caches in ~/.cache/nvshare-guard stay)
	@rm -rf build $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
