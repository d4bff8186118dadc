"""Markdown as HTML, made from a list of tags that are allowed; everything else is text.

markdown-it-py reads the Markdown; this module writes the HTML itself, so that nothing gets into it
but the tags below. HTML in the Markdown stays text. Images are named, never loaded. Links lead to
http, https and mailto only, and tell the other side nothing about this page.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple

from markdown_it import MarkdownIt

from ctxdb.escape import safe
from ctxdb.render.ansi import without_graphics
from ctxdb.render.code import code
from ctxdb.render.html_text import text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from markdown_it.token import Token

MAX_TEXT = 100_000  # characters; a longer text is shown as it was written
MAX_NESTING = 20  # of lists and quotes
_SCHEME = re.compile(r"\s*(?P<scheme>[a-zA-Z][a-zA-Z0-9+.-]*):")
_SAFE_SCHEMES = ("http", "https", "mailto")
_ALIGNMENTS = ("left", "center", "right")
_TAGS = {
    "paragraph_open": "<p>", "paragraph_close": "</p>\n",
    "bullet_list_open": "<ul>\n", "bullet_list_close": "</ul>\n", "ordered_list_close": "</ol>\n",
    "list_item_open": "<li>", "list_item_close": "</li>\n",
    "blockquote_open": "<blockquote>\n", "blockquote_close": "</blockquote>\n",
    "table_open": '<div class="wide" tabindex="0"><table>\n', "table_close": "</table></div>\n",
    "thead_open": "<thead>", "thead_close": "</thead>\n",
    "tbody_open": "<tbody>", "tbody_close": "</tbody>\n",
    "tr_open": "<tr>", "tr_close": "</tr>\n", "th_close": "</th>", "td_close": "</td>",
    "hr": "<hr>\n", "softbreak": "<br>\n", "hardbreak": "<br>\n",
    "strong_open": "<strong>", "strong_close": "</strong>",
    "em_open": "<em>", "em_close": "</em>", "s_open": "<s>", "s_close": "</s>",
}  # fmt: skip


@lru_cache(maxsize=256)  # a live page asks for the same texts again and again
def markdown(value: str) -> str:
    """HTML of what a model wrote."""
    return _html(value, _reader)


def words_and_code(value: str) -> str:
    """HTML of what a person wrote: as it was written, but with code in fences and backticks."""
    return _html(value, _code_reader)


def _html(value: str, reader: Callable[[], MarkdownIt]) -> str:
    value = safe(without_graphics(value))
    if len(value) > MAX_TEXT:
        return f'<pre class="long">{text(value)}</pre>\n'
    try:
        return "".join(_blocks(reader().parse(value)))
    except (RecursionError, ValueError, IndexError):
        return f'<pre class="long">{text(value)}</pre>\n'


@cache
def _reader() -> MarkdownIt:
    made = _Reader("commonmark", {"html": False, "maxNesting": MAX_NESTING})
    made.enable(["table", "strikethrough"])
    return made


@cache
def _code_reader() -> MarkdownIt:
    return MarkdownIt("zero").enable(["fence", "backticks"])


class _Reader(MarkdownIt):
    def validateLink(self, url: str) -> bool:  # noqa: N802
        return is_link(url)


def is_link(address: str) -> bool:
    """Whether an address may be the target of a link: a path, or a scheme that runs nothing."""
    found = _SCHEME.match(address)
    return found is None or found["scheme"].lower() in _SAFE_SCHEMES


def _blocks(tokens: Sequence[Token]) -> Iterator[str]:
    for token in tokens:
        if token.hidden:  # the paragraph of an item in a list without blank lines
            continue
        match token.type:
            case "inline":
                yield from _inline(token.children or ())
            case "fence" | "code_block":
                language, *_ = (*token.info.split(), "")
                yield code(token.content.removesuffix("\n"), language[:40])
            case "heading_open" | "heading_close":
                level = min(int(token.tag[1:]) + 3, 6)  # the page has its own up to h3
                yield f"<h{level}>" if token.nesting > 0 else f"</h{level}>\n"
            case "th_open" | "td_open":
                yield f"<{token.tag}{_alignment(token)}>"
            case "ordered_list_open":
                start = str(token.attrGet("start") or "1")
                yield f'<ol start="{start}">\n' if start.isdigit() and start != "1" else "<ol>\n"
            case kind if kind in _TAGS:
                yield _TAGS[kind]
            case _:
                yield text(token.content)


def _inline(tokens: Sequence[Token]) -> Iterator[str]:
    open_links: list[str] = []
    for token in tokens:
        match token.type:
            case "text" | "text_special":
                yield text(token.content)
            case "code_inline":
                yield f"<code>{text(token.content)}</code>"
            case "link_open":
                href = str(token.attrGet("href") or "")
                tag = _link(href)
                open_links.append("a" if tag.startswith("<a") else "span")
                yield tag
            case "link_close":
                yield f"</{open_links.pop()}>" if open_links else ""
            case "image":
                yield _image(token)
            case kind if kind in _TAGS:
                yield _TAGS[kind]
            case _:
                yield text(token.content)


def _link(href: str) -> str:
    if _SCHEME.match(href) and is_link(href):
        return f'<a href="{text(href)}" rel="noreferrer noopener nofollow">'
    # A path: it means a file of the project, which this page cannot open.
    return f'<span class="path" title="{text(href)}">'


def _image(token: Token) -> str:
    address = str(token.attrGet("src") or "")
    name = " ".join(filter(None, ("image", token.content, f"({address[:200]})")))
    return f'<span class="image">{text(name)}</span>'


def _alignment(token: Token) -> str:
    style = str(token.attrGet("style") or "")
    found = style.removeprefix("text-align:")
    return f' class="{found}"' if found in _ALIGNMENTS else ""


class Block(NamedTuple):
    """A run of text, or of code in a language."""

    text: str
    is_code: bool = False
    language: str = ""
    lead: str = ""  # of code: what came before its fence, such as the bullet of a list


def blocks(value: str) -> list[Block]:
    """Split Markdown into blocks of text and of code."""
    lines = re.sub(r"\r\n?", "\n", value).split("\n")
    if len(value) > MAX_TEXT:
        return [Block(value, is_code=True)]
    found: list[Block] = []
    done = 0
    for token in _reader().parse(value):
        if token.type not in ("fence", "code_block") or token.map is None:
            continue
        start, end = token.map
        _add_text(found, lines[done:start])
        lead, _, _ = lines[start].partition(token.markup) if token.markup else ("", "", "")
        code_lines = token.content.removesuffix("\n")
        found.append(Block(code_lines, True, token.info.strip()[:40], lead.strip()))
        done = end
    _add_text(found, lines[done:])
    return found


def _add_text(found: list[Block], lines: list[str]) -> None:
    if any(line.strip() for line in lines):
        found.append(Block("\n".join(lines).strip("\n")))
