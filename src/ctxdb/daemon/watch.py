"""Events from the file system, as hints: where to look first.

watchdog does the watching. What it cannot be relied on for is looked after here [watchdog 7.1]:
a folder beyond the kernel's limit of watches is left out without a word, a root that is deleted and
made again stays deaf, lost events are only a line in its log, and a root that is a symbolic link
gives no events at all. Only changes are asked for: opening and closing a file would be told as
well, and reading transcripts would wake the reader.
"""

from __future__ import annotations

import errno
import logging
import os
import platform
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from watchdog.events import (
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileAttribEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.utils import BaseThread

from ctxdb.claude.layout import is_transcript
from ctxdb.daemon.mounts import why_no_events

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from watchdog.observers.api import BaseObserver, ObservedWatch

    from ctxdb.daemon.hints import Hints

CHANGES: list[type[FileSystemEvent]] = [
    FileAttribEvent,  # a file that becomes readable again
    FileCreatedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileDeletedEvent,
    DirCreatedEvent,
    DirMovedEvent,
    DirDeletedEvent,
]
FOLDERS: list[type[FileSystemEvent]] = [DirCreatedEvent, DirMovedEvent]
STOP_SECONDS = 5.0
Identity = tuple[int, int]

LIMITS = {
    errno.ENOSPC: (
        "the limit of inotify watches is reached;"
        " raise it: sudo sysctl fs.inotify.max_user_watches=524288"
    ),
    errno.EMFILE: (
        "the limit of inotify instances is reached;"
        " raise it: sudo sysctl fs.inotify.max_user_instances=512"
    ),
}


class _Handler(FileSystemEventHandler):
    """Turns events below one root into hints. Runs in watchdog's thread."""

    def __init__(self, root: str, real: str, hints: Hints) -> None:
        self.root = root
        self.real = real
        self.hints = hints

    def dispatch(self, event: FileSystemEvent) -> None:
        """Note where something happened."""
        try:
            self._note(event)
        except Exception as e:  # noqa: BLE001  (else watchdog's thread would end without a word)
            self.hints.fail(f"{type(e).__name__} while handling an event")

    def _note(self, event: FileSystemEvent) -> None:
        kind = event.event_type
        source = self._path(event.src_path)
        if event.is_directory:
            if kind == "created":
                self.hints.add_folder(source)
            else:
                self.hints.add_gone(source)
                if kind == "moved":
                    self.hints.add_folder(self._path(event.dest_path))
            return
        if is_transcript(os.path.basename(source)):
            if kind in ("moved", "deleted"):
                self.hints.add_gone(source)
            else:
                self.hints.add_file(source)
        if kind == "moved":
            target = self._path(event.dest_path)
            if is_transcript(os.path.basename(target)):
                self.hints.add_file(target)

    def _path(self, path: bytes | str) -> str:
        text = os.fsdecode(path)
        return text if self.real == self.root else self.root + text[len(self.real) :]


class _NewRoot(FileSystemEventHandler):
    """Tells when a root that is not there may have come."""

    def __init__(self, root: str, hints: Hints) -> None:
        self.root = root
        self.hints = hints

    def dispatch(self, _event: FileSystemEvent) -> None:
        """Have the root looked for."""
        self.hints.add_folder(self.root)


class _LostEvents(logging.Handler):
    """watchdog says only in its log that the kernel dropped events."""

    def __init__(self, hints: Hints) -> None:
        super().__init__(logging.WARNING)
        self.hints = hints

    def emit(self, record: logging.LogRecord) -> None:
        """Have everything looked at."""
        if "overflow" in str(record.msg):
            self.hints.overflow()
        elif record.levelno >= logging.ERROR:
            self.hints.fail(f"watchdog: {record.msg}")


def identity_of(path: str) -> Identity | None:
    """Which folder a path leads to; None when to none."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return (found.st_dev, found.st_ino)


def count_watches() -> int | None:
    """How many watches the kernel keeps for this process; None where it does not tell."""
    total = 0
    try:
        for name in os.listdir("/proc/self/fdinfo"):
            with suppress(OSError):
                total += Path("/proc/self/fdinfo", name).read_bytes().count(b"inotify wd:")
    except OSError:
        return None
    return total


class Watcher:
    """Watches the roots that can be watched, and says why others cannot."""

    def __init__(self, roots: Sequence[str], hints: Hints) -> None:
        self.roots = [os.path.abspath(root) for root in roots]
        self.hints = hints
        self.observer: BaseObserver | None = None
        self.watched: dict[str, tuple[ObservedWatch, Identity]] = {}
        self.awaited: dict[str, tuple[ObservedWatch, _NewRoot]] = {}  # roots that are not there
        self.reasons: dict[str, str] = {}  # why a root is not watched
        self._log = _LostEvents(hints)
        self._hook: Any = None

    # -- starting and stopping -----------------------------------------------------------------

    def arm(self) -> None:
        """Begin to watch all roots; what cannot be watched is in `reasons`."""
        self.reasons = {}
        if self.observer is None:
            self._start()
        for root in self.roots:
            self._arm_root(root)

    def _start(self) -> None:
        from watchdog.observers import Observer

        release = platform.release()
        if release.endswith("-Microsoft"):  # WSL 1; WSL 2 has a kernel of its own
            self.reasons = dict.fromkeys(self.roots, "WSL 1 does not tell of all changes")
            return
        logger = logging.getLogger("watchdog")
        logger.addHandler(self._log)
        logger.propagate = False
        self._hook, threading.excepthook = threading.excepthook, self._thread_ended
        try:
            self.observer = Observer()
            self.observer.start()
        except OSError as e:
            self._stop()
            self.reasons = dict.fromkeys(self.roots, _why(e))

    def disarm(self) -> None:
        """Stop watching: its threads end."""
        self._stop()
        self.reasons = {}

    def _stop(self) -> None:
        observer, self.observer = self.observer, None
        self.watched, self.awaited = {}, {}
        if observer is not None and observer.is_alive():
            observer.stop()
            observer.join(STOP_SECONDS)
        if self._hook is not None:
            threading.excepthook, self._hook = self._hook, None
            logging.getLogger("watchdog").removeHandler(self._log)
            self.hints.forget_failure()  # what its threads said while they ended

    def _thread_ended(self, args: threading.ExceptHookArgs) -> None:
        if isinstance(args.thread, BaseThread):
            self.hints.fail(f"{args.exc_type.__name__} in a watching thread")
        elif self._hook is not None:
            self._hook(args)

    # -- roots ---------------------------------------------------------------------------------

    def _arm_root(self, root: str) -> None:
        if self.observer is None or root in self.watched or self._is_inside_another(root):
            return
        identity = identity_of(root)
        if identity is None:
            self._await(root)
            return
        if why := why_no_events(root):
            self.reasons[root] = why
            return
        real = os.path.realpath(root)
        try:
            watch = self.observer.schedule(
                _Handler(root, real, self.hints), real, recursive=True, event_filter=CHANGES
            )
        except FileNotFoundError:
            self._await(root)
        except OSError as e:
            self.reasons[root] = _why(e)
        else:
            self.watched[root] = (watch, identity)
            self._await_no_more(root)

    def _is_inside_another(self, root: str) -> bool:
        """An overlapped root needs no events of its own: its files are the outer root's.

        Of two names of one folder the first by the alphabet counts, as in a scan.
        """
        real = os.path.realpath(root)
        for other in self.roots:
            outer = os.path.realpath(other)
            if real.startswith(outer.rstrip(os.sep) + os.sep) or (real == outer and other < root):
                return True
        return False

    def _await(self, root: str) -> None:
        """Watch the nearest folder that is there, so that a new root is seen at once."""
        if self.observer is None:
            return
        above = os.path.dirname(root)
        while not os.path.isdir(above) and above != os.path.dirname(above):
            above = os.path.dirname(above)
        real = os.path.realpath(above)
        old = self.awaited.get(root)
        if old is not None and old[0].path == real and identity_of(real):
            return
        self._await_no_more(root)
        handler = _NewRoot(root, self.hints)
        with suppress(OSError):  # then it is seen by looking
            watch = self.observer.schedule(handler, real, event_filter=FOLDERS)
            self.awaited[root] = (watch, handler)

    def _await_no_more(self, root: str) -> None:
        watch, handler = self.awaited.pop(root, (None, None))
        if watch is None or handler is None or self.observer is None:
            return
        if any(other == watch for other, _ in self.awaited.values()):  # one folder, several roots
            with suppress(KeyError):
                self.observer.remove_handler_for_watch(handler, watch)
        else:
            self._release(watch)

    def _release(self, watch: ObservedWatch) -> None:
        if self.observer is not None:
            with suppress(KeyError, OSError):
                self.observer.unschedule(watch)

    def check_roots(self) -> bool:
        """Look for roots that have come, gone or been made again; True when any has."""
        changed = False
        for root in self.roots:
            identity = identity_of(root)
            held = self.watched.get(root)
            # By its thread too: a root that is made again may get the inode of the deleted one.
            if held is not None and (
                held[1] != identity
                or not self._brings_events(held[0])
                or self._is_inside_another(root)
            ):
                self._release(self.watched.pop(root)[0])
                held = None
                changed = True
            if held is None and root not in self.reasons:
                self._arm_root(root)
                changed = changed or root in self.watched or root in self.reasons
        return changed

    def _brings_events(self, watch: ObservedWatch) -> bool:
        emitters = () if self.observer is None else self.observer.emitters
        return any(one.is_alive() for one in emitters if one.watch == watch)

    # -- trust ---------------------------------------------------------------------------------

    @property
    def is_alive(self) -> bool:
        """False when a thread that should bring events has ended."""
        observer = self.observer
        if observer is None:
            return False
        return observer.is_alive() and all(
            emitter.is_alive() for emitter in observer.emitters if emitter.watch.is_recursive
        )

    def count(self) -> int | None:
        """How many folders the kernel watches for this process; None where it does not tell."""
        return count_watches()

    def has_gaps(self, folders: Iterable[str], count: int) -> bool:
        """True when fewer folders are watched than these that are below watched roots."""
        tops = tuple(root.rstrip(os.sep) + os.sep for root in self.watched)
        below = sum(1 for path in folders if path in self.watched or path.startswith(tops))
        return count < below

    def note_gaps(self) -> None:
        """The kernel's limit was reached below a root: say so for all of them."""
        for root in list(self.watched):
            self.reasons[root] = LIMITS[errno.ENOSPC]


def _why(error: OSError) -> str:
    return LIMITS.get(error.errno or 0, (error.strerror or str(error)).lower())
