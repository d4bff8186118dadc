"""Every test lives in a home of its own: none can see the transcripts of whoever runs it."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sqlite3
import tempfile
import time
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from viewlab import Made
    from world import World

# Two busy cores make any deadline a coin toss.
# The same examples every time: a run says something of the change, not of the day.
EXAMPLES = int(os.environ.get("CTXDB_TEST_EXAMPLES", "40"))  # `make check` asks for more
settings.register_profile("ctxdb", deadline=None, derandomize=True, max_examples=EXAMPLES)
settings.load_profile("ctxdb")
# Hypothesis also draws from the literals of the loaded modules, and which are loaded depends
# on the tests that ran before.
providers._get_local_constants = lambda: providers._local_constants


# A shell that runs the tests in the background has interrupts ignored, and children inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


ADDRESS_SPACE = resource.getrlimit(resource.RLIMIT_AS)  # `ctxdb query` limits that of its process

MEMORY = Path("/dev/shm")  # a file system in memory: there a commit waits for no disk
MEMORY_BYTES = 4 << 30  # the largest tests make files of some hundred MB
_in_memory = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    """Let the tests, and the workers that are started later, work in memory if there is room."""
    if "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK):
        return
    if shutil.disk_usage(MEMORY).free < MEMORY_BYTES:
        return
    folder = Path(tempfile.mkdtemp(prefix="ctxdb-tests-", dir=MEMORY))
    folder.chmod(0o755)  # some tests run as another user
    config.stash[_in_memory] = folder
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)


def pytest_unconfigure(config: pytest.Config) -> None:
    if folder := config.stash.get(_in_memory, None):
        shutil.rmtree(folder, ignore_errors=True)


def pytest_report_header() -> str:
    packages = ", ".join(f"{name} {version(name)}" for name in ("sqlite-utils", "watchdog"))
    return f"SQLite {sqlite3.sqlite_version}, {packages}"


@cache
def _tables() -> sqlite3.Connection:
    from ctxdb.store.schema import make_tables

    conn = sqlite3.connect(":memory:", isolation_level=None)
    conn.execute("PRAGMA page_size = 8192")
    make_tables(conn)
    return conn


def _copy_tables(conn: sqlite3.Connection) -> None:
    """What `verify` makes its second database of; the command line itself makes it every time."""
    _tables().backup(conn)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The home folder of this test, with nothing in it."""
    folder = tmp_path / "home"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(autouse=True)
def _own_world(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in list(os.environ):
        if name.startswith(("XDG_", "CTXDB_", "CLAUDE")):
            monkeypatch.delenv(name)
    # Unbuffered output leaves nothing to write at the end, and that can fail.
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(home / ".local/share"))
    monkeypatch.setenv("XDG_STATE_HOME", str(home / ".local/state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / ".cache"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(home / ".run"))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home / ".claude"))
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    # The same key in every database that is made in this process: so tests can compare them.
    monkeypatch.setattr("ctxdb.store.keys.urandom", lambda size: b"k" * size)
    monkeypatch.setattr("ctxdb.verify.again.make_tables", _copy_tables)
    # ctxdb narrows the umask of its process, and some tests call it in this one.
    mask = os.umask(0o022)
    yield
    os.umask(mask)
    resource.setrlimit(resource.RLIMIT_AS, ADDRESS_SPACE)


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A root without transcripts, and their database without rows."""
    from lab import empty_database
    from world import World

    made = World(tmp_path / "projects", tmp_path / "data/ctxdb.db")
    made.root.mkdir()
    made.db.parent.mkdir(mode=0o700)
    made.db.write_bytes(empty_database())
    made.db.chmod(0o600)
    return made


@pytest.fixture
def made() -> Iterator[Made]:
    """A database of transcripts."""
    from lab import lab
    from viewlab import stored

    with lab() as one:
        yield lambda story: stored(one, story)
