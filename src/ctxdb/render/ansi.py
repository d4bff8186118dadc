r"""The colours that programs print, as HTML with classes.

Only the sequences that set colours and other attributes of text (``ESC [ ... m``) are understood.
Any other sequence stays in the text, and is shown as an escape (``\x1b``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from ctxdb.render.html_text import text

if TYPE_CHECKING:
    from collections.abc import Iterator

_GRAPHICS = re.compile(r"\x1b\[(?P<codes>[0-9;:]{0,64})m")
# The 16 colours of xterm, to find the nearest of another colour.
_PALETTE = (
    (0, 0, 0), (205, 0, 0), (0, 205, 0), (205, 205, 0), (0, 0, 238), (205, 0, 205), (0, 205, 205),
    (229, 229, 229), (127, 127, 127), (255, 0, 0), (0, 255, 0), (255, 255, 0), (92, 92, 255),
    (255, 0, 255), (0, 255, 255), (255, 255, 255),
)  # fmt: skip
_CUBE = (0, 95, 135, 175, 215, 255)  # the levels of the 6 x 6 x 6 colours from 16 on
_ON = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 9: "struck"}
_OFF = {22: ("bold", "dim"), 23: ("italic",), 24: ("underline",), 29: ("struck",)}


def without_graphics(value: str) -> str:
    """Remove colours and other text attributes."""
    return _GRAPHICS.sub("", value) if "\x1b" in value else value


def with_colours(value: str) -> str:
    """HTML of what a program printed, with its colours as classes."""
    if "\x1b" not in value:
        return text(value)
    found: list[str] = []
    style = _Style()
    at = 0
    for match in _GRAPHICS.finditer(value):
        found.append(style.wrap(value[at : match.start()]))
        style.apply(match["codes"])
        at = match.end()
    return "".join((*found, style.wrap(value[at:])))


@dataclass(slots=True)
class _Style:
    """What the sequences so far have switched on."""

    front: int | None = None
    back: int | None = None
    is_inverse: bool = False
    attributes: frozenset[str] = frozenset()

    def wrap(self, value: str) -> str:
        names = [f"ansi-{name}" for name in sorted(self.attributes)]
        front, back = (self.back, self.front) if self.is_inverse else (self.front, self.back)
        if front is not None:
            names.append(f"ansi-{front}")
        if back is not None:
            names.append(f"ansi-on-{back}")
        if self.is_inverse and front is None and back is None:
            names.append("ansi-inverse")
        if not value or not names:
            return text(value)
        return f'<span class="{" ".join(names)}">{text(value)}</span>'

    def apply(self, codes: str) -> None:
        numbers = iter([int(one or 0) for one in re.split("[;:]", codes[:64])])
        for code in numbers:
            if code == 0:
                self.front = self.back = None
                self.is_inverse, self.attributes = False, frozenset()
            elif code in _ON:
                self.attributes |= {_ON[code]}
            elif code in _OFF:
                self.attributes = self.attributes.difference(_OFF[code])
            elif code in (7, 27):
                self.is_inverse = code == 7
            else:
                self._colour(code, numbers)

    def _colour(self, code: int, numbers: Iterator[int]) -> None:
        if code == 38:
            self.front = _extended(numbers)
        elif code == 48:
            self.back = _extended(numbers)
        elif 30 <= code <= 37 or 90 <= code <= 97:
            self.front = code - 30 if code < 90 else code - 82
        elif 40 <= code <= 47 or 100 <= code <= 107:
            self.back = code - 40 if code < 100 else code - 92
        elif code == 39:
            self.front = None
        elif code == 49:
            self.back = None


def _extended(numbers: Iterator[int]) -> int | None:
    """The colour of `5;n` (one of 256) or `2;r;g;b`, as the nearest of 16."""
    match next(numbers, None):
        case 5:
            return _one_of_256(next(numbers, 0))
        case 2:
            return _nearest(next(numbers, 0), next(numbers, 0), next(numbers, 0))
    return None


def _one_of_256(number: int) -> int | None:
    if number < 16:
        return number
    if number > 255:
        return None
    if number >= 232:
        grey = 8 + 10 * (number - 232)
        return _nearest(grey, grey, grey)
    red, rest = divmod(number - 16, 36)
    green, blue = divmod(rest, 6)
    return _nearest(_CUBE[red], _CUBE[green], _CUBE[blue])


@lru_cache(maxsize=512)
def _nearest(red: int, green: int, blue: int) -> int:
    def distance(nth: int) -> int:
        r, g, b = _PALETTE[nth]
        return (red - r) ** 2 + (green - g) ** 2 + (blue - b) ** 2

    return min(range(len(_PALETTE)), key=distance)
