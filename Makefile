# `make demo` and `make test` do everything on a machine that has only Python >= 3.11.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
DEMO_RUN := demo-$(shell date +%Y%m%d-%H%M%S)

.PHONY: setup demo test check format

setup: $(VENV)/installed

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "idqn needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: setup
	$(BIN)/idqn train idqn/MiniPacman-v0 --preset quick --name $(DEMO_RUN)
	$(BIN)/idqn eval runs/$(DEMO_RUN) --episodes 100 --random
	$(BIN)/idqn explain runs/$(DEMO_RUN)
	@echo
	@echo "What the agent learned: open runs/$(DEMO_RUN)/report/index.html in a browser. Next:"
	@echo "  $(BIN)/idqn play runs/$(DEMO_RUN) --video game.mp4"
	@echo "  $(BIN)/idqn resume runs/$(DEMO_RUN) --frames 40_000"
	@echo "  $(BIN)/tensorboard --logdir runs"
	@echo "  $(BIN)/python -c \"import idqn; print(idqn.load('runs/$(DEMO_RUN)').keys.shape)\""

test: setup
	OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE $(BIN)/python -m pytest -n 2 --dist loadfile

check: setup
	$(BIN)/ruff check src tests
	$(BIN)/ruff format --check src tests
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup
	$(BIN)/ruff check --fix src tests
	$(BIN)/ruff format src tests
