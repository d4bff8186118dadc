"""Overwrite secrets in bytes that are archived already: `redact --apply` with `redact.archive`.

All of them are overwritten in one transaction. Frames and blocks are replaced by others, and the
pages of the old ones are overwritten and given back.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ctxdb.archive.archive_file import (
    archive_path,
    archive_transaction,
    as_archive_error,
    open_archive,
    open_archive_to_read,
)
from ctxdb.archive.erase import clear_free_pages
from ctxdb.archive.opening import ArchiveOpener
from ctxdb.archive.read import generations
from ctxdb.archive.stars import Found, load_stars, note_everywhere, put_stars
from ctxdb.ingest.archived_secrets import finder
from ctxdb.ingest.masked_line import reading_of

if TYPE_CHECKING:
    from pathlib import Path

    from ctxdb.archive.read import Generation
    from ctxdb.archive.stars import Stars
    from ctxdb.ingest.masked_line import Reading
    from ctxdb.privacy.masking import Masker
    from ctxdb.progress import Progress


@dataclass(slots=True)
class ArchiveMasked:
    """What was overwritten."""

    secrets: int = 0
    files: int = 0  # generations of files
    is_erased: bool = True
    problems: list[str] = field(default_factory=list)


def mask_archive(
    db_path: Path,
    conn: sqlite3.Connection,
    masker: Masker,
    progress: Progress,
    *,
    by_all_rules: bool = True,
) -> ArchiveMasked:
    """Overwrite what the rules find in all archived bytes. The caller holds the writer lock."""
    done = ArchiveMasked()
    if not archive_path(db_path).exists():
        return done
    try:
        with closing(open_archive(db_path)) as archive:
            found = find_in_archive(db_path, archive, reading_of(conn, masker), progress)
            with archive_transaction(archive):
                done.problems = put_stars(archive, found)
                if by_all_rules and not done.problems:
                    note_everywhere(archive, is_everywhere=True)
            done.files = len(found)
            done.secrets = sum(len(one.places) for one in found.values())
            if found:
                done.is_erased = clear_free_pages(archive) is None
    except sqlite3.Error as e:
        raise as_archive_error(archive_path(db_path), e) from e
    return done


def count_in_archive(
    db_path: Path, conn: sqlite3.Connection, masker: Masker, progress: Progress
) -> dict[str, int]:
    """How many secrets are in clear in the archive, by rule."""
    counts: dict[str, int] = {}
    archive = open_archive_to_read(db_path)
    if archive is not None:
        with closing(archive):
            found = find_in_archive(db_path, archive, reading_of(conn, masker), progress)
            for one in found.values():
                for place in one.places:
                    counts[place.rule] = counts.get(place.rule, 0) + 1
    return counts


def find_in_archive(
    db_path: Path, archive: sqlite3.Connection, reading: Reading, progress: Progress
) -> dict[int, Found]:
    """What the rules find in archived files and is not overwritten yet, by their ids."""
    files = generations(archive)
    progress.start(sum(file.size for file in files), "Looking through the archive")
    found: dict[int, Found] = {}
    with closing(ArchiveOpener(db_path, {})) as opener:
        for file in files:
            one = _find_in(file, opener, load_stars(archive, file.id), reading)
            if one.places:
                found[file.id] = one
            progress.advance(file.size)
    return found


def _find_in(file: Generation, opener: ArchiveOpener, stars: Stars, reading: Reading) -> Found:
    reading = reading._replace(stars=lambda _: stars)
    find = finder(reading, file.kind, file.open_path, file.root)
    if find is None or not file.size:
        return Found([], {})
    fd = opener.open(file)
    try:
        places, known_by = find(fd, 0, os.fstat(fd).st_size)
    finally:
        os.close(fd)
    return Found([place for place in places if place not in stars.places], known_by)
