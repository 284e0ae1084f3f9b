# Targets for contributors. Requirements: Linux, make, and Python 3.11 or newer with pip.
#
#   make test ARGS="-k gang"     ARGS is passed on to the command of the target
#   make test K8S=skip           builds no Kubernetes to test on; one that was built before is still used
#   make test PYTHON=python3.13  uses another interpreter (delete .venv, or run `make clean`, to change it later)

ARGS   ?=
ASSETS ?=
K8S    ?=
JOBS   ?= 2
SEEDS  ?= 20
PYTHON ?=
FRAMEWORKS ?= build/frameworks

SHELL     := /bin/sh
VENV      := .venv
BIN       := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo rl examples test soak frameworks k8s-assets bench lint format prose glossary lock clean install FORCE

help: ## show this list
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)$$/  make \1@\2/p' Makefile | while IFS=@ read -r target text; do \
		printf '%-18s %s\n' "$$target" "$$text"; done

demo: install ## run a cluster of four nodes on this machine, with two teams and jobs of four kinds, and watch it (40 s)
	@SHOAL=$(abspath $(BIN))/shoal examples/demo/run.sh

rl: install ## learn CartPole with collectors that come and go, and watch the reward rise (a minute)
	@SHOAL=$(abspath $(BIN))/shoal PYTHON=$(abspath $(BIN))/python examples/rl/run.sh

examples: install ## plan some example worlds, and list the others
	@$(foreach world,$(SHOWN),$(call scene,$(world));)
	@echo 'More example worlds; each file says what to look for:'
	@echo
	@for world in $(filter-out $(SHOWN),$(WORLDS)); do \
		printf '  %-42s %s\n' "$$world" "$$(sed -n '1s/^# //p' "$$world")"; done

test: lint ## lint, then run the tests; builds a Kubernetes to test on first, if it can (minutes, once)
	@$(if $(filter skip,$(K8S)),,$(find_python); "$$python" tests/k8s/assets.py --if-possible)
	@$(BIN)/python -m pytest -q -rs -n $(JOBS) --dist worksteal $(ARGS)

soak: lint ## run the long tests: more faults, more crashes, more seeds (SEEDS=20)
	@$(find_python); "$$python" tests/k8s/assets.py --if-possible
	@SHOAL_SEEDS=$(SEEDS) $(BIN)/python -m pytest -q -rs -n $(JOBS) --dist worksteal --timeout 3600 -m soak $(ARGS)

frameworks: install $(FRAMEWORKS)/.installed ## run DI-engine, torchrun and Transformers as jobs; installs them first (6 GB, once)
	@FRAMEWORKS=$(abspath $(FRAMEWORKS)) $(BIN)/python -m pytest -q -rs -m frameworks tests/frameworks $(ARGS)

$(FRAMEWORKS)/.installed: examples/frameworks/requirements.txt
	@$(find_python); "$$python" -m venv --clear --without-pip $(FRAMEWORKS) && \
	"$$python" -m $(PIP) --python $(FRAMEWORKS)/bin/python install -r $< && touch $@

k8s-assets: ## build the Kubernetes programs for tests into a cache; ASSETS=kubelet for more
	@$(find_python); "$$python" tests/k8s/assets.py $(ASSETS)

bench: install ## run all benchmarks: engine, homes, loops, `shoal up`, DIJobs
	@$(BIN)/python benchmarks/engine.py $(ARGS)
	@$(BIN)/python benchmarks/cluster.py $(ARGS)
	@$(BIN)/python benchmarks/loops.py $(ARGS)
	@$(BIN)/python benchmarks/embedded.py $(ARGS)
	@$(BIN)/python benchmarks/dijob.py $(ARGS)

lint: install ## check style, format, types and layers
	@$(call check,style,$(BIN)/python -m ruff check --quiet)
	@$(call check,format,$(BIN)/python -m ruff format --check --quiet)
	@$(call check,types,$(BIN)/python -m mypy)
	@$(call check,imports,$(BIN)/lint-imports)

format: install ## format the sources
	@$(BIN)/python -m ruff check --quiet --fix-only
	@$(BIN)/python -m ruff format

prose: ## count "who", "nobody" and the like in docstrings and comments; ARGS="src tests --worst 30"
	@$(find_python); "$$python" tools/prose.py $(ARGS)

glossary: ## rewrite the list of classes in docs/glossary.md from their docstrings
	@$(find_python); "$$python" tools/glossary.py

lock: ## pin the newest versions of all packages in requirements-dev.txt
	@$(find_python); \
	"$$python" -m venv --clear --without-pip build/lock && \
	"$$python" -m $(PIP) --python build/lock/bin/python install '.[dev]' && { \
		echo '# The whole development environment, with all dependencies. Written by `make lock`.'; \
		"$$python" -m pip --python build/lock/bin/python freeze --exclude shoal; \
	} > build/requirements-dev.txt && mv build/requirements-dev.txt requirements-dev.txt && rm -rf build/lock

clean: ## remove the environment, caches and build outputs
	@rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	@find src tests benchmarks tools -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# The worlds that `make examples` plans: gangs and reasons, lending, elastic sizes. It only lists the others.
SHOWN  := $(patsubst %,examples/worlds/%.yaml,team two-teams edl)
WORLDS := $(wildcard examples/worlds/*.yaml)

# Prints the first line of a world, the command, and its output.
define scene
sed -n '1s/^# /== /p' $(1); echo; echo '$$ shoal plan -f $(1) --cycles 20'; \
$(BIN)/shoal plan -f $(1) --cycles 20 $(ARGS) || exit; echo
endef

# Prints one line on success, otherwise the whole output.
check = found=$$($(2) 2>&1) && echo '$(1): ok' || { printf '%s\n' '$(1): FAILED' "$$found"; exit 1; }

# --- the environment -------------------------------------------------------------------------------------
#
# The stamp is written last and contains the directory that the environment was made for. Without a stamp (first
# run, interrupted run) or with another directory (a copied tree) the environment is created from scratch. With an
# older stamp it is updated, which needs no network if the pinned packages are installed already.

install: $(INSTALLED)

stale := $(shell [ "$$(cat $(INSTALLED) 2>/dev/null)" = "$$(pwd -P)" ] && $(BIN)/python -c '' 2>/dev/null || echo FORCE)

$(INSTALLED): pyproject.toml requirements-dev.txt $(stale)
	@$(find_python); \
	echo "installing into $(VENV) with $$("$$python" --version)"; \
	set -e; \
	$(if $(stale),"$$python" -m venv --clear --without-pip $(VENV);) \
	rm -f $@; \
	"$$python" -m $(PIP) --python $(BIN)/python install -r requirements-dev.txt; \
	"$$python" -m $(PIP) --python $(BIN)/python install --no-deps --no-build-isolation -e .; \
	$(BIN)/python -m compileall -q src; \
	pwd -P > $@

# pip is the one of the outer interpreter: a fresh machine may lack ensurepip, so .venv has no pip of its own.
PIP := pip --quiet --no-input --disable-pip-version-check

export PIP_USER := 0
export PIP_ROOT_USER_ACTION := ignore

# Sets $python to the first suitable interpreter, or prints what is missing.
define find_python
for python in $(if $(PYTHON),"$(PYTHON)",python3 python3.11 python3.12 python3.13 python3.14); do \
	"$$python" -c '$(python_will_do)' 2>/dev/null && break; python=; \
done; \
if [ -z "$$python" ]; then \
	echo 'shoal needs Python 3.11 or newer with pip 22.3 or newer; tried: $(or $(PYTHON),python3 and python3.11 to python3.14).' >&2; \
	echo 'Install one (or upgrade its pip), or name it: make PYTHON=/path/to/python ...' >&2; \
	exit 1; \
fi
endef

python_will_do := import re, sys, pip; \
	sys.exit(sys.version_info < (3, 11) or [int(n) for n in re.findall("[0-9]+", pip.__version__)[:2]] < [22, 3])
