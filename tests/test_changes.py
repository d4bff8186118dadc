"""What an edit changes, as it is shown."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctxdb.session import call_inputs
from ctxdb.session.call_inputs import CallInput, inputs_of, line_diff
from ctxdb.session.conversation import Call

LINES = st.lists(st.sampled_from(["", "a", "b", "-c", "+d", " e"]), max_size=12).map("\n".join)


def call(target: str = "/home/ada/engine/a.py", **fields: object) -> Call:
    return Call(1, "toolu_1", "Edit", target, "ok", 5, None, json.dumps(fields))


def without_last_newline(text: str) -> list[str]:
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


@settings(max_examples=100)
@given(LINES, LINES)
def test_both_texts_can_be_read_out_of_a_diff(old: str, new: str) -> None:
    lines = line_diff(old, new).split("\n") if line_diff(old, new) else []
    assert {line[:1] for line in lines} <= {" ", "-", "+"}
    assert [line[1:] for line in lines if line[0] in " -"] == without_last_newline(old)
    assert [line[1:] for line in lines if line[0] in " +"] == without_last_newline(new)


def test_a_huge_edit_is_not_compared_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(call_inputs, "SequenceMatcher")
    old = "\n".join("a" for _ in range(20_000))
    new = "\n".join("ab"[n % 2] for n in range(20_000))
    assert line_diff(old, new).count("\n") == 40_000 - 1


def test_an_edit_is_shown_as_what_it_changes() -> None:
    given_call = call(
        file_path="/home/ada/engine/a.py",
        old_string="a\nb\n",
        new_string="a\nc\n",
        replace_all=False,
    )
    assert inputs_of(given_call) == [CallInput("change", " a\n-b\n+c", is_diff=True)]


def test_several_edits_are_shown_one_after_the_other() -> None:
    edits = [{"old_string": "a", "new_string": "b"}, {"old_string": "", "new_string": "c"}]
    assert inputs_of(call(edits=edits, replace_all=True)) == [
        CallInput("replace_all", "true"),
        CallInput("change", "-a\n+b", is_diff=True),
        CallInput("change", "+c", is_diff=True),
    ]


@pytest.mark.parametrize(
    "fields",
    [
        {"old_string": 1, "new_string": "b"},
        {"old_string": "a"},
        {"edits": [{"old_string": "a", "new_string": "b"}, "no edit"]},
        {"edits": "none"},
    ],
)
def test_what_is_no_edit_is_shown_as_it_is(fields: dict[str, object]) -> None:
    shown = {one.name: one.text for one in inputs_of(call(**fields)) if not one.is_diff}
    assert shown.keys() == fields.keys()


def test_what_the_title_says_is_not_said_again() -> None:
    assert inputs_of(call("npm test", command="npm test")) == []
    assert inputs_of(call("", path="src/")) == [CallInput("path", "src/")]
    long = "x" * 80
    assert inputs_of(call(long, command=long)) == [CallInput("command", long)]
