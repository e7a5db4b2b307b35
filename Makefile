# `make demo` and `make test` are all a newcomer needs; both set up a virtual environment in .venv first.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
WORKERS ?= 2
DEMO   := runs/demo
PYTEST := $(BIN)/python -m pytest -q -n $(WORKERS)

.PHONY: demo test check lint docs linkcheck wheel bench clean

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: $(READY)  ## Learn handwritten digits, two classes at a time, in four ways, and write a report.
	@for method in hpn finetune ncm joint; do \
	  $(BIN)/hpn run digits --method $$method --seeds 2 --fresh $$([ $$method = hpn ] && echo --views) --out $(DEMO)/$$method || exit $$?; echo; \
	done
	@$(BIN)/hpn report $(DEMO)/hpn $(DEMO)/finetune $(DEMO)/ncm $(DEMO)/joint --out $(DEMO)/report.html >/dev/null
	@echo "The report is $(DEMO)/report.html: open it in a browser."

test: $(READY)  ## The tests and doctests, without the slow ones.
	$(PYTEST) -m "not slow"

check: lint  ## What CI runs: lint, types, layers, all tests, the site, the wheel.
	$(PYTEST)
	$(MAKE) docs wheel

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(READY)  ## Build the site into docs/_build/html, with warnings as errors, and check its links.
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build/html
	$(BIN)/python docs/scripts/check_links.py docs/_build/html

linkcheck: $(READY)  ## Follow the links that lead out of the site; needs a network.
	$(BIN)/python -m sphinx -q -b linkcheck docs docs/_build/linkcheck

wheel: $(READY)  ## Build wheel and sdist, check them, and run the command line from the wheel and from nowhere else.
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist . >/dev/null
	$(BIN)/python -m twine check --strict dist/hpn-*
	$(BIN)/python -m pip install --quiet --no-deps --target dist/unpacked dist/hpn-*.whl
	cd dist/unpacked && PYTHONPATH=. ../../$(BIN)/python -c "import hpn, pathlib; assert pathlib.Path.cwd() in pathlib.Path(hpn.__file__).parents, hpn.__file__"
	cd dist/unpacked && PYTHONPATH=. ../../$(BIN)/python -m hpn --help >/dev/null
	@echo "the wheel works"

bench: $(READY)  ## Timings, as ratios within one run.
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
