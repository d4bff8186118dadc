"""What every command prints with: data to standard output, all else to standard error."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from ctxdb.escape import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


class Report(Protocol):
    """What a command prints, for people or for programs."""

    def as_dict(self) -> Mapping[str, object]:
        """Return it as data."""

    def lines(self) -> Iterable[str]:
        """Return it as text."""


def say(text: str) -> None:
    """Print a line of data."""
    sys.stdout.write(text + "\n")


def say_bytes(data: bytes) -> None:
    """Print bytes as they are: a shell must get a path unchanged."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data + b"\n")
    sys.stdout.buffer.flush()


def note(text: str) -> None:
    """Print a line that is not data."""
    sys.stdout.flush()
    sys.stderr.write(printable(text) + "\n")
    sys.stderr.flush()


def show(report: Report, *, as_json: bool) -> None:
    """Print a report to standard output."""
    if as_json:
        import json

        # ASCII only: no control character and no half of a surrogate pair gets through. JSON would
        # leave DEL alone.
        say(json.dumps(report.as_dict(), indent=2).replace("\x7f", "\\u007f"))
        return
    for line in report.lines():
        say(printable(line))


def terminal_columns() -> int:
    """How many columns the terminal of standard output has."""
    import shutil  # 4 ms that `ctxdb sync` with nothing new does not need

    return shutil.get_terminal_size().columns


@contextmanager
def telling_candidates() -> Iterator[None]:
    """List the sessions that may be meant, before the reason is told in one line."""
    from ctxdb.session.find import NoSuchSession

    try:
        yield
    except NoSuchSession as e:
        for candidate in e.candidates:
            note(candidate.line())
        raise
