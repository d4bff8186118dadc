"""Failures of the API have the kind and the status that their text names."""

from __future__ import annotations

import pytest

from builder import World, text
from ctxdb.claude.api_errors import error_in_text
from lab import told_by

OVERLOADED = (
    'API Error: 529 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'
)


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (OVERLOADED, {"status": 529, "kind": "overloaded_error"}),
        (
            "API Error (429 rate_limit_error): slow down",
            {"status": 429, "kind": "rate_limit_error"},
        ),
        ('API Error: 500 {"error":{"type":"api_error"}}', {"status": 500, "kind": "api_error"}),
        ("API Error: Connection error.", {}),
        ("API Error: 5290 is no status", {}),
        ("I saw API Error: 529 in the log", None),
        ("", None),
        (None, None),
        ("API Error: " + "a_" * 1_000_000, {}),
    ],
)
def test_what_a_text_names(said: str | None, found: object) -> None:
    assert error_in_text(said) == found


def test_the_view_has_the_kind_and_the_status_that_a_text_names() -> None:
    world = World()
    main = world.session(version="2.1.250")
    main.prompt("go on")
    for said, more in (
        (OVERLOADED, {"isApiErrorMessage": True}),
        (OVERLOADED, {"isApiErrorMessage": True, "error": "unknown"}),
        ("API Error: 429 slow down", {}),
        ("No response requested.", {}),
    ):
        (line,) = main.reply(text(said), model="<synthetic>")
        line |= more
    main.reply(text(OVERLOADED))  # the model quotes one
    found = told_by(world.contents(), "SELECT kind, status, failed FROM api_errors ORDER BY kind")
    assert found == [("overloaded", 529, 2), ("rate_limit", 429, 1)]
    quoting = "SELECT text FROM messages WHERE kind = 'assistant' AND data LIKE '%errorInText%'"
    assert told_by(world.contents(), quoting) == []
