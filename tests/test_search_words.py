"""What is typed into a search becomes an expression that FTS5 understands, whatever it is."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ctxdb.query.search_words import Word, expression, parse, quoted, tokens, words_of
from ctxdb.query.snippets import snippet
from ctxdb.query.vocabulary import distance


def spell(word: Word) -> str:
    return quoted(word.text) + ("*" if word.is_prefix else "")


def as_expression(text: str) -> str | None:
    node = parse(text)
    return None if node is None else expression(node, spell)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tide table", '("tide" AND "table")'),
        ('"tide table" moon', '("tide table" AND "moon")'),
        ("tid*", '"tid"*'),
        ('"tide tab"*', '"tide tab"*'),
        ("snake_case", '"snake_case"'),
        ("path/to/file.py", '"path/to/file.py"'),
        ("foo.bar()", '"foo.bar()"'),
        ("foo.bar().baz(x)", '"foo.bar().baz(x)"'),
        ("--dry-run", '"--dry-run"'),
        ("C++", '"C++"'),
        ("a.b:c", '"a.b:c"'),
        ("path/to/fi*", '"path/to/fi"*'),
        ("tide OR moon", '("tide" OR "moon")'),
        ("tide NOT moon", '("tide" NOT "moon")'),
        ("(tide OR moon) phase", '(("tide" OR "moon") AND "phase")'),
        ("tide AND moon", '("tide" AND "moon")'),
    ],
)
def test_words_phrases_prefixes_and_operators(text: str, expected: str) -> None:
    assert as_expression(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("OR", '"OR"'),
        ("NOT tide", '("NOT" AND "tide")'),
        ("tide OR", '("tide" AND "OR")'),
        ("(tide OR moon", '("tide" AND "OR" AND "moon")'),
        ("tide AND AND moon", '("tide" AND "AND" AND "AND" AND "moon")'),
        ('say "tide', '("say" AND "tide")'),
        ("f(x, y)", '("f(x," AND "y)")'),
        ("$(cat", '"$(cat"'),
        ("* tide", '("*" AND "tide")'),
        ("NEAR(tide moon)", '("NEAR(tide" AND "moon)")'),
    ],
)
def test_what_is_no_expression_is_plain_words(text: str, expected: str) -> None:
    assert as_expression(text) == expected


@pytest.mark.parametrize("text", ["", "   ", '""', '" "'])
def test_nothing_to_look_for(text: str) -> None:
    assert parse(text) is None


@given(st.text(alphabet=st.sampled_from(list("ab \"'*()-+:^{},.\\\0\nORANDT漢é")), max_size=40))
@example('"a" OR ("b" NOT ')
@example("(" * 200 + " OR a")
@example("a " * 500)
@example('a" OR text : b')
def test_no_text_is_a_syntax_error_for_fts5(text: str) -> None:
    match = as_expression(text)
    db = sqlite3.connect(":memory:")
    db.execute("CREATE VIRTUAL TABLE f USING fts5(text, tokenize='unicode61 remove_diacritics 2')")
    db.execute("INSERT INTO f VALUES ('a b')")
    if match is not None:
        db.execute("SELECT * FROM f WHERE f MATCH ?", (match,)).fetchall()
    db.close()


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=30))
def test_a_word_is_cut_as_the_index_cuts_it(text: str) -> None:
    # Only as many parts: letters are folded in more ways than one.
    db = sqlite3.connect(":memory:")
    db.execute("CREATE VIRTUAL TABLE f USING fts5(text, tokenize='unicode61 remove_diacritics 2')")
    db.execute("CREATE VIRTUAL TABLE v USING fts5vocab(f, 'instance')")
    known = "".join(c for c in text if c.isascii() or c in "äéßñ漢字한글")
    db.execute("INSERT INTO f VALUES (?)", (known.replace("\0", " "),))
    (count,) = db.execute("SELECT count(*) FROM v").fetchone()
    db.close()
    assert len(tokens(known)) == count


@given(st.text(max_size=200), st.text(max_size=12), st.integers(1, 80))
def test_a_snippet_marks_only_what_is_in_the_text(text: str, word: str, size: int) -> None:
    node = parse(word)
    words = list(words_of(node)) if node else []
    made = snippet(text, words, size)
    if made is None:
        return
    flat = " ".join(text.split())
    for piece in made.pieces:
        assert piece.text == "…" or " ".join(piece.text.split()) in flat
    assert any(piece.is_match for piece in made.pieces)


def test_a_snippet_is_where_most_words_are() -> None:
    text = "tide " + "x " * 200 + "the moon and the tide of Brest " + "y " * 200
    made = snippet(text, [Word("moon"), Word("tide")], 60)
    assert made is not None
    assert [piece.text for piece in made.pieces if piece.is_match] == ["moon", "tide"]
    assert made.pieces[0].text == made.pieces[-1].text == "…"


@pytest.mark.parametrize(
    ("one", "other", "steps"),
    [("tide", "tide", 0), ("tdie", "tide", 1), ("tid", "tide", 1), ("tide", "tile", 1),
     ("perywinkle", "periwinkle", 1), ("moon", "tide", 3)],
)  # fmt: skip
def test_the_distance_of_words(one: str, other: str, steps: int) -> None:
    assert distance(one, other, 2) == steps
    assert distance(other, one, 2) == steps
