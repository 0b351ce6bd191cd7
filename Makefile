# Two commands: `make demo` (set up and run the main job) and `make test` (set up and run the tests).
# TORCH=cpu takes PyTorch's CPU build where pip would take the CUDA one (x86-64 Linux: about 200 MB instead of 3 GB).
PYTHON ?= python3
VENV ?= .venv
TORCH ?= default
TORCH_INDEX_cpu = --extra-index-url https://download.pytorch.org/whl/cpu
TORCH_INDEX = $(TORCH_INDEX_$(TORCH))
PIP = $(VENV)/bin/pip --disable-pip-version-check
SOURCES = pyproject.toml constraints.txt

.PHONY: demo test lint clean

demo: $(VENV)/.demo
	$(VENV)/bin/firstfault drill run sg-block

test: $(VENV)/.test
	tools/install-test-programs
	$(VENV)/bin/python tools/run-tests

lint: $(VENV)/.test
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(VENV)/bin/python $(SOURCES)
	@echo "Installing firstfault and PyTorch into $(VENV): about 200 MB with a CPU build of torch, about 3 GB with"
	@echo "CUDA (pip's default on x86-64 Linux). For the CPU build there: make demo TORCH=cpu"
	$(PIP) install -q -c constraints.txt $(TORCH_INDEX) -e '.[drill]'
	touch $@

$(VENV)/.test: $(VENV)/bin/python $(SOURCES)
	$(PIP) install -q -c constraints.txt $(TORCH_INDEX) -e '.[all]' -r tests/requirements.txt
	touch $@

clean:
	rm -rf $(VENV)
