"""Reading ahead in processes of their own, while the first one writes.

Writing takes longer than reading, so on two cores one process reads: with two of them the writing
would wait for a core. With more cores two read, each its own sessions, and the writing never waits.

From each reader files come in the order they were asked for.
"""

from __future__ import annotations

import gc
import marshal
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ctxdb.files.tail import Unfinished
from ctxdb.ingest.line_reader import FilePlace, ReaderDied, read_file
from ctxdb.ingest.masked_line import Reading
from ctxdb.ingest.ring import Ring
from ctxdb.privacy.json_bytes import Place
from ctxdb.rules.chunk import Chunk, unpack_chunk

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

READERS = 2 if (os.cpu_count() or 1) > 2 else 1
AHEAD_BYTES = 8 << 20  # of rows, from each reader, before they are asked for
NICE = 5  # where there are two cores, one is for the writing whenever it has something to do

LINES, FAILED, LARGE, END = range(4)


@dataclass(frozen=True, slots=True)
class Task:
    """A file to read, and from where on."""

    path: str
    offset: int
    mark: bytes | None  # of the file as it was read up to there
    size: int  # bytes to read, about
    session_id: str | None
    agent_id: str | None
    limit: int | None = None  # where it ends for us
    unfinished: Unfinished | None = None
    masked: tuple[Place, ...] | None = None  # as FilePlace.masked


@dataclass(frozen=True, slots=True)
class Limits:
    """How much makes a batch."""

    bytes: int
    lines: int
    first_bytes: int  # of the first batch: the sooner all processes are at work


class _Batches:
    """Collects chunks into batches and sends them."""

    def __init__(self, ring: Ring, limits: Limits) -> None:
        self.ring = ring
        self.limits = limits
        self.enough = limits.first_bytes
        self.chunks: list[tuple[int, tuple[Any, ...]]] = []  # task, packed chunk
        self.size = 0
        self.lines = 0

    def add(self, n: int, found: Chunk) -> None:
        """Add the next chunk of a task."""
        self.chunks.append((n, found.pack()))
        self.size += found.end - found.start
        self.lines += found.lines
        if self.size >= self.enough or self.lines >= self.limits.lines:
            self.send()

    def send(self) -> None:
        """Send what has been collected."""
        if self.chunks:
            self.ring.send(marshal.dumps((LINES, self.chunks)))
            self.chunks, self.size, self.lines = [], 0, 0
            self.enough = self.limits.bytes

    def tell(self, *what: Any) -> None:
        """Send word of something, after all that came before it."""
        self.send()
        self.ring.send(marshal.dumps(what))


def _serve(
    tasks: Sequence[tuple[int, Task]],
    reading: Reading,
    limits: Limits,
    ring: Ring,
    others: Sequence[Ring],
) -> None:
    """A process that reads: every file, and sends its lines or what stopped it."""
    # Ctrl-C on a terminal reaches all processes; the first one ends this one when it is through.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    ring.hold_sending()
    for other in others:
        other.close()  # the ends that this process was forked with
    os.nice(NICE)
    gc.disable()  # records hold no cycles; looking for some would take a third of the time
    batches = _Batches(ring, limits)
    try:
        for n, task in tasks:
            place = FilePlace(task.session_id, task.agent_id, task.masked, task.path)
            chunks = read_file(
                task.path,
                task.offset,
                task.mark,
                place,
                reading,
                limit=task.limit,
                unfinished=task.unfinished,
            )
            while True:
                try:
                    found = next(chunks, None)
                except OSError as e:
                    batches.tell(FAILED, n, e.errno or 0, e.strerror or str(e))
                    break
                if found is None:
                    break
                if found.is_large:
                    batches.tell(LARGE, n, found.start, found.mark)
                    break
                batches.add(n, found)
        batches.tell(END)
    except Exception:  # noqa: BLE001
        # Nobody listens; or the first process finds that this one is gone, reads on, and meets what
        # this one has met, where it is told apart and named.
        return


def _shared_out(tasks: Sequence[Task], readers: int) -> list[list[tuple[int, Task]]]:
    """Who reads what: all files of a session the same one, and each about as much.

    Only they have much in common, and what has can be told apart best where it is read.
    """
    sessions: dict[str | int, list[int]] = {}
    for n, task in enumerate(tasks):
        sessions.setdefault(n if task.session_id is None else task.session_id, []).append(n)
    sizes = [(sum(tasks[n].size for n in own), own) for own in sessions.values()]
    shares: list[list[int]] = [[] for _ in range(readers)]
    loads = [0] * readers
    for size, own in sorted(sizes, reverse=True):
        least = loads.index(min(loads))
        loads[least] += size
        shares[least] += own
    return [[(n, tasks[n]) for n in sorted(share)] for share in shares if share]


@dataclass(slots=True)
class Arrived:
    """What a reader sends next."""

    kind: int
    path: str = ""  # of FAILED and LARGE
    value: tuple[Any, ...] = ()  # FAILED: errno, text; LARGE: offset, mark
    chunks: list[tuple[str, Chunk]] = field(default_factory=list)  # with the paths of their files


class _Reader(NamedTuple):
    ring: Ring
    process: BaseProcess
    tasks: Sequence[Task]  # of all readers

    def next(self) -> Arrived | None:
        """What has come; None at the end of all files."""
        kind, *rest = marshal.loads(self.ring.receive())  # noqa: S302  our own process wrote it
        if kind == END:
            return None
        if kind == LINES:
            (chunks,) = rest
            paths = [(self.tasks[n].path, unpack_chunk(packed)) for n, packed in chunks]
            return Arrived(kind, chunks=paths)
        number, *value = rest
        return Arrived(kind, self.tasks[number].path, tuple(value))


class ReaderProcesses:
    """Read files in other processes, ahead of whoever asks."""

    def __init__(self, tasks: Sequence[Task], reading: Reading, limits: Limits) -> None:
        self.tasks = tasks
        self.reading = reading
        self.readers: list[_Reader] = []
        if reading.masker is not None:
            reading.masker.prepare()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            try:
                for share in _shared_out(tasks, READERS):
                    self._start(share, limits)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
        except BaseException:  # no process to be had; or the Ctrl-C that has waited
            self.close()
            raise

    def _start(self, share: Sequence[tuple[int, Task]], limits: Limits) -> None:
        others = [reader.ring for reader in self.readers]
        ring = Ring(AHEAD_BYTES)
        import multiprocessing  # most runs start no process

        process = multiprocessing.get_context("fork").Process(
            target=_serve, args=(share, self.reading, limits, ring, others), daemon=True
        )
        try:
            process.start()
        finally:
            ring.hold_receiving()
            if process.pid is None:
                ring.close()
        self.readers.append(_Reader(ring, process, self.tasks))

    def batches(self) -> Iterator[Arrived]:
        """Everything that comes; raises ReaderDied when one stops before the end.

        The readers have their turns, so that the same files always come in the same order.
        """
        reading = list(self.readers)
        while reading:
            for reader in list(reading):
                try:
                    arrived = reader.next()
                except EOFError:
                    raise ReaderDied from None
                if arrived is None:
                    reading.remove(reader)
                else:
                    yield arrived
                    reader.ring.release()

    def close(self) -> None:
        """End the readers, whatever they are doing."""
        for reader in self.readers:
            if reader.process.is_alive():
                with suppress(OSError):
                    reader.process.kill()  # it only reads
            reader.process.join()
            reader.ring.close()
