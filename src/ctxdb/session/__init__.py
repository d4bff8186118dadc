"""One session, as a person reads it.

::

    SESSION on the       find ──► load ──► terminal_format, markdown_format, html_format ──► output
    command line         its id   a        pure: a Conversation in, lines of text out
    (prefix, slug, last)          Conversation

``source_line`` and ``jsonl_export`` give the lines of the transcripts themselves
(``show --raw``, ``export --format jsonl``).
"""
