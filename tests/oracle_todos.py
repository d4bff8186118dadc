"""To-dos, plans and hook runs: what calls, attachments and small files say of them.

Part of the oracle (see ``oracle.py``).
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import oracle_rules as rules
from oracle_copies import LAST, Key, Model, Session
from oracle_rules import Json, as_dict, as_text

if TYPE_CHECKING:
    from pathlib import Path

    from oracle_tools import ToolUse

DONE = ("completed", "deleted")
FAILED = ("error", "rejected", "interrupted")


def find_todos(model: Model, claude: Path) -> None:
    """The last state of every to-do, by session, agent and id, or text where there is no id."""
    calls = [u for u in model.tools if u.message and u.status not in FAILED]
    for use in sorted(calls, key=lambda u: (u.at.entry.timestamp or LAST, u.at.entry.place)):
        if use.name == "TodoWrite":
            write_list(model, use)
        elif use.name == "TaskCreate":
            create_task(model, use)
        elif use.name == "TaskUpdate":
            update_task(model, use)
    for path in sorted((claude / "todos").glob("*.json")):
        read_list(model, path)
    for path in sorted((claude / "tasks").glob("*/*.json")):
        item = load(path)
        if isinstance(item, dict) and rules.UUID.fullmatch(path.parent.name):
            from_file(model, (path.parent.name, None), item, path)


def owner(use: ToolUse) -> tuple[Session, str | None]:
    return use.at.session, use.at.agent


def set_state(model: Model, key: Key, use: ToolUse, **new: Any) -> None:
    at = use.at.entry.timestamp
    item = model.todos.setdefault(key, {"created_at": at, "description": None, "item_id": None})
    if item.get("status") != new.get("status", item.get("status")):
        item.update(updated_at=at, turn=use.at.turn)
    item.update({name: value for name, value in new.items() if value is not None})
    item["last_seen"] = at


def write_list(model: Model, use: ToolUse) -> None:
    todos = use.input.get("todos")
    if not isinstance(todos, list):
        return
    listed = set()
    for item in map(as_dict, todos):
        text, id_ = as_text(item.get("content")), as_text(item.get("id"))
        if text is None:
            continue
        key = (*owner(use), id_ or text)
        listed.add(key)
        set_state(
            model,
            key,
            use,
            subject=text,
            status=item.get("status"),
            source="TodoWrite",
            item_id=id_,
        )
    for key, item in list(model.todos.items()):
        mine = key[:2] == owner(use) and item["source"] == "TodoWrite" and key not in listed
        if mine and item["status"] not in (*DONE, "dropped"):
            set_state(model, key, use, status="dropped")


def create_task(model: Model, use: ToolUse) -> None:
    task = as_dict(as_dict(use.extra).get("task"))
    printed = re.match(r"Task #(\S+) created", use.result_text or "")
    id_ = as_text(task.get("id")) or (printed[1] if printed else None)
    subject = as_text(use.input.get("subject"))
    if subject is None and id_ is None:
        return
    set_state(
        model,
        (*owner(use), id_ or subject),
        use,
        subject=subject,
        description=as_text(use.input.get("description")),
        status="pending",
        source="TaskCreate",
        item_id=id_,
    )


def update_task(model: Model, use: ToolUse) -> None:
    id_ = as_text(use.input.get("taskId"))
    key = (*owner(use), id_)
    if id_ is None or key not in model.todos:
        return
    set_state(
        model,
        key,
        use,
        status=as_text(use.input.get("status")),
        subject=as_text(use.input.get("subject")),
        description=as_text(use.input.get("description")),
    )


# -- files -----------------------------------------------------------------------------------------


def load(path: Path) -> Any:
    try:
        return rules.clean(json.loads(path.read_bytes()))
    except (OSError, ValueError, RecursionError):
        return None


def read_list(model: Model, path: Path) -> None:
    named = re.fullmatch(r"([0-9a-f-]{36})(?:-agent-(.+))?\.json", path.name)
    items = load(path)
    if not named or not isinstance(items, list):
        return
    agent = named[2] if named[2] and named[2] != named[1] else None
    for item in items:
        from_file(model, (named[1], agent), as_dict(item), path)


def from_file(model: Model, whose: Key, item: Json, path: Path) -> None:
    """A file never overrides a later call."""
    written = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    at = written.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    subject = as_text(item.get("subject")) or as_text(item.get("content"))
    id_ = as_text(item.get("id"))
    if subject is None:
        return
    key = next((k for k in ((*whose, id_), (*whose, subject)) if k in model.todos), None)
    known = model.todos.get(key) if key else None
    if known is None:
        model.todos[*whose, id_ or subject] = {
            "subject": subject,
            "description": as_text(item.get("description")),
            "status": item.get("status"),
            "source": "file",
            "item_id": id_,
            "turn": None,
        }
    elif at > (known.get("last_seen") or ""):
        known.update(status=item.get("status"), subject=subject, source="file", from_file=True)


# -- plans -----------------------------------------------------------------------------------------


def find_plans(model: Model, claude: Path) -> None:
    """Every text of a plan: (session, text), and (None, text) of a file that no session names."""
    for use in model.tools:
        if use.name == "ExitPlanMode":
            plan = as_text(use.input.get("plan")) or as_text(as_dict(use.extra).get("plan"))
            if plan:
                model.plans.add((use.at.session, plan.strip()))
    for message in model.messages:
        if message.kind == "plan" and (plan := as_text(message.entry.body.get("planContent"))):
            model.plans.add((message.session, plan.strip()))
    owners = {slug: session for session, slug in sorted(model.slugs.items(), reverse=True)}
    for path in sorted((claude / "plans").glob("*.md")):
        text = path.read_bytes().decode("utf-8", "replace").strip()
        if text:
            model.plans.add((owners.get(path.stem), text))


# -- hooks -----------------------------------------------------------------------------------------


def find_hooks(model: Model) -> None:
    """Commands that hooks ran: one for each call (or stop) and command."""
    for message in model.messages:
        body = message.entry.body
        attachment = as_dict(body.get("attachment"))
        kind = str(attachment.get("type"))
        command = as_text(attachment.get("command"))
        if kind == "hook_blocking_error" and command is None:
            command = as_text(as_dict(attachment.get("blockingError")).get("command"))
        if kind.startswith("hook_") and command:
            key = (message.session, attachment.get("toolUseID"), command)
            model.hooks.setdefault(key, {"event": attachment.get("hookEvent")})
        infos = body.get("hookInfos") if message.subtype == "stop_hook_summary" else None
        for info in infos if isinstance(infos, list) else []:
            if command := as_text(as_dict(info).get("command")):
                key = (message.session, body.get("toolUseID"), command)
                model.hooks.setdefault(key, {"event": "Stop"})
