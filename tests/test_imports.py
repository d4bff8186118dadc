"""Imports go one way: a module imports only from lower layers and from its own package."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

import ctxdb

SOURCE = Path(ctxdb.__file__).parent

# From low to high. A name is a package or a module of src/ctxdb. A module may import from every
# lower layer and from its own package, but not from another name in its own layer.
LAYERS = (
    ("__init__", "errors"),
    ("assets", "settings", "escape", "formatting", "memory", "mounts", "columns", "elsewhere"),
    ("config", "settings_file", "page_gaps"),
    ("rows", "side_rows"),
    ("row_transport",),
    ("lock", "output", "render"),
    ("progress", "daemon_health"),
    ("files",),
    ("privacy",),
    ("archive",),
    ("claude",),
    ("rules",),
    ("store",),
    ("settle",),
    ("ingest",),
    ("redact",),
    ("verify", "prices", "session", "demo", "forget"),
    ("backup",),
    ("rebuild",),
    ("daemon",),
    ("doctor",),
    ("query",),
    ("team",),
    ("push",),
    ("lake",),
    ("merge",),
    ("api",),
    ("mcp", "statusline", "agent", "web"),
    ("cli",),
    ("__main__",),
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}

# What `import ctxdb` offers is looked up when it is used.
PUBLIC = {("__init__", "api")}


class Import(NamedTuple):
    module: str  # without "ctxdb.", as "store.connection"
    imported: str
    line: int

    @property
    def rule(self) -> str:
        """Which rule it breaks, or ""."""
        own, other = _top(self.module), _top(self.imported)
        for name in (own, other):
            if name not in LEVEL:
                return f"{name} is in no layer: add it to LAYERS in {Path(__file__).name}"
        if own == other or LEVEL[other] < LEVEL[own]:
            return ""
        if LEVEL[other] == LEVEL[own]:
            return f"{own} and {other} are in one layer, so neither imports the other"
        return f"{other} is above {own}, so only modules above {other} import it"


def _top(module: str) -> str:
    top, _, _ = module.partition(".")
    return top


def statements(within: ast.AST) -> Iterator[ast.AST]:
    """All statements, also those inside of others, without looking into expressions."""
    for node in ast.iter_child_nodes(within):
        if isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
            yield node
            yield from statements(node)


def imports_of(path: Path, source: Path = SOURCE) -> list[Import]:
    """All imports of ctxdb modules in a file, also those inside functions and for types only."""
    parts = path.relative_to(source).with_suffix("").parts
    module = ".".join(parts)
    package = ["ctxdb", *parts[:-1]]
    found = []
    for node in statements(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) + 1 - node.level]) if node.level else ""
            base = ".".join(filter(None, (base, node.module)))
            names = [_resolved(base, alias.name, source) for alias in node.names]
        else:
            continue
        found += [
            Import(module, name.removeprefix("ctxdb").lstrip(".") or "__init__", node.lineno)
            for name in names
            if name == "ctxdb" or name.startswith("ctxdb.")
        ]
    return list(dict.fromkeys(found))  # one statement may import several names of one module


def _resolved(base: str, name: str, source: Path) -> str:
    """The module that `from base import name` imports: base.name if that is one, else base."""
    place = source.parent / base.replace(".", "/") / name
    is_module = place.with_suffix(".py").exists() or place.is_dir()
    return f"{base}.{name}" if is_module else base


@cache
def all_imports() -> tuple[Import, ...]:
    return tuple(one for path in sorted(SOURCE.rglob("*.py")) for one in imports_of(path))


def test_imports_go_from_high_to_low_layers_only() -> None:
    wrong = [
        f"src/ctxdb/{one.module.replace('.', '/')}.py:{one.line} imports ctxdb.{one.imported}: "
        f"{one.rule}"
        for one in all_imports()
        if one.rule and (one.module, one.imported) not in PUBLIC
    ]
    assert not wrong, "\n" + "\n".join(wrong)


def test_every_module_is_in_a_layer() -> None:
    names = {path.stem for path in SOURCE.glob("*.py")}
    names |= {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert names == set(LEVEL), f"add to or remove from LAYERS: {sorted(names ^ set(LEVEL))}"


@pytest.mark.parametrize(
    ("statement", "rule"),
    [
        pytest.param("from ctxdb.cli.main import main", "cli is above store", id="from a module"),
        pytest.param("import ctxdb.cli.main", "cli is above store", id="import"),
        pytest.param("from ctxdb import cli", "cli is above store", id="from the package"),
        pytest.param("from ..cli import main", "cli is above store", id="relative"),
        pytest.param(
            "def f():\n    from ctxdb.query import run", "query is above store", id="in a function"
        ),
        pytest.param(
            "if TYPE_CHECKING:\n    from ctxdb.settle import turns",
            "settle is above store",
            id="for types",
        ),
        pytest.param("from ctxdb.errors import CtxdbError", "", id="a lower layer"),
        pytest.param("from ctxdb import __version__", "", id="the version"),
        pytest.param("from ctxdb.store import schema", "", id="its own package"),
        pytest.param("from . import schema", "", id="its own package, relative"),
        pytest.param("import sqlite3", "", id="another library"),
    ],
)
def test_every_form_of_import_is_seen(tmp_path: Path, statement: str, rule: str) -> None:
    source = tmp_path / "ctxdb"
    for name in ("cli", "query", "settle", "store"):
        (source / name).mkdir(parents=True)
    path = source / "store/example.py"
    path.write_text(statement)
    rules = [one.rule for one in imports_of(path, source) if one.rule]
    if rule:
        (found,) = rules
        assert rule in found
    else:
        assert rules == []


def test_every_package_is_in_the_picture_of_the_architecture() -> None:
    page = (Path(__file__).parents[1] / "ARCHITECTURE.md").read_text(encoding="utf-8")
    picture = page.partition("```")[2].partition("```")[0]
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert {name for name in packages if f" {name} " not in picture} == set()
