"""One session, as a person reads it.

::

    what was typed ──► find ──► load ──► terminal, markdown, page ──► a pager, a file
    (prefix, slug,     one      model    pure: a Reading in,
     last)             id       of it    lines out

    source: the lines themselves, from the transcripts (show --raw, export --format jsonl)
    snapshot: the database as a clean copy
"""
