# Everything a contributor needs. Nothing is assumed but Linux, make, and Python 3.11 or newer with pip.
#
#   make test ARGS="-k gang"     arguments go to the command behind the target
#   make test K8S=skip           builds no Kubernetes to test on; one that was built is used all the same
#   make test PYTHON=python3.13  another interpreter (delete .venv, or `make clean`, to change it later)

ARGS   ?=
ASSETS ?=
K8S    ?=
JOBS   ?= 2
SEEDS  ?= 20
PYTHON ?=

SHELL     := /bin/sh
VENV      := .venv
BIN       := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo examples test soak k8s-assets bench lint format prose lock clean install FORCE

help: ## show this list
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)$$/  make \1@\2/p' Makefile | while IFS=@ read -r target text; do \
		printf '%-18s %s\n' "$$target" "$$text"; done

demo: install ## run a cluster of four nodes here, with two teams and three jobs, and show it at work (30 s)
	@SHOAL=$(abspath $(BIN))/shoal examples/demo/run.sh

examples: install ## plan example worlds: what to see in them, and the plan
	@$(foreach world,$(SHOWN),$(call scene,$(world));)
	@echo 'More worlds to plan in the same way; each file says what to look for:'
	@echo
	@for world in $(filter-out $(SHOWN),$(WORLDS)); do \
		printf '  %-42s %s\n' "$$world" "$$(sed -n '1s/^# //p' "$$world")"; done

test: lint ## lint, then run the tests; builds a Kubernetes to test on first, if it can (minutes, once)
	@$(if $(filter skip,$(K8S)),,$(find_python); "$$python" tests/k8s/assets.py --if-possible)
	@$(BIN)/python -m pytest -q -rs -n $(JOBS) --dist worksteal $(ARGS)

soak: lint ## run the tests that take long: more faults, more crashes, more seeds (SEEDS=20)
	@$(find_python); "$$python" tests/k8s/assets.py --if-possible
	@SHOAL_SEEDS=$(SEEDS) $(BIN)/python -m pytest -q -rs -n $(JOBS) --dist worksteal --timeout 3600 -m soak $(ARGS)

k8s-assets: ## build the programs of Kubernetes that tests run, into a cache; ASSETS=kubelet for more
	@$(find_python); "$$python" tests/k8s/assets.py $(ASSETS)

bench: install ## measure the engine, the homes, the loops, `shoal up` and commands
	@$(BIN)/python benchmarks/engine.py $(ARGS)
	@$(BIN)/python benchmarks/cluster.py $(ARGS)
	@$(BIN)/python benchmarks/loops.py $(ARGS)
	@$(BIN)/python benchmarks/embedded.py $(ARGS)

lint: install ## check style, format, types and layers
	@$(call check,style,$(BIN)/python -m ruff check --quiet)
	@$(call check,format,$(BIN)/python -m ruff format --check --quiet)
	@$(call check,types,$(BIN)/python -m mypy)
	@$(call check,imports,$(BIN)/lint-imports)

format: install ## put the sources in shape
	@$(BIN)/python -m ruff check --quiet --fix-only
	@$(BIN)/python -m ruff format

prose: ## count "who", "nobody" and the like in docstrings and comments; ARGS="src tests --worst 30"
	@$(find_python); "$$python" tools/prose.py $(ARGS)

lock: ## pin the newest versions of the whole environment in requirements-dev.txt
	@$(find_python); \
	"$$python" -m venv --clear --without-pip build/lock && \
	"$$python" -m $(PIP) --python build/lock/bin/python install '.[dev]' && { \
		echo '# The whole development environment, to the last package. Written by `make lock`.'; \
		"$$python" -m pip --python build/lock/bin/python freeze --exclude shoal; \
	} > build/requirements-dev.txt && mv build/requirements-dev.txt requirements-dev.txt && rm -rf build/lock

clean: ## remove the environment, caches and build outputs
	@rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	@find src tests benchmarks tools -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# What `make examples` shows in full: gangs and reasons, lending, elastic sizes. The others it only names.
SHOWN  := $(patsubst %,examples/worlds/%.yaml,team two-teams edl)
WORLDS := $(wildcard examples/worlds/*.yaml)

# A world's first line, the command, and what it prints.
define scene
sed -n '1s/^# /== /p' $(1); echo; echo '$$ shoal plan -f $(1) --cycles 20'; \
$(BIN)/shoal plan -f $(1) --cycles 20 $(ARGS) || exit; echo
endef

# One line if all is well, else all that was found.
check = found=$$($(2) 2>&1) && echo '$(1): ok' || { printf '%s\n' '$(1): FAILED' "$$found"; exit 1; }

# --- the environment -------------------------------------------------------------------------------------
#
# The stamp is written last and holds the directory it was made for. No stamp (first run, interrupted run)
# or another directory (a copied tree): start from nothing. An older stamp: bring it up to date, which needs
# no network if the pinned packages are there already.

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

# pip is the outer interpreter's: a fresh machine may lack ensurepip, and so could not put one into .venv.
PIP := pip --quiet --no-input --disable-pip-version-check

export PIP_USER := 0
export PIP_ROOT_USER_ACTION := ignore

# Sets $python to the first interpreter that will do, or says what is missing.
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
