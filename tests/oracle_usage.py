"""Billed requests out of assistant lines: docs/accounting.md R0 to R7 and R10 to R17.

Part of the oracle (see ``oracle.py``).
"""

from __future__ import annotations

from collections import defaultdict

import oracle_rules as rules
from oracle_copies import LAST, Key, Message, Model
from oracle_rules import Json, as_dict, as_text


def count_usage(model: Model) -> None:
    """One row per billed request: docs/accounting.md R0 to R7, R10 to R17."""
    lines = [m for m in model.messages if m.entry.type == "assistant" and eligible(m)]
    spoken = {
        (session, api(m).get("id"))
        for m in lines
        if not m.entry.sidechain
        for session in (m.session, *(copy.session for copy in m.copies))
    }
    requests: dict[Key, list[Message]] = defaultdict(list)
    for message in lines:
        if message.entry.sidechain and (message.session, api(message).get("id")) in spoken:
            continue  # R3: a replay of what the main thread said
        requests[request_key(message)].append(message)
    for key, group in requests.items():
        winner, first = max(group, key=winning), min(group, key=attributed)
        usage = api(winner)["usage"]
        searches = [as_dict(api(m)["usage"].get("server_tool_use")) for m in group]
        row = {
            "session": first.session,
            "agent": first.agent,
            "timestamp": first.entry.timestamp,
            "output_is_final": any(api(m).get("stop_reason") is not None for m in group),
            "lines": len(group),
        }
        web = max(rules.counter(s.get("web_search_requests")) for s in searches)
        thinking = as_dict(usage.get("output_tokens_details")).get("thinking_tokens")
        model.usage[key] = row | {
            **rules.token_counts(usage),
            "model": api(winner)["model"],
            "prompt_tokens": rules.largest_prompt(usage),
            "thinking_tokens": thinking,
            "web_search_requests": web,
            "cost_reported_usd": winner.entry.body.get("costUSD"),
            "is_sidechain": winner.entry.sidechain,
        }
        for n, advice in enumerate(rules.iterations(usage, "advisor_message"), 1):
            counts = rules.token_counts(advice)
            model.usage[*key, f"adv {n}"] = row | {
                **counts,
                "model": advice.get("model"),
                "prompt_tokens": rules.prompt_size(counts),
            }


def api(message: Message) -> Json:
    return as_dict(message.entry.body.get("message"))


def eligible(message: Message) -> bool:
    said = api(message)
    return isinstance(said.get("usage"), dict) and said.get("model") not in (
        None,
        "",
        "<synthetic>",
    )


def request_key(message: Message) -> Key:
    """R2: global where the API names the request, else as narrow as it must be."""
    id_, request = as_text(api(message).get("id")), as_text(message.entry.body.get("requestId"))
    if id_ is None:
        return "d", message.entry.identity
    if request:
        return "a", id_, request
    if id_.startswith("msg_"):
        return "b", message.session, id_
    return "c", message.session, id_, message.entry.timestamp


def winning(message: Message) -> Key:
    usage = api(message)["usage"]
    counts = rules.token_counts(usage)
    return (
        not message.entry.sidechain,
        counts["output_tokens"],
        sum(counts.values()),
        usage.get("speed") is not None,
        message.entry.timestamp or "",
    )


def attributed(message: Message) -> Key:
    bg = message.entry.whole.get("sessionKind") == "bg"
    return message.entry.timestamp or LAST, bg, message.session or LAST
