"""Read tool calls and tool results: their names, targets and outcomes.

A call and its result are on different lines, often in different files, so each is read alone here.
rules/calls.py derives what needs both: exit code 0, duration, the file that was touched.
"""

from __future__ import annotations

import re
from typing import Any

import orjson

from ctxdb.claude.file_changes import call_file, result_file
from ctxdb.claude.git_output import git_operations
from ctxdb.claude.plan_lines import plan_heading
from ctxdb.claude.result_data import result_data, server_result_text
from ctxdb.claude.values import (
    base64_size,
    byte_length,
    dict_of,
    dump,
    dump_without_base64,
    float_of,
    int_of,
    text_of,
)
from ctxdb.rows import AgentFact, ToolUse

# Old names of tools, and the names they have today.
RENAMED = {
    "View": "Read",
    "LSTool": "LS",
    "Task": "Agent",
    "BashOutput": "TaskOutput",
    "KillBash": "TaskStop",
    "KillShell": "TaskStop",
}
# Which key of a tool's input says what the call is about, the best one first.
_TARGETS: dict[str, tuple[str, ...]] = {
    "Bash": ("command",),
    "PowerShell": ("command",),
    "Grep": ("pattern",),
    "Glob": ("pattern",),
    "WebSearch": ("query",),
    "WebFetch": ("url",),
    "Agent": ("description", "prompt"),
    "Skill": ("skill", "command"),
    "LS": ("path",),
    "TaskCreate": ("subject",),
}
_ANY_TARGET = (
    "file_path",
    "notebook_path",
    "filePath",
    "command",
    "path",
    "pattern",
    "url",
    "query",
    "description",
    "subject",
    "skill",
    "name",
    "title",
    "task_id",
    "taskId",
    "bash_id",
    "shell_id",
    "agentId",
    "prompt",
    "text",
)
_REJECTED = (
    "The user doesn't want to",
    "Permission for this action was denied",
    "Claude requested permissions",
    "User chose to stay in plan mode",
    "User rejected tool use",
)
_INTERRUPTED = ("[Request interrupted", "Permission prompt was aborted")
# How the results of Bash and Agent begin if they go on in the background. Agents' files seldom say
# it in any other way.
_IN_BACKGROUND = "Command running in background with ID: "
_LAUNCHED = re.compile(r"Async agent launched successfully\.?\s+agentId: (\w+)")
_EXIT_CODE = re.compile(r"(?:Error: )?Exit code (-?\d{1,10})\b")
_PERSISTED = re.compile(r"Full output saved to: (\S[^\n]*)")
_NO_FIELDS: dict[str, Any] = {}
MAX_TARGET = 300  # characters: what a list can show; the whole of it is in the input
_FOLDED = 10 * MAX_TARGET  # characters to make a line of: few have as much white space


def target_of(name: str, tool_input: dict[str, Any]) -> str | None:
    """What a person would look for in a call, in one line: the command, the path, the pattern."""
    found = _target(name, tool_input)
    if name == "ExitPlanMode" and found:
        found = plan_heading(found)
    if found is None or (len(found) <= MAX_TARGET and found.isprintable()):
        return found
    words = " ".join(found[:_FOLDED].split())
    return words[:MAX_TARGET] or None


def _target(name: str, tool_input: dict[str, Any]) -> str | None:
    for key in _TARGETS.get(name, ()):
        if found := text_of(tool_input.get(key)):
            return found
    for key in _ANY_TARGET:
        if found := text_of(tool_input.get(key)):
            return found
    questions = tool_input.get("questions")
    if type(questions) is list and questions and type(questions[0]) is dict:
        return text_of(questions[0].get("question"))
    for value in tool_input.values():
        if found := text_of(value):
            return found
    return None


def read_call(block: dict[str, Any]) -> ToolUse | None:
    """Read a tool_use or server_tool_use block; None if it has no id."""
    tool_use_id = text_of(block.get("id"))
    if tool_use_id is None:
        return None
    raw_name = text_of(block.get("name")) or "unknown"
    name = RENAMED.get(raw_name, raw_name)
    tool_input = block.get("input")
    fields = tool_input if type(tool_input) is dict else _NO_FIELDS
    server = None
    if raw_name.startswith("mcp__"):
        server = raw_name[5:].partition("__")[0] or None
    elif "server_name" in block:
        server = text_of(block["server_name"])
    return ToolUse(
        tool_use_id=tool_use_id,
        name=name,
        raw_name=raw_name,
        mcp_server=server,
        input=dump_without_base64(_NO_FIELDS if tool_input is None else tool_input),
        target=target_of(name, fields),
        call_file=call_file(name, fields),
    )


def input_fields(tool_input: str | None) -> dict[str, Any]:
    """The fields of a stored input; none if it is not an object."""
    return dict_of(orjson.loads(tool_input)) if tool_input else {}


def shell_command(tool_input: str | None) -> str | None:
    """The whole command that a shell was given: the call's target may be shorter."""
    return text_of(input_fields(tool_input).get("command"))


def _content(content: Any) -> str | None:
    if type(content) is not list:
        return None if content is None else dump(content)
    parts: list[str] = []
    for block in content:
        if type(block) is str:
            parts.append(block)
            continue
        if type(block) is not dict:
            continue
        what = block.get("type")
        if what == "text":
            if found := text_of(block.get("text")):
                parts.append(found)
        elif what in ("image", "document"):
            source = dict_of(block.get("source"))
            size = base64_size(source.get("data"))
            parts.append(f"[{what} {source.get('media_type') or ''} {size or 0} bytes]")
        elif what == "tool_reference":
            parts.append(f"[tool {block.get('tool_name') or block.get('name') or ''}]")
        else:
            parts.append(dump_without_base64(block))
    return "\n\n".join(parts) or None


def _status(text: str, detail: Any, denial: Any, *, is_error: bool) -> str:
    if denial or text.startswith(_REJECTED):
        return "rejected"
    if type(detail) is str:
        said = detail.removeprefix("Error: ")
        if said.startswith(_REJECTED):
            return "rejected"
        if said.startswith(_INTERRUPTED):
            return "interrupted"
    elif type(detail) is dict and detail.get("interrupted") is True:
        return "interrupted"
    if text.startswith(_INTERRUPTED):
        return "interrupted"
    return "error" if is_error else "ok"


def _milliseconds(detail: dict[str, Any]) -> int | None:
    for key in ("durationMs", "totalDurationMs"):
        if key in detail and (found := int_of(detail[key])) is not None:
            return found
    if "durationSeconds" in detail:
        seconds = float_of(detail["durationSeconds"])
        if seconds is not None and 0 <= seconds < 1e9:
            return round(seconds * 1000)
    return None


def exit_code_in(text: str) -> int | None:
    """The exit code that the words of a result say."""
    match = _EXIT_CODE.match(text) if text.startswith("E") else None
    return int(match.group(1)) if match else None


def read_result(block: dict[str, Any], detail: Any, denial: Any) -> ToolUse | None:
    """Read a tool_result block with the line's toolUseResult; None if it names no call."""
    tool_use_id = text_of(block.get("tool_use_id"))
    if tool_use_id is None:
        return None
    is_error = block.get("is_error") is True
    content = block.get("content")
    size: int | None = None
    if type(content) is str:
        head = content
    elif block.get("type") in (None, "tool_result"):
        head = _content(content) or ""
    else:
        head, size = server_result_text(content), byte_length(dump(content))
    fields = detail if type(detail) is dict else _NO_FIELDS
    path = text_of(fields.get("persistedOutputPath"))
    if path is None and head.startswith("<persisted-output>"):
        saved = _PERSISTED.search(head, 0, 2000)
        path = saved.group(1).strip() if saved else None
    if path:
        size = int_of(fields.get("persistedOutputSize"))
    goes_on = fields.get("backgroundTaskId") or head.startswith(_IN_BACKGROUND)
    result = ToolUse(
        tool_use_id=tool_use_id,
        status=_status(head, detail, denial, is_error=is_error),
        is_error=1 if is_error else 0,
        exit_code=exit_code_in(head),
        exit_code_unknown=1 if goes_on or fields.get("returnCodeInterpretation") else None,
        result_text=head or None,
        result_bytes=byte_length(head) if size is None else size,
        result_path=path,
        result_data=result_data(fields, head) if fields else None,
        tool_ms=_milliseconds(fields) if fields else None,
        git=git_operations(fields["gitOperation"]) if "gitOperation" in fields else None,
    )
    if not is_error:
        (
            result.file_path,
            result.file_operation,
            result.file_lines_added,
            result.file_lines_removed,
        ) = result_file(fields, head)
        if "plan" in fields:  # ExitPlanMode: the call may have no input
            result.plan = text_of(fields["plan"])
    return result


def result_facts(result: ToolUse, detail: Any, at: str) -> list[AgentFact] | None:
    """Facts about the agents that a call started, from its toolUseResult or else from its text.

    Any tool can print such a text. So it adds facts to a known agent, but never adds an agent.
    """
    tool_use_id = result.tool_use_id
    if type(detail) is not dict:
        text = result.result_text
        found = _LAUNCHED.match(text) if text and text.startswith("A") else None
        if found is None:
            return None
        return [AgentFact(found[1], "notice", tool_use_id, at, status="launched")]
    status = detail.get("status")
    known = {"completed": "completed", "async_launched": "launched"}
    ended = known.get(status) if type(status) is str else None
    if agent_id := text_of(detail.get("agentId")):
        return [
            AgentFact(
                agent_id,
                "result",
                tool_use_id,
                at,
                kind="task",
                agent_type=text_of(detail.get("agentType")),
                model=text_of(detail.get("resolvedModel")) or text_of(detail.get("model")),
                status=ended,
                prompt=text_of(detail.get("prompt")),
            )
        ]
    if status == "teammate_spawned":
        name = text_of(detail.get("agent_id")) or text_of(detail.get("teammate_id"))
        if name:
            return [
                AgentFact(
                    name,
                    "result",
                    tool_use_id,
                    at,
                    kind="teammate",
                    agent_type=text_of(detail.get("agent_type")),
                    description=text_of(detail.get("name")),
                    model=text_of(detail.get("model")),
                    status="launched",
                    prompt=text_of(detail.get("prompt")),
                )
            ]
    run = text_of(detail.get("runId"))
    folder = text_of(detail.get("transcriptDir"))
    if run is None and folder is not None:
        run = next((name for name in re.split(r"[/\\]", folder) if name.startswith("wf_")), None)
    if run and (folder or detail.get("scriptPath") or run.startswith("wf_")):
        run = run if run.startswith("wf_") else f"wf_{run}"
        return [AgentFact(run, "workflow", tool_use_id, at, status=ended or "launched")]
    return None


_NOTICE = re.compile(
    r"<(?:task|agent)-notification>(.*?)(?:</(?:task|agent)-notification>|\Z)", re.DOTALL
)
_NOTICE_ID = re.compile(r"<(?:task|agent)-id>([^<]+)</(?:task|agent)-id>\s*")
_NOTICE_STATUS = re.compile(r"<status>([^<]+)</status>")
_NOTICE_CALL = re.compile(r"<tool-use-id>([^<]+)</tool-use-id>")
_ENDED = {
    "completed": "completed",
    "failed": "failed",
    "killed": "failed",
    "error": "failed",
    "stopped": "failed",  # its process ended; one notice names all such agents
}


def notice_facts(text: str | None, at: str) -> list[AgentFact] | None:
    """Facts about agents that have ended, from notifications.

    Notices of other background tasks look the same, so a notice counts only for a known agent.
    """
    if text is None or "-notification>" not in text:
        return None
    facts: list[AgentFact] = []
    for notice in _NOTICE.finditer(text):
        body = notice.group(1)
        found = _NOTICE_ID.search(body)
        names: list[str] = []
        while found is not None:  # only ids that follow each other: a result may quote others
            names.append(found.group(1).strip())
            found = _NOTICE_ID.match(body, found.end())
        status = _NOTICE_STATUS.search(body)
        call = _NOTICE_CALL.search(body)
        ended = _ENDED.get(status.group(1).strip()) if status else "completed"
        if ended:
            started = call.group(1).strip() if call else ""
            facts += [AgentFact(name, "notice", started, at, status=ended) for name in names]
    return facts or None
