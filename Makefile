# make run    the server on http://127.0.0.1:8000 (HOST, PORT and DATA_DIR change that)
# make token  a token for it: make token USER=anna ORG=acme GROUPS=readers,publishers
# make test   all tests;  make check  format, lint, types, import rules
# make rebuild   build the views anew from the log, also while the server runs;  STAGE=prod those of a stage on AWS
# make demo   fill the log with a month of made-up events;  ORG=name another organization's log
# make report  tables and a page with charts of all that is in the log
# make export  write what is new in the layout of a DynamoDB export
# make preview  all messages that observers send, on a page to look at
# make cloud  the cloud on this machine: real Lambdas on ministack, or on what AWS_ENDPOINT_URL points to
# make api-docs  docs/api.md, from the code
# make package  the app and its CloudFormation template for AWS, STAGE=dev, test or prod
# make deploy  that stage to AWS: shows what would change, asks;  PARAMS="AlarmMail=ops@example.org Retention=P90D"
# make destroy  that stage with all it holds, unless it is protected
# make restore  put back what the log of a stage lost: STAGE=prod TO=2026-11-16T10:00:00Z, or TABLE=name;  DRY=1
# make retire  delete the events of an organization that left: STAGE=prod ORG=acme;  BEFORE=time
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
# Servers are started by the hundred in tests: they need not be compiled each time.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install run token rebuild export report demo test test-spark test-spark35 check format torture bench bench-spark package deploy destroy restore retire cloud api-docs preview clean

help:
	@sed -n 's/^# //p' Makefile

run: .venv/embedded
	@exec $(BIN)/python -m infra.server

token: .venv/embedded
	@$(BIN)/python -m infra.server.local_tokens --user "$(or $(if $(filter command,$(firstword $(origin USER))),$(USER)),operator)" --org "$(or $(ORG),local)" --groups "$(if $(filter command,$(firstword $(origin GROUPS))),$(GROUPS),readers,publishers)"

rebuild: $(if $(STAGE),.venv/cloud,.venv/embedded)
	@$(BIN)/python -m $(if $(STAGE),infra.deploy.data.rebuild --stage "$(STAGE)",infra.server.commands.rebuild)

export: .venv/embedded
	@$(BIN)/python -m infra.server.commands.export $(ARGS)

report: .venv/embedded .venv-spark/ready
	@$(BIN)/python -m infra.server.commands.report

demo: .venv/embedded
	@$(BIN)/python -m infra.tools.demo --org "$(or $(ORG),local)" $(if $(filter 1,$(FORCE)),--force) $(ARGS)

# All that tests need; `make -j4 install` installs it side by side.
install: .venv/dev .venv-ministack/ready .venv-sam/ready .venv-spark/tests tests/clients/node_modules

# What takes longest is begun first.
LONGEST := tests/deploy tests/http/openapi/test_schemathesis.py tests/console tests/documents tests/server

# The tests of Spark run beside all others. What fails while others load the machine has to pass by itself.
test: install
	spark=$$(mktemp)
	$(GLUE_TESTS) -n 2 --dist loadfile > $$spark 2>&1 & beside=$$!
	$(BIN)/python -m pytest $(or $(TESTS),-n 3 --dist loadfile --no-loadscope-reorder $(LONGEST) tests) && main=0 || main=$$?
	wait $$beside && echo "Spark: $$(tail -1 $$spark)" || { cat $$spark; $(GLUE_TESTS) --last-failed; }
	rm -f $$spark
	[ $$main = 0 ] || $(BIN)/python -m pytest --last-failed

# The jobs of Spark have a venv of their own, and so have their tests; they can be run on the Spark of Glue 5.1, too.
# What takes longest is begun first.
GLUE_TESTS = .venv-spark/bin/python -m pytest -c tests/glue/pytest.ini --rootdir . --confcutdir tests/glue tests/glue/test_reports.py tests/glue
test-spark: .venv-spark/tests
	$(GLUE_TESTS) -n 2 --dist loadfile

test-spark35: .venv-spark35/ready
	$(GLUE_TESTS:.venv-spark/%=.venv-spark35/%) -k "not as_glue_runs_them"

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

# ARGS="--quick", or a part of it: ARGS="--only appends,reading --sizes 10000"
bench: .venv/dev .venv-ministack/ready .venv-umadb/peer .venv-hat/peer .venv-eventsourcing/peer benchmarks/castore/node_modules
	$(BIN)/python -m benchmarks $(ARGS)

bench-spark: .venv/dev .venv-spark/tests
	$(BIN)/python -m benchmarks --only spark $(ARGS)

package: .venv/embedded
	@$(BIN)/python -m infra.deploy.build.package --stage "$(or $(STAGE),dev)"

deploy: .venv/cloud $(if $(AWS_ENDPOINT_URL),.venv-sam/ready)
	@$(BIN)/python -m infra.deploy.stack.deploy --stage "$(or $(STAGE),dev)" $(if $(filter 1,$(YES)),--yes) $(if $(filter 1,$(REPLACE)),--replace) $(if $(PACKAGE),--package "$(PACKAGE)") $(PARAMS)

destroy: .venv/cloud
	@$(BIN)/python -m infra.deploy.stack.destroy --stage "$(STAGE)" $(if $(filter 1,$(YES)),--yes)

restore: .venv/cloud
	@$(BIN)/python -m infra.deploy.data.restore --stage "$(STAGE)" $(if $(TO),--to "$(TO)") $(if $(TABLE),--table "$(TABLE)") $(if $(filter 1,$(DRY)),--dry-run) $(if $(filter 1,$(YES)),--yes)

retire: .venv/cloud
	@$(BIN)/python -m infra.deploy.data.retire --stage "$(STAGE)" --org "$(ORG)" $(if $(BEFORE),--before "$(BEFORE)") $(if $(filter 1,$(YES)),--yes)

cloud: .venv/cloud .venv-sam/ready $(if $(AWS_ENDPOINT_URL),,.venv-ministack/ready)
	@exec $(BIN)/python -m infra.deploy.local.local --stage "$(or $(STAGE),dev)" $(if $(PORT),--port $(PORT)) $(ARGS) $(PARAMS)

api-docs: .venv/embedded
	@$(BIN)/python -m infra.tools.api_docs

preview: .venv/embedded
	@$(BIN)/python -m infra.tools.preview

clean:
	rm -rf .venv .venv-* tests/clients/node_modules benchmarks/castore/node_modules build .mypy_cache .ruff_cache .pytest_cache .hypothesis

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Annals needs Python 3.11 or newer")'
	@$(PYTHON) -m venv .venv

.venv/embedded: requirements-embedded.txt requirements.txt | .venv/bin/python
	@echo "Installing what the server needs into .venv ..."
	@$(BIN)/python $(PIP) install -r requirements-embedded.txt
	@touch $@

.venv/cloud: requirements-cloud.txt requirements-embedded.txt requirements.txt | .venv/bin/python
	@echo "Installing what deployments need into .venv ..."
	@$(BIN)/python $(PIP) install -r requirements-cloud.txt
	@touch $@ .venv/embedded

.venv/dev: requirements-dev.txt requirements-cloud.txt requirements-embedded.txt requirements.txt | .venv/bin/python
	@echo "Installing what development needs into .venv ..."
	@$(BIN)/python $(PIP) install -r requirements-dev.txt
	@touch $@ .venv/embedded .venv/cloud

.venv-%/ready: requirements-%.txt
	@echo "Installing $* into .venv-$* ..."
	@$(PYTHON) -m venv .venv-$*
	@.venv-$*/bin/python $(PIP) install -r requirements-$*.txt
	@touch $@

.venv-%/peer: benchmarks/requirements/%.txt
	@echo "Installing $* into .venv-$* ..."
	@$(PYTHON) -m venv .venv-$*
	@.venv-$*/bin/python $(PIP) install -r benchmarks/requirements/$*.txt
	@touch $@

.venv-spark/ready: requirements-spark.txt
	@echo "Installing Spark into .venv-spark; this takes a minute or two, once ..."
	@$(PYTHON) -m venv .venv-spark
	@.venv-spark/bin/python $(PIP) install -r requirements-spark.txt
	@.venv-spark/bin/python -m glue_jobs.spark.class_archive > /dev/null 2>&1 || echo "Spark starts without an archive of its classes, a little slower."
	@touch $@

.venv-spark/tests: requirements-spark-tests.txt .venv-spark/ready
	@.venv-spark/bin/python $(PIP) install -r requirements-spark-tests.txt
	@touch $@

# A browser and Node are not for pip to install: without them what needs them says so and is left out.
%/node_modules: %/package.json
	@if ! command -v npm > /dev/null; then echo "There is no npm: what needs $@ is left out."; exit; fi
	@echo "Installing what comes from npm into $@ ..."
	@npm install --prefix $* --no-package-lock --no-audit --no-fund --loglevel=error
	@touch $@
