"""Removing whole sessions, so that the database is as if they had never been read.

- `choose.py`: which sessions a person means, and which hold copies of their entries.
- `linked.py`: the sessions and files whose rows may depend on theirs.
- `remove.py`: removes sessions, and reads the linked files again that stay.
- `delete_rows.py`: deletes the rows of files, in every table.
- `move.py`: entries that only a file holds which cannot be read any more pass to it.
- `run.py`: all steps in order, with the erasing of bytes (`ingest/erase_forgotten.py`).

A tombstone keeps a forgotten session out from then on (`store/tombstones.py`).
"""
