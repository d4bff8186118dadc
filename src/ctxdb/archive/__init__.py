"""The exact bytes of every file that ctxdb reads, compressed, in a file beside the database.

Claude Code deletes transcripts after 30 days. The archive keeps their bytes, so that a session can
be restored and the database can be derived again. It is a SQLite file of its own:

- `files`: one row per file and generation. A file that is rewritten starts a new generation; the
  bytes of the old one stay.
- `frames`: the bytes as they came in, in pieces of at most 1 MiB, each compressed on its own.
- `blocks`: when a project has been quiet, its frames are joined and compressed again, much smaller.
  `parts` says which bytes of which file are where in a block. A block is replaced, never edited.

Every frame and every part has a checksum of the bytes before compression.
"""
