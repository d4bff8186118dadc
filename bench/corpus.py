"""A corpus of any size: a set of transcripts repeated under other ids.

Every repetition gets other session, message, request, tool and agent ids, so that nothing in it is
a copy of anything else: the same number of new rows per byte as the original.
"""

from __future__ import annotations

import re
import tarfile
from pathlib import Path

REAL = Path(__file__).resolve().parents[2] / "shared" / "corpus" / "transcripts.tar.gz"
_IDS = re.compile(
    rb"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-([0-9a-f]{12})\b"
    rb"|\b(?:toolu|msg|req|srvtoolu)_[A-Za-z0-9]{6,}"
)
_UUID_NAME = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def originals(folder: Path) -> list[tuple[str, bytes]]:
    """The real corpus where it is there, else the demo set: (path below projects, content)."""
    source = folder / "originals"
    if not source.exists():
        source.mkdir(parents=True)
        if REAL.exists():
            with tarfile.open(REAL) as archive:
                archive.extractall(source, filter="data")
        else:
            from ctxdb.demo import write_demo

            write_demo(source / "projects")
    root = source / "projects"
    return [
        (str(path.relative_to(root)), path.read_bytes()) for path in sorted(root.rglob("*.jsonl"))
    ]


def renamed(data: bytes, n: int) -> bytes:
    """The n-th repetition of a transcript: the same lines under other ids."""
    tail = b"%04x" % n

    def rename(match: re.Match[bytes]) -> bytes:
        found = match.group()
        if match.group(1) is not None:
            return found[:-4] + bytes(
                b"0123456789abcdef"[(a + b) % 16]
                for a, b in zip(
                    (int(c, 16) for c in found[-4:].decode()),
                    (int(c, 16) for c in tail.decode()),
                    strict=True,
                )
            )
        return found + tail

    return _IDS.sub(rename, data)


def write(folder: Path, size: int) -> Path:
    """A projects folder of at least that many bytes; kept between runs."""
    root = folder / f"projects-{size >> 20}mb"
    done = root / ".done"
    if done.exists():
        return root
    files = originals(folder)
    written = n = 0
    while written < size:
        for name, original in files:
            project, _, rest = name.partition("/")
            if n:
                project = f"{project}-{n}"
                rest = _UUID_NAME.sub(lambda m, n=n: renamed(m.group().encode(), n).decode(), rest)
            path = root / project / rest
            path.parent.mkdir(parents=True, exist_ok=True)
            written += path.write_bytes(renamed(original, n) if n else original)
        n += 1
    done.touch()
    return root
