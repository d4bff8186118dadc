"""Print what a command has to say: data to standard output, everything else to standard error."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Protocol

from ctxdb.escape import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


class Result(Protocol):
    """What a command prints, for people or for programs."""

    def as_dict(self) -> Mapping[str, object]:
        """Return it as data."""

    def lines(self) -> Iterable[str]:
        """Return it as text."""


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
    """Print bytes unchanged, as a shell needs a path."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data + b"\n")
    sys.stdout.buffer.flush()


def note(text: str) -> None:
    """Print a line that is not data."""
    sys.stdout.flush()
    sys.stderr.write(printable(text) + "\n")
    sys.stderr.flush()


def show(result: Result, *, as_json: bool) -> None:
    """Print a result to standard output."""
    if as_json:
        import json

        # The JSON is plain ASCII, so no control character and no lone surrogate is printed. json
        # does not escape DEL.
        say(json.dumps(result.as_dict(), indent=2).replace("\x7f", "\\u007f"))
        return
    for line in result.lines():
        say(printable(line))
