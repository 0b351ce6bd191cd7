# Two commands: `make demo` (set up and run the main job) and `make test` (set up and run the tests).
# TORCH=cpu takes PyTorch's CPU build where pip would take the CUDA one (x86-64 Linux: about 200 MB instead of 3 GB).
PYTHON ?= python3
VENV ?= .venv
TORCH ?= default
TORCH_INDEX_cpu = https://download.pytorch.org/whl/cpu
TORCH_INDEX = $(TORCH_INDEX_$(TORCH))
ifeq ($(filter $(TORCH),default cpu),)
$(error TORCH=$(TORCH): give cpu, or leave it out)
endif
PIP = $(VENV)/bin/pip --disable-pip-version-check
SOURCES = pyproject.toml constraints.txt

.PHONY: demo test lint clean

# Only PyTorch itself is looked for on the other index, everything else where pip is set up to look.
define install-torch
$(if $(TORCH_INDEX),$(PIP) install -q --retries 1 -c constraints.txt --no-deps --index-url $(TORCH_INDEX) torch || \
	echo "No CPU build of PyTorch from $(TORCH_INDEX): taking the one that pip finds by itself")
endef

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
	$(install-torch)
	$(PIP) install -q -c constraints.txt -e '.[drill]'
	touch $@

$(VENV)/.test: $(VENV)/bin/python $(SOURCES)
	$(install-torch)
	$(PIP) install -q -c constraints.txt -e '.[all]' -r tests/requirements.txt
	touch $@

clean:
	rm -rf $(VENV)
