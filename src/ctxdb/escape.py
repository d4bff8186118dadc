r"""Text from transcripts, made fit for a terminal.

Whatever stands in a transcript may have been written by a web page: an escape sequence could set
the clipboard or repaint the screen, a direction mark could make one command look like another.
So nothing is printed before it has been through here. What cannot be seen is spelt out
(``\x1b``, ``\u202e``), which also says that it was there.
"""

from __future__ import annotations

# Not "printable" to Python, yet harmless and common in ordinary writing: the joiners that emoji,
# Persian and the scripts of India are written with, and the spaces of other scripts.
_JOINERS = "\u200c\u200d"
_SPACES = "\u00a0\u2002\u2003\u2009\u202f\u3000"
_ELLIPSIS = "…"


def printable(text: str) -> str:
    """Return text for one line of a terminal: what could move the cursor or hide is spelt out."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _spelt(c) for c in text)


def safe(text: str) -> str:
    """Return text for several lines of a terminal: as printable, but lines and tabs stay."""
    if text.isprintable():
        return text
    text = text.replace("\r\n", "\n")
    return "".join(c if c.isprintable() or c in "\n\t" else _spelt(c) for c in text)


def one_line(text: str) -> str:
    """Return text for a cell: runs of white space become one space, the rest as printable."""
    return printable(" ".join(text.split()))


def _spelt(char: str) -> str:
    if char in _JOINERS:
        return char
    if char in _SPACES:
        return " "
    return char.encode("unicode_escape").decode()


def width(text: str) -> int:
    """How many columns of a terminal the (printable) text takes."""
    if text.isascii():
        return len(text)
    return sum(map(_char_width, text))


def clip(text: str, columns: int) -> str:
    """Return text in at most so many columns, with an ellipsis where something was cut off."""
    if width(text) <= columns:
        return text
    if columns <= 1:
        return _ELLIPSIS[:columns]
    return _head(text, columns - 1).rstrip() + _ELLIPSIS


def clip_path(path: str, columns: int) -> str:
    """Return a path in at most so many columns; its end says more than its beginning."""
    if width(path) <= columns:
        return path
    if columns <= 1:
        return _ELLIPSIS[:columns]
    tail = _head(path[::-1], columns - 1)[::-1]
    # Whole folder names where that costs little: …/src/app.py reads better than …c/src/app.py.
    slash = tail.find("/")
    if 0 < slash <= len(tail) // 3:
        tail = tail[slash:]
    return _ELLIPSIS + tail


def _head(text: str, columns: int) -> str:
    if text.isascii():
        return text[:columns]
    used = 0
    for n, c in enumerate(text):
        used += _char_width(c)
        if used > columns:
            return text[:n]
    return text


def _char_width(char: str) -> int:
    if char < "\u0300":
        return 1
    import unicodedata  # 1 ms that plain text does not need

    if unicodedata.east_asian_width(char) in "WF":
        return 2
    # Marks that sit on the letter before, joiners, and the vowels of Hangul written apart.
    if unicodedata.category(char) in ("Mn", "Me", "Cf") or "\u1160" <= char <= "\u11ff":
        return 0
    return 1
