"""Text from transcripts on a terminal: nothing moves the cursor, hides or overflows."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxdb.escape import clip, clip_path, one_line, printable, safe, width
from hostile import HOSTILE, is_harmless


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("fit", [printable, safe, one_line])
def test_hostile_text_is_spelt_out(fit: object, text: str) -> None:
    assert callable(fit)
    shown = fit(text)
    assert shown.isprintable()
    shown.encode()


@given(st.text())
def test_printable_text_is_harmless_and_left_alone_the_second_time(text: str) -> None:
    once = printable(text)
    assert all(map(is_harmless, once))
    assert printable(once) == once
    if text.isprintable():
        assert once == text


@given(st.text())
def test_safe_text_keeps_lines_and_tabs_and_nothing_else(text: str) -> None:
    once = safe(text)
    assert all(is_harmless(c) or c in "\n\t" for c in once)
    assert safe(once) == once


@given(st.text(), st.integers(min_value=0, max_value=30))
def test_clipped_text_fits(text: str, columns: int) -> None:
    shown = printable(text)
    assert width(clip(shown, columns)) <= columns
    assert width(clip_path(shown, columns)) <= columns
    if width(shown) <= columns:
        assert clip(shown, columns) == shown == clip_path(shown, columns)


def test_emoji_joiners_and_foreign_spaces_are_ordinary_writing() -> None:
    family = "👨\u200d👩\u200d👧"
    assert printable(family) == family
    assert printable("東京\u3000都") == "東京 都"


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("abc", 3),
        ("日本語", 6),
        ("한글", 4),
        (unicodedata.normalize("NFD", "é"), 1),
        (unicodedata.normalize("NFD", "한"), 2),
        ("ｱ", 1),
        ("🙂", 2),
    ],
)
def test_width_is_what_a_terminal_takes(text: str, columns: int) -> None:
    assert width(text) == columns


def test_a_clipped_path_keeps_its_end() -> None:
    assert clip_path("/home/anna/work/harbour/src/sync.ts", 19) == "…/src/sync.ts"
    assert clip_path("/averylongnamewithoutanyslash.py", 12) == "…anyslash.py"
    assert clip("a long sentence about tides", 10) == "a long…"
    assert clip("日本語です", 5) == "日本…"
