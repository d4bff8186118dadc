"""Calls of the file tools on the demo's imaginary disk.

A read returns what earlier edits left, so every patch in the demo fits its file.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from ctxdb.demo.tool_calls import Call, Json

if TYPE_CHECKING:
    from ctxdb.demo.transcript import Transcript


def read(s: Transcript, name: str) -> Call:
    """Read a file of the project as it is now."""
    path = s.full(name)
    text = s.world.files[path]
    lines = text.splitlines()
    number = "{0}\t{1}" if s.modern else "{0:>6}→{1}"
    shown = "\n".join(number.format(n, line) for n, line in enumerate(lines, 1))
    file = {
        "filePath": path,
        "content": text,
        "numLines": len(lines),
        "startLine": 1,
        "totalLines": len(lines),
    }
    return Call("Read", {"file_path": path}, shown, {"type": "text", "file": file}, seconds=0.2)


def edit(s: Transcript, name: str, old: str, new: str, *, apply: bool = True) -> Call:
    """Change a file of the project. With apply=False the file stays as it is."""
    path = s.full(name)
    before = s.world.files[path]
    if old not in before:
        raise ValueError(f"{name} does not contain {old!r}")
    after = before.replace(old, new, 1)
    if apply:
        s.world.files[path] = after
        s.back_up(name)
    result = {
        "filePath": path,
        "oldString": old,
        "newString": new,
        "originalFile": None if s.modern else before,
        "structuredPatch": structured_patch(before, after),
        "userModified": False,
        "replaceAll": False,
    }
    call_input = {"file_path": path, "old_string": old, "new_string": new}
    text = f"The file {path} has been updated successfully."
    return Call("Edit", call_input, text, result, seconds=0.4)


def create(s: Transcript, name: str, text: str) -> Call:
    """Write a new file into the project."""
    path = s.full(name)
    s.world.files[path] = text
    s.back_up(name)
    result: Json = {
        "type": "create",
        "filePath": path,
        "content": text,
        "structuredPatch": [],
        "originalFile": None,
    }
    said = f"File created successfully at: {path}"
    return Call("Write", {"file_path": path, "content": text}, said, result, seconds=0.3)


def mention(s: Transcript, name: str) -> None:
    """Attach a file that a person named with @. There is no Read call for it."""
    path = s.full(name)
    text = s.world.files[path]
    lines = len(text.splitlines())
    content = {
        "type": "text",
        "file": {
            "filePath": path,
            "content": text,
            "numLines": lines,
            "startLine": 1,
            "totalLines": lines,
        },
    }
    s.attach("file", filename=path, content=content, displayPath=name)


def structured_patch(before: str, after: str) -> list[Json]:
    """Return the hunks that lead from one text to the other, as Edit results hold them."""
    old, new = before.splitlines(), after.splitlines()
    hunks = []
    for group in difflib.SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(3):
        lines: list[str] = []
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                lines += [f" {line}" for line in old[i1:i2]]
            else:
                lines += [f"-{line}" for line in old[i1:i2]]
                lines += [f"+{line}" for line in new[j1:j2]]
        _, old_start, _, new_start, _ = group[0]
        _, _, old_end, _, new_end = group[-1]
        hunks.append(
            {
                "oldStart": old_start + 1,
                "oldLines": old_end - old_start,
                "newStart": new_start + 1,
                "newLines": new_end - new_start,
                "lines": lines,
            }
        )
    return hunks
