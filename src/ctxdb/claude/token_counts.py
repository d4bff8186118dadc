"""Token counts of one assistant line (docs/accounting.md R0, R2, R6, R7, R10).

Each line is read alone. `rules/requests.py` decides which of the lines of a request counts.
"""

from __future__ import annotations

from typing import Any

from ctxdb.claude.values import float_of, int_of, text_of
from ctxdb.rows import UsageLine

MAX_COUNT = 2_000_000  # tokens; a request cannot have more, so a larger number is wrong


def count(value: Any) -> int:
    """A token count: an integer from 0 to MAX_COUNT for any value."""
    if type(value) is int:
        return value if 0 <= value <= MAX_COUNT else (0 if value < 0 else MAX_COUNT)
    if type(value) is float and value > MAX_COUNT:  # an integer beyond 64 bits is read as a float
        return MAX_COUNT
    number = int_of(value)
    return 0 if number is None or number < 0 else min(number, MAX_COUNT)


_COUNTERS = ("input_tokens", "output_tokens", "cache_read_input_tokens")


Counted = tuple[int, int, int, int, int]
"""input, output, cache write 5m, cache write 1h, cache read"""


def counters(usage: dict[str, Any]) -> Counted:
    """input, output, cache write 5m, cache write 1h, cache read (R6)."""
    get = usage.get
    read_in, written, cached = [
        n if type(n) is int and 0 <= n <= MAX_COUNT else count(n) for n in map(get, _COUNTERS)
    ]
    total = count(get("cache_creation_input_tokens"))
    split = get("cache_creation")
    long = 0
    if type(split) is dict:
        long = count(split.get("ephemeral_1h_input_tokens"))
        total = max(total, count(split.get("ephemeral_5m_input_tokens")) + long)
        long = min(long, total)
    return read_in, written, total - long, long, cached


def request_key(session: str | None, message: str, request: str | None, at: str | None) -> str:
    """The key of a request (R2): lines with the same key report the same request.

    The message id comes first, so that all requests of a message are found by their beginning.
    """
    if request is not None:
        return f"{message}|{request}"
    if message.startswith("msg_"):
        return f"{message}||{session}"
    return f"{message}||{session}|{at}"


def usage_lines(entry: dict[str, Any], message: dict[str, Any]) -> list[UsageLine] | None:
    """Rows of the request and of its advisor calls; None when the line is not of a request (R0)."""
    usage = message.get("usage")
    model = message.get("model")
    if type(usage) is not dict or type(model) is not str or not model or model == "<synthetic>":
        return None
    get = usage.get
    is_final = 1 if message.get("stop_reason") else 0
    is_background = 1 if entry.get("sessionKind") == "bg" else 0
    tier = text_of(get("service_tier"))
    geo = text_of(get("inference_geo"))
    request = _counted(usage, model)
    lines = [request]
    iterations = get("iterations")
    largest = 0
    if type(iterations) is list:
        for call in iterations:
            if type(call) is not dict:
                continue
            kind = call.get("type")
            if kind == "advisor_message":
                name = text_of(call.get("model")) or text_of(entry.get("advisorModel")) or model
                advisor = _counted(call, name)
                advisor.part = len(lines)
                lines.append(advisor)
            elif kind == "message":
                largest = max(largest, _prompt_tokens(counters(call)))
    for line in lines:
        line.service_tier, line.inference_geo = tier, geo
        line.has_stop_reason, line.is_background = is_final, is_background
    request.prompt_tokens = largest or request.prompt_tokens
    details = get("output_tokens_details")
    thinking = details.get("thinking_tokens") if type(details) is dict else None
    request.thinking_tokens = None if thinking is None else count(thinking)
    server = get("server_tool_use")
    if type(server) is dict:
        request.web_search_requests = count(server.get("web_search_requests"))
    request.speed = text_of(get("speed"))
    cost = entry.get("costUSD")
    request.cost_reported_usd = None if cost is None else float_of(cost)
    return lines


def _prompt_tokens(counted: Counted) -> int:
    """The size of a call's prompt (R7)."""
    read_in, _written, short, long, cached = counted
    return read_in + short + long + cached


def _counted(usage: dict[str, Any], model: str) -> UsageLine:
    """The counters of one call, and the size of its prompt (R7)."""
    counted = counters(usage)
    read_in, written, short, long, cached = counted
    return UsageLine(
        model=model,
        input_tokens=read_in,
        output_tokens=written,
        cache_write_5m_tokens=short,
        cache_write_1h_tokens=long,
        cache_read_tokens=cached,
        prompt_tokens=_prompt_tokens(counted),
    )
