# The project's commands. `make demo` and `make test` do all the set-up themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test test-slow lint bench format clean

demo: $(READY) ## install, get the demo model, ingest the sample, ask three questions
	$(BIN)/python -m refactx.cli.demo

test: $(READY) ## the whole suite but for the long crash and scale tests
	$(BIN)/python -m pytest -q -n auto --maxprocesses 4 --dist loadfile

test-slow: $(READY) ## the long ones
	$(BIN)/python -m pytest -q -m slow

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY) ## figures of the index; larger data through REFACTX_BENCH_DATA
	$(BIN)/python -m bench

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis

# Without a GPU the CPU build of torch is enough, a tenth of the size. Where pip is told where to look, it decides.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "refactx needs Python 3.11 or newer: set PYTHON=")'
	$(PYTHON) -m venv $(VENV)
	@if [ -z "$$PIP_FIND_LINKS$$PIP_INDEX_URL$$PIP_EXTRA_INDEX_URL" ] && ! command -v nvidia-smi > /dev/null; then \
		$(BIN)/python -m pip install --no-deps --retries 1 --index-url https://download.pytorch.org/whl/cpu \
			"$$(grep '^torch==' constraints.txt)" || true; \
	fi
	$(BIN)/python -m pip install --disable-pip-version-check --progress-bar off -c constraints.txt -e ".[test]"
	touch $(READY)
