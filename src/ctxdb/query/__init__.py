"""Answer questions from a shell: read-only, with limits, and readable for people or programs.

::

    what was asked ──► statement ──► guard ────────► execute ──► present ──► standard output
    (name, options)    one SQL       a connection    rows        table, plot, or formats:
                       statement     that cannot                 json, jsonl, csv, md
                                     write or hang

    what was typed ──► search_words ──► candidates ──► search ──► hits ──► standard output
                       an expression    matching       ranked     with snippets
                       of FTS5          rows

Before that, ``fresh`` brings the database up to date. A module that takes long to import is only
imported where it is needed, because a person waits for the answer.
"""
