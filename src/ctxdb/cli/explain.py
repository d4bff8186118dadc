"""What to say when a command fails for a reason that has no message of its own.

Any value can be in a database: people edit it, and disks damage it. If that is so, the message says
which file, what is wrong, and what to do. If it is not, the failure is a bug of ctxdb.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from ctxdb.errors import CtxdbError, is_of_the_machine

_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def explain(error: Exception, words: list[str]) -> CtxdbError | None:
    """Return what is wrong with the database; None when nothing is."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if is_of_the_machine(error) and code not in _DAMAGED:
        return None  # a full disk, a lock: it says so itself
    from ctxdb.store.integrity import damaged_database, find_damage
    from ctxdb.store.odd_values import find_odd_values

    try:
        path = _database(words)
        if not path.is_file():
            return None
        damage = find_damage(path)
        if damage is None and code in _DAMAGED:
            damage = find_damage(path, everything=True) or str(error)
        if damage is not None:
            return damaged_database(path, damage)
        odd = find_odd_values(path)
    except (CtxdbError, sqlite3.Error, OSError, ValueError):
        return None
    if not odd:
        return None
    first, *others = odd
    more = f" (and {len(others):,} more columns)" if others else ""
    fix = "`ctxdb rebuild` derives all rows again"
    return CtxdbError(f"{path}: somebody has changed {first}{more}; {fix}")


def _database(words: list[str]) -> Path:
    from ctxdb.config import load

    for n, word in enumerate(words):
        if word == "--db" and n + 1 < len(words):
            return load(Path(words[n + 1])).db_path
        if word.startswith("--db="):
            return load(Path(word.removeprefix("--db="))).db_path
    return load(None).db_path
