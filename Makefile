# make run    the server on http://127.0.0.1:8000 (HOST, PORT and DATA_DIR change that)
# make token  a token for it: make token USER=anna ORG=acme GROUPS=readers,publishers
# make test   all tests;  make check  format, lint, types, import rules
# make rebuild   build the views anew from the log, also while the server runs
# make demo   fill the log with a month of made-up events;  ORG=name another organization's log
# make report  tables and a page with charts of all that is in the log
# make export  write what is new in the layout of a DynamoDB export
# make preview  all messages that observers send, on a page to look at
# make package  the app and its CloudFormation template for AWS, STAGE=dev, test or prod
# make torture, make bench, make bench-spark   proof and speed; see docs/
.DEFAULT_GOAL := help
SHELL := /bin/bash
.ONESHELL:
.SHELLFLAGS := -eu -o pipefail -c

PYTHON ?= python3
BIN := .venv/bin
PIP := -m pip --disable-pip-version-check --quiet
DATA_DIR ?= data
export DATA_DIR

.PHONY: help run token rebuild export report demo test test-spark test-spark35 check format torture bench bench-spark package preview clean

help:
	@sed -n 's/^# //p' Makefile

run: .venv/embedded
	@exec $(BIN)/python -m infra.embedded

token: .venv/embedded
	@$(BIN)/python -m infra.embedded.tokens --user "$(or $(if $(filter command,$(firstword $(origin USER))),$(USER)),operator)" --org "$(or $(ORG),local)" --groups "$(if $(filter command,$(firstword $(origin GROUPS))),$(GROUPS),readers,publishers)"

rebuild: .venv/embedded
	@$(BIN)/python -m infra.embedded.rebuild

export: .venv/embedded
	@$(BIN)/python -m infra.embedded.export $(ARGS)

report: .venv/embedded .venv-spark/ready
	@$(BIN)/python -m infra.embedded.report

demo: .venv/embedded
	@$(BIN)/python -m infra.demo --org "$(or $(ORG),local)" $(if $(filter 1,$(FORCE)),--force) $(ARGS)

test: test-spark .venv/dev .venv-ministack/ready tests/clients/node_modules
	# What fails while others load the machine has to pass by itself.
	$(BIN)/python -m pytest $(or $(TESTS),-n 3 --dist loadfile) || $(BIN)/python -m pytest --last-failed

# The jobs of Spark have a venv of their own, and so have their tests; they can be run on the Spark of Glue 5.1, too.
# What takes longest is begun first.
GLUE_TESTS := -m pytest -c tests/glue/pytest.ini --rootdir . --confcutdir tests/glue tests/glue/test_reports.py tests/glue
test-spark: .venv-spark/tests
	.venv-spark/bin/python $(GLUE_TESTS) -n 2 --dist loadfile

test-spark35: .venv-spark35/ready
	.venv-spark35/bin/python $(GLUE_TESTS) -k "not as_glue_runs_them"

check: .venv/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_layers.py

format: .venv/dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

torture: .venv/dev .venv-ministack/ready
	$(BIN)/python -m tests.torture $(ARGS)

bench: .venv/dev .venv-umadb/ready
	$(BIN)/python -m benchmarks $(ARGS)

bench-spark: .venv/dev .venv-spark/tests
	$(BIN)/python -m benchmarks.spark $(ARGS)

package: .venv/embedded
	@$(BIN)/python -m infra.cloud.package --stage "$(or $(STAGE),dev)"

preview: .venv/embedded
	@$(BIN)/python -m infra.preview

clean:
	rm -rf .venv .venv-* tests/clients/node_modules build .mypy_cache .ruff_cache .pytest_cache .hypothesis

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Annals needs Python 3.11 or newer")'
	@$(PYTHON) -m venv .venv

.venv/embedded: requirements-embedded.txt requirements.txt | .venv/bin/python
	@echo "Installing what the server needs into .venv ..."
	@$(BIN)/python $(PIP) install -r requirements-embedded.txt
	@touch $@

.venv/dev: requirements-dev.txt requirements-embedded.txt requirements.txt | .venv/bin/python
	@echo "Installing what development needs into .venv ..."
	@$(BIN)/python $(PIP) install -r requirements-dev.txt
	@touch $@ .venv/embedded

.venv-%/ready: requirements-%.txt
	@echo "Installing $* into .venv-$* ..."
	@$(PYTHON) -m venv .venv-$*
	@.venv-$*/bin/python $(PIP) install -r requirements-$*.txt
	@touch $@

.venv-spark/ready: requirements-spark.txt
	@echo "Installing Spark into .venv-spark; this takes a minute or two, once ..."
	@$(PYTHON) -m venv .venv-spark
	@.venv-spark/bin/python $(PIP) install -r requirements-spark.txt
	@.venv-spark/bin/python -m glue_jobs.archive > /dev/null 2>&1 || echo "Spark starts without an archive of its classes, a little slower."
	@touch $@

.venv-spark/tests: requirements-spark-tests.txt .venv-spark/ready
	@.venv-spark/bin/python $(PIP) install -r requirements-spark-tests.txt
	@touch $@

# A browser and Node are not for pip to install: without them the tests that need them say so and are skipped.
tests/clients/node_modules: tests/clients/package.json
	@if ! command -v npm > /dev/null; then echo "There is no npm: tests with clients from it are skipped."; exit; fi
	@echo "Installing the clients of npm into $@ ..."
	@npm install --prefix tests/clients --no-package-lock --no-audit --no-fund --loglevel=error
	@touch $@
