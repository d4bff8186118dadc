"""Bytes in, objects or a reason out; never an exception, never text that cannot be stored."""

from __future__ import annotations

import json
import pickle
import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import Any

import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ctxdb.files.parse import BIG_LINE_BYTES, MAX_DEPTH, Bad, Parsed, parse, tame
from thinning import thinned

REPLACEMENT = "\ufffd"


def only(data: bytes) -> dict[str, Any]:
    """The one object of a line, with its place checked."""
    result = parse(data)
    assert isinstance(result, Parsed)
    ((start, length, value),) = result.objects
    assert 0 <= start <= start + length <= len(data)
    return value


def note(data: bytes) -> str:
    result = parse(data)
    assert isinstance(result, Parsed)
    return result.note


def reason(data: bytes) -> str:
    result = parse(data)
    assert isinstance(result, Bad)
    return result.reason


def strings_in(value: Any) -> list[str]:
    found = []
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            found.append(item)
        elif isinstance(item, dict):
            waiting += [*item.keys(), *item.values()]
        elif isinstance(item, list):
            waiting += item
    return found


# -- every input --------------------------------------------------------------------------------

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4)
    ),
    max_leaves=12,
)
json_objects = st.dictionaries(st.text(max_size=6), json_values, max_size=5)
# Python's encoder writes lone surrogates as escapes, and NaN: just what the ladder is for.
object_lines = st.builds(
    lambda value, ascii_only: json.dumps(value, ensure_ascii=ascii_only).encode(
        "utf-8", "surrogatepass"
    ),
    st.dictionaries(
        st.text(st.characters(), max_size=6) | st.just("\ud83d"),
        json_values | st.text(st.characters(categories=["Cs", "Lu"]), max_size=6),
        max_size=4,
    ),
    st.booleans(),
)
junk = st.sampled_from(
    [
        b"\x00", b"\x00" * 50, b"\xef\xbb\xbf", b"\r", b" ", b"\xff", b"\xed\xa0\x80", b"\xe2\x82",
        b"{", b"}", b"[", b"]", b'"', b"\\", b'"\\ud800"', b"NaN", b"-Infinity", b"1e999",
        b"9" * 30, b"// comment", b",", b":", b'{"a":1}', b'{"a":"\x01"}', b"\xc2\x85", b"\x0b",
    ]
)  # fmt: skip
any_line = st.lists(object_lines | junk | st.binary(max_size=20), max_size=5).map(b"".join)


@settings(max_examples=200)
@given(st.binary(max_size=100) | any_line)
@example(b'{"a":' * 5000)
@example(b"[" * 100_000)
@example(b'{"a":' * 900 + b"1" + b"}" * 900)
@example(b'{"a":"\\ud800","b":' + b'{"c":' * 600 + b"1" + b"}" * 601)
@example(b'{"n":' + b"9" * 5000 + b"}")
@example(b'{"n":-' + b"9" * 5000 + b',"x":NaN}')
@example(b'{"' + b"k" * 1_000_000 + b'":1}')
def test_no_input_raises_and_every_string_can_be_encoded(data: bytes) -> None:
    result = parse(data)
    assert result is None or isinstance(result, Parsed | Bad)
    if result is None:
        assert not data.replace(b"\xef\xbb\xbf", b"").strip()
    elif isinstance(result, Bad):
        assert result.reason.isidentifier()
    else:
        assert result.objects
        end = 0
        for start, length, value in result.objects:
            assert isinstance(value, dict)
            assert start >= end
            end = start + length
            assert end <= len(data)
            for text in strings_in(value):
                text.encode()


@given(json_objects.map(tame).map(orjson.dumps))
def test_a_line_that_is_one_good_object_comes_back_as_it_is(data: bytes) -> None:
    assert parse(data) == Parsed([(0, len(data), json.loads(data))], "")


escapes = st.sampled_from(
    [r"\\", r"\n", r"\"", r"\ud83d", r"\uDE00", r"\uD83D\ude00", r"\u00e9", "u", "ud83d", "x"]
)


@given(st.lists(escapes, max_size=12).map("".join))
def test_lone_surrogate_escapes_are_replaced_and_pairs_are_not(body: str) -> None:
    data = f'{{"a":"{body}"}}'.encode()
    read = json.loads(data)["a"]
    expected = "".join(REPLACEMENT if "\ud800" <= c <= "\udfff" else c for c in read)
    assert only(data) == {"a": expected}
    assert note(data) == ("surrogates" if expected != read else "")


between = st.sampled_from([b"", b" ", b"\x00", b"\x00" * 20, b"\r", b"\t \x00"])


@given(
    st.lists(object_lines, min_size=2, max_size=4),
    st.lists(between, min_size=5, max_size=5),
)
def test_glued_objects_come_apart_at_their_exact_places(
    lines: list[bytes], gaps: list[bytes]
) -> None:
    data = gaps[0]
    places = []
    for line, gap in zip(lines, gaps[1:], strict=False):
        places.append((len(data), len(line)))
        data += line + gap
    result = parse(data)
    assert isinstance(result, Parsed)
    assert [(start, length) for start, length, _ in result.objects] == places
    assert "glued" in result.note.split(",")
    for (start, length, value), line in zip(result.objects, lines, strict=True):
        alone = parse(data[start : start + length])
        assert isinstance(alone, Parsed)
        # Bad UTF-8 is replaced byte by byte here and sequence by sequence there.
        if "invalid_utf8" not in alone.note:
            assert alone.objects == [(0, len(line), value)]


@given(json_values)
def test_tame_values_can_be_bound_dumped_and_pickled(value: Any) -> None:
    for number in (2**63, 2**64 - 1, -(2**63) - 1, 10**400, float("nan"), float("inf")):
        made = tame({"deep": value, "number": number, "\ud800": "\udfff"})
        orjson.loads(orjson.dumps(made))
        pickle.loads(pickle.dumps(made))
        with closing(sqlite3.connect(":memory:")) as conn:
            conn.execute("SELECT ?, ?", (made["number"], made[REPLACEMENT]))


# -- blank and padded lines ---------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"", b" ", b"\r", b"\t \r", b"\x0b\x0c", b"\xef\xbb\xbf"])
def test_blank_lines_are_nothing(data: bytes) -> None:
    assert parse(data) is None


@pytest.mark.parametrize(
    ("data", "place", "expected"),
    [
        pytest.param(b'{"a":1}\r', (0, 8), "", id="crlf"),
        pytest.param(b'  {"a":1} ', (0, 10), "", id="spaces"),
        pytest.param(b'\xef\xbb\xbf{"a":1}', (3, 7), "bom", id="bom"),
        pytest.param(b'{"a":1}' + b"\x00" * 9000, (0, 7), "nul_padded", id="nul after"),
        pytest.param(b"\x00" * 9000 + b'{"a":1}', (9000, 7), "nul_padded", id="nul before"),
        pytest.param(b'\x00{"a":1}\r\x00', (1, 7), "nul_padded", id="nul around"),
        pytest.param(b'\xef\xbb\xbf\x00{"a":1}\x00', (4, 7), "nul_padded,bom", id="bom and nul"),
    ],
)
def test_padding_is_taken_off_and_the_object_keeps_its_place(
    data: bytes, place: tuple[int, int], expected: str
) -> None:
    result = parse(data)
    assert result == Parsed([(*place, {"a": 1})], expected)


def test_a_line_of_nul_bytes_alone_is_bad() -> None:
    assert reason(b"\x00" * 143_000) == "nul_only"
    assert reason(b"\x00 \r") == "nul_only"


# -- text ---------------------------------------------------------------------------------------


def test_halves_of_surrogate_pairs_become_replacement_characters_in_keys_and_values() -> None:
    data = rb'{"a":"x\ud83d y","\udc00k":["\ud83d\ude00",{"b":"\ude00\ud83d"}]}'
    assert only(data) == {
        "a": f"x{REPLACEMENT} y",
        f"{REPLACEMENT}k": ["\U0001f600", {"b": REPLACEMENT * 2}],
    }
    assert note(data) == "surrogates"


def test_an_escaped_backslash_before_ud800_is_no_surrogate() -> None:
    assert parse(rb'{"a":"\\ud800"}') == Parsed([(0, 15, {"a": r"\ud800"})], "")


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"x\xe9!", f"x{REPLACEMENT}!"),
        (b"\xe2\x82 x", f"{REPLACEMENT} x"),
        (b"\xff\xfe", REPLACEMENT * 2),
        (b"\xed\xa0\xbd", REPLACEMENT * 3),
        (b"\xc3\xa9\xff", f"é{REPLACEMENT}"),
    ],
)
def test_bytes_that_are_no_utf_8_become_replacement_characters(raw: bytes, text: str) -> None:
    assert only(b'{"a":"' + raw + b'"}') == {"a": text}
    assert only(b'{"' + raw + b'":1}') == {text: 1}
    assert note(b'{"a":"' + raw + b'"}') == "invalid_utf8"


def test_a_real_replacement_character_needs_no_note() -> None:
    assert note('{"a":"\ufffd"}'.encode()) == ""
    assert note('\x00{"a":"\ufffd"}'.encode()) == "nul_padded"


def test_bad_utf_8_and_a_lone_surrogate_in_one_line_are_both_replaced() -> None:
    data = b'{"a":"\xff","b":"\\ud800"}'
    assert only(data) == {"a": REPLACEMENT, "b": REPLACEMENT}


def test_raw_control_characters_in_a_string_are_kept() -> None:
    data = b'{"a":"x\x00y\x1b[0m\tz"}'
    assert only(data) == {"a": "x\x00y\x1b[0m\tz"}
    assert note(data) == "control_chars"


def test_an_escaped_nul_is_kept() -> None:
    assert parse(rb'{"a":"\u0000"}') == Parsed([(0, 14, {"a": "\x00"})], "")


def test_line_and_paragraph_separators_stay_in_the_text() -> None:
    assert only('{"a":"\u2028\u2029\x85"}'.encode()) == {"a": "\u2028\u2029\x85"}


# -- numbers ------------------------------------------------------------------------------------


def test_integers_beyond_64_bits_become_floats() -> None:
    assert only(b'{"n":18446744073709551616}') == {"n": 2.0**64}
    assert only(b'{"n":-9223372036854775809}') == {"n": -(2.0**63)}
    # Down the ladder the same, and from 2**63 on: sqlite has no larger integers.
    for mend in (rb'"\ud800"', b"NaN", b'"\xff"', b'"\x01"'):

        def number(digits: bytes, mend: bytes = mend) -> int | float:
            found: int | float = only(b'{"n":' + digits + b',"s":' + mend + b"}")["n"]
            return found

        assert repr(number(b"18446744073709551616")) == repr(2.0**64)
        assert repr(number(b"9223372036854775808")) == repr(2.0**63)
        assert repr(number(b"9223372036854775807")) == repr(2**63 - 1)
        assert repr(number(b"-9223372036854775808")) == repr(-(2**63))


def test_integers_of_64_bits_without_sign_are_left_to_tame() -> None:
    value = only(b'{"n":9223372036854775808}')
    assert value == {"n": 2**63}
    assert type(tame(value)["n"]) is float


@pytest.mark.parametrize(
    "number", [b"NaN", b"Infinity", b"-Infinity", b"1e999", b"9" * 400, b"9" * 5000]
)
def test_what_is_no_finite_number_becomes_null(number: bytes) -> None:
    data = b'{"n":' + number + b',"m":[1,' + number + b"]}"
    assert only(data) == {"n": None, "m": [1, None]}
    assert note(data) == "nan"


# -- shapes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"[]", b"1", b'"text"', b"null", b"true", b"[1]\x00", b"NaN"])
def test_json_that_is_no_object_is_bad(data: bytes) -> None:
    assert reason(data) == "not_object"


@pytest.mark.parametrize("data", [b"// a comment", b"hello", b"}", b"\xff\xff", b'"open', b"1 2"])
def test_what_is_no_json_is_bad(data: bytes) -> None:
    assert reason(data) == "not_json"


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":1,"b',
        b'{"a":1,"b{"type":"user","uuid":"1"}',
        b"{'a':1}",
        b'{"a":1,}',
        b'{"a":"' + b"\x00" * 4096,
    ],
)
def test_a_torn_object_is_bad_and_nothing_inside_it_is_taken_for_an_entry(data: bytes) -> None:
    assert reason(data) == "torn"


def test_a_whole_object_before_a_torn_one_is_kept() -> None:
    data = b'{"a":1}\x00\x00{"b":2,"c'
    assert parse(data) == Parsed([(0, 7, {"a": 1})], "control_chars,trailing")
    assert parse(b'{"a":1}]') == Parsed([(0, 7, {"a": 1})], "trailing")
    assert parse(b'{"a":1}7') == Parsed([(0, 7, {"a": 1})], "trailing")


def test_two_glued_objects_are_two_objects() -> None:
    data = '{"a":"é"}{"b":2}'.encode()
    assert parse(data) == Parsed([(0, 10, {"a": "é"}), (10, 7, {"b": 2})], "glued")


def test_glued_objects_with_bad_bytes_keep_their_places() -> None:
    data = b'{"a":"\xff\xff"}\x00{"b":"\\ud800"}'
    result = parse(data)
    assert isinstance(result, Parsed)
    assert result.objects == [
        (0, 10, {"a": REPLACEMENT * 2}),
        (11, 14, {"b": REPLACEMENT}),
    ]


def test_thousands_of_glued_objects_are_refused() -> None:
    assert reason(b"{}" * 1001) == "too_many_objects"


def test_the_last_of_equal_keys_wins() -> None:
    assert only(b'{"a":1,"a":2}') == {"a": 2}
    assert only(rb'{"\ud800":1,"\ud801":2}') == {REPLACEMENT: 2}


@pytest.mark.parametrize("depth", [1030, 5000, 200_000])
@pytest.mark.parametrize(("opening", "closing"), [(b'{"a":', b"}"), (b"[", b"]")])
def test_nesting_without_end_is_bad(depth: int, opening: bytes, closing: bytes) -> None:
    assert reason(b'{"x":' + opening * depth + b"1" + closing * depth + b"}") == "too_deep"


def test_nesting_that_can_be_stored_is_kept_with_and_without_a_mend() -> None:
    deep = b"[" * (MAX_DEPTH - 1) + b"]" * (MAX_DEPTH - 1)
    for extra in (b"1", rb'"\ud800"'):
        orjson.dumps(only(b'{"a":' + extra + b',"b":' + deep + b"}"))
    assert reason(rb'{"a":"\ud800","b":[' + deep + b"]}") == "too_deep"


def test_nesting_that_orjson_reads_and_cannot_write_is_cut_by_tame() -> None:
    value = only(b'{"a":' + b"[" * 1000 + b"]" * 1000 + b"}")
    with pytest.raises(orjson.JSONEncodeError):
        orjson.dumps(value)
    orjson.dumps(tame(value))


# -- memory -------------------------------------------------------------------------------------

CHILD = """
import resource, sys
from ctxdb.files.parse import parse
body, count = {body}, {count}
data = b'{{"a":[' + body * count + b"0]}}"
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
result = parse(data)
print(type(result).__name__, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.parametrize("full", [True, False], ids=["16 MiB", "just light enough"])
@pytest.mark.parametrize(
    ("body", "weight"),
    thinned([(b"[],", 136), (b"{},", 304), (b'"abc",', 72), (b'{"a":1},', 304), (b"1.5,", 72)], 5),
)
def test_a_line_of_millions_of_values_does_not_fill_memory(
    body: bytes, weight: int, full: bool
) -> None:
    count = (16 << 20) // len(body) - 10 if full else (128 << 20) // weight - 10
    run = subprocess.run(
        [sys.executable, "-c", CHILD.format(body=body, count=count)],
        capture_output=True,
        check=True,
        text=True,
    )
    kind, grown_mb = run.stdout.split()
    assert kind == ("Bad" if full else "Parsed")
    assert int(grown_mb) < 170


def test_a_long_line_whose_punctuation_is_all_in_strings_is_read() -> None:
    data = orjson.dumps({"a": '[{,"' * 1_500_000})
    assert only(data) == orjson.loads(data)


@pytest.mark.parametrize("end", [b"", b"\\"])
def test_an_unclosed_string_full_of_quotes_is_weighed_in_one_go(end: bytes) -> None:
    """Tried from each of its quotes to the end of the line, this would take hours."""
    line = b'{"a":"' + b'{\\"' * 1_000_000 + end
    assert len(line) > BIG_LINE_BYTES
    assert isinstance(parse(line), Bad)
