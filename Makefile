# Every target sets up what it needs in .venv; Python 3.11 or later with venv, and make, are enough.

VENV := .venv
BIN := $(VENV)/bin

# The first Python that is new enough. Set PYTHON to use another one.
PYTHON = $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; \
	done)

# Exits 4 where there is nothing to sync; every other way to end is for `ctxdb sync` to report.
NO_TRANSCRIPTS = import sys; from ctxdb import config; from ctxdb.claude.layout import is_transcript; \
	from ctxdb.files import walk; \
	roots = config.load().roots; \
	walk.scan(roots, is_transcript).files and sys.exit(0); \
	print("No Claude Code transcripts in", " or ".join(roots) + ". Here is a demo instead."); \
	sys.stdout.flush(); sys.exit(4)

DEMO_DB = from ctxdb.config import data_dir; print(data_dir() / "demo/demo.db")
GLANCE = started_at,project,title,turns,tools,files_changed,total_tokens,cost_usd,session_id

.DEFAULT_GOAL := help
.PHONY: help run test lint fmt bench bench-against bench-scale build crash soak newest docs crosscheck \
	mutants inspect check

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(VENV)/.run ## Sync your transcripts and show what is there; a demo if you have none
	@$(BIN)/python -c '$(NO_TRANSCRIPTS)' 2>/dev/null; \
	if [ $$? -eq 4 ]; then \
		$(BIN)/ctxdb demo && db=$$($(BIN)/python -c '$(DEMO_DB)'); \
	else \
		$(BIN)/ctxdb sync && $(BIN)/ctxdb status && db=$$($(BIN)/ctxdb path); \
	fi && $(BIN)/ctxdb --db "$$db" query sessions_overview --limit 8 --columns $(GLANCE) --no-sync

test: lint ## Check everything: lint, then all tests but the longest
	$(BIN)/pytest -n auto --dist loadgroup -m "not crash and not slow"

lint: $(VENV)/.dev ## Check style, types, spelling and that the docs are up to date
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/codespell
	$(BIN)/cog --check --diff docs/cli.md docs/schema.md docs/queries.md docs/format.md

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

mutants: $(VENV)/.dev ## Change the rules one by one: a named test must notice each change
	$(BIN)/python tests/run_mutants.py

crosscheck: $(VENV)/.dev ## Compare tokens and costs with ccusage (needs npm)
	$(BIN)/python bench/crosscheck.py

crash: $(VENV)/.dev ## Run the longest tests: hundreds of crashes, millions of lines
	$(BIN)/pytest -m "crash or slow"

soak: $(VENV)/.dev ## Minutes of writers, kills, locks and readers at once; then compare every row
	SOAK_SECONDS=$${SOAK_SECONDS:-300} $(BIN)/pytest -q tests/test_soak.py

newest: $(VENV)/.dev $(VENV)/newest/libsqlite3.so.0 ## Run the tests with the newest SQLite (needs npm and a C compiler)
	LD_PRELOAD=$(CURDIR)/$(VENV)/newest/libsqlite3.so.0 $(BIN)/python -c \
		'import sqlite3; print("SQLite", sqlite3.sqlite_version)'
	LD_PRELOAD=$(CURDIR)/$(VENV)/newest/libsqlite3.so.0 $(BIN)/pytest -n auto --dist loadgroup \
		-m "not crash and not slow" -k "not in_a_shell and not stock_datasette"

# The npm package carries SQLite's source in one file. As strict as SQLite can be built: with that,
# Datasette's own SQL fails; and the sqlite3 shell wants the library that it was made with.
$(VENV)/newest/libsqlite3.so.0:
	@rm -rf $(@D) && mkdir -p $(@D)
	@cd $(@D) && npm pack --silent better-sqlite3 >/dev/null && tar xzf better-sqlite3-*.tgz
	@cc -O2 -fPIC -shared -o $@ -DSQLITE_DQS=0 -DSQLITE_ENABLE_FTS5 -DSQLITE_ENABLE_MATH_FUNCTIONS \
		-DSQLITE_ENABLE_COLUMN_METADATA -DSQLITE_ENABLE_DBSTAT_VTAB -DSQLITE_ENABLE_STMTVTAB \
		-DSQLITE_ENABLE_LOAD_EXTENSION -DSQLITE_USE_URI=1 \
		$(@D)/package/deps/sqlite3/sqlite3.c -lm -lpthread -ldl

docs: $(VENV)/.dev ## Write --help into the docs again
	$(BIN)/cog -r docs/cli.md docs/schema.md docs/queries.md docs/format.md

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

INSPECT = npx --yes @modelcontextprotocol/inspector --cli $(BIN)/ctxdb --db $(VENV)/inspect/demo.db mcp
inspect: $(VENV)/.dev ## Ask the MCP server with the MCP inspector (needs npm)
	@rm -rf $(VENV)/inspect && $(BIN)/ctxdb demo $(VENV)/inspect >/dev/null
	$(INSPECT) --method tools/list | grep -q '"file_history"'
	$(INSPECT) --method tools/call --tool-name query --tool-arg sql='SELECT 1 + 1 AS two' | grep -q two

check: test build inspect ## Everything that must hold before a release

# What `make run` needs, and what the rest needs. The stamps are renewed when pyproject.toml changes.
$(VENV)/.run: pyproject.toml
	@$(MAKE) --no-print-directory INSTALL=. venv
	@touch $@

$(VENV)/.dev: pyproject.toml
	@$(MAKE) --no-print-directory INSTALL='.[dev]' venv
	@touch $@ $(VENV)/.run

.PHONY: venv
venv:
	@if [ ! -x $(BIN)/pip ]; then \
		[ -n "$(PYTHON)" ] || { echo "ctxdb needs Python 3.11 or later" >&2; exit 1; }; \
		$(PYTHON) -m venv $(VENV); \
	fi
	@$(BIN)/pip install --quiet --disable-pip-version-check -e '$(INSTALL)'
