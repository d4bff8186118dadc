"""A small world of sessions to search, show and export, and how to run those commands on it."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from builder import World as Files
from ctxdb.query.candidates import Wanted
from ctxdb.query.hits import ShownSession, gather
from ctxdb.query.search import Found, search
from ctxdb.store.connection import open_reader
from world import PATIENCE, World

# What a web page could talk a model into saying: the clipboard, a title, a fake prompt, a link,
# 8-bit controls, a direction override, a tag, a script, an image that tells who reads.
HOSTILE = (
    "before \x1b]52;c;ZXZpbA==\x07 \x1b[2J\x1b[1;1H \x9b31m \u202eevil\u202c \u2066x\u2069"
    " \x00 \x7f\r"
    " <script>alert(1)</script> <img src=x onerror=alert(1)> ![x](http://evil.example/p.png)"
    " </pre></details></section> ``` ~~~ &lt; \"'><b> after"
)
FORBIDDEN = [chr(n) for n in (*range(9), 11, 12, *range(14, 32), *range(127, 160))]
FORBIDDEN += ["\u202e", "\u202c", "\u2066", "\u2069", "\u200f", "\ufeff", "\r"]


def unsafe(text: str) -> list[str]:
    """Characters that could steer a terminal or hide."""
    return sorted({repr(c) for c in FORBIDDEN if c in text})


@contextmanager
def reading(world: World) -> Iterator[Any]:
    with closing(open_reader(world.db)) as conn:
        yield conn


def look(world: World, text: str, **wanted: Any) -> Found:
    with reading(world) as conn:
        return search(conn, text, Wanted(**wanted))


def found(world: World, text: str, **wanted: Any) -> list[str]:
    """The snippets of all hits, what was found in [brackets], best first."""
    with reading(world) as conn:
        shown = gather(conn, search(conn, text, Wanted(**wanted)))
    return [_marked(one) for session in shown for one in session.hits]


def sessions_found(world: World, text: str, **wanted: Any) -> list[ShownSession]:
    with reading(world) as conn:
        return gather(conn, search(conn, text, Wanted(**wanted)))


def _marked(one: Any) -> str:
    return "".join(f"[{p.text}]" if p.is_match else p.text for p in one.snippet.pieces)


def fill(world: World, files: Files) -> None:
    files.write(world.root)
    world.sync()


def run_json(world: World, *args: str) -> Any:
    done = world.cli(*args, "--format", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def on_terminal(world: World, *args: str, env: dict[str, str] | None = None) -> tuple[int, str]:
    """Run the command line on a terminal of 100 columns; exit code and what it printed."""
    parent, child = pty.openpty()
    command = [sys.executable, "-m", "ctxdb", "--db", str(world.db), *args]
    full = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40", **(env or {})}
    process = subprocess.Popen(command, stdin=child, stdout=child, stderr=child, env=full)
    os.close(child)
    said = b""
    deadline = time.monotonic() + PATIENCE
    # Until the last writer has gone and all is read: Linux says so with an error.
    while time.monotonic() < deadline:
        if not select.select([parent], [], [], 0.2)[0]:
            continue
        try:
            part = os.read(parent, 65536)
        except OSError:
            break
        if not part:
            break
        said += part
    code = process.wait(timeout=PATIENCE)
    os.close(parent)
    return code, said.decode(errors="replace").replace("\r\n", "\n")


def path_of(world: World, name: str) -> Path:
    return world.root / name
