"""Looking at files by stat: the truth that events only hint at.

Files that grew lately are looked at often, the rest seldom: a walk over 10,000 files costs more
than a daemon that nobody notices may use in a minute. So where events come, nothing walks unless
something is found missing: all folders are asked whether they have changed, and the files are gone
through in a round, a part at a time. What is remembered of a file is how it looked when it was last
handed on; whether there is something to read is for the turn to say. Of a folder that can be
reached under two names, only the name under which a walk came to it counts.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ctxdb.files.walk import JOURNAL, SUFFIX, FoundFile, Scan, look_at, look_into, numbers_of, scan

HOT_SECONDS = 300.0  # a file that changed so lately is looked at every second or two
WARM_SECONDS = 86_400.0  # a file that changed so lately is looked at with every tick
MAX_WARM = 1000
ROUND_PARTS = 10  # so many ticks until every file has been looked at
UNREAD = -1  # how no file looks: no hash is -1
SETTLED_NS = 2_000_000_000  # a folder may change twice within one tick of the file system's clock


@dataclass(slots=True)
class Walk:
    """What a walk over everything found."""

    found: Scan | None  # None when nothing at all has changed since the last one
    changed: list[FoundFile]
    has_gone: bool  # a file that was there is not
    seconds: float  # of processor time


@dataclass(slots=True)
class Rescan:
    """How every file looked when it was last handed on."""

    roots: Sequence[str]
    seen: dict[str, int] = field(default_factory=dict)
    hot: dict[str, float] = field(default_factory=dict)  # path -> last change
    warm: dict[str, None] = field(default_factory=dict)
    folders: dict[str, int] = field(default_factory=dict)  # path -> mtime; 0: list it again
    missing: list[str] = field(default_factory=list)  # roots that were not there
    unreadable: set[str] = field(default_factory=set)
    again: set[str] = field(default_factory=set)  # other names of folders and roots
    needs_walk: bool = False  # something is not where it was, and only a walk can say what
    _left: list[str] = field(default_factory=list)  # of this round
    _part: int = 0
    _lately: list[tuple[int, str]] = field(default_factory=list)  # what this round found to be warm

    def __post_init__(self) -> None:
        # An overlapped file is of the outermost root, as in a scan.
        self.roots = sorted(dict.fromkeys(map(os.path.abspath, self.roots)), key=len)

    def forget(self) -> None:
        """Take all files for unseen."""
        self.seen.clear()

    def walk(self, *, whole: bool = False) -> Walk:
        """Look at everything; `whole`: say what is there even if nothing has changed."""
        began = time.thread_time()
        whole, self.needs_walk = whole or self.needs_walk, False
        if not whole and self.seen and self._is_unchanged():
            return Walk(None, [], has_gone=False, seconds=time.thread_time() - began)
        found = scan(self.roots)
        now = time.monotonic()
        known = len(self.seen)
        new = sum(1 for file in found.files if file.path not in self.seen)
        has_gone = known + new > len(found.files)
        changed = [file for file in found.files if self._note(file, now, heat=known > 0)]
        if has_gone:
            there = {file.path for file in found.files}
            for path in [path for path in self.seen if path not in there]:
                del self.seen[path]
                self.hot.pop(path, None)
        self.folders = {path: _settled(mtime) for path, mtime in found.folders.items()}
        self.missing = found.missing_roots
        self.unreadable = {path for path, _ in found.unreadable}
        self.again = found.again
        self._choose_warm([(file.mtime_ns, file.path) for file in found.files])
        self._left = []
        return Walk(found, changed, has_gone, time.thread_time() - began)

    def _is_unchanged(self) -> bool:
        """True when every folder holds what it held. Half of what a scan costs, and the usual."""
        files = folders = 0
        if any(os.path.lexists(root) for root in self.missing):
            return False
        for folder in self.folders:
            folders += 1
            try:
                with os.scandir(folder) as entries:
                    for entry in entries:
                        if entry.is_dir(follow_symlinks=False):
                            if entry.path not in self.folders and entry.path not in self.again:
                                return False
                        elif entry.name.endswith(SUFFIX) and entry.is_file(follow_symlinks=False):
                            if self.seen.get(entry.path) == _stamp(
                                entry.stat(follow_symlinks=False)
                            ):
                                files += 1
                            elif entry.name != JOURNAL:
                                return False
            except OSError:
                return False
        return files == len(self.seen) and folders == len(self.folders)

    def look_at_hot(self) -> list[FoundFile]:
        """Files that grew lately."""
        now = time.monotonic()
        for path in [p for p, at in self.hot.items() if now - at > HOT_SECONDS]:
            del self.hot[path]
            self.warm[path] = None
        return self.look_at_paths(list(self.hot))

    def look_at_warm(self) -> list[FoundFile]:
        """Files that changed within a day, and folders that something came to."""
        self.needs_walk = self.needs_walk or any(map(self._is_readable_again, self.unreadable))
        return [*self.look_at_paths(self.warm), *self.look_at_folders()]

    @property
    def has_round_ended(self) -> bool:
        """True when every file has been looked at since the last time that it was."""
        return not self._left

    def look_at_part(self) -> list[FoundFile]:
        """The next part of all files; ROUND_PARTS calls, and each has been looked at."""
        if not self._left:
            self._left, self._lately = list(self.seen), []
            self._part = -(-len(self._left) // ROUND_PARTS)
        part, self._left = self._left[: self._part], self._left[self._part :]
        changed = self.look_at_paths(part, self._lately)
        if not self._left:
            self._choose_warm(self._lately)
        return changed

    def look_at_paths(
        self, paths: Iterable[str], times: list[tuple[int, str]] | None = None
    ) -> list[FoundFile]:
        """Those of these files that have changed; all their times are added to `times`."""
        now = time.monotonic()
        changed = []
        for path in paths:
            try:
                there = os.lstat(path)
                if times is not None:
                    times.append((there.st_mtime_ns, path))
                if self.seen.get(path) == _stamp(there):
                    continue
                root = self._root_of(path)
                file = None if root is None else look_at(path, root)
            except OSError:
                self.needs_walk = self.needs_walk or path in self.seen
                continue
            if file is not None and self._note(file, now):
                changed.append(file)
        return changed

    def look_again_at(self, paths: Iterable[str]) -> list[FoundFile]:
        """Those of these files that are there, changed or not."""
        paths = list(paths)
        self.seen.update((path, UNREAD) for path in paths if path in self.seen)
        return self.look_at_paths(paths)

    def _is_readable_again(self, path: str) -> bool:
        """Ask for what could not be read: no time of a folder changes with its mode."""
        try:
            if path in self.roots or stat.S_ISDIR(os.lstat(path).st_mode):
                os.scandir(path).close()
        except OSError:
            return False
        return True

    def look_at_folders(self) -> list[FoundFile]:
        """New files, by the times of their folders."""
        changed: list[FoundFile] = []
        for path, before in list(self.folders.items()):
            try:
                mtime = os.stat(path, follow_symlinks=path in self.roots).st_mtime_ns
            except OSError:
                self.needs_walk = True
                continue
            if mtime != before:
                changed += self._list(path, _settled(mtime))
        return changed

    def look_below(self, folders: Iterable[str]) -> list[FoundFile]:
        """Everything below new folders."""
        changed: list[FoundFile] = []
        for path in folders:
            if not os.path.islink(path):
                changed += self._list(path, 0)
        return changed

    def _list(self, folder: str, mtime: int) -> list[FoundFile]:
        """Changed files in a folder, and in folders below it that are new."""
        root = self._root_of(folder)
        if root is None:
            return []
        found = Scan()
        try:
            inner = look_into(folder, root, found)
        except OSError as error:
            self.folders.pop(folder, None)
            if not isinstance(error, FileNotFoundError):
                self.unreadable.add(folder)
            return []
        self.folders[folder] = mtime
        now = time.monotonic()
        changed = [file for file in found.files if self._note(file, now)]
        for path in inner:
            if path not in self.folders and path not in self.again:
                changed += self._list(path, 0)
        return changed

    def _note(self, file: FoundFile, now: float, *, heat: bool = True) -> bool:
        stamp = hash((file.dev, file.ino, file.size, file.mtime_ns, file.ctime_ns))  # as _stamp
        if self.seen.get(file.path) == stamp:
            return False
        self.seen[file.path] = stamp
        if heat:
            self.hot[file.path] = now
        return True

    def _root_of(self, path: str) -> str | None:
        """Whose a path is; None when it is nobody's, or another name of a path that is."""
        for root in self.roots:
            if root not in self.again and _is_at_or_below(path, root):
                below = (name for name in self.again if not _is_at_or_below(root, name))
                return None if any(_is_at_or_below(path, name) for name in below) else root
        return None

    def _choose_warm(self, times: list[tuple[int, str]]) -> None:
        since = time.time_ns() - int(WARM_SECONDS * 1e9)
        lately = sorted((one for one in times if one[0] > since), reverse=True)
        self.warm = dict.fromkeys(path for _, path in lately[:MAX_WARM])


def _is_at_or_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _stamp(found: os.stat_result) -> int:
    return hash(numbers_of(found))


def _settled(mtime: int) -> int:
    """Return a folder's time; 0 when it is so new that another change may have the same."""
    return 0 if time.time_ns() - mtime < SETTLED_NS else mtime
