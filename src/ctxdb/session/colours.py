"""Colours of a terminal, or none."""

from __future__ import annotations

import os
from typing import TextIO

_CODES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "cyan": "36",
    "prompt": "1;36",
    "found": "1;33",
}


class Ink:
    """Paints text, if colours are on."""

    def __init__(self, *, on: bool) -> None:
        self.on = on

    def __call__(self, how: str, text: str) -> str:
        """Return the text in that colour; the text itself must be safe already."""
        return f"\x1b[{_CODES[how]}m{text}\x1b[0m" if self.on and text else text


def ink_for(stream: TextIO) -> Ink:
    """Colours on a terminal that has them, unless NO_COLOR says otherwise."""
    on = stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Ink(on=on)
