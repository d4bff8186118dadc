"""What the JSON columns of stored rows say: `events.data`, `messages.data` and `tool_uses.input`.

A column holds what `side_data` and `tools` kept of an entry. Any of it may be missing, or of any
type.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ctxdb.claude.values import dict_of, int_of, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

# Paths for json_extract: in the input of a call that starts an agent, in events with a title,
# and in turn_duration entries.
AGENT_PROMPT = "$.prompt"
AGENT_TYPE = "$.subagent_type"
AGENT_DESCRIPTION = "$.description"
CUSTOM_TITLE_TEXT = "$.customTitle"
AI_TITLE_TEXT = "$.aiTitle"
QUEUED_TEXT = "$.content"
RUN_DURATION = "$.durationMs"
# SQL over a row `t` of messages: whether it says that a limit was reached. The same words as in
# sql/usage_blocks.sql.
RATE_LIMIT = """CASE WHEN t.kind IN ('system', 'synthetic') AND json_valid(t.data) THEN
  t.kind = 'synthetic' AND json_extract(t.data, '$.isApiErrorMessage') = 1 AND (
    json_extract(t.data, '$.error') = 'rate_limit' OR json_extract(t.data, '$.apiErrorStatus') = 429
    OR t.text LIKE '%limit reached%' OR t.text LIKE '%hit your%limit%')
  OR t.kind = 'system' AND t.subtype = 'api_error'
    AND coalesce(json_extract(t.data, '$.apiErrorStatus'),
      json_extract(t.data, '$.error.status')) = 429
  END"""

_UUID_KEY = re.compile(rb'"uuid"\s*:\s*"(?P<uuid>[0-9A-Za-z-]{1,64})"')


def json_value(text: str | bytes | None) -> Any:
    """The value of a JSON text, or None if it is invalid or too deep."""
    try:
        return json.loads(text or "null")
    except (ValueError, RecursionError):
        return None


def json_object(text: str | bytes | None) -> dict[str, Any]:
    """The object of a JSON text, or an empty one if the text is anything else."""
    return dict_of(json_value(text))


class PullRequest(NamedTuple):
    """A pull request as a pr-link entry names it."""

    number: int | None
    url: str | None


def linked_pull_request(data: str) -> PullRequest | None:
    """The pull request that a pr-link entry names."""
    link = json_object(data)
    number, url = int_of(link.get("prNumber")), text_of(link.get("prUrl"))
    return None if number is None and url is None else PullRequest(number, url)


def worktree_origin(data: str, path: str) -> str | None:
    """The folder that the worktree at `path` was made from, as a worktree-state entry says."""
    state = dict_of(json_object(data).get("worktreeSession"))
    if not state or state.get("worktreePath") not in (None, path):
        return None
    keys = ("originalCwd", "originalPath", "originalRepoPath")
    return next((found for key in keys if (found := text_of(state.get(key)))), None)


class Compaction(NamedTuple):
    """What a compact_boundary entry says."""

    trigger: str | None
    tokens_before: int | None


def compaction(data: str | None) -> Compaction:
    """Why the conversation was summed up, and how long it was before."""
    about = dict_of(json_object(data).get("compactMetadata"))
    return Compaction(text_of(about.get("trigger")), int_of(about.get("preTokens")))


class Retry(NamedTuple):
    """Which try of a request failed, and how many there are at most."""

    attempt: int | None
    most: int | None


def retry(data: str | None) -> Retry:
    """What an api_error entry says."""
    fields = json_object(data)
    return Retry(int_of(fields.get("retryAttempt")), int_of(fields.get("maxRetries")))


def attached_file(data: str | None) -> str | None:
    """The path of the file that an attachment holds, as a person would name it."""
    fields = json_object(data)
    keys = ("displayPath", "filename", "path")
    return next((found for key in keys if (found := text_of(fields.get(key)))), None)


class Image(NamedTuple):
    """An image or a document in a message. Its bytes are not stored."""

    kind: str
    media_type: str
    size: int | None  # bytes


def attached_images(data: str | None) -> list[Image]:
    """The images and documents that a message holds."""
    listed = json_object(data).get("images")
    found = map(dict_of, listed if isinstance(listed, list) else ())
    return [
        Image(
            text_of(one.get("kind")) or "image",
            text_of(one.get("media_type")) or "",
            int_of(one.get("bytes")),
        )
        for one in found
    ]


class Edit(NamedTuple):
    """A text that a call replaces, and the text that takes its place."""

    old: str
    new: str


class ReadableInput(NamedTuple):
    """The input of a call, its edits apart from the rest."""

    fields: dict[str, Any]
    edits: list[Edit]


def readable_input(fields: dict[str, Any]) -> ReadableInput:
    """Divide a call's input for a person who reads it. What says nothing is left out."""
    rest = dict(fields)
    if rest.get("replace_all") is False:
        del rest["replace_all"]
    edits = []
    if (own := edit_of(fields)) is not None:
        edits.append(own)
        del rest["old_string"], rest["new_string"]
    listed = fields.get("edits")
    if isinstance(listed, list) and listed:
        found = [edit for one in listed if (edit := edit_of(one)) is not None]
        edits += found
        if len(found) == len(listed):
            del rest["edits"]
    return ReadableInput(rest, edits)


def edit_of(value: Any) -> Edit | None:
    """The edit that an input, or one of its `edits`, asks for."""
    fields = dict_of(value)
    old, new = fields.get("old_string"), fields.get("new_string")
    return Edit(old, new) if isinstance(old, str) and isinstance(new, str) else None


def uuids_in(line: bytes) -> Iterator[str]:
    """The uuids that a line gives: its own, and that of the entry wrapped in it."""
    entry = json_value(line)
    if entry is None:
        # The line was repaired when it was stored (bytes that are no text): look for the key.
        if line.startswith(b"{") and line.rstrip().endswith(b"}"):
            for match in _UUID_KEY.finditer(line):
                yield match["uuid"].decode()
        return
    outer = dict_of(entry)
    wrapped = dict_of(dict_of(outer.get("data")).get("message"))
    for found in (outer.get("uuid"), wrapped.get("uuid")):
        if isinstance(found, str):
            yield found
