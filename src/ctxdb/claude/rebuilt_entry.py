"""An entry rebuilt from its rows, in the form of the transcripts as far as the rows know it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctxdb.claude.stored_data import json_object

if TYPE_CHECKING:
    from ctxdb.rows import Message, ToolUse


def rebuilt_entry(message: Message) -> dict[str, Any]:
    """The entry of a message, with its calls and results."""
    entry: dict[str, Any] = {
        "parentUuid": message.parent_uuid,
        "isSidechain": bool(message.is_sidechain),
        "cwd": message.cwd,
        "sessionId": message.session_id,
        "version": message.version,
        "gitBranch": message.git_branch,
        "type": message.type,
        "uuid": message.uuid,
        "timestamp": message.timestamp,
    }
    if message.logical_parent_uuid is not None:
        entry["logicalParentUuid"] = message.logical_parent_uuid
    # A sidechain of version 1.0 has no id of its own: ctxdb has made one.
    if message.agent_id is not None and not message.agent_id.startswith("side-"):
        entry["agentId"] = message.agent_id
    if message.type == "assistant":
        entry["message"] = {
            "id": message.api_message_id,
            "type": "message",
            "role": "assistant",
            "model": message.model,
            "content": _reply(message),
            "stop_reason": message.stop_reason,
        }
        if message.request_id:
            entry["requestId"] = message.request_id
    elif message.type == "user":
        results = [_result(result) for result in message.results or ()]
        text = message.text or ""
        beside = [{"type": "text", "text": text}] if text and results else []
        entry["message"] = {"role": "user", "content": [*results, *beside] or text}
        if message.kind in ("meta", "compact_summary"):
            entry["isMeta" if message.kind == "meta" else "isCompactSummary"] = True
    elif message.type == "attachment":
        entry["attachment"] = {"type": message.subtype, "content": message.text}
    else:
        entry |= {"subtype": message.subtype, "content": message.text}
    return entry


def _reply(message: Message) -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = []
    if message.thinking:
        content.append({"type": "thinking", "thinking": message.thinking})
    if message.text:
        content.append({"type": "text", "text": message.text})
    return content + [_call(call) for call in message.calls or ()]


def _call(call: ToolUse) -> dict[str, Any]:
    return {
        "type": "tool_use",
        "id": call.tool_use_id,
        "name": call.raw_name,
        "input": json_object(call.input),
    }


def _result(result: ToolUse) -> dict[str, Any]:
    block: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": result.tool_use_id,
        "content": result.result_text or "",
    }
    return block | {"is_error": True} if result.is_error else block
