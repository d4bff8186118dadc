"""Combines the databases of two machines of one person (`ctxdb merge`).

The bytes in the other archive are copied into this one, under names that say which machine they are
of (`elsewhere.py`). Then they are read as any archived file is. Sessions of which the other
database has no bytes are copied as rows, as `rebuild` does. The other database is only read.
"""
