"""A home in which one session is private: every place that ctxdb reads has its words."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctxdb.archive.compression import NotDecompressed, zstd
from lab import put_empty_database
from world import RUN, Done, run_python, uuid_of

if TYPE_CHECKING:
    from collections.abc import Iterator

PRIVATE = "5ec2e700-0000-4000-8000-00000000abcd"
OTHER = "0be00000-0000-4000-8000-00000000dcba"
WORD = "Quokkazebra"  # in every text of the private session, and nowhere else
CWD = "/work/tides"
FOLDER = "-work-tides"
SLUG = f"soft-{WORD.lower()}-owl"


@dataclass
class Home:
    """A folder such as ~/.claude, and a database."""

    claude: Path
    db: Path

    @property
    def projects(self) -> Path:
        return self.claude / "projects"

    def run(self, *words: str | Path) -> Done:
        return run_python(RUN, "--db", self.db, *words)

    def must(self, *words: str | Path) -> Done:
        done = self.run(*words)
        assert (done.returncode, "Traceback" in done.stderr) == (0, False), done
        return done

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(f"file:{self.db}?mode=ro", uri=True)) as conn:
            return conn.execute(sql).fetchall()

    def sessions(self) -> list[str]:
        return [one for (one,) in self.rows("SELECT id FROM sessions ORDER BY id")]


def entries(session: str, word: str, family: int, cwd: str = CWD) -> Iterator[dict[str, Any]]:
    """A session with a prompt, a call, its result, a title, a snapshot and an unknown key."""

    def entry(n: int, **more: Any) -> dict[str, Any]:
        return {
            "parentUuid": uuid_of(n - 1, family) if n else None,
            "isSidechain": False,
            "cwd": cwd,
            "sessionId": session,
            "version": "2.1.280",
            "gitBranch": f"branch-{word}",
            "slug": f"soft-{word.lower()}-owl",
            "uuid": uuid_of(n, family),
            "timestamp": f"2026-08-24T10:00:{n:02}.000Z",
            "oddKey": f"odd {word}",
            **more,
        }

    call = f"toolu_{family}_{word}"
    yield entry(0, type="user", message={"role": "user", "content": f"please {word} it"})
    said = [
        {"type": "thinking", "thinking": f"I think {word}", "signature": "x"},
        {"type": "text", "text": f"I say {word}"},
        {"type": "tool_use", "id": call, "name": "Bash", "input": {"command": f"echo {word}"}},
    ]
    reply = {"role": "assistant", "model": f"claude-{word}", "id": f"msg_{word}", "content": said}
    reply["usage"] = {"input_tokens": 3, "output_tokens": 4}
    yield entry(1, type="assistant", requestId=f"req_{word}", message=reply)
    result = {"type": "tool_result", "tool_use_id": call, "content": f"{word} " * 40}
    yield entry(2, type="user", message={"role": "user", "content": [result]})
    yield {"type": "ai-title", "sessionId": session, "aiTitle": f"About {word}"}
    yield {"type": "summary", "summary": f"Summary of {word}", "leafUuid": uuid_of(2, family)}
    yield entry(3, type="progress", data={"type": "hook", "text": word})
    yield entry(4, type="user", message={"role": "user", "content": f"more {word}"})


def dump(rows: Any) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def make_home(claude: Path, db: Path) -> Home:
    """Write both sessions with all files beside them."""
    projects = claude / "projects" / FOLDER
    for session, word, family in ((PRIVATE, WORD, 7), (OTHER, "Ordinary", 8)):
        write(projects / f"{session}.jsonl", dump(entries(session, word, family)))
        agent = [{**one, "agentId": "abc", "isSidechain": True} for one in _agent(session, word)]
        write(projects / session / "subagents" / "agent-abc.jsonl", dump(agent))
        meta = {"agentType": f"type {word}", "description": f"does {word}"}
        write(projects / session / "subagents" / "agent-abc.meta.json", json.dumps(meta).encode())
        todos = [{"id": "1", "content": f"do {word}", "status": "pending"}]
        write(claude / "todos" / f"{session}-agent-{session}.json", json.dumps(todos).encode())
        write(claude / "plans" / f"soft-{word.lower()}-owl.md", f"# Plan {word}\n".encode())
    index = {
        "originalPath": CWD,
        "entries": [
            {"sessionId": PRIVATE, "firstPrompt": f"please {WORD} it"},
            {"sessionId": OTHER, "firstPrompt": "please Ordinary it"},
        ],
    }
    write(projects / "sessions-index.json", json.dumps(index).encode())
    typed = [
        {"display": f"please {WORD} it", "timestamp": 1787565600000, "project": CWD},
        {"display": "please Ordinary it", "timestamp": 1787565600000, "project": CWD},
        {
            "display": f"more {WORD}",
            "timestamp": 1787565604000,
            "project": CWD,
            "sessionId": PRIVATE,
        },
    ]
    write(claude / "history.jsonl", dump(typed))
    put_empty_database(db)
    return Home(claude, db)


def _agent(session: str, word: str) -> Iterator[dict[str, Any]]:
    for n, role in enumerate(("user", "assistant")):
        said = {"role": role, "content": f"agent {role} {word}"}
        at = f"2026-08-24T10:00:3{n}.000Z"
        uuid = uuid_of(50 + n, len(word))
        yield {
            "type": role,
            "uuid": uuid,
            "sessionId": session,
            "cwd": CWD,
            "message": said,
            "timestamp": at,
        }


def texts_in(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Every file as it is, and all that is compressed in it, also in freed pages."""
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        data = path.read_bytes()
        yield str(path), data
        at = data.find(b"\x28\xb5\x2f\xfd")
        while at >= 0:
            with suppress(zstd.ZstdError, EOFError, NotDecompressed):
                yield f"{path} at {at}", zstd.ZstdDecompressor().decompress(data[at:])
            at = data.find(b"\x28\xb5\x2f\xfd", at + 1)
    for path in folder.rglob("*.archive"):
        with closing(sqlite3.connect(path)) as conn:
            for table in ("frames", "blocks"):
                for (data,) in conn.execute(f"SELECT data FROM {table}"):
                    yield f"{path} {table}", zstd.decompress(data)


def found_in(folder: Path, *words: str) -> list[str]:
    """Where any of the words is, in capitals or not."""
    wanted = [word.lower().encode() for word in words]
    return [
        f"{place}: {word.decode()}"
        for place, data in texts_in(folder)
        for word in wanted
        if word in data.lower()
    ]


def state_folder() -> Path:
    return Path(os.environ["XDG_STATE_HOME"])
