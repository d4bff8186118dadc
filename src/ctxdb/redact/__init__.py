"""Masking what is stored already: `ctxdb redact`.

Secrets are masked as lines are read (ingest/masked_line.py). Rows that were stored before a rule
existed, or while it was off, are looked through here: every text of every table. `texts.py` lists
the texts, `scan.py` counts what is in them, `apply.py` masks it.
"""
