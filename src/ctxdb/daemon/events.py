"""Turn watchdog's events, and some lines of its log, into hints."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

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

from ctxdb.claude.layout import is_transcript

if TYPE_CHECKING:
    from ctxdb.daemon.hints import Hints

# Not opening and closing a file: the daemon's own reading would wake it.
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


class RootEvents(FileSystemEventHandler):
    """Makes hints of the events below one root. Runs in watchdog's thread."""

    def __init__(self, root: str, real: str, hints: Hints) -> None:
        self.root = root
        self.real = real
        self.hints = hints

    def dispatch(self, event: FileSystemEvent) -> None:
        """Note where something happened."""
        try:
            self._note(event)
        except Exception as e:  # noqa: BLE001  (else watchdog's thread would end silently)
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


class NewRootEvents(FileSystemEventHandler):
    """Makes a hint when a missing root may have been made."""

    def __init__(self, root: str, hints: Hints) -> None:
        self.root = root
        self.hints = hints

    def dispatch(self, _event: FileSystemEvent) -> None:
        """Have the root looked at."""
        self.hints.add_folder(self.root)


class LostEvents(logging.Handler):
    """Reads watchdog's log: only there it says that the kernel dropped events."""

    def __init__(self, hints: Hints) -> None:
        super().__init__(logging.WARNING)
        self.hints = hints

    def emit(self, record: logging.LogRecord) -> None:
        """Have everything looked at."""
        if "overflow" in str(record.msg):
            self.hints.overflow()
        elif record.levelno >= logging.ERROR:
            self.hints.fail(f"watchdog: {record.msg}")
