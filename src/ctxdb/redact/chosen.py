"""Masking a text that the user chooses: `redact --apply --match REGEX`.

Only texts that people and programs wrote are looked at, not the words by which ctxdb tells kinds of
rows apart: `--match user` must not change what an entry is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ctxdb.claude.structure_keys import READ_KEYS, STRUCTURE_KEYS
from ctxdb.errors import UsageError
from ctxdb.privacy.masking import Found, Masker
from ctxdb.privacy.rule_settings import CHOSEN, BadPattern, check_pattern

if TYPE_CHECKING:
    from ctxdb.redact.texts import Column

# Columns that hold what was said, shown, asked or named.
_FREE = {
    "agent_cwd", "branch", "content", "cwd", "data", "description", "excerpt", "extra",
    "file_path", "first_cwd", "first_prompt", "git_branch", "input", "line_text", "names", "path",
    "plan", "pr_url", "project_path", "prompt", "relative_path", "repo_path", "result_data",
    "result_path", "result_text", "subject", "summary", "target", "text", "thinking", "title",
}  # fmt: skip
_KEY_BEFORE = re.compile(rb'"(?P<key>[^"\\]{1,40})"\s*:\s*"\Z')
_KEY_AFTER = re.compile(rb'(?P<rest>[^"\\]*+)"\s*:')


class ChosenText(Masker):
    """One pattern of the user, without a keyword."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        super().__init__(())
        self.pattern = pattern

    def may_hold_secret(self, data: bytes) -> bool:  # noqa: ARG002
        """Only the pattern can tell."""
        return True

    def suspects(self, data: bytes) -> Masker:  # noqa: ARG002
        """Only the pattern can tell."""
        return self

    def _find_all(self, text: str) -> list[Found]:
        return [
            Found(CHOSEN, *match.span())
            for match in self.pattern.finditer(text)
            if match.end() > match.start()
        ]

    def is_meant(self, data: bytes, start: int, end: int) -> bool:
        """Whether a place is in a value, and not in one that only says what something is."""
        return _is_free(data, start, end)


def _is_free(data: bytes, start: int, end: int) -> bool:
    """Whether a place is in a value that does not only say what something is.

    Or in a key that ctxdb does not read: in snapshots of files, paths are keys.
    """
    first = data.rfind(b'"', 0, start)
    while first > 0 and data[first - 1 : first] == b"\\":
        first = data.rfind(b'"', 0, first)
    if rest_of_key := _KEY_AFTER.match(data, end):
        key = data[first + 1 : rest_of_key.end("rest")]
        return key.decode("utf-8", "replace") not in READ_KEYS
    before = _KEY_BEFORE.search(data, max(0, first - 60), first + 1)
    return before is None or before["key"].decode() not in STRUCTURE_KEYS


def chosen_text(pattern: str) -> ChosenText:
    """What masks a pattern of the command line. Raises UsageError."""
    try:
        return ChosenText(check_pattern(pattern, is_bounded=False))
    except BadPattern as e:
        raise UsageError(f"--match: {e}") from None


def is_free_text(column: Column) -> bool:
    """Whether a column holds what was said, shown, asked or named."""
    if (column.table, column.name) == ("projects", "name"):
        return True
    return column.name in _FREE and column.table != "_meta"
