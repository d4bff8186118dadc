"""What a running `ctxdb serve` tells later ones: its port and its secret, in a private file."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from ctxdb.daemon_health import process_started


@dataclass(frozen=True, slots=True)
class Server:
    """A server, as its file has it. It may have ended since."""

    port: int
    pid: int
    process_started: int
    secret: str | None

    @property
    def is_running(self) -> bool:
        """Whether its process still is that process."""
        try:
            os.kill(self.pid, 0)
        except (OSError, OverflowError):
            return False
        return self.pid > 0 and process_started(self.pid) == self.process_started


def state_file(db_path: Path) -> Path:
    """Beside the database; its folder is private."""
    return db_path.with_name(f"{db_path.name}-serve.json")


def read(db_path: Path) -> Server | None:
    """The last server of this database; None if there was none or the file is not ours."""
    path = state_file(db_path)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            stat = os.fstat(file.fileno())
            if stat.st_uid != os.getuid() or stat.st_mode & 0o077:
                return None
            found = json.loads(file.read(4096))
        return Server(
            int(found["port"]), int(found["pid"]), int(found["process_started"]), found["secret"]
        )
    except (OSError, ValueError, TypeError, KeyError):
        return None


def write(db_path: Path, server: Server) -> None:
    """Keep it where only the owner can read it."""
    path = state_file(db_path)
    aside = path.with_name(f"{path.name}.{os.getpid()}")
    aside.unlink(missing_ok=True)
    descriptor = os.open(aside, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(asdict(server), file)
    aside.replace(path)


def usual_port(db_path: Path) -> int:
    """The first port to try for a database: the same every time, another for another one."""
    digest = hashlib.sha256(os.fsencode(db_path)).digest()
    return 8300 + int.from_bytes(digest[:2]) % 600
