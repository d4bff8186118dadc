"""Find every transcript below the roots, and say what could not be looked at.

The walk is a plain stat walk, any depth, because the layout has changed five times and will change
again: every regular file that ends in ``.jsonl`` is a transcript, except a workflow's
``journal.jsonl``. Symbolic links below a root are never followed (a link to ``.`` would not end, a
link out of the root would read what nobody asked for); a root itself may be a link, since its owner
named it. Nothing is opened here, so a FIFO called ``x.jsonl`` cannot block.

What a scan did *not* see is as important as what it saw: a file may be called vanished only when
the folder it stood in was really listed. ``covers`` answers that.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_LARGEST = 2**63 - 1
SUFFIX = ".jsonl"
JOURNAL = "journal.jsonl"  # a workflow's own log: started/result records, no conversation
AGENT_PREFIXES = ("agent-", "agent_")
WORKFLOW_PREFIX = "wf_"

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)

# What has to be escaped in a path before it can stand in a TEXT column and be read back: bytes that
# are no UTF-8 (surrogateescape puts them at U+DC80..DCFF), control characters, and a backslash that
# would make the name look as if it had been escaped.
_TO_ESCAPE = re.compile(r"[\x00-\x1f\x7f\udc80-\udcff]|\\(?=x[0-9a-f]{2})")

_KINDS = (
    (stat.S_ISFIFO, "fifo"),
    (stat.S_ISSOCK, "socket"),
    (stat.S_ISBLK, "block device"),
    (stat.S_ISCHR, "character device"),
)


@dataclass(frozen=True, slots=True)
class FoundFile:
    """One transcript and what ``lstat`` said about it."""

    path: str  # os.fsdecode'd: may hold surrogate escapes, see store_path
    root: str
    dev: int
    ino: int
    size: int
    mtime_ns: int
    ctime_ns: int

    @property
    def numbers(self) -> tuple[int, int, int, int, int]:
        """As numbers_of gives them."""
        return self.dev, self.ino, self.size, self.mtime_ns, self.ctime_ns


@dataclass(frozen=True, slots=True)
class Role:
    """What a transcript's place and name say about it, before a line of it is read."""

    session_id: str | None  # a uuid file name, or the uuid folder an agent's file is in
    agent_id: str | None  # the <id> of agent-<id>.jsonl or agent_<id>.jsonl
    workflow_run: str | None  # the name of the wf_... folder


@dataclass(slots=True)
class Scan:
    """All that one walk saw and did not see. Paths are absolute, roots as given (not resolved)."""

    files: list[FoundFile] = field(default_factory=list)
    unreadable: list[tuple[str, str]] = field(default_factory=list)  # folder or file, reason
    ignored: list[tuple[str, str]] = field(default_factory=list)  # symlinks, fifos ... and why
    missing_roots: list[str] = field(default_factory=list)
    roots: list[str] = field(default_factory=list)  # every root asked for, missing ones too
    empty_roots: dict[str, int] = field(default_factory=dict)  # root without any entry -> st_dev
    unseen: set[str] = field(default_factory=set)  # paths at or below which nothing is known
    folders: dict[str, int] = field(default_factory=dict)  # each folder walked -> its st_mtime_ns
    again: set[str] = field(default_factory=set)  # folders and roots walked under another name


def scan(roots: Sequence[str]) -> Scan:
    """Walk all roots; each file comes once however the roots overlap.

    Files come by project folder, main transcripts before agents' (so that sessions are known before
    their agents), then by path. An overlapped file belongs to the outermost root.
    """
    found = Scan(roots=list(dict.fromkeys(os.path.abspath(root) for root in roots)))
    seen: set[tuple[int, int]] = set()
    # Outermost first, so that the order in which roots are named changes nothing.
    for root in sorted(found.roots, key=_depth_of_real_path):
        _walk_root(root, found, seen)
    found.files.sort(key=_reading_order)
    found.unseen.update(found.missing_roots)
    found.unseen.update(path for path, _ in found.unreadable)
    return found


def look_into(folder: str, root: str, found: Scan) -> list[str]:
    """Add what is directly in one folder to a scan, and return the folders in it.

    Raises OSError when the folder cannot be listed.
    """
    with os.scandir(folder) as entries:
        return [path for path, _, _ in _take(entries, root, found)]


def look_at(path: str, root: str) -> FoundFile | None:
    """One transcript by its path; None when there is none. Raises OSError as `os.lstat` does."""
    name = os.path.basename(path)
    if not name.endswith(SUFFIX) or name == JOURNAL:
        return None
    try:
        info = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not stat.S_ISREG(info.st_mode):
        return None
    return FoundFile(path, root, *numbers_of(info))


def numbers_of(info: os.stat_result) -> tuple[int, int, int, int, int]:
    """Device, inode, size, mtime and ctime of a file, each as SQLite can hold it.

    Some file systems use all 64 bits of an inode, and a wrong clock can date a file 2400: what is
    too large is turned over, which tells one file from another as well.
    """
    numbers = (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)
    if max(numbers) <= _LARGEST and min(numbers) >= -_LARGEST:
        return numbers
    dev, ino, size, mtime, ctime = map(_turned, numbers)
    return dev, ino, size, mtime, ctime


def _turned(number: int) -> int:
    return number if abs(number) <= _LARGEST else number % (_LARGEST + 1) - _LARGEST - 1


def covers(scan: Scan, path: str, dev: int | None = None) -> bool:
    """True when the scan would have seen ``path`` if it were there.

    False below anything unreadable, a missing root, a symlink, or outside all roots: such a path
    must not be taken for vanished. ``dev`` is the device the file was last seen on; with it, a root
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


def role_of(path: str, root: str) -> Role:
    """Read a transcript's role off its place below ``root``; pure, the disk is not asked."""
    root = root.rstrip(os.sep)
    folders = path[len(root) :].strip(os.sep).split(os.sep)
    stem = folders.pop().removesuffix(SUFFIX)
    agent = stem[len(AGENT_PREFIXES[0]) :] if stem.startswith(AGENT_PREFIXES) else ""
    session: str | None = None
    run: str | None = None
    if agent:
        for folder in reversed(folders):
            if run is None and folder.startswith(WORKFLOW_PREFIX):
                run = folder
            if _UUID.fullmatch(folder):
                session = folder
                break
    elif _UUID.fullmatch(stem):
        session = stem
    return Role(
        session_id=session,
        agent_id=_text(agent) if agent else None,
        workflow_run=_text(run) if run else None,
    )


def store_path(path: str) -> tuple[str, bytes | None]:
    r"""Text for the ``path`` column, and the raw bytes where the text alone cannot open the file.

    Bytes that are no UTF-8 and control characters are written ``\xNN``. Two different paths never
    give the same text: a name that already holds ``\xNN`` has that backslash escaped as well.
    """
    text = _text(path)
    return (text, None) if text == path else (text, os.fsencode(path))


def _text(name: str) -> str:
    return _TO_ESCAPE.sub(_escape, name)


def _escape(match: re.Match[str]) -> str:
    return f"\\x{ord(match[0]) & 0xFF:02x}"


def _depth_of_real_path(root: str) -> tuple[int, str, str]:
    try:
        real = os.path.realpath(root)
    except (OSError, ValueError):
        real = root
    return (real.count(os.sep), real, root)


def _reading_order(file: FoundFile) -> tuple[str, bool, str]:
    below = file.path[len(file.root) :].lstrip(os.sep)
    project, slash, _ = below.partition(os.sep)
    name = file.path[file.path.rfind(os.sep) + 1 :]
    return (project if slash else "", name.startswith(AGENT_PREFIXES), file.path)


def _walk_root(root: str, found: Scan, seen: set[tuple[int, int]]) -> None:
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
    waiting = [(root, (info.st_dev, info.st_ino), info.st_mtime_ns)]
    while waiting:
        folder, identity, mtime = waiting.pop()
        # By device and inode, not by name: roots may overlap through a symlinked root.
        if identity in seen:
            if folder not in found.folders:
                found.again.add(folder)
            continue
        seen.add(identity)
        found.folders[folder] = mtime
        try:
            with os.scandir(folder) as entries:
                waiting.extend(_take(entries, root, found))
        except FileNotFoundError:
            # Removed, renamed or unmounted while we walked: the next walk will know.
            found.unseen.add(folder)
        except OSError as error:
            found.unreadable.append((folder, _reason(error)))


def _take(
    entries: Iterator[os.DirEntry[str]], root: str, found: Scan
) -> Iterator[tuple[str, tuple[int, int], int]]:
    """Sort one folder's entries into files and what is ignored; yield its folders."""
    for entry in entries:
        name = entry.name
        named_so = name.endswith(SUFFIX)
        try:
            if entry.is_dir(follow_symlinks=False):
                info = entry.stat(follow_symlinks=False)
                yield entry.path, (info.st_dev, info.st_ino), info.st_mtime_ns
            elif entry.is_symlink():
                # What was moved away and left a link behind has not vanished.
                found.unseen.add(entry.path)
                if named_so or _leads_to_folder(entry):
                    found.ignored.append((entry.path, "symlink"))
            elif named_so and name != JOURNAL:
                info = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(info.st_mode):
                    found.files.append(FoundFile(entry.path, root, *numbers_of(info)))
                else:
                    found.ignored.append((entry.path, _kind(info.st_mode)))
        except FileNotFoundError:
            continue  # removed while we walked
        except OSError as error:
            found.unreadable.append((entry.path, _reason(error)))


def _leads_to_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a loop of links, or a link into a folder we may not search
        return False


def _kind(mode: int) -> str:
    return next((kind for is_kind, kind in _KINDS if is_kind(mode)), "not a regular file")


def _reason(error: OSError) -> str:
    return error.strerror or type(error).__name__
