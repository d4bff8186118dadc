"""Looking at files by stat: the truth that events only hint at.

Files that grew lately are looked at often, the rest seldom: a walk over 10,000 files costs more
than an idle daemon may use in a minute. So where events arrive, there is no walk unless something
is found missing. Instead all folders are checked for changes, and the files are gone through in
rounds, a part at a time. What is remembered of a file is how it looked when it was last handed on.
Whether there is something to read is for the slice to say. If a folder can be reached under two
names, only the name under which a walk reached it counts.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ctxdb.claude.layout import is_transcript
from ctxdb.files.walk import FoundFile, Scan, list_folder, look_at, scan, unpack

if TYPE_CHECKING:
    from ctxdb.files.walk import KnownStats

HOT_SECONDS = 300.0  # a file that changed so lately is looked at every second or two
WARM_SECONDS = 86_400.0  # a file that changed so lately is looked at with every tick
MAX_WARM = 1000
ROUND_PARTS = 10  # number of ticks until every file has been looked at
SETTLED_NS = 2_000_000_000  # a folder may change twice within one tick of the file system's clock


@dataclass(slots=True)
class Rescan:
    """How every file looked when it was last handed on."""

    roots: Sequence[str]
    seen: KnownStats = field(default_factory=dict)
    hot: dict[str, float] = field(default_factory=dict)  # path -> last change
    warm: dict[str, None] = field(default_factory=dict)
    folders: dict[str, int] = field(default_factory=dict)  # path -> mtime; 0: list it again
    unreadable: set[str] = field(default_factory=set)
    again: set[str] = field(default_factory=set)  # other names of folders and roots
    needs_walk: bool = False  # something is not where it was, and only a walk can say what
    walk_seconds: float = 0.0  # processor time of the last walk
    _left: list[str] = field(default_factory=list)  # of this round
    _part: int = 0

    def __post_init__(self) -> None:
        # An overlapped file belongs to the outermost root, as in a scan.
        self.roots = sorted(dict.fromkeys(map(os.path.abspath, self.roots)), key=len)

    def walk(self, known: KnownStats | None = None) -> Scan:
        """Look at everything, and return what is not as it was seen.

        With `known` the result is what is not as the database knows it.
        """
        began = time.thread_time()
        self.needs_walk = False
        heat = known is None and bool(self.seen)
        if known is not None:
            self.seen = known
        found = scan(self.roots, is_transcript, dict(self.seen))
        now = time.monotonic()
        for file in found.files:
            self._note(file, now, heat=heat)
        for path in found.gone:
            del self.seen[path]
            self.hot.pop(path, None)
        self.folders = {path: _settled(mtime) for path, mtime in found.folders.items()}
        self.unreadable = {path for path, _ in found.unreadable}
        self.again = found.again
        self._choose_warm()
        self._left = []
        self.walk_seconds = time.thread_time() - began
        return found

    def look_at_hot(self) -> list[FoundFile]:
        """Files that grew lately."""
        now = time.monotonic()
        for path in [p for p, at in self.hot.items() if now - at > HOT_SECONDS]:
            del self.hot[path]
            self.warm[path] = None
        return self.look_at_paths(list(self.hot))

    def look_at_warm(self) -> list[FoundFile]:
        """Files that changed within a day, and new files in folders that have changed."""
        self.needs_walk = self.needs_walk or any(map(self._is_readable_again, self.unreadable))
        return [*self.look_at_paths(self.warm), *self.look_at_folders()]

    @property
    def has_round_ended(self) -> bool:
        """True when every file has been looked at since the round began."""
        return not self._left

    def look_at_part(self) -> list[FoundFile]:
        """The next part of all files. ROUND_PARTS calls look at each file once."""
        if not self._left:
            self._left = list(self.seen)
            self._part = -(-len(self._left) // ROUND_PARTS)
        part, self._left = self._left[: self._part], self._left[self._part :]
        changed = self.look_at_paths(part)
        if not self._left:
            self._choose_warm()
        return changed

    def look_at_paths(self, paths: Iterable[str]) -> list[FoundFile]:
        """Those of these files that have changed."""
        now = time.monotonic()
        changed = []
        for path in paths:
            try:
                packed = look_at(path)
            except OSError:
                packed = None
            if packed is None:
                self.needs_walk = self.needs_walk or path in self.seen
                continue
            if self.seen.get(path) == packed or not is_transcript(os.path.basename(path)):
                continue
            root = self._root_of(path)
            if root is not None:
                file = FoundFile(path, root, *unpack(packed))
                self._note(file, now)
                changed.append(file)
        return changed

    def look_again_at(self, paths: Iterable[str]) -> list[FoundFile]:
        """Those of these files that are there, changed or not."""
        paths = list(paths)
        self.seen.update((path, None) for path in paths if path in self.seen)
        return self.look_at_paths(paths)

    def _is_readable_again(self, path: str) -> bool:
        """Try what could not be read: a change of mode does not change a folder's mtime."""
        try:
            if path in self.roots or stat.S_ISDIR(os.lstat(path).st_mode):
                os.scandir(path).close()
        except OSError:
            return False
        return True

    def look_at_folders(self) -> list[FoundFile]:
        """New files, by the mtimes of their folders."""
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

    def _list(self, top: str, mtime: int) -> list[FoundFile]:
        """Changed files in a folder, and in folders below it that are new."""
        root = self._root_of(top)
        if root is None:
            return []
        found = Scan()
        waiting = [(top, mtime)]
        while waiting:
            folder, mtime = waiting.pop()
            try:
                inner = list_folder(folder, root, is_transcript, self.seen.get, found)
            except OSError as error:
                self.folders.pop(folder, None)
                if not isinstance(error, FileNotFoundError):
                    self.unreadable.add(folder)
                continue
            self.folders[folder] = mtime
            new = (one.path for one in inner if one.path not in self.folders)
            waiting += [(path, 0) for path in new if path not in self.again]
        now = time.monotonic()
        for file in found.files:
            self._note(file, now)
        return found.files

    def _note(self, file: FoundFile, now: float, *, heat: bool = True) -> None:
        self.seen[file.path] = file.stat
        if heat:
            self.hot[file.path] = now

    def _root_of(self, path: str) -> str | None:
        """The root that holds a path; None for none, and for another name of a walked folder."""
        for root in self.roots:
            if root not in self.again and _is_at_or_below(path, root):
                below = (name for name in self.again if not _is_at_or_below(root, name))
                return None if any(_is_at_or_below(path, name) for name in below) else root
        return None

    def _choose_warm(self) -> None:
        """The files that changed within a day; if they are many, those that changed last."""
        since = time.time_ns() - int(WARM_SECONDS * 1e9)
        lately = []
        for path, packed in self.seen.items():
            _, _, _, mtime_ns, _ = unpack(packed)
            if mtime_ns > since:
                lately.append((mtime_ns, path))
        lately.sort(reverse=True)
        self.warm = dict.fromkeys(path for _, path in lately[:MAX_WARM])


def _is_at_or_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _settled(mtime: int) -> int:
    """A folder's mtime; 0 when it is so new that another change may have the same."""
    return 0 if time.time_ns() - mtime < SETTLED_NS else mtime
