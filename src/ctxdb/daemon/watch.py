"""Watch the roots for events, and say which roots cannot be watched.

watchdog does the watching. This module makes up for its gaps [watchdog 7.1]: it silently leaves out
a folder beyond the kernel's limit of watches, it gets no more events from a root that is deleted
and made again, it reports lost events only in its log, and it gets no events at all from a root
that is a symbolic link.
"""

from __future__ import annotations

import errno
import logging
import os
import platform
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from watchdog.utils import BaseThread

from ctxdb.daemon.events import CHANGES, FOLDERS, LostEvents, NewRootEvents, RootEvents
from ctxdb.mounts import why_no_events

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from watchdog.observers.api import BaseObserver, ObservedWatch

    from ctxdb.daemon.hints import Hints

STOP_SECONDS = 30.0  # a busy machine may not run its threads for a while
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


def identity_of(path: str) -> Identity | None:
    """Device and inode of the folder that a path leads to; None when there is none."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return (found.st_dev, found.st_ino)


def count_watches() -> int | None:
    """The number of watches that the kernel keeps for this process; None if not known."""
    total = 0
    try:
        for name in os.listdir("/proc/self/fdinfo"):
            with suppress(OSError):
                total += Path("/proc/self/fdinfo", name).read_bytes().count(b"inotify wd:")
    except OSError:
        return None
    return total


class _Watched(NamedTuple):
    """A root that is watched."""

    watch: ObservedWatch
    identity: Identity  # of the folder when the watch began


class _Awaited(NamedTuple):
    """A folder above a missing root, watched for the root to be made."""

    watch: ObservedWatch
    handler: NewRootEvents


class Watcher:
    """Watches the roots that can be watched, and says why others cannot."""

    def __init__(self, roots: Sequence[str], hints: Hints) -> None:
        self.roots = [os.path.abspath(root) for root in roots]
        self.hints = hints
        self.observer: BaseObserver | None = None
        self.watched: dict[str, _Watched] = {}  # by root
        self.awaited: dict[str, _Awaited] = {}  # by root that is not there
        self.reasons: dict[str, str] = {}  # why a root is not watched
        self._log = LostEvents(hints)
        self._hook: Any = None

    # -- starting and stopping -----------------------------------------------------------------

    def arm(self) -> None:
        """Begin to watch all roots; `reasons` then says which cannot be watched."""
        self.reasons = {}
        if self.observer is None:
            self._start()
        for root in self.roots:
            self._arm_root(root)

    def _start(self) -> None:
        from watchdog.observers import Observer

        release = platform.release()
        if release.endswith("-Microsoft"):  # WSL 1; WSL 2 has its own kernel
            self.reasons = dict.fromkeys(self.roots, "WSL 1 does not report all changes")
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
        """Stop watching and end watchdog's threads."""
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
            self.hints.forget_failure()  # its threads may have failed while they ended

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
                RootEvents(root, real, self.hints), real, recursive=True, event_filter=CHANGES
            )
        except FileNotFoundError:
            self._await(root)
        except OSError as e:
            self.reasons[root] = _why(e)
        else:
            self.watched[root] = _Watched(watch, identity)
            self._await_no_more(root)

    def _is_inside_another(self, root: str) -> bool:
        """True for a root inside another one: its events come from the outer root.

        Of two names of one folder the first in alphabetical order counts, as in a scan.
        """
        real = os.path.realpath(root)
        for other in self.roots:
            outer = os.path.realpath(other)
            if real.startswith(outer.rstrip(os.sep) + os.sep) or (real == outer and other < root):
                return True
        return False

    def _await(self, root: str) -> None:
        """Watch the nearest existing folder above, so that a new root is seen at once."""
        if self.observer is None:
            return
        above = os.path.dirname(root)
        while not os.path.isdir(above) and above != os.path.dirname(above):
            above = os.path.dirname(above)
        real = os.path.realpath(above)
        old = self.awaited.get(root)
        if old is not None and old.watch.path == real and identity_of(real):
            return
        self._await_no_more(root)
        handler = NewRootEvents(root, self.hints)
        with suppress(OSError):  # then the root is found by looking
            watch = self.observer.schedule(handler, real, event_filter=FOLDERS)
            self.awaited[root] = _Awaited(watch, handler)

    def _await_no_more(self, root: str) -> None:
        old = self.awaited.pop(root, None)
        if old is None or self.observer is None:
            return
        # Several roots may wait for one folder.
        if any(other.watch == old.watch for other in self.awaited.values()):
            with suppress(KeyError):
                self.observer.remove_handler_for_watch(old.handler, old.watch)
        else:
            self._release(old.watch)

    def _release(self, watch: ObservedWatch) -> None:
        if self.observer is not None:
            with suppress(KeyError, OSError):
                self.observer.unschedule(watch)

    def check_roots(self) -> bool:
        """Look for roots that were made, removed or made again; True when there are any."""
        changed = False
        for root in self.roots:
            identity = identity_of(root)
            held = self.watched.get(root)
            # The thread counts too: a root that is made again may get the inode of the deleted one.
            if held is not None and (
                held.identity != identity
                or not self._brings_events(held.watch)
                or self._is_inside_another(root)
            ):
                del self.watched[root]
                self._release(held.watch)
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
        """The number of folders that the kernel watches for this process; None if not known."""
        return count_watches()

    def has_gaps(self, folders: Iterable[str], count: int) -> bool:
        """True when fewer folders are watched than there are of these below watched roots."""
        tops = tuple(root.rstrip(os.sep) + os.sep for root in self.watched)
        below = sum(1 for path in folders if path in self.watched or path.startswith(tops))
        return count < below

    def note_gaps(self) -> None:
        """Give the kernel's limit as the reason for all roots."""
        for root in list(self.watched):
            self.reasons[root] = LIMITS[errno.ENOSPC]


def _why(error: OSError) -> str:
    return LIMITS.get(error.errno or 0, (error.strerror or str(error)).lower())
