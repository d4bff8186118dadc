"""A tool call and its result: how the two become one row, and what follows from the row.

Both halves of a call are rows of the same kind. `join` makes one row of them, `split` takes a row
apart again; which columns belong to which half is said in `rows`. What needs both halves (the exit
code of a shell, the duration, the file that was touched, git operations) is worked out by `finish`,
`file_touch` and `git_operations`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from ctxdb.claude.file_changes import call_file
from ctxdb.claude.git_output import GitOp, git_from_text, with_printed
from ctxdb.claude.names import BASH, SHELLS, is_unique_id
from ctxdb.claude.tools import exit_code_in, input_fields, shell_command
from ctxdb.columns import CALL, RESULT, copy_fields, said_by
from ctxdb.rows import FileTouch, GitOperation, ToolUse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctxdb.rows import Message

_CALL = said_by(ToolUse, CALL)
_RESULT = said_by(ToolUse, RESULT)


def milliseconds(start: str | None, end: str | None) -> int | None:
    """Time between two timestamps; None when one is missing or no timestamp at all."""
    if start is None or end is None:
        return None
    try:
        return round(
            (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds() * 1000
        )
    except (ValueError, TypeError, OverflowError):
        return None


def place_call(call: ToolUse, message: Message) -> None:
    """A call belongs to the message that makes it."""
    call.message_id = message.id
    call.started_at = message.timestamp
    follow_message(call, message)


def place_result(result: ToolUse, message: Message) -> None:
    """A result belongs to the message that holds it, until its call is known."""
    result.result_message_id = message.id
    result.finished_at = message.timestamp
    follow_message(result, message)


def halves_of(message: Message) -> list[ToolUse]:
    """The calls and results of a message, as halves of rows that belong where the message does."""
    halves = []
    for call in message.calls or ():
        place_call(call, message)
        halves.append(call)
    for result in message.results or ():
        place_result(result, message)
        halves.append(result)
    return halves


def follow_message(tool: ToolUse, message: Message) -> None:
    """Give a row the session, agent and turn of a message."""
    tool.session_id, tool.agent_id = message.session_id, message.agent_id
    tool.turn_id = message.turn_id


def fill_call(tool: ToolUse, call: ToolUse) -> None:
    """Write the call's half into a row; the row then belongs where its call does."""
    copy_fields(tool, call, _CALL)
    tool.message_id = call.message_id
    tool.session_id, tool.agent_id, tool.turn_id = call.session_id, call.agent_id, call.turn_id


def fill_result(tool: ToolUse, result: ToolUse) -> None:
    """Write the result's half into a row."""
    copy_fields(tool, result, _RESULT)
    tool.result_message_id = result.result_message_id
    if tool.message_id is None:
        tool.session_id, tool.agent_id = result.session_id, result.agent_id
        tool.turn_id = result.turn_id


def join(tool_use_id: str, call: ToolUse | None, result: ToolUse | None) -> ToolUse:
    """One row of a call and its result; either may be missing."""
    tool = ToolUse(tool_use_id=tool_use_id)
    if call is not None:
        fill_call(tool, call)
    if result is not None:
        fill_result(tool, result)
    finish(tool)
    return tool


def split(tool: ToolUse) -> tuple[ToolUse | None, ToolUse | None]:
    """The call and the result of a row. Whose each half is must be asked of its message."""
    call = result = None
    if tool.message_id is not None:
        call = ToolUse(tool_use_id=tool.tool_use_id, message_id=tool.message_id)
        copy_fields(call, tool, _CALL)
    if tool.result_message_id is not None:
        result = ToolUse(tool_use_id=tool.tool_use_id, result_message_id=tool.result_message_id)
        copy_fields(result, tool, _RESULT)
        if _is_clean_shell(tool) and result.exit_code == 0:
            # Mostly only the call makes it 0, and the words of the result say no code.
            result.exit_code = exit_code_in(tool.result_text or "")
    return call, result


def _is_clean_shell(tool: ToolUse) -> bool:
    return tool.name == BASH and tool.status == "ok" and not tool.exit_code_unknown


def finish(tool: ToolUse) -> None:
    """Work out what needs both halves."""
    tool.duration_ms = milliseconds(tool.started_at, tool.finished_at)
    if tool.exit_code is None and _is_clean_shell(tool):
        tool.exit_code = 0


def join_lines(messages: list[Message]) -> tuple[list[ToolUse], list[ToolUse]]:
    """The calls and results of some lines: (rows with both, halves to be joined with stored rows).

    Those are joined whose id never repeats and is there once. A message keeps its halves only: the
    others are in the joined rows, which `split` takes apart.
    """
    calls: dict[str, list[ToolUse]] = {}
    results: dict[str, list[ToolUse]] = {}
    for message in messages:
        for half in halves_of(message):
            kind = calls if half.message_id is not None else results
            kind.setdefault(half.tool_use_id, []).append(half)
    joined: dict[str, ToolUse] = {}
    for tool_use_id, made in calls.items():
        answers = results.get(tool_use_id, [])
        if len(made) == len(answers) == 1 and is_unique_id(tool_use_id):
            (tool,), (answer,) = made, answers  # the call becomes the row of both
            fill_result(tool, answer)
            finish(tool)
            joined[tool_use_id] = tool
    halves: list[ToolUse] = []
    for message in messages:
        if message.calls:
            message.calls = [c for c in message.calls if c.tool_use_id not in joined] or None
            halves += message.calls or ()
        if message.results:
            message.results = [r for r in message.results if r.tool_use_id not in joined] or None
            halves += message.results or ()
    return list(joined.values()), halves


def give_back(tools: Iterable[ToolUse], messages: list[Message]) -> None:
    """Give the calls and results of joined rows back to their messages, which have numbers."""
    for tool in tools:
        call, result = split(tool)
        if call is not None and call.message_id is not None:
            message = messages[call.message_id - 1]
            message.calls = [*(message.calls or ()), call]
        if result is not None and result.result_message_id is not None:
            message = messages[result.result_message_id - 1]
            message.results = [*(message.results or ()), result]


class Place(NamedTuple):
    """Where a half is, in reading order."""

    path: str
    byte_start: int


@dataclass(slots=True)
class Half:
    """A call or a result, with the row and the message it is in and where that is."""

    row: int
    message_id: int
    place: Place
    tool: ToolUse

    @property
    def is_call(self) -> bool:
        """Whether it is the call."""
        return self.tool.message_id is not None


def pair(halves: list[Half]) -> tuple[list[tuple[Half, Half]], list[Half]]:
    """The calls and results of one id in a session, paired; and the results without a call.

    A result belongs to the last call before it that has none yet; one that is before every open
    call, to the first of these.
    """
    pairs: list[tuple[Half, Half]] = []
    unanswered: list[Half] = []
    early: list[Half] = []
    # A call on the line of its result is not before it.
    for half in sorted(halves, key=lambda half: (half.place, half.is_call)):
        if half.is_call:
            unanswered.append(half)
        elif unanswered:
            pairs.append((unanswered.pop(), half))
        else:
            early.append(half)
    pairs += zip(unanswered, early, strict=False)
    return pairs, early[len(unanswered) :]


def file_touch(tool: ToolUse) -> FileTouch | None:
    """The file that a call touches, or None when it touches none."""
    touched = tool.call_file
    if touched is None:
        if tool.input is None or tool.name is None:
            return None
        touched = call_file(tool.name, input_fields(tool.input))
    if not touched:
        return None
    path, operation, added, removed = touched
    path = path or tool.file_path
    if not path:
        return None
    if operation == "write" and tool.file_operation == "create":
        operation = "create"
    succeeded: int | None = None
    if tool.status == "pending" or operation == "read":
        added = removed = None
    elif tool.status != "ok":
        added = removed = 0
    elif tool.file_lines_added is not None:
        added, removed = tool.file_lines_added, tool.file_lines_removed
    elif operation == "write":
        added = removed = None
    if tool.status != "pending":
        succeeded = 1 if tool.status == "ok" else 0
    return FileTouch(
        tool_id=tool.id,
        tool_use_id=tool.tool_use_id,
        session_id=tool.session_id,
        agent_id=tool.agent_id,
        turn_id=tool.turn_id,
        path=path,
        operation=operation,
        succeeded=succeeded,
        lines_added=added,
        lines_removed=removed,
        timestamp=tool.started_at or tool.finished_at,
    )


def git_operations(tool: ToolUse, reported: Iterable[GitOp] | None) -> list[GitOperation]:
    """What a call did with git: what its result reports, and what a shell printed."""
    found: list[GitOp] = list(reported or ())
    if tool.name in SHELLS:
        printed = git_from_text(
            lambda: shell_command(tool.input), tool.result_text, failed=tool.status != "ok"
        )
        found = with_printed(found, printed)
    at = tool.finished_at or tool.started_at
    return [git_row(tool, operation, at) for operation in found]


def git_row(tool: ToolUse, operation: GitOp, at: str | None) -> GitOperation:
    """One operation of a call as a row."""
    kind, sha, branch, number, url, subject, source = operation
    return GitOperation(
        tool_id=tool.id,
        session_id=tool.session_id,
        turn_id=tool.turn_id,
        kind=kind,
        sha=sha,
        branch=branch,
        subject=subject,
        pr_number=number,
        pr_url=url,
        source=source,
        timestamp=at,
    )


def needs_bookkeeping(tool: ToolUse) -> bool:
    """Whether the result says something that has no public column."""
    return bool(
        tool.exit_code_unknown
        or tool.file_path
        or tool.file_operation
        or tool.file_lines_added is not None
        or tool.plan
        or tool.line_text is not None
    )
