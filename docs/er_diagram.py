"""Print how the public tables refer to each other, in the language of Graphviz.

    python docs/er_diagram.py > docs/pictures/schema.dot
    dot -Tsvg docs/pictures/schema.dot -o docs/pictures/schema.svg

`make pictures` does both. A test compares schema.dot with the schema, so the picture cannot go out
of date without a failing test.
"""

from __future__ import annotations

import runpy
import sqlite3
from collections.abc import Iterator

from sqlite_utils import Database

from ctxdb.assets import asset_dir

# A table shows these columns besides those that refer to other tables.
SHOWN = {
    "projects": ("path", "name", "repo_path"),
    "sessions": ("title", "started_at", "ended_at", "relation"),
    "turns": ("ordinal", "kind", "prompt", "active_ms"),
    "messages": ("uuid", "type", "kind", "timestamp", "text"),
    "message_copies": ("uuid",),
    "tool_uses": ("name", "target", "status", "result_text"),
    "files_touched": ("path", "operation", "lines_added", "lines_removed"),
    "git_operations": ("kind", "sha", "branch", "subject"),
    "agents": ("kind", "agent_type", "description", "status"),
    "usage": ("request_key", "model", "timestamp", "output_tokens"),
    "prices": ("model", "input_usd", "output_usd"),
    "todos": ("subject", "status"),
    "history": ("timestamp", "prompt"),
    "plans": ("slug", "text"),
    "events": ("type", "timestamp", "data"),
    "source_files": ("path", "offset", "lines", "state"),
    "line_counts": ("type", "outcome", "lines"),
    "ingest_errors": ("reason", "byte_start"),
}


def diagram() -> Iterator[str]:
    """The lines of the picture."""
    conn = sqlite3.connect(":memory:", isolation_level=None)
    steps = runpy.run_path(str(asset_dir("migrations") / "migrations.py"))["migrations"]
    steps.apply(Database(conn, execute_plugins=False))
    yield "digraph ctxdb {"
    yield '  rankdir="RL"; nodesep=0.25; ranksep=0.9; bgcolor="white";'
    yield '  node [shape=plain, fontname="Helvetica", fontsize=11];'
    yield '  edge [color="#666666", arrowsize=0.6];'
    for table in SHOWN:
        yield from _table(conn, table)
    for table in SHOWN:
        for _, _, other, column, *_ in conn.execute(f"PRAGMA foreign_key_list({table})"):
            if other in SHOWN:
                yield f'  {table}:"{column}" -> {other};'
    yield "}"


def _table(conn: sqlite3.Connection, table: str) -> Iterator[str]:
    has = [name for _, name, *_ in conn.execute(f"PRAGMA table_info({table})")]
    references = {
        column for _, _, _, column, *_ in conn.execute(f"PRAGMA foreign_key_list({table})")
    }
    shown = [name for name in has if name == "id" or name in references or name in SHOWN[table]]
    yield f"  {table} [label=<<TABLE BORDER='0' CELLBORDER='1' CELLSPACING='0' CELLPADDING='3'>"
    yield f"    <TR><TD BGCOLOR='#e8eef4'><B>{table}</B></TD></TR>"
    for name in shown:
        yield f"    <TR><TD ALIGN='LEFT' PORT='{name}'>{name}</TD></TR>"
    if len(shown) < len(has):
        yield "    <TR><TD ALIGN='LEFT'>...</TD></TR>"
    yield "  </TABLE>>];"


if __name__ == "__main__":
    print("\n".join(diagram()))
