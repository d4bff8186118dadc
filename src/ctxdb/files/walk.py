"""Find the files below some roots that have changed since they were last looked at.

This is the only code that walks folders: `ctxdb sync`, the check for new lines before a query and
the daemon all use it. It looks at every file by stat, at any depth. A file whose stat is as known
costs nothing more, neither time nor memory, so that 200,000 unchanged files stay cheap. This module
also loads fast, because a query waits for it.

Symbolic links below a root are never followed: a link to ``.`` would not end, and a link out of the
root would read what was not asked for. A root itself may be a link, because its owner named it.
Nothing is opened here, so a FIFO called ``x.jsonl`` cannot block.

What a scan did *not* see is as important as what it saw. A file has vanished only if the folder it
was in was really listed. ``covers`` answers that.
"""

from __future__ import annotations

import os
import re
import stat
import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Numbers = tuple[int, int, int, int, int]  # dev, ino, size, mtime_ns, ctime_ns: see numbers_of
    KnownStats = dict[str, bytes | None]  # by path, see pack; None: to be looked at in any case
    IsWanted = Callable[[str], bool]  # by file name
    LookUp = Callable[[str, None], bytes | None]  # KnownStats.get or .pop

_LARGEST = 2**63 - 1
_FIVE_NUMBERS = struct.Struct("<5q")

# What has to be escaped in a path before it can be put into a TEXT column and be read back: bytes
# that are not UTF-8 (surrogateescape puts them at U+DC80..DCFF), control characters, and a
# backslash that would make the name look as if it had been escaped.
_TO_ESCAPE = re.compile(r"[\x00-\x1f\x7f\udc80-\udcff]|\\(?=x[0-9a-f]{2})")

_KINDS = (
    (stat.S_ISFIFO, "fifo"),
    (stat.S_ISSOCK, "socket"),
    (stat.S_ISBLK, "block device"),
    (stat.S_ISCHR, "character device"),
)


class FoundFile(NamedTuple):
    """One file and what ``lstat`` said about it."""

    path: str  # os.fsdecode'd: may hold surrogate escapes, see store_path
    root: str
    dev: int
    ino: int
    size: int
    mtime_ns: int
    ctime_ns: int

    @property
    def numbers(self) -> Numbers:
        """The last five fields, as numbers_of returns them."""
        return self.dev, self.ino, self.size, self.mtime_ns, self.ctime_ns

    @property
    def stat(self) -> bytes:
        """The last five fields, as pack_stat returns them."""
        return pack(self.numbers)


class Folder(NamedTuple):
    """A folder inside a listed one."""

    path: str
    identity: tuple[int, int]  # st_dev, st_ino
    mtime_ns: int


class Scan:
    """What one walk saw and what it did not see. Paths are absolute, roots are not resolved."""

    def __init__(self, roots: Iterable[str] = ()) -> None:
        self.roots = list(dict.fromkeys(map(os.path.abspath, roots)))  # missing ones too
        self.files: list[FoundFile] = []  # that are not as they are known, in no order
        self.unchanged = 0  # number of files that are as they are known
        self.gone: Mapping[str, bytes | None] = {}  # known paths at which there is no file
        self.unreadable: list[tuple[str, str]] = []  # folder or file, reason
        self.ignored: list[tuple[str, str]] = []  # symlinks, fifos ... and why
        self.missing_roots: list[str] = []
        self.empty_roots: dict[str, int] = {}  # root without any entry -> its st_dev
        self.unseen: set[str] = set()  # paths at or below which nothing is known
        self.folders: dict[str, int] = {}  # each folder walked -> its st_mtime_ns
        self.again: set[str] = set()  # folders and roots that were walked under another name


def scan(roots: Iterable[str], is_wanted: IsWanted, known: KnownStats | None = None) -> Scan:
    """Walk all roots, and return the wanted files that are not as they are known.

    Every known path that is found is removed from ``known``; what remains is ``Scan.gone``. Each
    file comes once however the roots overlap, and belongs to the outermost root that holds it.
    """
    known = {} if known is None else known
    found = Scan(roots)
    walked: set[tuple[int, int]] = set()
    # Outermost first, so that the order in which roots are named changes nothing.
    for root in sorted(found.roots, key=_depth_of_real_path):
        _walk_root(root, is_wanted, known.pop, found, walked)
    found.gone = known
    found.unseen.update(found.missing_roots)
    found.unseen.update(path for path, _ in found.unreadable)
    return found


def list_folder(
    folder: str, root: str, is_wanted: IsWanted, look_up: LookUp, found: Scan
) -> list[Folder]:
    """Add the wanted files directly in one folder to a scan, and return the folders in it.

    Files that are as ``look_up`` says are only counted. Raises OSError when the folder cannot be
    listed.
    """
    folders: list[Folder] = []
    unchanged = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                if is_wanted(entry.name) and entry.is_file(follow_symlinks=False):
                    info = entry.stat(follow_symlinks=False)
                    path = entry.path
                    if look_up(path, None) == pack_stat(info):
                        unchanged += 1
                    else:
                        found.files.append(FoundFile(path, root, *numbers_of(info)))
                elif entry.is_dir(follow_symlinks=False):
                    info = entry.stat(follow_symlinks=False)
                    identity = (info.st_dev, info.st_ino)
                    folders.append(Folder(entry.path, identity, info.st_mtime_ns))
                else:
                    _pass_over(entry, is_wanted, found)
            except FileNotFoundError:
                continue  # removed during the walk
            except OSError as error:
                found.unreadable.append((entry.path, _reason(error)))
    found.unchanged += unchanged
    return folders


def look_at(path: str) -> bytes | None:
    """The packed stat of a regular file, else None. Raises OSError as `os.lstat` does."""
    info = os.lstat(path)
    return pack_stat(info) if stat.S_ISREG(info.st_mode) else None


def numbers_of(info: os.stat_result) -> Numbers:
    """Device, inode, size, mtime and ctime of a file, each as SQLite can hold it.

    Some file systems use all 64 bits of an inode, and a wrong clock can date a file 2400. A number
    that is too large is wrapped around, which still tells one file from another.
    """
    numbers = (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)
    if max(numbers) <= _LARGEST and min(numbers) >= -_LARGEST:
        return numbers
    dev, ino, size, mtime, ctime = map(_wrapped, numbers)
    return dev, ino, size, mtime, ctime


def _wrapped(number: int) -> int:
    return number if abs(number) <= _LARGEST else number % (_LARGEST + 1) - _LARGEST - 1


def pack(numbers: Numbers) -> bytes:
    """Five numbers in one value: 200,000 of these load and compare in half the time."""
    return _FIVE_NUMBERS.pack(*numbers)


def pack_stat(info: os.stat_result) -> bytes:
    """What `numbers_of` returns, packed."""
    try:
        return _FIVE_NUMBERS.pack(
            info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns
        )
    except struct.error:  # a number is too large
        return pack(numbers_of(info))


def unpack(packed: bytes | None) -> Numbers:
    """What was packed; zeros for a file that was never read, or if the value is damaged."""
    if not isinstance(packed, bytes) or len(packed) != _FIVE_NUMBERS.size:
        return 0, 0, 0, 0, 0
    dev, ino, size, mtime, ctime = _FIVE_NUMBERS.unpack(packed)
    return dev, ino, size, mtime, ctime


def covers(scan: Scan, path: str, dev: int | None = None) -> bool:
    """True when the scan would have seen ``path`` if it were there.

    False below anything unreadable, a missing root, a symlink, or outside all roots: such a path
    must not be taken for vanished. ``dev`` is the device the file was last seen on. With it, a root
    that is now empty *and* on another device counts as unmounted, not as emptied.
    """
    at = path
    inside = False
    while True:
        if at in scan.unseen:
            return False
        if at in scan.roots:
            inside = True
            if dev is not None and scan.empty_roots.get(at, dev) != dev:
                return False
        parent = os.path.dirname(at)
        if parent == at:
            return inside
        at = parent


def store_path(path: str) -> tuple[str, bytes | None]:
    """Text for the ``path`` column, and the raw bytes where the text alone cannot open the file."""
    text = text_of(path)
    return (text, None) if text == path else (text, os.fsencode(path))


def text_of(path: str) -> str:
    r"""Text that a TEXT column can hold, for a path or a part of one.

    Bytes that are not UTF-8 and control characters are written ``\xNN``. Two different paths never
    give the same text: a name that already holds ``\xNN`` has that backslash escaped as well.
    """
    return _TO_ESCAPE.sub(_escape, path)


def _escape(match: re.Match[str]) -> str:
    return f"\\x{ord(match[0]) & 0xFF:02x}"


def _depth_of_real_path(root: str) -> tuple[int, str, str]:
    try:
        real = os.path.realpath(root)
    except (OSError, ValueError):
        real = root
    return (real.count(os.sep), real, root)


def _walk_root(
    root: str, is_wanted: IsWanted, look_up: LookUp, found: Scan, walked: set[tuple[int, int]]
) -> None:
    try:
        info = os.stat(root)
        if not stat.S_ISDIR(info.st_mode):
            found.unreadable.append((root, "Not a directory"))
            return
        with os.scandir(root) as entries:
            if next(entries, None) is None:
                found.empty_roots[root] = info.st_dev
    except (FileNotFoundError, ValueError):  # ValueError: a NUL in the name
        found.missing_roots.append(root)
        return
    except OSError as error:
        found.unreadable.append((root, _reason(error)))
        return
    waiting = [Folder(root, (info.st_dev, info.st_ino), info.st_mtime_ns)]
    while waiting:
        folder = waiting.pop()
        # By device and inode, not by name: roots may overlap through a symlinked root.
        if folder.identity in walked:
            if folder.path not in found.folders:
                found.again.add(folder.path)
            continue
        walked.add(folder.identity)
        found.folders[folder.path] = folder.mtime_ns
        try:
            waiting += list_folder(folder.path, root, is_wanted, look_up, found)
        except FileNotFoundError:
            # Removed, renamed or unmounted during the walk: the next walk will know.
            found.unseen.add(folder.path)
        except OSError as error:
            found.unreadable.append((folder.path, _reason(error)))


def _pass_over(entry: os.DirEntry[str], is_wanted: IsWanted, found: Scan) -> None:
    """Note an entry that is neither a wanted file nor a folder."""
    if entry.is_symlink():
        # A file that was moved away and left a link behind has not vanished.
        found.unseen.add(entry.path)
        if is_wanted(entry.name) or _leads_to_folder(entry):
            found.ignored.append((entry.path, "symlink"))
    elif is_wanted(entry.name):
        found.ignored.append((entry.path, _kind(entry.stat(follow_symlinks=False).st_mode)))


def _leads_to_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a loop of links, or a link into a folder that cannot be searched
        return False


def _kind(mode: int) -> str:
    return next((kind for is_kind, kind in _KINDS if is_kind(mode)), "not a regular file")


def _reason(error: OSError) -> str:
    return error.strerror or type(error).__name__
