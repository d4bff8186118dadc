"""Code as HTML, its words marked by classes.

Pygments reads the language. Its dozens of kinds of words become a few classes, each with a colour
of enough contrast in colours.css.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ctxdb.render.html_text import text

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_CODE = 60_000  # characters; longer code is shown without colours: reading it takes too long
MAX_LINE = 2_000  # characters; longer lines are data or were made by a program
# By beginning of the name of a token, the longest first.
_CLASSES = (
    ("Name.Function", "hl-name"),
    ("Name.Class", "hl-name"),
    ("Name.Namespace", "hl-name"),
    ("Name.Tag", "hl-keyword"),
    ("Name.Decorator", "hl-name"),
    ("Name.Attribute", "hl-name"),
    ("Name.Builtin", "hl-builtin"),
    ("Name.Variable", "hl-builtin"),
    ("Name.Exception", "hl-builtin"),
    ("Keyword", "hl-keyword"),
    ("Operator.Word", "hl-keyword"),
    ("Literal.String", "hl-string"),
    ("Literal.Number", "hl-number"),
    ("Literal.Date", "hl-number"),
    ("Comment", "hl-comment"),
    ("Generic.Deleted", "hl-deleted"),
    ("Generic.Inserted", "hl-inserted"),
    ("Generic.Heading", "hl-keyword"),
    ("Generic.Subheading", "hl-keyword"),
    ("Generic.Prompt", "hl-comment"),
    ("Generic.Output", "hl-comment"),
)


def code(value: str, language: str = "", file_name: str = "") -> str:
    """A block of code. Without a language, that of the file's name; without both, plain text."""
    return f"<pre><code>{marked(value, language, file_name)}</code></pre>\n"


def marked(value: str, language: str = "", file_name: str = "") -> str:
    """The words of code, marked."""
    lexer = _by_language(language) if language else _by_file(file_name) if file_name else None
    if lexer is None or len(value) > MAX_CODE or max(map(len, value.split("\n"))) > MAX_LINE:
        return text(value)
    try:
        return "".join(_spans(lexer, value))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return text(value)  # a lexer that cannot read this


def _spans(lexer: Any, value: str) -> Iterator[str]:
    for kind, word in lexer.get_tokens(value):
        name = _class_of(str(kind))
        if not name or word.isspace():
            yield text(word)
            continue
        for nth, line in enumerate(word.split("\n")):  # so that each line is whole by itself
            if nth:
                yield "\n"
            if line:
                yield f'<span class="{name}">{text(line)}</span>'


@lru_cache(maxsize=512)
def _class_of(kind: str) -> str:
    kind = kind.removeprefix("Token.")
    return next((name for start, name in _CLASSES if kind.startswith(start)), "")


@lru_cache(maxsize=128)
def _by_language(language: str) -> Any:
    from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]
    from pygments.util import ClassNotFound  # type: ignore[import-untyped]

    try:
        return get_lexer_by_name(language.lower(), stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None


@lru_cache(maxsize=512)
def _by_file(name: str) -> Any:
    from pygments.lexers import find_lexer_class_for_filename

    _, _, last = name.rpartition("/")
    found = find_lexer_class_for_filename(last[-100:])
    return None if found is None else found(stripnl=False, ensurenl=False)
