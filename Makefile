# Every target sets up what it needs in .venv; Python 3.11 or later with venv, and make, are enough.

VENV := .venv
BIN := $(VENV)/bin

# The first Python that is new enough. Set PYTHON to use another one.
PYTHON = $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; \
	done)

# The pages that cog makes from the code, and those that it checks.
DOCS = README.md docs/cli.md docs/schema.md docs/queries.md docs/format.md docs/team.md

# One more than there are cores: many tests wait for a daemon or a browser.
PYTEST = $(BIN)/pytest -n $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1) --dist loadfile

.DEFAULT_GOAL := help
.PHONY: help run test lint fmt bench bench-against bench-scale build crash soak newest docs crosscheck \
	mutants inspect check docs-check release pictures site test-spark test-slow

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(VENV)/.run ## Read your transcripts and show what is there; a demo if you have none
	@$(BIN)/python -m ctxdb.cli.first_run

test: setup lint ## Check everything: lint, then all tests but the longest
	$(PYTEST) -m "not crash and not slow and not spark"

# Two things at once: on two cores this takes little more than half the time.
.PHONY: setup lint-types lint-rest
setup: ## Make .venv with all that tests need
	@$(MAKE) --no-print-directory -j2 $(VENV)/.dev $(VENV)/.datasette1

lint: $(VENV)/.dev ## Check style, types, spelling and that the docs are up to date
	@$(MAKE) --no-print-directory -j2 lint-types lint-rest

lint-types:
	$(BIN)/mypy

lint-rest:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell
	$(BIN)/cog --check --diff $(DOCS)
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml

pictures: $(VENV)/.dev ## Draw the pictures of the docs again (needs Graphviz and Chromium)
	$(BIN)/python docs/web_pictures.py
	$(BIN)/python docs/terminal_picture.py
	$(BIN)/python docs/performance_plots.py
	$(BIN)/python docs/er_diagram.py > docs/pictures/schema.dot
	dot -Tsvg docs/pictures/schema.dot -o docs/pictures/schema.svg

docs-check: ## Check that the generated docs are up to date
	$(BIN)/cog --check --diff $(DOCS)

fmt: $(VENV)/.dev ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# ARGS are options of the script: make bench ARGS="--mb 100 --only first". --help lists them.
bench: $(VENV)/.dev ## Measure speed and memory
	$(BIN)/python bench/run.py $(ARGS)

bench-against: $(VENV)/.dev ## Compare speed with another revision: make bench-against REV=main
	@test -n "$(REV)" || { echo "make bench-against REV=<revision>" >&2; exit 2; }
	$(BIN)/python bench/against.py $(REV) $(ARGS)

bench-scale: $(VENV)/.dev ## Measure the first sync at 0.5, 1, 2 and 4 GB
	$(BIN)/python bench/scale.py $(ARGS)

test-spark: $(VENV)/.dev ## Read the Parquet dataset with Spark (installs pyspark; needs Java 17)
	$(BIN)/pip install --quiet --disable-pip-version-check 'pyspark>=4'
	$(BIN)/pytest -q -m spark tests/test_lake.py

mutants: $(VENV)/.dev ## Change the rules one by one: a named test must notice each change
	$(BIN)/python tests/run_mutants.py

crosscheck: $(VENV)/.dev ## Compare tokens and costs with ccusage (needs npm)
	$(BIN)/python bench/crosscheck.py

crash: $(VENV)/.dev ## Run the longest tests: hundreds of crashes, millions of lines
	$(BIN)/pytest -n auto --dist worksteal -m "crash or slow"

soak: $(VENV)/.dev ## Minutes of writers, kills, locks and readers at once; then compare every row
	SOAK_SECONDS=$${SOAK_SECONDS:-300} $(BIN)/pytest -q tests/test_soak.py

newest: $(VENV)/.dev $(VENV)/newest/libsqlite3.so.0 ## Run the tests with the newest SQLite (needs npm and a C compiler)
	LD_PRELOAD=$(CURDIR)/$(VENV)/newest/libsqlite3.so.0 $(BIN)/python -c \
		'import sqlite3; print("SQLite", sqlite3.sqlite_version)'
	LD_PRELOAD=$(CURDIR)/$(VENV)/newest/libsqlite3.so.0 $(BIN)/pytest -n auto --dist loadfile \
		-m "not crash and not slow and not spark" -k "not in_a_shell and not stock_datasette"

# The npm package carries SQLite's source in one file. As strict as SQLite can be built: with that,
# Datasette's own SQL fails; and the sqlite3 shell wants the library that it was made with.
$(VENV)/newest/libsqlite3.so.0:
	@rm -rf $(@D) && mkdir -p $(@D)
	@cd $(@D) && npm pack --silent better-sqlite3 >/dev/null && tar xzf better-sqlite3-*.tgz
	@cc -O2 -fPIC -shared -o $@ -DSQLITE_DQS=0 -DSQLITE_ENABLE_FTS5 -DSQLITE_ENABLE_MATH_FUNCTIONS \
		-DSQLITE_ENABLE_COLUMN_METADATA -DSQLITE_ENABLE_DBSTAT_VTAB -DSQLITE_ENABLE_STMTVTAB \
		-DSQLITE_ENABLE_LOAD_EXTENSION -DSQLITE_USE_URI=1 \
		$(@D)/package/deps/sqlite3/sqlite3.c -lm -lpthread -ldl

docs: $(VENV)/.dev ## Write the generated parts of the docs again
	$(BIN)/cog -r $(DOCS)

site: $(VENV)/.site ## Build a web site from docs/ in build/site
	rm -rf build/site
	$(BIN)/sphinx-build -W --keep-going -b html docs build/site
	@echo "Open build/site/index.html"

build: $(VENV)/.dev ## Build wheel and sdist, install each in a clean venv and try it
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	@set -e; for package in dist/*.whl dist/*.tar.gz; do \
		echo "Trying $$package"; \
		dir=$$(mktemp -d); \
		$(BIN)/python -m venv "$$dir/venv"; \
		"$$dir/venv/bin/pip" install --quiet --disable-pip-version-check "$$package"; \
		(cd "$$dir" && venv/bin/ctxdb --version && venv/bin/ctxdb paths migrations \
			&& venv/bin/ctxdb demo demo); \
		rm -rf "$$dir"; \
	done

# Two builds of one commit must be equal to the byte: hatchling takes every time from the commit.
release: $(VENV)/.release ## Build a release: wheel, sdist, tested versions with hashes, SBOM
	rm -rf dist $(VENV)/again
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m build --no-isolation
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m build --no-isolation -o $(VENV)/again
	@for file in dist/*; do cmp $$file $(VENV)/again/$$(basename $$file) || exit 1; done
	$(BIN)/twine check --strict dist/*.whl dist/*.tar.gz
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-header \
		--all-extras pyproject.toml -o dist/requirements.txt
	$(BIN)/cyclonedx-py requirements dist/requirements.txt --pyproject pyproject.toml \
		--output-reproducible -o dist/sbom.cdx.json
	@if grep -nE 'https?://|--index-url|--find-links' dist/requirements.txt; then \
		echo "dist/requirements.txt names a package index" >&2; exit 1; fi
	@ls -l dist

INSPECT = npx --yes @modelcontextprotocol/inspector --cli $(BIN)/ctxdb --db $(VENV)/inspect/demo.db mcp
inspect: $(VENV)/.dev ## Ask the MCP server with the MCP inspector (needs npm)
	@rm -rf $(VENV)/inspect && $(BIN)/ctxdb demo $(VENV)/inspect >/dev/null
	$(INSPECT) --method tools/list | grep -q '"file_history"'
	$(INSPECT) --method tools/call --tool-name query --tool-arg sql='SELECT 1 + 1 AS two' | grep -q two

test-slow: $(VENV)/.dev $(VENV)/.datasette1 ## Run what `make test` leaves out because it takes minutes
	$(PYTEST) -m "slow and not crash"

check: export CTXDB_TEST_EXAMPLES = 200
check: test test-slow build inspect ## Everything that must hold before a release

# What `make run` needs, and what the rest needs. The stamps are renewed when pyproject.toml changes.
$(VENV)/.run: pyproject.toml
	@$(MAKE) --no-print-directory INSTALL=. venv
	@touch $@

$(VENV)/.dev: pyproject.toml
	@$(MAKE) --no-print-directory INSTALL='.[dev]' venv
	@touch $@ $(VENV)/.run

# The web pages are tested with both versions of Datasette. Without the second, its tests are skipped.
$(VENV)/.datasette1: pyproject.toml
	@[ -x $(VENV)/datasette1/bin/pip ] || $(or $(PYTHON),$(BIN)/python) -m venv $(VENV)/datasette1
	@$(VENV)/datasette1/bin/pip install --quiet --disable-pip-version-check --no-compile -e '.[serve]' \
		'datasette>=1.0a41,<2'
	@touch $@

$(VENV)/.site: pyproject.toml
	@$(MAKE) --no-print-directory INSTALL='.[dev,site]' venv
	@touch $@ $(VENV)/.dev $(VENV)/.run

$(VENV)/.release: pyproject.toml
	@$(MAKE) --no-print-directory INSTALL='.[dev,release]' venv
	@touch $@ $(VENV)/.dev $(VENV)/.run

.PHONY: venv
venv:
	@if [ ! -x $(BIN)/pip ]; then \
		[ -n "$(PYTHON)" ] || { echo "ctxdb needs Python 3.11 or later" >&2; exit 1; }; \
		$(PYTHON) -m venv $(VENV); \
	fi
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-compile -e '$(INSTALL)'
