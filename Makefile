# make run       start the server on http://127.0.0.1:8000 (HOST, PORT and DATA_DIR change that)
# make token     print a token for it: make token USER=anna ORG=acme GROUPS=readers,publishers
# make quick     tests of the inner loop;  make test  all tests
# make check     format, lint, types, import rules, plain English
# make rebuild   rebuild the views from the log, also while the server runs;  STAGE=prod for a stage on AWS
# make demo      fill the log with a month of demo events;  ORG=name for another organization's log
# make report    tables and a page with charts from the log
# make export    write new events in the layout of a DynamoDB export
# make preview   render all notification templates to one page
# make cloud     the AWS version on this machine: real Lambdas on ministack, or on AWS_ENDPOINT_URL
# make api-docs  generate docs/api.md
# make package   build the package and the CloudFormation template: STAGE=dev, test or prod;  ARCH=arm64, x86_64 or local
# make image     build the hub's container image and push it: IMAGE=uri;  needs Docker
# make deploy    deploy a stage to AWS; shows the changes and asks;  PARAMS="AlarmMail=ops@example.org Retention=P90D"
# make destroy   delete a stage with its data, unless it is protected
# make smoke     check a deployed stage, the first hour on AWS: STAGE=dev;  ONLY=2,3
# make restore   restore commits that the log of a stage lost: STAGE=prod TO=2026-11-16T10:00:00Z, or TABLE=name;  DRY=1
# make retire    delete the events of an organization: STAGE=prod ORG=acme;  BEFORE=time
# make mutate    put bugs into copies of the code and count those that the tests notice;  ARGS="--count 20 --only domain"
# make torture   fault injection;  make bench, make bench-spark  benchmarks; see docs/
.DEFAULT_GOAL := help
SHELL := /bin/bash
.ONESHELL:
.SHELLFLAGS := -eu -o pipefail -c

PYTHON ?= python3
BIN := .venv/bin
PIP := -m pip --disable-pip-version-check --quiet
DATA_DIR ?= data
export DATA_DIR
# The tests start hundreds of servers, which should not compile their modules each time.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install run token rebuild export report demo quick test test-spark test-spark35 check format mutate torture bench bench-spark package image deploy destroy smoke restore retire cloud api-docs preview clean

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

# Everything the tests need; `make -j4 install` installs in parallel.
install: .venv/dev .venv-ministack/ready .venv-sam/ready .venv-spark/tests tests/clients/node_modules tests/dynamodb_local/node_modules tests/webhooks/node_modules .venv-localstack/ready

# At most one pytest worker per core.
WORKERS ?= $(shell nproc)
PYTEST = $(BIN)/python -m pytest
# The slowest tests start first.
SLOWEST := tests/deploy tests/http/openapi/test_schemathesis.py tests/console tests/documents tests/server

# Three groups, one after the other. Tests marked `serial` measure memory, threads or response times.
test: install
	$(PYTEST) -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m "not serial" $(or $(TESTS),$(SLOWEST) tests)
	$(GLUE_TESTS) -n $(WORKERS) --dist loadfile
	$(PYTEST) -m serial $(or $(TESTS),tests)

quick: .venv/dev
	$(PYTEST) -n $(WORKERS) --dist loadfile -k "not ministack and not dynamodb_local and not localstack and not schemathesis" -m "not serial" tests/domain tests/services tests/adapters tests/http tests/lambda_events

# The Spark jobs and their tests have their own venv. test-spark35 runs them on the Spark of Glue 5.1.
GLUE_TESTS = .venv-spark/bin/python -m pytest -c tests/glue/pytest.ini --rootdir . --confcutdir tests/glue tests/glue/test_reports.py tests/glue
test-spark: .venv-spark/tests
	$(GLUE_TESTS) -n $(WORKERS) --dist loadfile

test-spark35: .venv-spark35/ready
	$(GLUE_TESTS:.venv-spark/%=.venv-spark35/%) -k "not as_glue_runs_them"

check: .venv/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m infra.tools.prose_check
	$(PYTEST) -q tests/test_layers.py tests/test_design.py

format: .venv/dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

mutate: .venv/dev
	@$(BIN)/python -m tests.mutation $(ARGS)

torture: .venv/dev .venv-ministack/ready tests/dynamodb_local/node_modules
	$(BIN)/python -m tests.torture $(ARGS)

# ARGS="--quick", or some sections: ARGS="--only appends,reading --sizes 10000"
bench: .venv/dev .venv-ministack/ready .venv-umadb/peer .venv-hat/peer .venv-eventsourcing/peer benchmarks/castore/node_modules
	$(BIN)/python -m benchmarks $(ARGS)

bench-spark: .venv/dev .venv-spark/tests
	$(BIN)/python -m benchmarks --only spark $(ARGS)

package: .venv/embedded
	@$(BIN)/python -m infra.deploy.build.package --stage "$(or $(STAGE),dev)" $(if $(ARCH),--arch "$(ARCH)")

image:
	@docker buildx build --platform linux/arm64 --tag "$(IMAGE)" --push .

deploy: .venv/cloud $(if $(AWS_ENDPOINT_URL),.venv-sam/ready)
	@$(BIN)/python -m infra.deploy.stack.deploy --stage "$(or $(STAGE),dev)" $(if $(filter 1,$(YES)),--yes) $(if $(filter 1,$(REPLACE)),--replace) $(if $(PACKAGE),--package "$(PACKAGE)") $(if $(ARCH),--arch "$(ARCH)") $(PARAMS)

destroy: .venv/cloud
	@$(BIN)/python -m infra.deploy.stack.destroy --stage "$(STAGE)" $(if $(filter 1,$(YES)),--yes)

smoke: .venv/cloud
	@$(BIN)/python -m infra.deploy.smoke.smoke --stage "$(STAGE)" $(if $(ONLY),--only "$(ONLY)") $(if $(filter 1,$(YES)),--yes)

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
	rm -rf .venv .venv-* tests/clients/node_modules tests/dynamodb_local/node_modules tests/webhooks/node_modules benchmarks/castore/node_modules build .mypy_cache .ruff_cache .pytest_cache .hypothesis

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Annals needs Python 3.11 or newer")'
	@$(PYTHON) -m venv .venv

.venv/embedded: requirements-embedded.txt requirements-server.txt requirements.txt | .venv/bin/python
	@echo "Installing the server's dependencies into .venv ..."
	@$(BIN)/python $(PIP) install -r requirements-embedded.txt
	@touch $@

.venv/cloud: requirements-cloud.txt requirements-hub.txt requirements-embedded.txt requirements-server.txt requirements.txt | .venv/bin/python
	@echo "Installing deployment dependencies into .venv ..."
	@$(BIN)/python $(PIP) install -r requirements-cloud.txt
	@touch $@ .venv/embedded

.venv/dev: requirements-dev.txt requirements-apprise.txt requirements-cloud.txt requirements-hub.txt requirements-embedded.txt requirements-server.txt requirements.txt | .venv/bin/python
	@echo "Installing development dependencies into .venv ..."
	@$(BIN)/python $(PIP) install -r requirements-dev.txt
	@touch $@ .venv/embedded .venv/cloud

.venv-%/ready: requirements-%.txt
	@echo "Installing $* into .venv-$* ..."
	@$(PYTHON) -m venv .venv-$*
	@.venv-$*/bin/python $(PIP) install -r requirements-$*.txt
	@touch $@

# LocalStack 4.14 needs Python 3.13. Its tests are skipped with a message if there is none.
.venv-localstack/ready: requirements-localstack.txt
	@for python in python3.13 ~/.pyenv/versions/3.13.*/bin/python; do
	    if $$python -c "" 2> /dev/null; then break; fi
	    python=""
	done
	if [ -z "$$python" ]; then echo "Python 3.13 is not installed: skipping LocalStack."; exit; fi
	echo "Installing LocalStack into .venv-localstack ..."
	$$python -m venv .venv-localstack
	.venv-localstack/bin/python $(PIP) install -r requirements-localstack.txt
	touch $@

.venv-%/peer: benchmarks/requirements/%.txt
	@echo "Installing $* into .venv-$* ..."
	@$(PYTHON) -m venv .venv-$*
	@.venv-$*/bin/python $(PIP) install -r benchmarks/requirements/$*.txt
	@touch $@

.venv-spark/ready: requirements-spark.txt
	@echo "Installing Spark into .venv-spark; this takes a minute or two, once ..."
	@$(PYTHON) -m venv .venv-spark
	@.venv-spark/bin/python $(PIP) install -r requirements-spark.txt
	@.venv-spark/bin/python -m glue_jobs.spark.class_archive > /dev/null 2>&1 || echo "Spark starts without a class archive, a little slower."
	@touch $@

.venv-spark/tests: requirements-spark-tests.txt .venv-spark/ready
	@.venv-spark/bin/python $(PIP) install -r requirements-spark-tests.txt
	@touch $@

# pip cannot install a browser or Node. Tests that need them are skipped with a message if they are missing.
%/node_modules: %/package.json
	@if ! command -v npm > /dev/null; then echo "npm is not installed: skipping $@."; exit; fi
	@echo "Installing npm packages into $@ ..."
	@npm install --prefix $* --no-package-lock --no-audit --no-fund --loglevel=error
	@touch $@
