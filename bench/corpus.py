"""A corpus of any size: one set of transcripts, repeated with other ids and other times.

Repetition 0 is the set as it is. In every other repetition these things differ, so that none of
its lines is a copy of another line:

- ids of sessions, messages, requests, tool calls, agents and tasks, also in text and file names
- timestamps: each repetition is moved by its own amount, alternately later and earlier
- a few characters of each image and signature, so that their hashes differ

A replacement is as long as what it replaces, so lines keep their length and stay valid JSON. The
words are the same in every repetition: the full-text index gets no new words from them.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

REAL = Path(__file__).resolve().parents[2] / "shared" / "corpus" / "transcripts.tar.gz"
STEP = timedelta(hours=7, seconds=73, milliseconds=457)  # between two repetitions

_AGENT = re.compile(
    rb'(?:"(?:agentId|taskId|task_id|backgroundTaskId)": ?"|agent-)([ab][0-9a-f]{6,16})\b'
)
# What is replaced: the last group if there is one, else the whole match.
_REPLACED = {
    "uuid": re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"),
    "api": re.compile(rb"(?:toolu|tooluse|srvtoolu|msg|req)_[A-Za-z0-9]{20,}"),
    "agent": re.compile(rb"[ab][0-9a-f]{6,16}(?![A-Za-z0-9])"),  # if _AGENT has found it too
    "time": re.compile(rb"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?Z"),
    "binary": re.compile(rb'"(?:data|signature)": ?"[A-Za-z0-9+/]{120}([A-Za-z0-9+/]{4})'),
    "other": re.compile(  # ids in another form, only where they are the value of such a key
        rb'"(?:uuid|parentUuid|sessionId|requestId|agentId|taskId|backgroundTaskId|tool_use_id|id)"'
        rb': ?"([A-Za-z][A-Za-z0-9]*[_-][A-Za-z0-9_-]+)"'
    ),
}
_SESSION = re.compile(rb'"sessionId": ?"[^"]*"')
_ALPHABET = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class Transcripts:
    """The original files, cut at everything that differs between repetitions."""

    def __init__(self, folder: Path) -> None:
        files = originals(folder)
        self._agents = {
            token
            for name, data in files
            for token in (*_AGENT.findall(data), *_AGENT.findall(name.encode()))
        }
        self._kinds: dict[bytes, str] = {}  # of every token that is replaced
        self._names = [self._cut(name.encode()) for name, _ in files]
        self._texts = [self._cut(data) for _, data in files]
        self._times = {
            token: time
            for token, kind in self._kinds.items()
            if kind == "time" and (time := _time(token)) is not None
        }

    def _cut(self, data: bytes) -> list[bytes]:
        """The pieces of a text: what stays, what is replaced, what stays, and so on."""
        spans = sorted(
            (*match.span(match.lastindex or 0), rank, kind)
            for rank, (kind, pattern) in enumerate(_REPLACED.items())
            for match in pattern.finditer(data)
            if kind != "agent" or match.group() in self._agents
        )
        pieces: list[bytes] = []
        end = 0
        for start, stop, _, kind in spans:
            if start < end:
                continue
            token = data[start:stop]
            self._kinds.setdefault(token, kind)
            pieces += (data[end:start], token)
            end = stop
        pieces.append(data[end:])
        return pieces

    def repetition(self, n: int) -> Iterator[tuple[str, bytes]]:
        """The path below the projects folder and the content of each file of repetition n."""
        table = self._table(n)
        for name, text in zip(self._names, self._texts, strict=True):
            yield _path(name, table, n), _join(text, table)

    def session(self, session_id: str, first: int) -> Iterator[bytes]:
        """Lines of one endless session, a transcript at a time, from repetition `first` on."""
        named = f'"sessionId":"{session_id}"'.encode()
        pool = [
            text
            for name, text in zip(self._names, self._texts, strict=True)
            if b"agent-" not in b"".join(name) and b'"2.1.' in b"".join(text)[:2000]
        ]
        n = first
        while True:
            table = self._table(n)
            for text in pool or self._texts:
                data = _SESSION.sub(named, _join(text, table))
                yield data if data.endswith(b"\n") else data + b"\n"
            n += 1

    def _table(self, n: int) -> dict[bytes, bytes]:
        """What each token is replaced with in repetition n."""
        if n == 0:
            return {token: token for token in self._kinds}
        bits = n * 0x9E3779B1  # an odd factor: n and m have the same low bits only if n = m
        first, low = bits & 0xFFFFFFFF, bits & 0xFFFFFF
        a, b, c, d = (_shifted(n * 5_915_587 // 62**place % 62) for place in range(4))
        shift = STEP * (n // 2 + 1 if n % 2 else -(n // 2))
        table = {}
        for token, kind in self._kinds.items():
            if kind == "uuid":
                table[token] = b"%08x" % (int(token[:8], 16) ^ first) + token[8:]
            elif kind == "agent":
                table[token] = token[:-6] + b"%06x" % (int(token[-6:], 16) ^ low)
            elif kind == "time":
                table[token] = self._moved(token, shift)
            else:
                w, x, y, z = token[-4:]
                table[token] = token[:-4] + bytes((a[w], b[x], c[y], d[z]))
        return table

    def _moved(self, token: bytes, shift: timedelta) -> bytes:
        time = self._times.get(token)
        if time is None:
            return token
        return (time + shift).isoformat(timespec="microseconds").encode()[: len(token) - 1] + b"Z"


def originals(folder: Path) -> list[tuple[str, bytes]]:
    """The real transcripts if they are there, else the demo's: (path below projects, content)."""
    source = folder / "originals"
    if not source.exists():
        if REAL.exists():
            source.mkdir(parents=True)
            with tarfile.open(REAL) as archive:
                archive.extractall(source, filter="data")
        else:
            command = [sys.executable, "-m", "ctxdb", "demo", str(source)]
            subprocess.run(command, check=True, capture_output=True)
    root = source / "projects"
    paths = sorted(path for path in root.rglob("*") if path.is_file())
    return [(str(path.relative_to(root)), path.read_bytes()) for path in paths]


def write(folder: Path, size: int) -> Path:
    """A projects folder of at least `size` bytes. It is kept if it is already there."""
    root = folder / f"projects-{size >> 20}mb"
    if not (root / ".done").exists():
        add(root, Transcripts(folder), size)
        (root / ".done").touch()
    return root


def add(root: Path, transcripts: Transcripts, size: int) -> None:
    """Write whole repetitions, from repetition 0 on, until there are at least `size` bytes."""
    written = n = 0
    while written < size:
        for name, data in transcripts.repetition(n):
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            written += path.write_bytes(data)
        n += 1


def size_of(root: Path) -> tuple[int, int]:
    """Number and bytes of the transcripts below a folder."""
    sizes = [path.stat().st_size for path in root.rglob("*.jsonl")]
    return len(sizes), sum(sizes)


def _path(name: list[bytes], table: dict[bytes, bytes], n: int) -> str:
    path = _join(name, table).decode()
    if n == 0:
        return path
    project, _, rest = path.partition("/")
    if len(name) == 1:  # no id in it
        stem, dot, suffix = rest.rpartition(".")
        rest = f"{stem}-{n}{dot}{suffix}"
    return f"{project}-{n}/{rest}"


def _join(pieces: list[bytes], table: dict[bytes, bytes]) -> bytes:
    found = list(pieces)
    found[1::2] = map(table.__getitem__, pieces[1::2])
    return b"".join(found)


def _shifted(by: int) -> bytes:
    """A table for one character: letters and digits move on by so many places."""
    table = bytearray(range(256))
    for place, old in enumerate(_ALPHABET):
        table[old] = _ALPHABET[(place + by) % len(_ALPHABET)]
    return bytes(table)


def _time(token: bytes) -> datetime | None:
    try:
        return datetime.fromisoformat(token.decode()[:-1]).replace(tzinfo=None)
    except ValueError:  # it only looks like a time
        return None
