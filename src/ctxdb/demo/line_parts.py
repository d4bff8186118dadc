"""The content blocks and token counts of a reply, in the form of the transcript's version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxdb.demo.tool_calls import AgentCall, Call, Json

if TYPE_CHECKING:
    from ctxdb.demo.transcript import Transcript

CHARACTERS_PER_TOKEN = 3.6


def content_block(s: Transcript, part: str | Json | Call | AgentCall) -> Json:
    """Return the content block for a part of a reply."""
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if isinstance(part, dict):
        return {**part, "signature": s.api_id("Ep") + s.api_id("") + "=="}
    if isinstance(part, AgentCall):
        name = "Agent" if s.since(2, 1, 63) else "Task"
        call_input: Json = {
            "description": part.description,
            "prompt": part.prompt,
            "subagent_type": part.agent_type,
        }
    else:
        name, call_input = part.name, part.input
    block: Json = {
        "type": "tool_use",
        "id": s.api_id("toolu_01"),
        "name": name,
        "input": call_input,
    }
    if s.since(2, 0, 67):
        block["caller"] = {"type": "direct"}
    return block


def token_counts(s: Transcript, characters: int) -> Json:
    """Return the token counts of the next reply, and remember what the model has seen."""
    output = round(characters / CHARACTERS_PER_TOKEN) + s.rng.getrandbits(6)
    written, read = s.unseen, s.context
    if not read and s.agent_id is None:
        read, written = 14_200, written - 14_200  # the system prompt is warm from before
    s.context, s.unseen = read + written, output
    long_lived = s.modern and not s.sidechain
    split = {
        "ephemeral_5m_input_tokens": 0 if long_lived else written,
        "ephemeral_1h_input_tokens": written if long_lived else 0,
    }
    usage: Json = {
        "input_tokens": 2 + s.rng.getrandbits(3),
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read,
        "cache_creation": split,
        "output_tokens": output,
        "service_tier": "standard",
    }
    if s.modern:
        counts = {key: value for key, value in usage.items() if key != "service_tier"}
        usage |= {
            "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
            "inference_geo": "not_available",
            "iterations": [{**counts, "type": "message"}],
            "speed": "standard",
        }
    if s.since(2, 1, 229):
        usage["output_tokens_details"] = {"thinking_tokens": output // 4}
    return usage
