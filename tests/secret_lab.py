"""Transcripts with planted secrets in every kind of line, and a search for them in every byte."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import zlib
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctxdb.config import Config
from ctxdb.ingest.report import SyncReport
from ctxdb.ingest.sync import sync
from ctxdb.privacy.secret_rules import RULES, Rule
from ctxdb.progress import NullProgress
from ctxdb.settings import DEFAULTS
from ctxdb.verify import VerifyReport, verify
from lab import put_empty_database

LEAST = 8  # letters and digits in a row that make a word of a secret worth looking for
BEGAN = "2026-08-24T10:00:"


def secret_of(rule: Rule) -> str:
    """The part of a rule's example that must not be stored."""
    match = re.search(rule.pattern, rule.example)
    assert match is not None
    return next((group for group in match.groups() if group), match[0])


def session_of(number: int) -> str:
    return f"{number:08x}-0000-4000-8000-00000000005e"


def words_of(secret: str) -> set[bytes]:
    """What full text would make of a secret: its parts in small letters."""
    named = {word for rule in RULES for word in re.findall(r"[a-z]+", rule.name)}
    words = {word for word in re.findall(r"[A-Za-z0-9]+", secret) if len(word) >= LEAST} - named
    return {word.lower().encode() for word in words or {secret}}


@dataclass
class SecretLab:
    """A folder like ~/.claude, and its database."""

    folder: Path

    @property
    def root(self) -> Path:
        return self.folder / "projects"

    @property
    def db(self) -> Path:
        return self.folder / "data/ctxdb.db"

    def config(self, **settings: Any) -> Config:
        named = {f"redact.{name}": value for name, value in settings.items()}
        return Config(
            db_path=self.db,
            roots=(str(self.root),),
            given_claude_dirs=(str(self.folder),),
            settings={**DEFAULTS, **named},
        )

    def sync(self, **settings: Any) -> SyncReport:
        self.root.mkdir(parents=True, exist_ok=True)
        put_empty_database(self.db)
        return sync(self.config(**settings), progress=NullProgress())

    def verify(self, **settings: Any) -> VerifyReport:
        return verify(self.config(**settings), NullProgress())

    def put(self, name: str, data: bytes | str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        os.utime(path, (1787565600, 1787565600))
        return path

    def ask(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(f"file:{self.db}?mode=ro", uri=True)) as conn:
            return conn.execute(sql, values).fetchall()

    def holds(self, secrets: Iterable[str]) -> set[bytes]:
        """Which words of secrets are in the database's files, in clear or compressed."""
        files = [self.db, *self.db.parent.glob(f"{self.db.name}-*")]
        data = b"".join(path.read_bytes() for path in files)
        for (content,) in self.ask("SELECT content FROM _side_files WHERE content IS NOT NULL"):
            data += zlib.decompress(content) if isinstance(content, bytes) else content.encode()
        data = data.lower()
        return {word for secret in secrets for word in words_of(secret) if word in data}

    def sound(self) -> None:
        with closing(sqlite3.connect(self.db)) as conn:
            assert conn.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert conn.execute("PRAGMA foreign_key_check").fetchall() == []
            for (name,) in conn.execute(
                "SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE VIRTUAL TABLE%'"
            ).fetchall():
                conn.execute(f"INSERT INTO {name}({name}, rank) VALUES ('integrity-check', 1)")


def plant(lab: SecretLab, rules: Iterable[Rule] = RULES) -> list[str]:
    """Write a session for each rule, its example in every kind of line; returns the secrets."""
    history, secrets = [], []
    for number, rule in enumerate(rules, 1):
        session, text = session_of(number), rule.example
        secrets.append(secret_of(rule))
        lab.put(
            f"projects/-work-tides/{session}.jsonl",
            b"".join(lines_with(text, session, 4_300_000 if number == 1 else 1000)),
        )
        put_beside(lab, session, text)
        history.append({"display": f"typed {text}", "timestamp": 1756029600000 + number,
                        "project": "/work/tides", "sessionId": session})  # fmt: skip
    lab.put("history.jsonl", "".join(json.dumps(one) + "\n" for one in history))
    return secrets


def put_beside(lab: SecretLab, session: str, text: str) -> None:
    """Files beside a transcript."""
    folder = f"projects/-work-tides/{session}"
    todo = [{"content": f"use {text}", "status": "pending", "activeForm": text}]
    lab.put(f"todos/{session}-agent-{session}.json", json.dumps(todo))
    lab.put(f"plans/plan-{session[:8]}.md", f"# Plan\n\nuse {text}\n")
    lab.put(f"{folder}/tool-results/saved.txt", f"much output\n{text}\nthe end\n")
    agent = json.dumps(entry(session, 90, "user", "go", agentId="a1b2c3d", isSidechain=True))
    lab.put(f"{folder}/subagents/agent-a1b2c3d.jsonl", agent + "\n")
    meta = {"agentType": "Explore", "description": f"look at {text}"}
    lab.put(f"{folder}/subagents/agent-a1b2c3d.meta.json", json.dumps(meta))


def entry(session: str, n: int, type_: str, content: Any, **more: Any) -> Mapping[str, Any]:
    uuid = f"{session[:8]}-0000-4000-9000-{n:012x}"
    found = {"type": type_, "uuid": uuid, "sessionId": session, "cwd": "/work/tides",
             "version": "2.1.280", "timestamp": f"{BEGAN}{n % 60:02}.{n:03}Z"}  # fmt: skip
    if type_ in ("user", "assistant"):
        found["message"] = {"role": type_, "content": content}
    return {**found, **more}


def lines_with(text: str, session: str, image_bytes: int = 1000) -> list[bytes]:
    """A text in every kind of line. With an image of more than 4 MB, its line is a huge one."""
    n = iter(range(1, 100))

    def one(type_: str, content: Any = None, **more: Any) -> bytes:
        return json.dumps(entry(session, next(n), type_, content, **more)).encode() + b"\n"

    def call(name: str, **fields: Any) -> bytes:
        block = {"type": "tool_use", "id": f"toolu_{session[:8]}{name}", "name": name}
        return one("assistant", [{**block, "input": fields}])

    def result(name: str, said: Any, **more: Any) -> bytes:
        block = {"type": "tool_result", "tool_use_id": f"toolu_{session[:8]}{name}"}
        return one("user", [{**block, "content": said}], **more)

    one_line = text.replace("\n", " ")
    saved = f"/x/{session}/tool-results/saved.txt"
    return [
        one("user", f"my token is {text}"),
        one("assistant", [{"type": "text", "text": f"I see {text}"}]),
        one("assistant", [{"type": "thinking", "thinking": f"hm {text}", "signature": "x"}]),
        call("Bash", command=f"echo {text}", description=text),
        result("Bash", f"out {text}", toolUseResult={"stdout": text, "stderr": f"err {text}"}),
        call("Read", file_path=f"/work/{text}"),
        result("Read", [{"type": "text", "text": f"     1→{text}"}]),
        call("Task", prompt=f"do {text}", description=text, subagent_type="Explore"),
        call("TodoWrite", todos=[{"content": f"note {text}", "status": "pending"}]),
        call("ExitPlanMode", plan=f"# {text}\n\nplan"),
        call("Grep", pattern="x"),
        result(
            "Grep",
            f"<persisted-output>\nOutput too large. Full output saved to: {saved}\n"
            f"Preview:\n{text}\n</persisted-output>",
        ),
        one("user", f"<command-name>/x</command-name><command-args>{text}</command-args>"),
        one("user", "in a folder", cwd=f"/work/{text}", gitBranch=text),
        one("user", "unknown keys", somethingNew={"deep": [{"er": text}], text: 1}),
        one("system", subtype="informational", content=f"note {text}", level="info"),
        one(
            "attachment",
            attachment={
                "type": "hook_blocking_error",
                "hookName": "Stop",
                "blockingError": {"blockingError": text, "command": f"hook {text}"},
            },
        ),
        one("attachment", attachment={"type": "queued_command", "prompt": f"queued {text}"}),
        _flat("custom-title", session, customTitle=f"About {text}"),
        _flat("summary", None, summary=f"Sum {text}", leafUuid=session),
        _flat("never-seen", session, value={"a": [text]}),
        _flat(
            "queue-operation",
            session,
            operation="enqueue",
            content=f"later {text}",
            timestamp=f"{BEGAN}59.000Z",
        ),
        with_unicode_escapes(one("user", f"escaped {text}"), text),
        json.dumps({"type": "user", "text": text, "more": "torn"}).encode()[:-4] + b"\n",
        f"no json at all {one_line}\n".encode(),
        b'{"type":"user","uuid":"x"} ' + text.encode().replace(b"\n", b" ") + b"\n",
        one("user", [{"type": "text", "text": text}, *_image(image_bytes)]),
    ]


def _flat(type_: str, session: str | None, **fields: Any) -> bytes:
    named = {"sessionId": session} if session else {}
    return json.dumps({"type": type_, **named, **fields}).encode() + b"\n"


def _image(size: int) -> list[dict[str, Any]]:
    source = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo" * (size // 11)}
    return [{"type": "image", "source": source}]


def with_unicode_escapes(line: bytes, text: str) -> bytes:
    r"""The line with every letter of a text in it written as \uXXXX."""
    inner = json.dumps(text)[1:-1]
    spelt = "".join(f"\\u{ord(letter):04x}" for letter in text)
    assert inner in line.decode()
    return line.decode().replace(inner, spelt).encode()
