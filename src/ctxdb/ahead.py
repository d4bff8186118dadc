"""Reading ahead in a second process, while the first one writes: the two take about as long.

The second process makes batches of two sorts: rows made ready, most of them, and lines that must go
the general way. Files come in the order they were asked for, except that the general way waits
until it is worth a batch; within a file the order always holds.
"""

from __future__ import annotations

import gc
import marshal
import multiprocessing
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from ctxdb.normalize import Event, Message
from ctxdb.reader import Lines, ReaderDied, pack_lines, read_file, unpack_lines
from ctxdb.ring import Ring
from ctxdb.store.model import Ready, SourceFile, place_line
from ctxdb.store.ready import Names, ReadyFile, Seen
from ctxdb.store.scratch import Scratch, is_possible

AHEAD_BYTES = 12 << 20  # read before they are asked for
MAX_SEEN = 250_000  # names that are remembered: 25 MB

READY, GENERAL, FAILED, LARGE, END = range(5)


@dataclass(frozen=True, slots=True)
class Task:
    """A file to read, and from where on."""

    path: str | bytes
    offset: int
    session_id: str | None
    agent_id: str | None
    is_new: bool  # nothing of it is stored: its rows can be made ready


@dataclass(frozen=True, slots=True)
class Limits:
    """How much makes a batch."""

    bytes: int
    lines: int
    first_bytes: int  # of the first batch: the sooner two processes are at work


class _Pile:
    """Chunks for one batch."""

    def __init__(self) -> None:
        self.chunks: list[tuple[Any, ...]] = []  # task, lines, ready
        self.size = 0
        self.lines = 0

    def add(self, chunk: tuple[Any, ...], found: Lines) -> None:
        self.chunks.append(chunk)
        self.size += found.end - found.start
        self.lines += found.lines


class _Batches:
    """Sorts chunks into batches and sends them."""

    def __init__(self, ring: Ring, limits: Limits) -> None:
        self.ring = ring
        self.limits = limits
        self.enough = limits.first_bytes
        self.seen = Seen()
        self.scratch = Scratch()
        self.ready = _Pile()
        self.general = _Pile()
        self.waiting: set[int] = set()  # tasks with chunks in the general pile
        self.knows_all = True  # no name has been forgotten

    def follower(self, n: int, task: Task) -> ReadyFile | None:
        """Who makes the rows of a file, if that can be done. Files go by their tasks' numbers."""
        if not task.is_new or not is_possible:
            return None
        return ReadyFile(SourceFile(n, "", task.session_id, task.agent_id), self.seen)

    def add(self, n: int, task: Task, follower: ReadyFile | None, found: Lines) -> None:
        """Add the next chunk of a task."""
        ready = None
        if follower is not None:
            chunk = found.chunk(follower.file)
            number = len(self.ready.chunks)
            wanted = n not in self.waiting
            ready = follower.make(chunk, number, self.scratch, wanted=wanted)
        else:
            self._note(n, task, found)
        if ready is not None:
            self.ready.add((n, pack_lines(found, records=False), tuple(ready)), found)
            if self._is_enough(self.ready):
                self.send_ready()
        else:
            self.general.add((n, pack_lines(found), None), found)
            self.waiting.add(n)
            if self._is_enough(self.general):
                self.send_all()
        if len(self.seen) >= MAX_SEEN:
            # What is sent from now on must be compared with what is stored by then.
            self.send_all()
            self.seen.clear()
            self.knows_all = False

    def _note(self, n: int, task: Task, found: Lines) -> None:
        file = SourceFile(n, "", task.session_id, task.agent_id)
        items = [place_line(r, file, "") for r in found.records if isinstance(r, Message)]
        events = [r for r in found.records if isinstance(r, Event)]
        self.seen.note(Names(items, events, file))

    def _is_enough(self, pile: _Pile) -> bool:
        return pile.size >= self.enough or pile.lines >= self.limits.lines

    def send_ready(self) -> None:
        """Send the rows that are ready."""
        if self.ready.chunks:
            self.ring.send(marshal.dumps((READY, self.ready.chunks, self.knows_all)))
            self.ring.send(self.scratch.image())
            self.ready, self.scratch = _Pile(), Scratch()
            self.enough = self.limits.bytes

    def send_all(self) -> None:
        """Send everything. A file's ready rows come before what goes the general way."""
        self.send_ready()
        if self.general.chunks:
            self.ring.send(marshal.dumps((GENERAL, self.general.chunks)))
            self.general = _Pile()
            self.waiting.clear()

    def tell(self, *what: Any) -> None:
        """Send word of something, after all that came before it."""
        self.send_all()
        self.ring.send(marshal.dumps(what))


def _serve(tasks: Sequence[Task], limits: Limits, ring: Ring) -> None:
    """The second process: read every file, and send its lines or what stopped it."""
    # Ctrl-C on a terminal reaches both processes; the first one ends this one when it is through.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    ring.hold_sending()
    gc.disable()  # records hold no cycles; looking for some would take a third of the time
    batches = _Batches(ring, limits)
    try:
        for n, task in enumerate(tasks):
            follower = batches.follower(n, task)
            in_agent_file = task.agent_id is not None
            lines = read_file(task.path, task.offset, in_agent_file=in_agent_file)
            while True:
                try:
                    found = next(lines, None)
                except OSError as e:
                    batches.tell(FAILED, n, e.errno or 0, e.strerror or str(e))
                    break
                if found is None:
                    break
                if found.is_large:
                    batches.tell(LARGE, n, found.start)
                    break
                batches.add(n, task, follower, found)
        batches.tell(END)
    except (BrokenPipeError, MemoryError):
        return  # nobody listens; or the first process finds that this one is gone, and reads on


@dataclass(slots=True)
class Arrived:
    """What the second process sends next."""

    kind: int
    task: int = -1  # of FAILED and LARGE
    value: tuple[Any, ...] = ()  # FAILED: errno, text; LARGE: offset
    chunks: list[tuple[int, Lines, Ready | None]] = field(default_factory=list)
    image: memoryview | bytes = b""  # READY: the rows, good until the next one is asked for
    is_new: bool = False  # READY: nothing that was sent before has anything to do with them


class ReaderProcess:
    """Reads files in a second process, ahead of whoever asks."""

    def __init__(self, tasks: Sequence[Task], limits: Limits) -> None:
        context = multiprocessing.get_context("fork")
        self.ring = Ring(AHEAD_BYTES)
        self.process = context.Process(target=_serve, args=(tasks, limits, self.ring), daemon=True)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self.ring.hold_receiving()

    def batches(self) -> Iterator[Arrived]:
        """Everything that comes, in order; raises ReaderDied when it stops before the end."""
        while True:
            try:
                kind, *rest = marshal.loads(self.ring.receive())  # noqa: S302  our own process wrote it
                if kind == END:
                    return
                if kind in (READY, GENERAL):
                    chunks = [
                        (n, unpack_lines(lines), Ready._make(ready) if ready else None)
                        for n, lines, ready in rest[0]
                    ]
                    arrived = Arrived(kind, chunks=chunks)
                    if kind == READY:
                        arrived.is_new = rest[1]
                        arrived.image = self.ring.receive()
                    yield arrived
                else:
                    yield Arrived(kind, rest[0], tuple(rest[1:]))
            except EOFError:
                raise ReaderDied from None

    def close(self) -> None:
        """End the second process, whatever it is doing."""
        if self.process.is_alive():
            with suppress(OSError):
                self.process.kill()  # it only reads
        self.process.join()
        self.ring.close()
