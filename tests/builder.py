"""Small transcripts, made line by line: every shape that repeats, forks, replays or nests entries.

Nothing is random and nothing reads a clock: a ``World`` hands out ids and timestamps by counting,
so the same calls give the same bytes. A ``Transcript`` is one file being written; its helpers add
lines as Claude Code would, and the functions at the end make whole files out of others (resumes,
forks, copies).
"""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

Json = dict[str, Any]

BEGAN = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)
PROJECT = "-home-ada-engine"
OTHER_PROJECT = "-home-ada-other"
CWD = "/home/ada/engine"
MODEL = "claude-opus-4-5-20251101"


class World:
    """All files of a root, and the ids and the time they share."""

    def __init__(self) -> None:
        self.ids = 0
        self.seconds = 0
        self.files: list[Transcript] = []

    def number(self) -> int:
        """The next number; ids are made of these."""
        self.ids += 1
        return self.ids

    def uuid(self) -> str:
        # Scattered, so that the order of ids is not the order of making.
        n = self.number()
        return f"{n * 2654435761 % 2**32:08x}-0000-4000-8000-{n:012x}"

    def now(self) -> str:
        """A second later than the last time."""
        self.seconds += 1
        return stamp(self.seconds)

    def session(self, folder: str = PROJECT, session: str | None = None, **what: Any) -> Transcript:
        """A main transcript; named by its session unless `name` says otherwise."""
        session = session or self.uuid()
        name = what.pop("name", session)
        return self.add(Transcript(self, f"{folder}/{name}.jsonl", session, **what))

    def add(self, transcript: Transcript) -> Transcript:
        self.files.append(transcript)
        return transcript

    def contents(self) -> dict[str, bytes]:
        """All files by relative path, the small ones beside transcripts included."""
        found: dict[str, bytes] = {}
        for file in self.files:
            found[file.path] = file.data
            if file.meta is not None:
                found[file.path.removesuffix(".jsonl") + ".meta.json"] = dumps(file.meta)
        return found

    def write(self, root: Path) -> None:
        for name, data in self.contents().items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


def stamp(seconds: int) -> str:
    moment = BEGAN + timedelta(seconds=seconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def dumps(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


@dataclass(eq=False, repr=False)
class Transcript:
    """One file; the next threaded line hangs on the last."""

    world: World
    path: str
    session: str
    agent: str | None = None
    version: str = "2.1.44"
    cwd: str = CWD
    branch: str = "main"
    sidechain: bool = False
    extra: Json = field(default_factory=dict)  # further keys of every threaded line
    lines: list[Json | bytes] = field(default_factory=list)
    parent: str | None = None
    meta: Json | None = None

    @property
    def data(self) -> bytes:
        lines = (line if isinstance(line, bytes) else dumps(line) for line in self.lines)
        return b"".join(line + b"\n" for line in lines)

    @property
    def entries(self) -> list[Json]:
        return [line for line in self.lines if isinstance(line, dict)]

    # -- lines ---------------------------------------------------------------------------------

    def raw(self, data: bytes) -> None:
        self.lines.append(data)

    def flat(self, type_: str, **fields: Any) -> Json:
        """A line outside the thread."""
        entry: Json = {"type": type_, **fields}
        self.lines.append(entry)
        return entry

    def thread(self, type_: str, body: Json, **fields: Any) -> Json:
        """A line of the thread, below the last one unless `parentUuid` says otherwise."""
        entry: Json = {
            "parentUuid": self.parent,
            "isSidechain": self.sidechain or self.agent is not None,
            "userType": "external",
            "cwd": self.cwd,
            "sessionId": self.session,
            "version": self.version,
            "gitBranch": self.branch,
            "type": type_,
            **body,
            "uuid": self.world.uuid(),
            "timestamp": fields.pop("timestamp", None) or self.world.now(),
            **self.extra,
            **fields,
        }
        if self.agent is not None:
            entry["agentId"] = self.agent
        self.lines.append(entry)
        self.parent = entry["uuid"]
        return entry

    # -- people --------------------------------------------------------------------------------

    def prompt(self, text: Any, **fields: Any) -> Json:
        return self.thread("user", {"message": {"role": "user", "content": text}}, **fields)

    def command(self, name: str, args: str = "", **fields: Any) -> Json:
        text = f"<command-name>{name}</command-name>\n<command-args>{args}</command-args>"
        return self.prompt(text, **fields)

    def queue(self, operation: str, content: str | None = None, **fields: Any) -> Json:
        more = {} if content is None else {"content": content}
        at = fields.pop("timestamp", None) or self.world.now()
        return self.flat(
            "queue-operation",
            operation=operation,
            timestamp=at,
            sessionId=self.session,
            **more,
            **fields,
        )

    # -- the model -----------------------------------------------------------------------------

    def reply(
        self,
        *blocks: Json,
        message: str | None = None,
        request: str | None = None,
        output: int = 5,
        final: bool = True,
        **fields: Any,
    ) -> list[Json]:
        """One API message: a line per block, all with its id."""
        n = self.world.number()
        message = message or f"msg_{n:06d}"
        if request is None:
            request = f"req_{n:06d}"
        written = []
        for nth, block in enumerate(blocks, 1):
            last = nth == len(blocks)
            body = {
                "id": message,
                "type": "message",
                "role": "assistant",
                "model": fields.get("model", MODEL),
                "content": [block],
                "stop_reason": "end_turn" if final and last else None,
                "usage": usage(output * nth),
            }
            more = {k: v for k, v in fields.items() if k != "model"}
            if request:
                more["requestId"] = request
            written.append(self.thread("assistant", {"message": body}, **more))
        return written

    def result(self, call: str, content: Any = "done", detail: Any = None, **fields: Any) -> Json:
        block: Json = {"type": "tool_result", "tool_use_id": call, "content": content}
        if fields.pop("is_error", False):
            block["is_error"] = True
        blocks = [block, *fields.pop("beside", [])]
        if detail is not None:
            fields["toolUseResult"] = detail
        return self.thread("user", {"message": {"role": "user", "content": blocks}}, **fields)

    def tool(self, name: str, tool_input: Json, content: Any = "done", detail: Any = None) -> str:
        """A call and its result; the call's id."""
        block = tool_use(self.world, name, tool_input)
        self.reply(block)
        self.result(block["id"], content, detail)
        return str(block["id"])

    # -- what the client writes ----------------------------------------------------------------

    def system(self, subtype: str, **fields: Any) -> Json:
        return self.thread("system", {"subtype": subtype, "content": subtype}, **fields)

    def attach(self, kind: str, **attachment: Any) -> Json:
        return self.thread("attachment", {"attachment": {"type": kind, **attachment}})

    def progress(self, what: str = "bash_progress", **data: Any) -> Json:
        """A progress line: skipped, but messages hang on it."""
        return self.thread("progress", {"data": {"type": what, **data}})

    def agent_progress(self, agent: str, call: str, entry: Json) -> Json:
        """An agent's line, wrapped."""
        inner = {k: v for k, v in entry.items() if k in ("type", "message", "uuid", "timestamp")}
        if "requestId" in entry:
            inner["requestId"] = entry["requestId"]
        data = {"type": "agent_progress", "agentId": agent, "message": inner}
        return self.thread("progress", {"data": data, "parentToolUseID": call})

    def snapshot(self, path: str, version: int = 1) -> Json:
        at = self.world.now()
        backup = {"backupFileName": f"b@v{version}", "version": version, "backupTime": at}
        return self.flat(
            "file-history-snapshot",
            messageId=self.parent or self.world.uuid(),
            isSnapshotUpdate=False,
            snapshot={
                "messageId": self.parent,
                "trackedFileBackups": {path: backup},
                "timestamp": at,
            },
        )

    def summary(self, text: str, leaf: str) -> Json:
        return self.flat("summary", summary=text, leafUuid=leaf)

    def custom_title(self, text: str) -> Json:
        return self.flat("custom-title", customTitle=text, sessionId=self.session)

    def ai_title(self, text: str) -> Json:
        return self.flat("ai-title", aiTitle=text, sessionId=self.session)

    def pr_link(self, number: int) -> Json:
        return self.flat(
            "pr-link",
            sessionId=self.session,
            prNumber=number,
            prUrl=f"https://github.com/ada/engine/pull/{number}",
            prRepository="ada/engine",
            timestamp=self.world.now(),
        )

    # -- agents --------------------------------------------------------------------------------

    def side(self, prompt: str, *answers: str) -> None:
        """A sidechain as version 1.0 writes it: inside the main file, without an agent's id."""
        home, self.parent, self.sidechain = self.parent, None, True
        self.prompt(prompt)
        for answer in answers:
            self.reply(text(answer))
        self.parent, self.sidechain = home, False

    def agent_file(
        self, agent: str, *, where: str = "subagents", meta: Json | None = None
    ) -> Transcript:
        """The file of an agent of this session, in one of the layouts."""
        folder = self.path.rpartition("/")[0]
        places = {
            "beside": f"{folder}/agent-{agent}.jsonl",
            "underscore": f"{folder}/{self.session}/agent_{agent}.jsonl",
            "subagents": f"{folder}/{self.session}/subagents/agent-{agent}.jsonl",
            "workflow": f"{folder}/{self.session}/subagents/workflows/wf_1/agent-{agent}.jsonl",
        }
        file = Transcript(
            self.world, places[where], self.session, agent, self.version, self.cwd, self.branch
        )
        file.meta = meta
        return self.world.add(file)


# -- blocks ----------------------------------------------------------------------------------------


def text(value: str) -> Json:
    return {"type": "text", "text": value}


def thinking(value: str) -> Json:
    return {"type": "thinking", "thinking": value, "signature": f"sig-{value}"}


def tool_use(world: World, name: str, tool_input: Json, id_: str | None = None) -> Json:
    id_ = id_ or f"toolu_{world.number():06d}"
    return {"type": "tool_use", "id": id_, "name": name, "input": tool_input}


def usage(output: int, **more: Any) -> Json:
    return {
        "input_tokens": 10,
        "output_tokens": output,
        "cache_creation_input_tokens": 20,
        "cache_read_input_tokens": 30,
        "service_tier": "standard",
        **more,
    }


# -- whole files out of others ---------------------------------------------------------------------


def copied(entries: list[Json], change: Any) -> list[Json]:
    found = []
    for entry in deepcopy(entries):
        change(entry)
        found.append(entry)
    return found


def resume(old: Transcript, upto: int | None = None) -> Transcript:
    """Version 1.0: a new file with a summary and the old history. User lines stay as they were,
    assistant lines get the new session, the time of the resume and the new version."""
    world = old.world
    new = world.session(old.path.rpartition("/")[0], version="1.0.98", cwd=old.cwd)
    threaded = [e for e in old.entries[:upto] if "uuid" in e]
    if threaded:
        new.summary(f"resumed {len(threaded)}", threaded[-1]["uuid"])
    at = world.now()

    def change(entry: Json) -> None:
        if entry["type"] == "assistant":
            entry.update(sessionId=new.session, timestamp=at, version=new.version)

    new.lines += copied(threaded, change)
    new.parent = threaded[-1]["uuid"] if threaded else None
    return new


def fork(old: Transcript, upto: int | None = None, *, says_so: bool, renew: bool) -> Transcript:
    """A fork: every line with the new session; `says_so` stamps forkedFrom on it, `renew` gives it
    another uuid (only a fork that says so may do that)."""
    world = old.world
    new = world.session(old.path.rpartition("/")[0], version=old.version, cwd=old.cwd)
    renamed: dict[str, str] = {}

    def change(entry: Json) -> None:
        before = entry.get("sessionId")
        if "sessionId" in entry:
            entry["sessionId"] = new.session
        if "uuid" not in entry:
            return
        if says_so:
            entry["forkedFrom"] = {"sessionId": before, "messageUuid": entry["uuid"]}
        if renew:
            renamed[entry["uuid"]] = entry["uuid"] = world.uuid()
            entry["parentUuid"] = renamed.get(entry["parentUuid"], entry["parentUuid"])

    history = [e for e in old.entries[:upto] if e["type"] != "summary"]
    new.lines += copied(history, change)
    threaded = [e for e in new.entries if "uuid" in e]
    new.parent = threaded[-1]["uuid"] if threaded else None
    return new


def replay(file: Transcript, start: int = 0, upto: int | None = None) -> None:
    """2.1.14: a resume appends history to the same file again, with new uuids."""
    history = [e for e in file.entries[start:upto] if e["type"] in ("user", "assistant")]

    def change(entry: Json) -> None:
        entry["uuid"] = file.world.uuid()

    file.lines += copied(history, change)


def copy_to(file: Transcript, folder: str, upto: int | None = None) -> Transcript:
    """The same bytes, or their beginning, in another folder."""
    path = folder + "/" + file.path.partition("/")[2]
    twin = Transcript(file.world, path, file.session, file.agent, file.version, file.cwd)
    twin.lines = list(file.lines[:upto])
    twin.meta = file.meta
    return file.world.add(twin)
