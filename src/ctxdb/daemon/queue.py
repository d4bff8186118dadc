"""Which files have something to read, and whose turn it is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ctxdb.files.walk import FoundFile

TURN_FILES = 500
BACKLOG_FIRST = 4  # every so many turns, so that a storm of small changes cannot starve the rest


@dataclass(slots=True)
class Waiting:
    """A file and since when it waits, by time.monotonic."""

    file: FoundFile
    since: float
    is_fresh: bool


@dataclass(slots=True)
class Queue:
    """Files that have just changed come first, then what is left of long ones, in turn."""

    fresh: dict[str, Waiting] = field(default_factory=dict)
    backlog: dict[str, Waiting] = field(default_factory=dict)
    turns: int = 0

    def __len__(self) -> int:
        return len(self.fresh) + len(self.backlog)

    def add(self, files: Iterable[FoundFile], since: float) -> None:
        """Files that were seen to have changed."""
        for file in files:
            old = self.backlog.get(file.path) or self.fresh.get(file.path)
            if old is not None:
                old.file = file  # one that is behind does not jump the queue
            else:
                self.fresh[file.path] = Waiting(file, since, is_fresh=True)

    def add_backlog(self, files: Iterable[FoundFile], since: float) -> None:
        """Files that were found while nobody watched: oldest first, after what is new."""
        for file in sorted(files, key=lambda file: (file.mtime_ns, file.path)):
            if file.path not in self.fresh:
                self.backlog.setdefault(file.path, Waiting(file, since, is_fresh=False))

    def take(self) -> list[Waiting]:
        """The files of the next turn."""
        self.turns += 1
        parts = [self.fresh, self.backlog]
        if self.turns % BACKLOG_FIRST == 0:
            parts.reverse()
        turn: list[Waiting] = []
        for part in parts:
            turn += list(part.values())[: TURN_FILES - len(turn)]
        for one in turn:
            self.fresh.pop(one.file.path, None)
            self.backlog.pop(one.file.path, None)
        return turn

    def put_back(self, turn: Iterable[Waiting]) -> None:
        """Files of a turn that were not reached: they are first again."""
        fresh: dict[str, Waiting] = {}
        backlog: dict[str, Waiting] = {}
        for one in turn:
            newer = self.fresh.pop(one.file.path, None) or self.backlog.pop(one.file.path, None)
            one.file = newer.file if newer else one.file
            (fresh if one.is_fresh else backlog)[one.file.path] = one
        self.fresh = fresh | self.fresh
        self.backlog = backlog | self.backlog

    def put_off(self, turn: Iterable[Waiting]) -> None:
        """Files of a turn that have more to read: after all others."""
        for one in turn:
            newer = self.fresh.pop(one.file.path, None) or self.backlog.pop(one.file.path, None)
            one.file = newer.file if newer else one.file
            one.is_fresh = False
            self.backlog[one.file.path] = one
