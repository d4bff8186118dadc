"""What Claude Code writes beside its transcripts: to-dos, tasks, plans and the history of prompts.

Pure: names and bytes in, values out. Only the names here are ever opened. Settings, credentials,
caches, shell snapshots and locks are not among them.
"""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from typing import Any, NamedTuple

import orjson

from ctxdb.claude.layout import is_uuid
from ctxdb.claude.values import byte_length, dict_of, int_of, text_of
from ctxdb.files.parse import tame, without_nul
from ctxdb.files.walk import text_of as path_text

TODOS, TASK, PLAN, HISTORY, RESULT, FOLDER = (
    "todos", "task", "plan", "history", "result", "folder",
)  # fmt: skip
FOLDERS = ("todos", "tasks", "plans")  # in a folder such as ~/.claude
HISTORY_NAME = "history.jsonl"
RESULTS_FOLDER = "tool-results"  # in the folder of a session

_TODOS_NAME = re.compile(r"(?P<session>[0-9a-fA-F-]{36})-agent-(?P<agent>[\w.-]+)\.json", re.ASCII)
_PASTED = re.compile(r"\[Pasted text #(\d+)[^\]\n]*\]")
_TASK_MADE = re.compile(r"Task #(\S+) created")
_MAX_MS = 253_402_300_799_999  # the end of the year 9999


class SideRole(NamedTuple):
    """What a file's name and place say about it."""

    kind: str
    session_id: str | None = None
    agent_id: str | None = None
    slug: str | None = None


class Item(NamedTuple):
    """A to-do as a call or a file writes it; None for what it does not say."""

    item_id: str | None
    subject: str | None
    description: str | None
    status: str | None


class NotTodos(Exception):
    """A file does not hold to-dos; says why."""


class Typed(NamedTuple):
    """A line of history.jsonl."""

    timestamp: str | None
    project_path: str | None
    session_id: str | None
    prompt: str
    pasted_bytes: int
    whole: str  # the prompt with what was pasted


def is_side_name(name: str) -> bool:
    """True for the name of a file that may be read in one of FOLDERS."""
    return name.endswith((".json", ".md"))


def role_of(path: str, claude_dir: str) -> SideRole | None:
    """The role of a file below such a folder; None for a file that is not read."""
    parts = path[len(claude_dir.rstrip(os.sep)) :].strip(os.sep).split(os.sep)
    match parts:
        case ["todos", name] if found := _TODOS_NAME.fullmatch(name):
            session = found["session"]
            if is_uuid(session):
                agent = found["agent"]
                return SideRole(TODOS, session, None if agent == session else agent)
        case ["tasks", session, name] if is_uuid(session) and name.endswith(".json"):
            return SideRole(TASK, session)
        case ["plans", name] if name.endswith(".md"):
            return SideRole(PLAN, slug=path_text(name.removesuffix(".md")))
        case [name] if name == HISTORY_NAME:
            return SideRole(HISTORY)
        case _:
            pass
    return None


def read_items(kind: str, data: bytes) -> list[Item]:
    """The to-dos in a file. Raises NotTodos, which says what is wrong with it."""
    try:
        found = without_nul(tame(orjson.loads(data)))
    except ValueError:
        raise NotTodos("not JSON, or only a part of it") from None
    if kind == TASK:
        found = [found]
    if not isinstance(found, list):
        raise NotTodos("not a list of to-dos")
    items = [item for one in found if (item := item_of(one)) is not None]
    if found and not items:
        raise NotTodos("no to-do in it")
    return items


def item_of(value: Any) -> Item | None:
    """A to-do; None if the value is none."""
    fields = dict_of(value)
    item_id = _id(fields.get("id"))
    subject = text_of(fields.get("subject")) or text_of(fields.get("content"))
    if subject is None:
        return None
    status = text_of(fields.get("status")) or "pending"
    return Item(item_id, subject, text_of(fields.get("description")), status)


def list_items(tool_input: str | None) -> list[Item] | None:
    """The list that a TodoWrite call writes; None when its input is no list."""
    todos = _input(tool_input).get("todos")
    if not isinstance(todos, list):
        return None
    return [item for one in todos if (item := item_of(one)) is not None]


def created_item(tool_input: str | None, result: str | None) -> Item | None:
    """The to-do that a TaskCreate call makes. Only its result says the number."""
    fields = _input(tool_input)
    subject = text_of(fields.get("subject"))
    if subject is None:
        return None
    made = _TASK_MADE.match(result or "")
    item_id = made[1] if made else None
    return Item(item_id, subject, text_of(fields.get("description")), "pending")


def changed_item(tool_input: str | None) -> Item | None:
    """What a TaskUpdate call changes."""
    fields = _input(tool_input)
    item_id = _id(fields.get("taskId"))
    if item_id is None:
        return None
    names = ("subject", "description", "status")
    return Item(item_id, *(text_of(fields.get(name)) for name in names))


def proposed_plan(tool_input: str | None) -> str | None:
    """The plan in the input of an ExitPlanMode call."""
    return text_of(_input(tool_input).get("plan"))


def typed_line(entry: dict[str, Any]) -> Typed | None:
    """A line of history.jsonl; None when it has no prompt."""
    prompt = entry.get("display")
    if type(prompt) is not str:
        return None
    pasted = {
        str(key): content
        for key, value in dict_of(entry.get("pastedContents")).items()
        if (content := text_of(dict_of(value).get("content"))) is not None
    }
    return Typed(
        iso_of_ms(entry.get("timestamp")),
        text_of(entry.get("project")),
        text_of(entry.get("sessionId")),
        without_nul(prompt),
        sum(map(byte_length, pasted.values())),
        _PASTED.sub(lambda match: pasted.get(match[1], match[0]), prompt),
    )


def iso_of_ms(value: Any) -> str | None:
    """Milliseconds since 1970 as transcripts write a time; None when it is no time."""
    number = int_of(value)
    if number is None or not 0 <= number <= _MAX_MS:
        return None
    moment = datetime.fromtimestamp(number // 1000, UTC).replace(microsecond=number % 1000 * 1000)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _id(value: Any) -> str | None:
    if type(value) is int:
        return str(value)
    return text_of(value)


def _input(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        return dict_of(orjson.loads(text))
    except ValueError:
        return {}
