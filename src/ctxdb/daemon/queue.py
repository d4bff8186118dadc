"""Which files have something to read, and which of them the next slice reads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

from ctxdb.files.walk import FoundFile

SLICE_FILES = 500
BACKLOG_FIRST = 4  # every so many slices, so that many small changes cannot starve the backlog


@dataclass(slots=True)
class Waiting:
    """A file and since when it waits, by time.monotonic."""

    file: FoundFile
    since: float
    is_fresh: bool


@dataclass(slots=True)
class Queue:
    """Files that have just changed come first, then the backlog, a part of each file at a time."""

    fresh: dict[str, Waiting] = field(default_factory=dict)
    backlog: dict[str, Waiting] = field(default_factory=dict)
    slices: int = 0

    def __len__(self) -> int:
        return len(self.fresh) + len(self.backlog)

    def add(self, files: Iterable[FoundFile], since: float) -> None:
        """Add files that were seen to have changed."""
        for file in files:
            old = self.backlog.get(file.path) or self.fresh.get(file.path)
            if old is not None:
                old.file = file  # a file that is behind stays where it is in the queue
            else:
                self.fresh[file.path] = Waiting(file, since, is_fresh=True)

    def add_backlog(self, files: Iterable[FoundFile], since: float) -> None:
        """Add files that changed while the daemon did not watch: oldest first, after fresh ones."""
        for file in sorted(files, key=lambda file: (file.mtime_ns, file.path)):
            if file.path not in self.fresh:
                self.backlog.setdefault(file.path, Waiting(file, since, is_fresh=False))

    def take(self) -> list[Waiting]:
        """Take out the files of the next slice."""
        self.slices += 1
        parts = [self.fresh, self.backlog]
        if self.slices % BACKLOG_FIRST == 0:
            parts.reverse()
        taken: list[Waiting] = []
        for part in parts:
            taken += islice(part.values(), SLICE_FILES - len(taken))
        for one in taken:
            self.fresh.pop(one.file.path, None)
            self.backlog.pop(one.file.path, None)
        return taken

    def put_back(self, taken: Iterable[Waiting]) -> None:
        """Put back files that the slice did not reach: they are first again."""
        fresh: dict[str, Waiting] = {}
        backlog: dict[str, Waiting] = {}
        for one in taken:
            newer = self.fresh.pop(one.file.path, None) or self.backlog.pop(one.file.path, None)
            one.file = newer.file if newer else one.file
            (fresh if one.is_fresh else backlog)[one.file.path] = one
        self.fresh = fresh | self.fresh
        self.backlog = backlog | self.backlog

    def put_off(self, taken: Iterable[Waiting]) -> None:
        """Put back files that have more to read: they come after all others."""
        for one in taken:
            newer = self.fresh.pop(one.file.path, None) or self.backlog.pop(one.file.path, None)
            one.file = newer.file if newer else one.file
            one.is_fresh = False
            self.backlog[one.file.path] = one
