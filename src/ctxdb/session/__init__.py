"""One session, as a person reads it.

::

    SESSION on the       find ──► load ──► terminal_format, markdown_format, html_format ──► output
    command line         its id   a        pure: a Conversation in, lines of text out
    (prefix, slug, last)          Conversation

``html_parts`` and ``call_html`` write the parts of a page, which the web pages share.
``load_parts`` loads one part. ``redaction`` takes out what is private. ``source_line`` and
``jsonl_export`` give the lines of the transcripts themselves (``show --raw``, ``export --format
jsonl``).
"""
