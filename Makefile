# The verbs for people and CI. A fresh machine needs Python 3.11 or newer, git and make.
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
LOCKING := --generate-hashes --strip-extras --allow-unsafe --no-header --quiet --annotation-style=line \
	--no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-emit-options
SOAK ?= tests/chaos tests/queue tests/budgets tests/sloppy tests/stores tests/acceptance/test_every_kind.py \
	tests/environments/test_many_at_once.py tests/environments/test_environment_contract.py tests/probing/test_kinds.py \
	tests/environments/test_command_lines.py tests/environments/test_lying_toolboxes.py \
	tests/mainjob/test_armed_checkouts.py tests/mainjob/test_hostile_devcontainers.py \
	tests/mainjob/test_devcontainers_that_start.py tests/mainjob/test_endless_devcontainers.py \
	tests/mainjob/test_shared_checkouts.py tests/toolbox/test_toolbox_searching.py
PATCHYARD_SEED ?= 20261121
TURNS ?= 10
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_ROOT_USER_ACTION := ignore

.PHONY: help setup fix check test demo bench bench-peers bench-turns soak version lock ratchet

help: ## what there is
	@sed -nE 's/^([a-z-]+):.*## (.*)/make \1\t\2/p' Makefile

setup: $(VENV)/.ready ## everything into .venv; again only when the lock changes

$(VENV)/.ready: requirements/dev.lock
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is missing; cure: sudo apt-get install python3 python3-venv" >&2; exit 1; }
	scripts/system_packages.sh $(PYTHON)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements/dev.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

fix: setup ## what can be put right by itself
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	-$(BIN)/python scripts/cli_reference.py
	$(BIN)/python scripts/attack_table.py
	$(BIN)/python scripts/protected_table.py

check: setup ## all that can be said without running the code
	@mkdir -p build
	@failed=0; \
	$(BIN)/ruff check --quiet . || failed=1; \
	$(BIN)/ruff format --quiet --check . || { echo "ruff format: cure: make fix" >&2; failed=1; }; \
	$(BIN)/mypy || failed=1; \
	$(BIN)/lint-imports --no-logo >build/imports.log 2>&1 || { cat build/imports.log; failed=1; }; \
	for script in scripts/check_*.py; do $(BIN)/python $$script || failed=1; done; \
	$(BIN)/python scripts/cli_reference.py --check || failed=1; \
	$(BIN)/python scripts/attack_table.py --check || failed=1; \
	$(BIN)/python scripts/protected_table.py --check || failed=1; \
	test $$failed = 0 || { echo "make check: failed" >&2; exit 1; }; echo "make check: all well"

test: setup ## behave, robot and pytest with their coverage together
	$(BIN)/python scripts/run_tests.py

demo: setup ## the main job on a bundled task: no key, no network
	$(BIN)/agents demo

bench: setup ## the measures, as a table
	$(BIN)/python scripts/bench.py

bench-peers: setup ## Patchyard beside other engines, each installed into its own place in build/peers
	$(BIN)/python -m benchmarks.peers $(PEERS)

bench-turns: setup ## the measures here and in the checkout OTHER by turns: medians side by side
	$(BIN)/python scripts/bench_turns.py $(OTHER) $(PARTS) --turns $(TURNS) $(HOW)

soak: setup ## the seeded suites for longer: kills, cut power, full disks, faults, workers, budgets, the sloppy model, lies, kinds
	PATCHYARD_SEED=$(PATCHYARD_SEED) $(BIN)/python scripts/run_soak.py $(SOAK)

version: ## the one version there is
	@sed -nE 's/^version = "(.*)"/\1/p' pyproject.toml

lock: setup ## the locks anew from pyproject.toml
	$(BIN)/python -m pip install --quiet pip-tools
	$(BIN)/pip-compile $(LOCKING) -o requirements/runtime.lock pyproject.toml
	$(BIN)/pip-compile $(LOCKING) --extra test -c requirements/runtime.lock -o requirements/dev.lock \
		pyproject.toml requirements/dev.in

ratchet: setup ## as test, and raise the coverage floor to what was measured
	$(BIN)/python scripts/run_tests.py --raise-floor
