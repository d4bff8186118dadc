"""Text as an attacker would put it into a transcript, by what it tries."""

from __future__ import annotations

HOSTILE = {
    "OSC 52 sets the clipboard": "\x1b]52;c;cm0gLXJmIH4=\x07",
    "OSC 8 hides an address": "\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "CSI clears the screen": "\x1b[2J\x1b[H",
    "C1 CSI in one character": "\x9b31mred",
    "C1 OSC in one character": "\x9d0;title\x9c",
    "DEL": "a\x7fb",
    "backspaces": "rm -rf /\x08\x08\x08ls",
    "a carriage return rewrites the line": "safe\rrm -rf /",
    "bidi override": "\u202egnp.exe",
    "bidi isolate": "\u2066x\u2069",
    "bidi mark": "\u200fx\u061c",
    "zero width space": "a\u200bb",
    "tag characters": "\U000e0041\U000e0042",
    "line separators": "a\u2028b\u2029c\x85d",
    "half of a pair": "\ud800",
    "NUL": "a\x00b",
}


def is_harmless(char: str) -> bool:
    """True for what neither moves the cursor nor hides nor turns text around."""
    return char.isprintable() or char in "\u200c\u200d"
