# `make demo` and `make test` are all a visitor needs; the rest is for contributors.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Tests wait for processes, networks and disks: two at a time keep two cores busy. They keep the order that
# tests/conftest.py gives them: by the number of tests in a file, the longest would come last.
PROCESSES ?= 2

.DEFAULT_GOAL := help
.PHONY: help setup agent system demo test test-spark-matrix check format lock bench-ingest bench-lineage bench-agent \
  bench-pipelines bench-judgement compare-agents schema clean

help: ## Show this help
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  \033[1m%-18s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## Make .venv with everything in it, and the Spark agent's jars
	@$(BIN)/python scripts/build_agent.py --if-java

$(READY): requirements/bootstrap.txt requirements/dev.txt pyproject.toml scripts/setup
	PYTHON="$(PYTHON)" VENV="$(VENV)" scripts/setup
	@touch $@

agent: $(READY) ## Compile the Spark agent, if it has changed
	$(BIN)/python scripts/build_agent.py

system: ## Install what tests need from Debian (does nothing where it cannot)
	@scripts/system-packages

demo: setup ## Start the server, send it events, run pipelines over a week, and serve until Ctrl-C
	$(BIN)/python examples/demo.py

test: setup system agent check ## Everything that CI runs
	$(BIN)/python -m tests.support.jvm
	$(BIN)/pytest --numprocesses $(PROCESSES) --dist loadfile --no-loadscope-reorder

test-spark-matrix: agent ## The tests of the Spark agent on Spark 3.5, 4.0 and 4.3
	$(BIN)/python scripts/spark_matrix.py

check: setup ## Format, lint, types and import rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup ## Format the code and mend what the linter can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench-ingest: setup ## Measure ingest against COPY, group commit against none, and growth
	$(BIN)/python -m benchmarks.ingest

bench-lineage: setup ## Measure lineage, lists and search against a recursive query and a bare request
	$(BIN)/python -m benchmarks.lineage

bench-agent: agent ## Measure jobs without the agent, with it, and with openlineage-spark
	$(BIN)/python -m benchmarks.agent

bench-pipelines: setup ## Measure pipelines against a bare read and write, DQX and Great Expectations
	$(BIN)/python -m benchmarks.pipelines

bench-judgement: setup ## Measure verdicts and incidents against the ingest round trip, and causes found first
	$(BIN)/python -m benchmarks.judgement

compare-agents: agent ## What the agent sees beside openlineage-spark, edge by edge
	$(BIN)/python -m benchmarks.comparison

schema: setup ## Write server/db/schema.sql anew from the migrations
	$(BIN)/python scripts/dump_schema.py

lock: setup ## Lock the dependencies again
	scripts/lock

clean: ## Remove what was built, and the demo's data
	rm -rf $(VENV) .headgate/demo build dist src/headgate/spark/jars .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
