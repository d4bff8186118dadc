"""Read the parts of an entry that have no column: side data, attachments, system lines, events.

`messages.data` keeps as JSON what a view may need. Of context that the client adds to every session
(lists of skills and tools, reminders), only the size is kept.
"""

from __future__ import annotations

from typing import Any

from ctxdb.claude.blocks import images_beside
from ctxdb.claude.human_text import content_text, human_parts
from ctxdb.claude.known_keys import (
    DATA,
    ENTRY,
    MESSAGE,
    PRIVATE,
    SYSTEM,
    USAGE,
    in_place,
)
from ctxdb.claude.known_types import EVENT_TYPES
from ctxdb.claude.tools import notice_facts
from ctxdb.claude.values import (
    byte_length,
    dict_of,
    dump,
    dump_without_base64,
    int_of,
    shrink,
    text_of,
    time_of,
)
from ctxdb.rows import Event

# When the snapshot of a line was begun, how many files the line names, uuid of the line's message.
SnapshotLine = tuple[str, int, str]
# Path, version, time and name of a backup, and the line that names it.
Snapshot = tuple[str, int, str | None, str | None, SnapshotLine]

# Keys of user and assistant lines, and of their message, that messages.data has.
_KEPT = in_place(ENTRY, DATA)
_KEPT_OF_MESSAGE = in_place(MESSAGE, DATA)
_KEPT_OF_USAGE = in_place(USAGE, DATA)
_KNOWN_OF_SYSTEM = frozenset(ENTRY) | frozenset(SYSTEM)
# Keys that have columns of their own, or that say where the line is.
_ENVELOPE = frozenset(
    (
        "agentId",
        "attachment",
        "content",
        "cwd",
        "entrypoint",
        "gitBranch",
        "isSidechain",
        "logicalParentUuid",
        "ownerAccountUuid",
        "ownerOrganizationUuid",
        "parentUuid",
        "sessionId",
        "session_id",
        "slug",
        "subtype",
        "timestamp",
        "type",
        "userType",
        "uuid",
        "version",
    )
)
# Attachments whose text is kept and searchable: from a person, from a failed hook, or of a file.
_TEXT_KEYS: dict[str, tuple[str, ...]] = {
    "queued_command": ("prompt",),
    "hook_blocking_error": ("blockingError", "content", "stderr"),
    "hook_non_blocking_error": ("stderr", "content", "stdout"),
    "hook_error_during_execution": ("content", "stderr"),
    "hook_cancelled": ("content",),
    "nested_memory": ("content",),
    "file": ("content",),
}


def side_data(
    entry: dict[str, Any],
    message: dict[str, Any],
    images: list[dict[str, Any]],
    error: dict[str, int | str] | None = None,
) -> str | None:
    """JSON for messages.data of a user or assistant line; `error` is what its text names."""
    usage = dict_of(message.get("usage"))
    if (
        not images
        and error is None
        and _KEPT.isdisjoint(entry)
        and _KEPT_OF_MESSAGE.isdisjoint(message)
        and _KEPT_OF_USAGE.isdisjoint(usage)
    ):
        return None
    kept: dict[str, Any] = {key: entry[key] for key in _KEPT.intersection(entry)}
    if images or "images" in kept:
        kept["images"] = images + images_beside(kept.get("images"))
    for key in _KEPT_OF_MESSAGE:
        if message.get(key):
            kept[key] = message[key]
    kept |= {key: usage[key] for key in _KEPT_OF_USAGE.intersection(usage)}
    if error is not None:
        kept["errorInText"] = error
    return dump(shrink(dict(sorted(kept.items())))) if kept else None


def system_parts(entry: dict[str, Any]) -> tuple[str | None, str | None]:
    """(text, data) of a system line."""
    text = content_text(entry.get("content")) or None
    errors = entry.get("hookErrors")
    if text is None and errors and type(errors) is list:  # of stop hooks: so they can be found
        text = "\n\n".join(error for error in errors if type(error) is str) or None
    kept = {
        key: value
        for key, value in entry.items()
        if key in _KNOWN_OF_SYSTEM and key not in _ENVELOPE
    }
    return text, dump(shrink(kept)) if kept else None


def _text_in(value: Any) -> str | None:
    """Text of an attachment's field: a string, blocks, or an object that holds one."""
    if type(value) is str:
        return value or None
    if type(value) is list:
        return content_text(value) or "\n\n".join(v for v in value if type(v) is str) or None
    if type(value) is dict:
        for key in ("content", "blockingError", "text", "file"):
            if found := _text_in(value.get(key)):
                return found
    return None


def attachment_parts(
    entry: dict[str, Any],
) -> tuple[str | None, str | None, str | None, str | None, Any]:
    """(subtype, text, data, path of an @-mentioned file, content a human queued)."""
    attachment = dict_of(entry.get("attachment"))
    subtype = text_of(attachment.get("type"))
    text: str | None = None
    used: tuple[str, ...] = ()
    for key in _TEXT_KEYS.get(subtype or "", ()):
        if text := _text_in(attachment.get(key)):
            used = (key,)
            break
    kept: dict[str, Any] = {}
    for key, value in attachment.items():
        if key == "type" or key in used:
            continue
        kept[key] = (
            _sized(value) if key in ("content", "text", "addedLines", "addedBlocks") else value
        )
    if subtype == "hook_blocking_error" and "command" not in kept:
        command = text_of(dict_of(attachment.get("blockingError")).get("command"))
        if command is not None:
            kept["command"] = command
    if used and text:
        kept["bytes"] = byte_length(text)
    mention = None
    human: Any = None
    if subtype == "file":
        mention = text_of(attachment.get("filename")) or text_of(attachment.get("path"))
    if subtype == "queued_command" and attachment.get("commandMode") in (None, "prompt", "bash"):
        origin = attachment.get("origin")
        kind = origin.get("kind") if type(origin) is dict else origin
        if kind in (None, "human") and attachment.get("isMeta") is not True:
            human = attachment.get("prompt")
            if prompt := human_parts(human)[1]:
                kept["queued_by_human"] = prompt
    return subtype, text, dump(shrink(kept)) if kept else None, mention, human


def _sized(value: Any) -> Any:
    """The size of a text that the client added, instead of the text."""
    if type(value) is str:
        return {"bytes": byte_length(value)}
    if type(value) in (list, dict):
        return {"items": len(value), "bytes": len(dump(value))}
    return value


def snapshots_of(entry: dict[str, Any]) -> list[Snapshot] | None:
    """The files that a snapshot or delta names, each with its backup.

    Later lines name the backup again, for other messages. The first line of the first snapshot is
    for the message that it was made for; a snapshot names more files with each of its lines.
    """
    found: list[Snapshot] = []
    snapshot = dict_of(entry.get("snapshot"))
    begun = time_of(snapshot.get("timestamp"))
    message = text_of(entry.get("messageId")) or text_of(snapshot.get("messageId")) or ""
    backups = dict_of(snapshot.get("trackedFileBackups"))
    for path, value in backups.items():
        backup = dict_of(value)
        at = time_of(backup.get("backupTime")) or begun
        if path and (version := int_of(backup.get("version"))) is not None:
            name = text_of(backup.get("backupFileName"))
            found.append((path, version, at, name, (begun or "", len(backups), message)))
    if tracked := text_of(entry.get("trackingPath")):
        backup = dict_of(entry.get("backup"))
        if (version := int_of(backup.get("version"))) is not None:
            at, name = text_of(backup.get("backupTime")), text_of(backup.get("backupFileName"))
            begun = time_of(entry.get("timestamp")) or at
            found.append((tracked, version, at, name, (begun or "", 1, message)))
    return found or None


def _without_private(value: Any) -> Any:
    """The value without account ids, at any depth."""
    if type(value) is dict:
        return {k: _without_private(v) for k, v in value.items() if k not in PRIVATE}
    if type(value) is list:
        return [_without_private(item) for item in value]
    return value


_SUBTYPES = ("subtype", "operation", "mode", "permissionMode")


def event_record(entry: dict[str, Any], start: int, length: int, hashed: int) -> Event:
    """An entry that is not part of the thread. All of it is kept, except account ids."""
    what = entry.get("type")
    name = what if type(what) is str else None
    snapshot = dict_of(entry.get("snapshot"))
    at = time_of(entry.get("timestamp")) or time_of(snapshot.get("timestamp"))
    subtype = next((found for key in _SUBTYPES if (found := text_of(entry.get(key)))), None)
    data = dump_without_base64(entry)
    if any(key in data for key in PRIVATE):
        data = dump_without_base64(_without_private(entry))
    record = Event(
        type=name,
        subtype=subtype,
        timestamp=at,
        data=data,
        byte_start=start,
        byte_length=length,
        line_hash=hashed,
        version=text_of(entry.get("version")) or "",
        said_session=text_of(entry.get("sessionId")),
        is_unknown=0 if name in EVENT_TYPES else 1,
    )
    if "parentUuid" in entry:
        record.uuid, record.said_parent = text_of(entry.get("uuid")), text_of(entry["parentUuid"])
    if name == "summary":
        leaf, summary = text_of(entry.get("leafUuid")), text_of(entry.get("summary"))
        if leaf and summary:
            record.summary = (leaf, summary)
    elif name in ("file-history-snapshot", "file-history-delta"):
        record.snapshots = snapshots_of(entry)
    elif name == "queue-operation":
        record.facts = notice_facts(content_text(entry.get("content")) or None, at or "")
    return record
