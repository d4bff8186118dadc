"""Lines that the client adds to a conversation: hooks, compactions and API errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctxdb.demo.tool_calls import Json
    from ctxdb.demo.transcript import Transcript


def hook(s: Transcript, event: str, command: str, stdout: str = "", tool_id: str = "") -> None:
    """Write that a hook ran: an attachment, or a progress line before 2.1.64."""
    name = event if not tool_id else f"{event}:Edit"
    if s.modern:
        s.attach(
            "hook_success",
            hookName=name,
            toolUseID=tool_id or s.uuid(),
            hookEvent=event,
            content="",
            stdout=stdout,
            stderr="",
            exitCode=0,
            command=command,
            durationMs=40 + s.rng.getrandbits(7),
        )
    else:
        data = {
            "type": "hook_progress",
            "hookEvent": event,
            "hookName": name,
            "command": command,
        }
        s.thread("progress", {"data": data, "toolUseID": tool_id or s.uuid()})


def compact(s: Transcript, summary: str) -> None:
    """Write a compaction: a new root that bridges to the old thread, then the summary."""
    s.wait(70)
    before, leaf = s.context + s.unseen, s.parent
    s.parent = None
    details: dict[str, object] = {"trigger": "auto", "preTokens": before}
    if s.modern:
        details |= {"postTokens": 9_300, "durationMs": 61_240, "preCompactDiscoveredTools": []}
    s.system(
        "compact_boundary",
        content="Conversation compacted",
        logicalParentUuid=leaf,
        isMeta=False,
        level="info",
        compactMetadata=details,
    )
    s.user(
        f"This session is being continued from a previous conversation.\n\n{summary}",
        {"isVisibleInTranscriptOnly": True, "isCompactSummary": True},
    )
    s.context, s.unseen = 0, 24_600


def api_error(s: Transcript, text: str, kind: str, status: int) -> None:
    """Write an API error as the client shows it: a synthetic reply without tokens."""
    s.wait(2)
    usage: Json = {
        "input_tokens": 0,
        "output_tokens": 0,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "service_tier": None,
    }
    message = {
        "id": s.uuid(),
        "model": "<synthetic>",
        "role": "assistant",
        "type": "message",
        "stop_reason": "stop_sequence",
        "stop_sequence": "",
        "content": [{"type": "text", "text": text}],
        "usage": usage,
    }
    more = {"error": kind, "isApiErrorMessage": True, "apiErrorStatus": status}
    s.thread("assistant", {"message": message}, more)
