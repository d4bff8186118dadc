"""A root full of transcripts and the database made of it, for the tests of faults.

Everything is real: files on disk, `sync` as the command calls it, processes that are killed.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from hypothesis import settings

from ctxdb.config import Config
from ctxdb.ingest.report import SyncReport
from ctxdb.ingest.sync import sync
from ctxdb.progress import NullProgress
from ctxdb.verify import VerifyReport, verify
from lab import empty_database

SESSION = "5e551000-0000-4000-8000-00000000000a"
OTHER_SESSION = "5e551000-0000-4000-8000-00000000000b"
NOBODY = 65534
PATIENCE = 120.0  # seconds that only something that hangs takes, however slow the machine

RUN = "from ctxdb.cli.main import main; main()"

# Makes batches of a few lines, and runs the command line. With READER=second in the environment
# even the smallest sync reads in other processes.
SMALL_BATCHES = """
import os
from ctxdb.ingest import run as ingest, line_reader, storing
from ctxdb.files import tail
ingest.BATCH_BYTES = ingest.BATCH_LINES = storing.COMMIT_BYTES = 1
line_reader.CHUNK_BYTES = 1
tail.read_block.__defaults__ = (2000, tail.MAX_LINE_BYTES)
if os.environ.get("READER") == "second":
    ingest.READ_AHEAD_BYTES = 1
from ctxdb.cli.main import main
main()
"""


def stalled(*setup: str, wait: str = "time.sleep(600)") -> str:
    """A command line that says so and waits where the n-th batch is to be stored."""
    return "\n".join(
        [
            "import sys, time",
            "from ctxdb.ingest import first_sync as build, run as ingest, storing",
            "left = int(sys.argv.pop(1))",
            "real = storing.ChunkWriter.store",
            "def store(self, chunks):",
            "    global left",
            "    left -= 1",
            "    if left < 0:",
            "        print('here', flush=True)",
            f"        {wait}",
            "    real(self, chunks)",
            "storing.ChunkWriter.store = store",
            *setup,
            RUN,
        ]
    )


# Has imported everything, and forks a process for each job: ten times as fast as starting Python.
FORKS = """
import contextlib, functools, gc, importlib, io, json, os, pkgutil, sys, time, traceback
import ahocorasick_rs, sqlite_utils, typer.main, ctxdb
HEAVY = ("ctxdb.__main__", "ctxdb.web", "ctxdb.mcp", "ctxdb.push", "ctxdb.lake")
for module in pkgutil.walk_packages(ctxdb.__path__, "ctxdb."):
    if not module.name.startswith(HEAVY):
        importlib.import_module(module.name)
typer.main.get_command = functools.cache(typer.main.get_command)
with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())):
    ctxdb.cli.typer_app.app(["paths", "sql"], standalone_mode=False)  # imports more, late
gc.collect()
gc.freeze()
def run(job):
    os.environ.clear()
    os.environ.update(job["env"])
    time.tzset()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for fd, path in ((1, job["stdout"]), (2, job["stderr"])):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), fd)
    sys.argv = job["argv"]
    try:
        exec(job["code"], {"__name__": "__main__"})
    except SystemExit as e:
        return e.code if isinstance(e.code, int) else int(e.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0
for row in sys.stdin:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = run(json.loads(row))
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Done(NamedTuple):
    """How a process ended."""

    returncode: int  # negative: the signal that killed it
    stdout: str
    stderr: str


@cache
def forks() -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", FORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    atexit.register(process.communicate)  # ends its input, and waits for it
    return process


def run_python(code: str, *args: str | Path, env: Mapping[str, str] | None = None) -> Done:
    """Run code in a process of its own that has ctxdb imported already."""
    process = forks()
    assert process.stdin is not None
    assert process.stdout is not None
    with tempfile.TemporaryDirectory() as folder:
        outputs = {name: f"{folder}/{name}" for name in ("stdout", "stderr")}
        job = {"code": code, "argv": ["ctxdb", *map(str, args)], "env": dict(env or os.environ)}
        process.stdin.write(json.dumps(job | outputs) + "\n")
        process.stdin.flush()
        returncode = int(process.stdout.readline())
        said = [Path(path).read_text(errors="surrogateescape") for path in outputs.values()]
    return Done(returncode, *said)


def run_ctxdb(*args: str | Path, **more: Any) -> Done:
    """The command line in a process of its own, from a new interpreter if `more` needs one."""
    if not more:
        return run_python(RUN, *args)
    command = [sys.executable, "-m", "ctxdb", *args]
    done = subprocess.run(command, capture_output=True, text=True, check=False, **more)
    return Done(done.returncode, done.stdout, done.stderr)


def uuid_of(n: int, family: int = 0) -> str:
    """The uuid of the n-th entry."""
    return f"{family:08x}-0000-4000-8000-{n:012x}"


def entry(n: int, text: str | None = None, **more: Any) -> dict[str, Any]:
    """What a person said as number `n`."""
    return {
        "parentUuid": uuid_of(n - 1) if n else None,
        "isSidechain": False,
        "userType": "external",
        "cwd": "/work/tides",
        "sessionId": SESSION,
        "version": "2.1.280",
        "gitBranch": "main",
        "type": "user",
        "message": {"role": "user", "content": f"line {n:05}" if text is None else text},
        "uuid": uuid_of(n),
        "timestamp": f"2026-08-24T{n // 3600 % 24:02}:{n // 60 % 60:02}:{n % 60:02}.000Z",
        **more,
    }


def line(n: int, text: str | None = None, **more: Any) -> bytes:
    """Number `n` as a line of a transcript."""
    return json.dumps(entry(n, text, **more)).encode() + b"\n"


def lines(*numbers: int, **more: Any) -> bytes:
    """Several lines."""
    return b"".join(line(n, **more) for n in numbers)


def texts(numbers: Iterable[int]) -> list[str]:
    """What `World.texts` must show for these lines."""
    return [f"line {n:05}" for n in numbers]


@dataclass
class World:
    """Transcripts and their database."""

    root: Path
    db: Path

    @property
    def config(self) -> Config:
        return Config(db_path=self.db, roots=(str(self.root),))

    @property
    def main(self) -> Path:
        """The transcript that most tests need only one of."""
        return self.file(f"-work-tides/{SESSION}.jsonl")

    def file(self, name: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def write(self, data: bytes, path: Path | None = None) -> Path:
        path = path or self.main
        path.write_bytes(data)
        return path

    def append(self, data: bytes, path: Path | None = None) -> None:
        with (path or self.main).open("ab") as file:
            file.write(data)

    def sync(self) -> SyncReport:
        return sync(self.config, progress=NullProgress())

    def verify(self) -> VerifyReport:
        return verify(self.config, NullProgress())

    def cli(self, *args: str | Path, code: str = RUN, env: Mapping[str, str] | None = None) -> Done:
        """The command line in a process of its own."""
        roots = ["--root", self.root] if "sync" in args or "verify" in args else []
        return run_python(code, "--db", self.db, *args, *roots, env=env)

    @contextmanager
    def connect(self, *, write: bool = False) -> Iterator[sqlite3.Connection]:
        uri = f"file:{self.db}?mode={'rw' if write else 'ro'}"
        with closing(sqlite3.connect(uri, uri=True, timeout=PATIENCE)) as conn:
            yield conn
            conn.commit()

    def ask(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        with self.connect() as conn:
            return conn.execute(sql, values).fetchall()

    def one(self, sql: str, *values: Any) -> Any:
        """The only value of the only row."""
        [(value,)] = self.ask(sql, *values)
        return value

    def change(self, sql: str, *values: Any) -> None:
        with self.connect(write=True) as conn:
            conn.execute(sql, values)

    def texts(self) -> list[str]:
        """What every message says; a line that is in twice stands here twice."""
        return [text for (text,) in self.ask("SELECT text FROM messages ORDER BY text, id")]

    def source(self, path: Path | None = None, columns: str = "*") -> dict[str, Any]:
        """The row of a source file, with its bookkeeping."""
        with self.connect() as conn:
            conn.row_factory = sqlite3.Row
            row = conn.execute(
                f"SELECT {columns} FROM source_files JOIN _file_marks ON source_file_id = id"
                " WHERE path = ?",
                (str(path or self.main),),
            ).fetchone()
        assert row is not None
        return dict(row)

    def errors(self) -> list[tuple[int | None, int | None, str]]:
        return self.ask("SELECT byte_start, byte_length, reason FROM ingest_errors ORDER BY id")

    def sound(self) -> None:
        """Nothing is torn: pages, keys, full text, and every row says what its line says."""
        with self.connect(write=True) as conn:
            assert conn.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert conn.execute("PRAGMA foreign_key_check").fetchall() == []
            for name in ("messages_fts", "tool_uses_fts", "turns_fts", "sessions_fts"):
                conn.execute(f"INSERT INTO {name}({name}, rank) VALUES ('integrity-check', 1)")
        report = verify(self.config, NullProgress(), again=self._is_made_again())
        assert report.shown == []
        assert report.ok

    def _is_made_again(self) -> bool:
        """Whether `sound` compares with a second database, which takes most of its time.

        By default that is done for every third content of the transcripts, in `make check` for all.
        """
        if settings.default.max_examples > 100:
            return True
        check = 0
        for path in sorted(self.root.glob("*/*.jsonl")):
            with suppress(OSError):
                if path.is_file() and path.stat().st_size < 1 << 20:
                    check = crc32(path.read_bytes(), check)
        return check % 3 == 0

    def settled(self, numbers: Iterable[int]) -> None:
        """Exactly these lines are in, all is sound, and another sync finds nothing to do."""
        assert self.texts() == texts(numbers)
        self.sound()
        again = self.sync()
        assert (again.lines_read, again.new_files, again.rewritten_files) == (0, 0, 0)
        assert (again.renamed_files, again.missing_files) == (0, 0)

    def offsets_agree(self) -> None:
        """Every file's rows are those of the lines before its offset: none more, none fewer.

        Only for transcripts of messages that are no copies of each other.
        """
        for file_id, path, offset, count in self.ask(
            'SELECT id, path, "offset", lines FROM source_files'
        ):
            taken = Path(path).read_bytes()[:offset]
            assert taken == b"" or taken.endswith(b"\n")
            starts = [0]
            for part in taken.splitlines(keepends=True):
                starts.append(starts[-1] + len(part))
            found = self.ask(
                "SELECT byte_start FROM messages WHERE source_file_id = ? ORDER BY byte_start",
                file_id,
            )
            assert [start for (start,) in found] == starts[:-1]
            assert count == len(starts) - 1


def as_nobody(work: Callable[[], Any]) -> Any:
    """Run in a child without root's rights, where there are such rights to lose."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            os.write(writer, json.dumps(work()).encode())
            os._exit(0)
        except BaseException as e:
            notes = "\n".join(getattr(e, "__notes__", ()))
            os.write(2, f"{type(e).__name__}: {e}\n{notes}\n".encode())
            raise
        finally:
            os._exit(1)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    return json.loads(answer)


@contextmanager
def public_world() -> Iterator[World]:
    """A world that another user can reach and write to: pytest's own folders are closed."""
    empty_database()  # imports what a sync needs: nobody may not be allowed to read it
    folder = Path(tempfile.mkdtemp(prefix="ctxdb-test-"))
    folder.chmod(0o755)
    for name in ("projects", "data"):
        (folder / name).mkdir()
    if os.geteuid() == 0:
        os.chown(folder / "data", NOBODY, NOBODY)
    try:
        yield World(folder / "projects", folder / "data/ctxdb.db")
    finally:
        subprocess.run(["chmod", "-R", "u+rwX", folder], check=True)
        shutil.rmtree(folder)


MEASURED = """
import atexit, resource, sys
def peak():
    mine = 0
    try:
        with open("/proc/self/status") as file:
            mine = next(int(row.split()[1]) for row in file if row.startswith("VmHWM"))
    except FileNotFoundError:
        mine = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    print(max(mine, children), file=open(report, "w"))
report = sys.argv.pop(1)
atexit.register(peak)
from ctxdb.cli.main import main
main()
"""


def peak_megabytes(world: World, *args: str, **more: Any) -> tuple[float, Any]:
    """Run the command line; the largest any of its processes has been, and how it ended.

    Not ru_maxrss of a process that was just started: that begins with what its parent had.
    """
    report = world.db.parent / "peak"
    command = [sys.executable, "-c", textwrap.dedent(MEASURED), report, "--db", world.db, *args]
    command += ["--root", world.root]
    done = subprocess.run(command, capture_output=True, text=True, check=False, **more)
    return int(report.read_text()) / 1024, done
