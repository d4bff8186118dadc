"""messages.extra: what an entry says that is on no list of known_keys.py.

In the normal case there is nothing, so the check must cost little: one set comparison for the
entry, its message, its usage, its toolUseResult and each block.
"""

from __future__ import annotations

import re
from typing import Any

from ctxdb.claude.known_keys import (
    BLOCKS,
    ENTRY,
    MESSAGE,
    PRIVATE,
    SERVER_RESULT,
    SYSTEM,
    TOOL_RESULTS,
    USAGE,
)
from ctxdb.claude.known_types import ATTACHMENT_TYPES, SYSTEM_SUBTYPES
from ctxdb.claude.values import BASE64_CUT, byte_length, dump

MAX_BYTES = 64 << 10  # of messages.extra
_LONG_BASE64 = 512  # characters; a shorter run may be a name or a hash
_BASE64 = re.compile(rf"(?:[A-Za-z0-9+/_-]{{{_LONG_BASE64},}}={{0,2}})")

_ENTRY = frozenset(ENTRY)
_SYSTEM = _ENTRY | frozenset(SYSTEM)
_MESSAGE = frozenset(MESSAGE)
_USAGE = frozenset(USAGE)
_BLOCKS = {kind: frozenset(keys) for kind, keys in BLOCKS.items()}
_SERVER_RESULT = _BLOCKS["tool_result"]
_TOOL_RESULT = frozenset(key for keys in TOOL_RESULTS.values() for key in keys)


def extra_of(entry: dict[str, Any], what: str) -> str | None:
    """JSON for messages.extra: each unknown key, by its path; None if all is known."""
    if what in ("system", "attachment"):
        found = _of_system(entry) if what == "system" else _of_attachment(entry)
        return _as_json(found) if found else None
    message = entry.get("message")
    detail = entry.get("toolUseResult")
    if (
        _ENTRY.issuperset(entry)
        and type(message) is dict
        and _MESSAGE.issuperset(message)
        and _is_known_content(message.get("content"), detail)
        and _is_known_usage(message.get("usage"))
    ):
        return None
    found = _of_conversation(entry, message, detail)
    return _as_json(found) if found else None


def _is_known_usage(usage: Any) -> bool:
    return usage is None or (type(usage) is dict and _USAGE.issuperset(usage))


def _known_keys(block: dict[str, Any]) -> frozenset[str] | None:
    kind = block.get("type")
    if type(kind) is not str:
        return None
    keys = _BLOCKS.get(kind)
    return _SERVER_RESULT if keys is None and kind.endswith(SERVER_RESULT) else keys


def _is_known_content(content: Any, detail: Any) -> bool:
    has_result = False
    if type(content) is list:
        for block in content:
            if type(block) is not dict:
                return False
            keys = _known_keys(block)
            if keys is None or not keys.issuperset(block):
                return False
            has_result = has_result or keys is _SERVER_RESULT
    elif type(content) is not str:
        return False
    if detail is None:
        return True
    if type(detail) is dict and not _TOOL_RESULT.issuperset(detail):
        return False
    return has_result


def _of_system(entry: dict[str, Any]) -> dict[str, Any]:
    found = {key: entry[key] for key in entry if key not in _SYSTEM}
    subtype = entry.get("subtype")
    if type(subtype) is str and subtype not in SYSTEM_SUBTYPES:
        found[f"system.{subtype}"] = None  # its keys are in data, or above
    return found


def _of_attachment(entry: dict[str, Any]) -> dict[str, Any]:
    found = {key: entry[key] for key in entry if key not in _ENTRY}
    attachment = entry.get("attachment")
    kind = attachment.get("type") if type(attachment) is dict else None
    if type(kind) is not str:
        found["attachment"] = attachment
    elif kind not in ATTACHMENT_TYPES:
        found[f"attachment.{kind}"] = attachment
    return found


def _of_conversation(entry: dict[str, Any], message: Any, detail: Any) -> dict[str, Any]:
    """What is unknown in a user or assistant entry."""
    found = {key: entry[key] for key in entry if key not in _ENTRY}
    content = entry.get("content")
    if type(message) is dict:
        found |= {f"message.{key}": message[key] for key in message if key not in _MESSAGE}
        usage = message.get("usage")
        if type(usage) is dict:
            found |= {f"message.usage.{key}": usage[key] for key in usage if key not in _USAGE}
        elif usage is not None:
            found["message.usage"] = usage
        content = message.get("content", content)
    elif message is not None:
        found["message"] = message
    has_result = _add_blocks(content, found)
    if detail is not None and not has_result:
        found["toolUseResult"] = detail
    elif type(detail) is dict:
        found |= {f"toolUseResult.{key}": detail[key] for key in detail if key not in _TOOL_RESULT}
    return found


def _add_blocks(content: Any, found: dict[str, Any]) -> bool:
    """Add unknown blocks, and unknown keys of known ones. True if one is a tool_result."""
    if type(content) is not list:
        if content is not None and type(content) is not str:
            found["message.content"] = content
        return False
    has_result = False
    for block in content:
        keys = _known_keys(block) if type(block) is dict else None
        if keys is None:
            if type(block) is not str:
                kind = block.get("type") if type(block) is dict else None
                name = f"content.{kind}" if type(kind) is str else "content"
                found.setdefault(name, []).append(block)
            continue
        has_result = has_result or keys is _SERVER_RESULT
        for key in block:
            if key not in keys:
                found.setdefault(f"content.{block['type']}.{key}", []).append(block[key])
    return has_result


def _as_json(found: dict[str, Any]) -> str:
    """The values without base64, as far as there is room."""
    values = {key: without_base64(value) for key, value in found.items()}
    text = dump(values)
    if byte_length(text) <= MAX_BYTES:
        return text
    kept: dict[str, Any] = {"truncated": True}
    room = MAX_BYTES - byte_length(dump(kept))
    for key, value in values.items():
        for shorter in (value, {"bytes": byte_length(dump(value))}):
            size = byte_length(dump({key: shorter}))
            if size <= room:
                kept[key] = shorter
                room -= size
                break
    return dump(kept)


def without_base64(value: Any) -> Any:
    """The value with the size of base64 in place of the base64, and without account ids."""
    if type(value) is str:
        if len(value) < _LONG_BASE64:
            return value
        return _BASE64.sub(lambda run: f"{BASE64_CUT}{len(run.group())}", value)
    if type(value) is dict:
        return {k: without_base64(v) for k, v in value.items() if k not in PRIVATE}
    if type(value) is list:
        return [without_base64(item) for item in value]
    return value
