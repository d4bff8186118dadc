"""Tool calls joined to their results; from them files touched, persisted results and agents.

Part of the oracle (see ``oracle.py``).
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import oracle_rules as rules
from oracle_copies import LAST, Key, Message, Model
from oracle_rules import Json, as_dict, as_text

if TYPE_CHECKING:
    from pathlib import Path

PERSISTED = "<persisted-output>"
MAX_OUTPUT = 1 << 20  # bytes


@dataclass(eq=False, repr=False)
class ToolUse:
    id: str
    call: Json | None = None  # the tool_use block
    message: Message | None = None
    result: Json | None = None  # the tool_result block
    result_message: Message | None = None
    persisted: str | None = None  # text of the file that holds the whole output

    @property
    def result_text(self) -> str | None:
        if self.persisted is not None:
            return self.persisted
        return rules.result_text(self.result) if self.result else None

    @property
    def at(self) -> Message:
        found = self.message or self.result_message
        assert found is not None
        return found

    @property
    def raw_name(self) -> str | None:
        return as_text(self.call.get("name")) if self.call else None

    @property
    def name(self) -> str | None:
        return rules.TODAYS_NAME.get(self.raw_name or "", self.raw_name)

    @property
    def input(self) -> Json:
        return as_dict(self.call.get("input")) if self.call else {}

    @property
    def extra(self) -> Any:
        """toolUseResult, where it can only belong to this result."""
        if self.result_message is None:
            return None
        results = [b for b in self.result_message.entry.blocks if b.get("type") == "tool_result"]
        return self.result_message.entry.body.get("toolUseResult") if len(results) == 1 else None

    @property
    def status(self) -> str:
        line = self.result_message.entry.body if self.result_message else {}
        return rules.tool_status(self.result, line, self.extra)

    @property
    def exit_code(self) -> int | None:
        return rules.exit_code(self.name or "", self.status, self.result, self.extra)

    @property
    def duration_ms(self) -> int | None:
        if self.message is None or self.result_message is None:
            return None
        began = milliseconds(self.message.entry.timestamp)
        ended = milliseconds(self.result_message.entry.timestamp)
        return None if began is None or ended is None else ended - began


def milliseconds(timestamp: str | None) -> int | None:
    try:
        return round(datetime.fromisoformat(timestamp or "").timestamp() * 1000)
    except ValueError:
        return None


# -- tools -----------------------------------------------------------------------------------------


def join_tools(model: Model) -> None:
    """One row per call; a result joins the call of that id, or stands alone."""
    uses: dict[Any, ToolUse] = {}
    repeating: dict[Key, list[ToolUse]] = defaultdict(list)  # ids of other providers may come again
    for message in model.messages:
        for block in message.entry.blocks if message.entry.type == "assistant" else []:
            id_ = as_text(block.get("id"))
            if block.get("type") not in ("tool_use", "server_tool_use") or id_ is None:
                continue
            unique = id_.startswith("toolu_")
            use = uses.setdefault(id_ if unique else (message, id_), ToolUse(id_))
            if use.message is None:
                use.call, use.message = block, message
                if not unique:
                    repeating[message.session, id_].append(use)
    for message in model.messages:
        for block in message.entry.blocks:
            id_ = as_text(block.get("tool_use_id"))
            if not str(block.get("type")).endswith("tool_result") or id_ is None:
                continue
            key: Any = id_ if id_.startswith("toolu_") else (message.session, id_)
            here = message.entry.place
            before = [u for u in repeating.get(key, []) if u.at.entry.place <= here]
            use = before[-1] if before else uses.setdefault(key, ToolUse(id_))
            if use.result is None:
                use.result, use.result_message = block, message
    model.tools = list(uses.values())


def touch_files(model: Model) -> None:
    for use in model.tools:
        row = rules.file_touch(use.name or "", use.input, use.status, use.result, use.extra)
        if row:
            model.files_touched.append({"session": use.at.session, "tool_use_id": use.id, **row})
    for message in model.messages:
        attachment = as_dict(message.entry.body.get("attachment"))
        path = as_text(attachment.get("filename"))
        if attachment.get("type") == "file" and path:
            row = {"session": message.session, "path": path, "operation": "mention"}
            model.files_touched.append(row)
    seen = set()
    for event in model.events:
        backups = as_dict(as_dict(event.whole.get("snapshot")).get("trackedFileBackups"))
        if event.type == "file-history-delta":
            backups = {str(event.whole.get("trackingPath")): event.whole.get("backup")}
        for path, backup in backups.items() if event.type.startswith("file-history-") else []:
            key = (event.session, path, as_dict(backup).get("version"))
            if event.session and key not in seen:
                row = {
                    "session": event.session,
                    "path": path,
                    "operation": "snapshot",
                    "message": model.find(as_text(event.whole.get("messageId")), event.session),
                    "backup_name": as_text(as_dict(backup).get("backupFileName")),
                }
                model.files_touched.append(row)
            seen.add(key)


# -- persisted results -----------------------------------------------------------------------------


def read_persisted(model: Model, root: Path) -> None:
    """Whole outputs: only the base name of the path counts, in the line's own session's folder."""
    for use in model.tools:
        if use.result_message is None or use.result is None:
            continue
        said = rules.result_text(use.result)
        printed = re.search(r"Full output saved to: (.+)", said) if PERSISTED in said else None
        path = as_text(as_dict(use.extra).get("persistedOutputPath")) or (
            printed[1].strip() if printed else None
        )
        base = re.split(r"[/\\]", path)[-1] if path else ""
        entry = use.result_message.entry
        above = (root / entry.file.path).parent
        while above.name != entry.session and above not in (root, above.parent):
            above = above.parent
        if above.name != entry.session:
            above = (root / entry.file.path).parent / str(entry.session)
        file = above / "tool-results" / base
        if base and not file.is_symlink() and file.is_file():
            use.persisted = file.read_bytes()[:MAX_OUTPUT].decode("utf-8", "replace")


# -- agents ----------------------------------------------------------------------------------------


def find_agents(model: Model) -> None:
    """Agents by their lines, by the results that name them, and the call that started each."""
    prompts: dict[Key, str] = {}
    warm_files = set()
    for message in model.messages:
        if message.agent is None:
            continue
        agent = model.agents.setdefault((message.session, message.agent), new_agent(message.agent))
        file = message.entry.file
        if file.workflow and file.agent == message.agent:
            agent["kind"], agent["workflow"] = "workflow", file.workflow
        if message.entry.wrapped and not agent["tool_use_id"]:
            agent["tool_use_id"] = as_text(message.entry.whole.get("parentToolUseID"))
        if message.kind == "agent_prompt":
            prompts[message.session, message.agent] = message.text or ""
            if (message.text or "").strip() == "Warmup":
                warm_files.add(file)
        if file in warm_files:  # one such file can hold lines of two sessions
            agent["kind"] = "warmup"
        if file.agent == message.agent and file.meta:
            agent["tool_use_id"] = as_text(file.meta.get("toolUseId")) or agent["tool_use_id"]
            agent["agent_type"] = as_text(file.meta.get("agentType"))
            agent["description"] = as_text(file.meta.get("description"))
    calls = {use.id: use for use in model.tools if use.call}
    for use in sorted(model.tools, key=lambda u: u.at.entry.timestamp or LAST):
        extra = as_dict(use.extra)
        join_workflow(model, use)
        teammate = extra.get("status") == "teammate_spawned"
        name = as_text(extra.get("agentId")) or (
            as_text(extra.get("agent_id")) if teammate else None
        )
        if name is None:
            continue
        agent = model.agents.setdefault((use.at.session, name), new_agent(name))
        agent["kind"] = "teammate" if teammate else agent["kind"]
        agent["tool_use_id"] = agent["tool_use_id"] or use.id
    taken = {agent["tool_use_id"] for agent in model.agents.values()}
    for (session, name), prompt in prompts.items():
        agent = model.agents[session, name]
        for use in model.tools if agent["tool_use_id"] is None else []:
            same = use.at.session == session and use.input.get("prompt") == prompt
            if use.name == "Agent" and same and use.id not in taken:
                agent["tool_use_id"] = use.id
                taken.add(use.id)
                break
    for agent in model.agents.values():
        call = calls[agent["tool_use_id"]].input if agent["tool_use_id"] in calls else {}
        agent["agent_type"] = agent["agent_type"] or as_text(call.get("subagent_type"))
        agent["description"] = agent["description"] or as_text(call.get("description"))


def join_workflow(model: Model, use: ToolUse) -> None:
    """A workflow's agents are in a folder that is named after its run."""
    run = as_text(as_dict(use.extra).get("runId"))
    for key, agent in model.agents.items() if run else []:
        if key[0] == use.at.session and agent["workflow"] in (run, f"wf_{run}"):
            agent["tool_use_id"] = agent["tool_use_id"] or use.id


def new_agent(name: str) -> Json:
    kind = "task"
    for start, meaning in (
        ("side-", "sidechain"),
        ("acompact", "compact"),
        ("aprompt_suggestion", "prompt_suggestion"),
    ):
        if name.startswith(start):
            kind = meaning
    unknown = dict.fromkeys(("tool_use_id", "agent_type", "description", "workflow"))
    return {"kind": kind, **unknown}
