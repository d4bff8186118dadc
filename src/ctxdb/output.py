"""Print to standard output and standard error, in colours where the terminal has them.

Data goes to standard output, everything else to standard error.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Protocol, TextIO

from ctxdb.escape import printable, width

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    Painter = Callable[[str, str], str]  # gives a text (the second argument) a colour (the first)


class Result(Protocol):
    """What a command found out, for people or for programs."""

    def as_dict(self) -> Mapping[str, object]:
        """Return it as data with stable names."""

    def lines(self) -> Iterable[str]:
        """Return it as lines of text."""


class ByteLimit:
    """The number of bytes that a command may print; None: any number."""

    def __init__(self, most: int | None = None) -> None:
        self.most = most
        self.is_reached = False
        self._left = most

    def reserve(self, text: str) -> None:
        """Keep room for a text that is printed in any case."""
        if self._left is not None:
            self._left -= _size(text)

    def within(self, texts: Iterable[str]) -> Iterator[str]:
        """Pass texts on until one does not fit; no text is cut."""
        for text in texts:
            if self._left is not None:
                self._left -= _size(text)
                if self._left < 0:
                    self.is_reached = True
                    return
            yield text


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


def say(text: str) -> None:
    """Print a line of data."""
    sys.stdout.write(text + "\n")


def say_bytes(data: bytes) -> None:
    """Print bytes unchanged, so that a shell gets the exact path."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data + b"\n")
    sys.stdout.buffer.flush()


def note(text: str) -> None:
    """Print a line that is not data. If the terminal is gone, the line is lost."""
    sys.stdout.flush()
    try:
        for line in _fitted(printable(text), sys.stderr):
            sys.stderr.write(line + "\n")
        sys.stderr.flush()
    except BrokenPipeError:
        raise
    except OSError:
        return


def print_result(result: Result, *, as_json: bool) -> None:
    """Print a result to standard output."""
    if as_json:
        import json

        # The JSON is plain ASCII, so no control character and no lone surrogate is printed. json
        # does not escape DEL.
        say(json.dumps(result.as_dict(), indent=2).replace("\x7f", "\\u007f"))
        return
    for text in result.lines():
        for line in _fitted(printable(text), sys.stdout):
            say(line)


def _fitted(text: str, stream: TextIO) -> list[str]:
    """Return a line as lines that fit on the terminal, cut between words.

    What is in backquotes stays on one line, to be copied. So does a command. After a name and
    several spaces all lines begin where the first does.
    """
    room = columns_of(stream) if stream.isatty() else None
    if room is None or width(text) <= room:
        return [text]
    import re

    if re.match(r"  \S*(python\S* -m )?ctxdb ", text):
        return [text]
    labels = re.match(r" *(?:\S+ {2,})*(?:→ )?", text)
    margin = labels.end() if labels and labels.end() <= room // 2 else 0
    lines = [text[:margin]]
    for n, word in enumerate(re.findall(r"(?:`[^`]*`|[^\s`])+|`", text[margin:])):
        longer = f"{lines[-1]} {word}" if n else f"{lines[-1]}{word}"
        if n and width(longer) > room:
            lines.append(" " * margin + word)
        else:
            lines[-1] = longer
    return lines


def columns_of(stream: TextIO) -> int | None:
    """How many columns a stream has: COLUMNS, or those of its terminal; None for a pipe."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return int(columns)
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except (OSError, ValueError):
        return None


def terminal_columns() -> int:
    """How many columns the terminal of standard output has."""
    import shutil  # 4 ms that `ctxdb sync` with nothing new does not need

    return shutil.get_terminal_size().columns


_COLOUR_CODES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "cyan": "36",
    "prompt": "1;36",
    "found": "1;33",
}


def painted(colour: str, text: str) -> str:
    """The text in that colour; the text itself must be safe already."""
    return f"\x1b[{_COLOUR_CODES[colour]}m{text}\x1b[0m" if text else text


def unpainted(_: str, text: str) -> str:
    """The text without colour."""
    return text


def painter_for(stream: TextIO) -> Painter:
    """`painted` for a terminal with colours, unless NO_COLOR is set; else `unpainted`."""
    on = stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return painted if on else unpainted
