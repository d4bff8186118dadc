"""Overwrite what SQLite leaves in the unused part of pages that it still uses.

When SQLite moves rows to another page, it does not clear the place where they were: they lie
between the list of cells and the first cell until something else is put there. `secure_delete`
clears what is deleted, which is by then in the other page. So what was removed from all rows may be
left in such a gap.

Nothing reads these bytes, so zeros are written into the file itself. Meanwhile a write transaction
is open and SQLite's log is empty. So the file has the newest pages, and no program writes to it.
A process that is killed midway has only cleared some of the gaps. Another process does it: when a
process closes a file, it loses all its locks on that file, also those of its SQLite connections.

    python -m ctxdb.page_gaps FILE
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

_MAGIC = b"SQLite format 3\0"
_HEADER = 100  # bytes of the file's header, which are in the first page
_CELLS_AT = {2: 12, 5: 12, 10: 8, 13: 8}  # kind of a page of rows: where its list of cells begins
_LOCK_BYTE = 1 << 30  # in a page that SQLite never reads or writes
_MOST_PAGES = 0x0200_0000  # a page of long text begins with a page number, below this no kind
_CHUNK_BYTES = 4 << 20
_FAILED = 1


def clear_gaps(conn: sqlite3.Connection) -> str | None:
    """Clear the unused parts of all pages; returns why it could not be done.

    The caller has just emptied the log and holds the writer lock. No transaction is open.
    """
    (path,) = conn.execute("SELECT file FROM pragma_database_list WHERE name = 'main'").fetchone()
    if not path:
        return None  # a database in memory
    try:
        conn.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as e:
        return f"its pages cannot be cleared: {e}"
    try:
        if _size_of(f"{path}-wal"):
            return "another program has written to it"
        command = [sys.executable, "-P", "-m", __name__, path]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except OSError as e:
        return f"its pages cannot be cleared: {e.strerror}"
    finally:
        conn.execute("COMMIT")
        conn.execute("PRAGMA shrink_memory").fetchall()  # it has read some pages before
    if not done.returncode:
        return None
    said = done.stderr.decode(errors="replace").strip().splitlines()
    return f"its pages cannot be cleared: {said[-1] if said else f'exit {done.returncode}'}"


def _size_of(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except FileNotFoundError:
        return 0


def clear_file(fd: int) -> int:
    """Write zeros into the gaps of a database; returns how many pages had something in one."""
    header = os.pread(fd, _HEADER, 0)
    size = int.from_bytes(header[16:18], "big")
    size = 65536 if size == 1 else size
    if header[: len(_MAGIC)] != _MAGIC or size < 512:
        raise ValueError("not a database")
    pages = os.fstat(fd).st_size // size
    if pages >= _MOST_PAGES:
        raise ValueError("too large")
    usable = size - header[20]
    lock_page = _LOCK_BYTE // size + 1
    has_maps = any(header[52:56])
    per_map = usable // 5 + 1
    cleared = 0
    step = max(_CHUNK_BYTES // size, 1)
    for first in range(0, pages, step):
        chunk = os.pread(fd, step * size, first * size)
        for at in range(0, len(chunk) - size + 1, size):
            number = first + at // size + 1
            if number == lock_page:
                continue
            # A page that says where pages belong; where it would be the lock page, the next is one.
            if has_maps and number >= 2:
                is_map = (number - 2) % per_map == 0
                if is_map or (number == lock_page + 1 and (lock_page - 2) % per_map == 0):
                    continue
            page = memoryview(chunk)[at : at + size]
            gap = _gap_of(page, _HEADER if number == 1 else 0, usable)
            if gap is None:
                continue
            begin, end = gap
            if chunk.count(0, at + begin, at + end) < end - begin:
                os.pwrite(fd, bytes(end - begin), (number - 1) * size + begin)
                cleared += 1
    os.fsync(fd)
    return cleared


def _gap_of(page: memoryview, start: int, usable: int) -> tuple[int, int] | None:
    """From where to where nothing is stored in a page of rows; None in any other page."""
    first_cell = _CELLS_AT.get(page[start])
    if first_cell is None:
        return None
    cells = int.from_bytes(page[start + 3 : start + 5], "big")
    end = int.from_bytes(page[start + 5 : start + 7], "big") or 65536
    begin = start + first_cell + 2 * cells
    if not begin < end <= usable:
        return None
    free = int.from_bytes(page[start + 1 : start + 3], "big")
    if 0 < free < end:
        return None  # damaged: free space is behind the first cell
    return begin, end


def main() -> int:
    """Clear one file, which another process keeps from changing."""
    try:
        fd = os.open(sys.argv[1], os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        clear_file(fd)
    except OSError as e:
        sys.stderr.write(f"{e.strerror}\n")
        return _FAILED
    except ValueError as e:
        sys.stderr.write(f"{e}\n")
        return _FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
