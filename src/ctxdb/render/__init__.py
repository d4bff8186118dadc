"""Text of transcripts as HTML that is inert: nothing in it runs, loads, or leaves its element.

::

    Markdown ── markdown ──┐
    code ────── code ──────┼──► html_text.text ──► HTML with classes, for colours.css
    output ──── ansi ──────┤    the one function that escapes
    a diff ──── diff ──────┘

All of it is pure: a text in, a text out. The exported page and the web pages use it.
"""
