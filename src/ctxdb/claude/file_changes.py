"""Which file a tool call touches, and how many lines it adds and removes.

The structuredPatch of a result is exact, so it is used if there is one. Most lines of subagents
have none: then the old and new texts of the call are compared. All lines of a new file count as
added.
"""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import Any

from ctxdb.claude.values import text_of

# With more pairs of lines than this a diff takes too long: all lines count as changed.
MAX_PAIRS = 4_000_000

_OPERATIONS = {
    "Read": "read",
    "NotebookRead": "read",
    "Write": "write",
    "Edit": "edit",
    "MultiEdit": "edit",
    "NotebookEdit": "notebook_edit",
    "Delete": "delete",
    "DeleteFile": "delete",
}

FileCall = tuple[str | None, str, int | None, int | None]


def line_count(text: str) -> int:
    """The number of lines in a text. A last line without a newline counts."""
    return text.count("\n") + (0 if text.endswith("\n") or not text else 1)


def changed_lines(old: str, new: str) -> tuple[int, int]:
    """How many lines were added and removed between two texts."""
    before = old.split("\n")
    after = new.split("\n")
    if before[-1] == "":
        before.pop()
    if after[-1] == "":
        after.pop()
    start = 0
    end_before, end_after = len(before), len(after)
    while start < end_before and start < end_after and before[start] == after[start]:
        start += 1
    while (
        end_before > start and end_after > start and before[end_before - 1] == after[end_after - 1]
    ):
        end_before -= 1
        end_after -= 1
    gone, come = before[start:end_before], after[start:end_after]
    removed, added = len(gone), len(come)
    if removed * added <= MAX_PAIRS and not set(gone).isdisjoint(come):
        matcher = SequenceMatcher(None, gone, come, False)
        same = sum(block.size for block in matcher.get_matching_blocks())
        removed -= same
        added -= same
    return added, removed


def _edit_lines(edit: dict[str, Any]) -> tuple[int, int] | None:
    old, new = edit.get("old_string"), edit.get("new_string")
    if type(old) is str and type(new) is str:
        return changed_lines(old, new)
    return None


def call_file(name: str, fields: dict[str, Any]) -> FileCall | tuple[()]:
    """(path, operation, lines added, lines removed) from the call; () if it touches no file."""
    operation = _OPERATIONS.get(name)
    if operation is None:
        return ()
    path = text_of(fields.get("file_path")) or text_of(fields.get("notebook_path"))
    path = path or text_of(fields.get("path"))
    if name == "Write":
        content = fields.get("content")
        # All lines of the text. They count only if the result says that the file is new.
        return path, operation, line_count(content) if type(content) is str else None, 0
    if name == "Edit":
        lines = _edit_lines(fields)
        return path, operation, *(lines or (None, None))
    if name == "MultiEdit":
        edits = fields.get("edits")
        found = [_edit_lines(e) for e in edits if type(e) is dict] if type(edits) is list else []
        known = [pair for pair in found if pair is not None]
        if not known:
            return path, operation, None, None
        return path, operation, sum(a for a, _ in known), sum(r for _, r in known)
    if name == "NotebookEdit" and fields.get("edit_mode") == "insert":
        source = fields.get("new_source")
        return path, operation, line_count(source) if type(source) is str else None, 0
    return path, operation, None, None


def _patch_lines(patch: Any) -> tuple[int, int] | None:
    if type(patch) is not list or not patch:
        return None
    added = removed = 0
    for hunk in patch:
        lines = hunk.get("lines") if type(hunk) is dict else None
        if type(lines) is not list:
            return None
        signs = [line[:1] for line in lines if type(line) is str]
        added += signs.count("+")
        removed += signs.count("-")
    return added, removed


_CREATED = ("File created successfully", "New file created")


def result_file(
    detail: dict[str, Any], text: str
) -> tuple[str | None, str | None, int | None, int | None]:
    """(path, operation, lines added, lines removed) from a result without an error."""
    path = text_of(detail.get("filePath"))
    operation: str | None = None
    lines = _patch_lines(detail.get("structuredPatch"))
    what = detail.get("type")
    if what == "create" or text.startswith(_CREATED):
        operation = "create"
        content = detail.get("content")
        if lines is None and type(content) is str:
            lines = (line_count(content), 0)
    elif what == "update":
        operation = "write"
        content, original = detail.get("content"), detail.get("originalFile")
        if lines is None and type(content) is str and type(original) is str:
            lines = changed_lines(original, content)
    added, removed = lines or (None, None)
    return path, operation, added, removed
