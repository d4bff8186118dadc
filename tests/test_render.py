"""Text of transcripts as HTML: laid out for people, and inert whatever it holds."""

from __future__ import annotations

import re
from html import unescape

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ctxdb.escape import safe
from ctxdb.render.ansi import with_colours, without_graphics
from ctxdb.render.code import MAX_CODE, code, marked
from ctxdb.render.diff import diff
from ctxdb.render.html_text import text
from ctxdb.render.markdown import MAX_TEXT, blocks, markdown, words_and_code
from ctxdb.render.times import full_time, time_tag
from hostile import HOSTILE, MARKUP

TAG = re.compile(r"<[^>]*>")
OUR_TAG = re.compile(
    r"</?(?:p|h[4-6]|ul|ol|li|blockquote|div|table|thead|tbody|tr|th|td|hr|br|strong|em|s|code|pre"
    r"|a|span|ins|del|b)(?: (?:class|title|href|rel|start|tabindex)=\"[^\"<>]*\")*>"
)
ANY_HOSTILE = {**HOSTILE, **MARKUP}


def visible(html: str) -> str:
    return unescape(TAG.sub("", html))


def check(html: str) -> None:
    """Only tags that this package writes, and nothing that a browser could act on."""
    assert OUR_TAG.sub("", html).count("<") == 0, html
    for href in re.findall(r'href="([^"]*)"', html):
        assert re.match(r"(?:https?|mailto):", unescape(href), re.IGNORECASE)
    left = visible(html)
    assert all(c.isprintable() or c in "\n\t\u200c\u200d" for c in left), left


# -- Markdown -------------------------------------------------------------------------------------


def test_markdown_has_lists_tables_links_and_struck_words() -> None:
    html = markdown(
        "# Title\n\n1. one\n2. two\n   - inner\n\n> quoted\n\n~~gone~~ *soft* **hard** `code`\n\n"
        "| a | b |\n|:--|--:|\n| 1 | 2 |\n\n[docs](https://example.org/?a=1&b=2)\n\n---\n"
    )
    for part in (
        "<h4>Title</h4>",
        "<ol>\n<li>one</li>",
        "<li>inner</li>",
        "<blockquote>",
        "<s>gone</s> <em>soft</em> <strong>hard</strong> <code>code</code>",
        '<th class="left">a</th><th class="right">b</th>',
        '<a href="https://example.org/?a=1&amp;b=2" rel="noreferrer noopener nofollow">docs</a>',
        "<hr>",
    ):
        assert part in html
    check(html)


def test_a_list_that_begins_at_another_number_keeps_it() -> None:
    assert '<ol start="3">' in markdown("3. three\n4. four")


def test_images_are_named_and_never_loaded() -> None:
    html = markdown("![a chart](https://example.org/p.png)")
    assert html == '<p><span class="image">image a chart (https://example.org/p.png)</span></p>\n'


def test_a_path_is_no_link() -> None:
    html = markdown("see [the file](src/app.py)")
    assert '<span class="path" title="src/app.py">the file</span>' in html


@pytest.mark.parametrize(
    "address", ["javascript:alert(1)", "JaVaScRiPt:alert(1)", "data:text/html,x", "vbscript:x",
                "file:///etc/passwd", "java\tscript:x", "&#106;avascript:x", " javascript:x",
                "blob:x", "ctxdb://x"]
)  # fmt: skip
def test_no_link_leads_to_an_address_that_could_run(address: str) -> None:
    for source in (f"[x]({address})", f"[x](<{address}>)", f"[x][r]\n\n[r]: {address}",
                   f"<{address}>"):  # fmt: skip
        html = markdown(source)
        assert "<a " not in html
        check(html)


def test_html_in_markdown_stays_text() -> None:
    html = markdown("<b>x</b>\n\n<script>alert(1)</script>\n\n<!-- hidden -->")
    assert visible(html).split() == [
        "<b>x</b>",
        "<script>alert(1)</script>",
        "<!--",
        "hidden",
        "-->",
    ]
    check(html)


def test_a_character_reference_hides_nothing() -> None:
    assert "\\u202e" in markdown("&#x202e;exe.txt")
    assert "\x1b" not in markdown("&#27;[2J")


def test_words_of_a_person_stay_as_they_were_written() -> None:
    html = words_and_code("# no title\n  * no list\n*no emphasis* <b>\n\n```python\nimport os\n```")
    assert "# no title\n  * no list\n*no emphasis* &lt;b&gt;" in html
    assert '<span class="hl-keyword">import</span>' in html


@pytest.mark.parametrize("form", [markdown, words_and_code])
def test_a_text_that_is_too_long_to_lay_out_is_shown_as_it_is(form) -> None:
    said = "**a** " * (MAX_TEXT // 6 + 1)
    assert visible(form(said)).strip() == said.strip()


@pytest.mark.parametrize("name", ANY_HOSTILE)
def test_hostile_text_is_inert_in_every_form(name: str) -> None:
    payload = ANY_HOSTILE[name]
    for html in (
        markdown(payload),
        markdown(f"# {payload}\n\n- {payload}\n\n| {payload} |\n|---|\n| {payload} |"),
        markdown(f"```{payload}\n{payload}\n```"),
        markdown(f"[{payload}]({payload}) ![{payload}]({payload} '{payload}')"),
        words_and_code(payload),
        code(payload, "html"),
        code(payload, payload[:40]),
        code(payload, file_name=payload),
        with_colours(payload),
        with_colours(f"\x1b[31m{payload}\x1b[0m"),
        diff(f"-{payload}\n+{payload}x"),
        text(payload),
    ):
        check(html)


@given(st.text(max_size=80))
@example('[a](http://x"onclick=alert(1)//)')
@example('```"><script>\n```')
@example('<http://x"y>')
@settings(max_examples=200)
def test_no_text_becomes_markup(value: str) -> None:
    for html in (markdown(value), words_and_code(value), code(value, "python"), with_colours(value),
                 diff(value)):  # fmt: skip
        check(html)


@given(
    st.lists(st.sampled_from(["```", "a", "\n", "> ", "- ", "    ", "\r", "~~~", "`"])).map("".join)
)
def test_blocks_lose_no_word(value: str) -> None:
    found = "".join(block.lead + block.text + block.language for block in blocks(value))
    assert found.count("a") == value.count("a")


# -- code ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", ["python", "bash", "json", "html", "rust", "diff", "no such"])
def test_code_is_shown_to_the_letter(language: str) -> None:
    source = "\n\n  def f(a):\n\treturn '''x\n  y''' # <b> & \"q\"\n+added\n-gone\n\n"
    assert visible(marked(source, language)) == source


def test_the_name_of_a_file_tells_its_language() -> None:
    assert "hl-keyword" in code("import os", file_name="/a/b/c.py")
    assert "hl-" not in code("import os", file_name="/a/b/unknown.kind")


def test_each_line_of_code_is_whole_by_itself() -> None:
    for line in marked("x = '''a\nb\nc'''\n# d", "python").split("\n"):
        assert line.count("<span") == line.count("</span>")


def test_long_code_is_shown_without_colours() -> None:
    assert "hl-" not in code("import os\n" * (MAX_CODE // 10 + 1), "python")
    assert "hl-" not in code("x = '" + "a" * 5000 + "'", "python")


# -- colours of programs ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("codes", "classes"),
    [
        ("31", "ansi-1"),
        ("1;32", "ansi-bold ansi-2"),
        ("91", "ansi-9"),
        ("37;44", "ansi-7 ansi-on-4"),
        ("103", "ansi-on-11"),
        ("38;5;9", "ansi-9"),
        ("38;5;196", "ansi-9"),
        ("38;5;232", "ansi-0"),
        ("38;2;0;0;230", "ansi-4"),
        ("38:5:2", "ansi-2"),
        ("7;31", "ansi-on-1"),
        ("7", "ansi-inverse"),
        ("4;9;3", "ansi-italic ansi-struck ansi-underline"),
    ],
)
def test_colours_become_classes(codes: str, classes: str) -> None:
    assert with_colours(f"\x1b[{codes}mx\x1b[0my") == f'<span class="{classes}">x</span>y'


@pytest.mark.parametrize("codes", ["39", "49", "38;5;999", "38", "99", "0;1;22", ""])
def test_colours_that_say_nothing_are_left_out(codes: str) -> None:
    assert with_colours(f"\x1b[{codes}mx") == "x"


def test_other_sequences_of_terminals_are_shown() -> None:
    assert with_colours("\x1b[2Jx\x1b]52;c;eA==\x07") == "\\x1b[2Jx\\x1b]52;c;eA==\\x07"


@given(st.text(alphabet="\x1b[]0123456789;:mx\n<", max_size=60))
def test_colours_change_no_text(value: str) -> None:
    html = with_colours(value)
    check(html)
    assert visible(html) == safe(without_graphics(value))


# -- diffs -----------------------------------------------------------------------------------------


def test_the_words_that_differ_are_marked() -> None:
    html = diff(" kept\n-limit = 10 # seconds\n+limit = 30 # seconds\n+more")
    assert "limit = <b>10</b> # seconds\n</del>" in html
    assert "limit = <b>30</b> # seconds\n</ins>" in html
    assert '<ins><span class="sign">+</span>more\n</ins>' in html


def test_lines_that_have_nothing_in_common_are_not_marked() -> None:
    assert "<b>" not in diff("-import os\n+}")


@given(st.lists(st.text(alphabet=" +-ab<", max_size=8), max_size=12))
def test_a_diff_shows_every_line(lines: list[str]) -> None:
    shown = visible(diff("\n".join(lines))).split("\n")
    for line in lines:
        assert any(line[1:] in one for one in shown)


# -- times -----------------------------------------------------------------------------------------


def test_a_time_is_local_with_the_full_time_on_hover(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        html = time_tag("2026-08-24T20:43:22.123Z")
        assert (
            full_time("2026-08-24T20:43:22Z") == "2026-08-25 05:43:22 JST (2026-08-24 20:43:22 UTC)"
        )
    finally:
        monkeypatch.undo()
        time.tzset()
    assert html == (
        '<time datetime="2026-08-24T20:43:22Z"'
        ' title="2026-08-25 05:43:22 JST (2026-08-24 20:43:22 UTC)">05:43:22</time>'
    )
    assert time_tag(None) == time_tag("no time") == ""
