r"""Make text from transcripts safe to print on a terminal.

A web page may have written any text in a transcript. An escape sequence could set the clipboard or
repaint the screen, and a direction mark could make one command look like another. So all text goes
through this module before it is printed. Invisible characters are replaced by their escapes
(``\x1b``, ``\u202e``), which also shows that they were there.
"""

from __future__ import annotations

# Python does not call these printable, but they are harmless and common: the joiners of emoji,
# Persian and the scripts of India, and the spaces of other scripts.
_JOINERS = "\u200c\u200d"
_SPACES = "\u00a0\u2002\u2003\u2009\u202f\u3000"
_ELLIPSIS = "…"


def printable(text: str) -> str:
    """Return text for one line of a terminal, with escapes for all that is not printable."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escaped(c) for c in text)


def safe(text: str) -> str:
    """Return text for several lines of a terminal: as `printable`, but line ends and tabs stay."""
    if text.isprintable():
        return text
    text = text.replace("\r\n", "\n")
    return "".join(c if c.isprintable() or c in "\n\t" else _escaped(c) for c in text)


def one_line(text: str) -> str:
    """Return text for a cell: as `printable`, and runs of white space become one space."""
    return printable(" ".join(text.split()))


def _escaped(char: str) -> str:
    if char in _JOINERS:
        return char
    if char in _SPACES:
        return " "
    return char.encode("unicode_escape").decode()


def width(text: str) -> int:
    """How many columns of a terminal a printable text takes."""
    if text.isascii():
        return len(text)
    return sum(map(_char_width, text))


def clip(text: str, columns: int) -> str:
    """Return text in at most so many columns, with an ellipsis if it was cut.

    It is cut between words, if that leaves half of the room in use.
    """
    if width(text) <= columns:
        return text
    if columns <= 1:
        return _ELLIPSIS[:columns]
    head = _head(text, columns - 1)
    if text[len(head) : len(head) + 1] != " ":
        words, space, rest = head.rpartition(" ")
        if space and len(rest) <= len(head) // 2:
            head = words
    return head.rstrip() + _ELLIPSIS


def clip_path(path: str, columns: int) -> str:
    """Return a path in at most so many columns, cut at its beginning."""
    if width(path) <= columns:
        return path
    if columns <= 1:
        return _ELLIPSIS[:columns]
    tail = _head(path[::-1], columns - 1)[::-1]
    # Drop a part of a folder name if it is short: …/src/app.py reads better than …c/src/app.py.
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
    # Marks on the letter before, joiners, and Hangul vowels that are written separately.
    if unicodedata.category(char) in ("Mn", "Me", "Cf") or "\u1160" <= char <= "\u11ff":
        return 0
    return 1
