"""`ctxdb sync` and `ctxdb status` as a person meets them: the installed command, real terminals,
real signals."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import shlex
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import sysconfig
import termios
import time
from collections.abc import Mapping
from contextlib import closing
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from ctxdb import daemon_health as beats
from ctxdb.ingest.sync import sync
from ctxdb.lock import WriterLock
from ctxdb.progress import NullProgress
from lab import put_empty_database
from thinning import thinned
from world import (
    PATIENCE,
    RUN,
    SESSION,
    Done,
    World,
    line,
    lines,
    run_ctxdb,
    run_python,
    stalled,
    texts,
)

COMMAND = Path(sysconfig.get_path("scripts")) / "ctxdb"

SYNC_KEYS = {
    "files", "new_files", "grown_files", "rewritten_files", "rebuilt",
        "renamed_files", "missing_files",
    "unreadable_files", "lines_read", "bad_lines", "bytes_read", "seconds", "missing_roots",
    "problems", "side_files", "archived_bytes", "from_archive",
}  # fmt: skip
STATUS_KEYS = {
    "archive", "masking", "retention", "secrets_masked", "unerased",
    "database", "exists", "roots", "bytes_on_disk", "rows", "first_at", "last_at", "files",
    "files_missing", "files_unreadable", "bytes_behind", "bad_lines", "last_read_at",
    "writer_pid", "daemon", "newer_schema", "problems", "side_files", "side_files_unreadable",
    "ignored_sessions",
}  # fmt: skip


@pytest.fixture
def world(home: Path) -> World:
    """Transcripts where Claude Code puts them, and no database yet."""
    root = home / ".claude/projects"
    root.mkdir(parents=True)
    return World(root, home / ".local/share/ctxdb/ctxdb.db")


@pytest.fixture
def ready(world: World) -> World:
    """The same with a database, for what is not about the first sync: making one takes longer."""
    put_empty_database(world.db)
    return world


def ctxdb(*args: str | Path, env: Mapping[str, str] | None = None, **more: Any) -> Done:
    if env is not None:
        return run_python(RUN, *args, env=env)
    return run_ctxdb(*args, **more)


def done(*args: str | Path, **more: Any) -> str:
    result = ctxdb(*args, **more)
    assert result.returncode == 0, result.stderr
    return result.stdout


class Terminal(NamedTuple):
    exit_code: int
    shown: str  # on the terminal: standard error
    stdout: str


# Draws the bar for every batch, and has small ones: however fast the machine is, there is a bar.
EAGER = """
from ctxdb.ingest import run as ingest
from ctxdb import progress
progress.FIRST_DRAW_SECONDS = progress.REDRAW_SECONDS = 0.0
ingest.BATCH_BYTES = 1 << 17
from ctxdb.cli.main import main
main()
"""


def on_a_terminal(
    *args: str | Path, columns: int = 100, eager: bool = False, **env: str
) -> Terminal:
    """Run with standard error on a terminal, standard output in a pipe."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    program = [sys.executable, "-c", EAGER] if eager else [COMMAND]
    child = subprocess.Popen(
        [*program, *args],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "LANG": "C.UTF-8", **env},
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            data = os.read(ours, 65536)
        except OSError:  # EIO: the last one who had the terminal open is gone
            break
        if not data:
            break
        shown += data
    os.close(ours)
    assert child.stdout is not None
    with child.stdout as pipe:
        stdout = pipe.read().decode()
    return Terminal(child.wait(), shown.decode(), stdout)


def many_lines(world: World, megabytes: int) -> int:
    said = "the tide comes in and the tide goes out, " * 50
    some = b"".join(line(n, f"{n} {said}") for n in range(100))
    numbers = megabytes * 2**20 // len(some) + 1
    for nth in range(numbers):
        session = f"5e551000-0000-4000-8000-{nth:012x}"
        data = some.replace(b'"uuid": "00000000-', b'"uuid": "%08x-' % (nth + 1))
        data = data.replace(SESSION.encode(), session.encode())
        world.write(data, world.file(f"p/{session}.jsonl"))
    return numbers * 100


# -- what it says --------------------------------------------------------------------------------


def test_the_first_sync_says_what_it_did_and_the_second_that_there_is_nothing_new(
    world: World,
) -> None:
    world.write(lines(*range(40)))
    first = ctxdb("sync")
    assert first.returncode == 0
    assert re.fullmatch(
        r"Read 40 new lines \(\d+ kB\) in [\d.]+ s; looked at 1 file\.\nFiles: 1 new\.\n",
        first.stdout,
    )
    assert "keeps what it has read" in first.stderr
    before = world.db.read_bytes()
    second = ctxdb("sync")
    assert second.returncode == 0
    assert re.fullmatch(r"Nothing new in 1 file \([\d.]+ s\)\.\n", second.stdout)
    assert second.stderr == ""
    assert world.db.read_bytes() == before
    assert not world.db.with_name("ctxdb.db-wal").exists()
    world.settled(range(40))


def test_files_that_had_nothing_new_are_not_said_to_have_been_read(ready: World) -> None:
    ready.write(lines(*range(40)))
    ready.write(lines(40), ready.main.with_name("other.jsonl"))
    done("sync")
    ready.append(lines(41))
    said = done("sync")
    wanted = r"Read 1 new line \(\d+ B\) in [\d.]+ s; looked at 2 files\.\nFiles: 1 grown\.\n"
    assert re.fullmatch(wanted, said)


def test_a_later_sync_reads_only_what_is_new(ready: World) -> None:
    ready.write(lines(*range(40)))
    done("sync")
    ready.append(lines(40, 41))
    ready.write(lines(50), ready.file("q/new.jsonl"))
    assert done("sync").splitlines()[1] == "Files: 1 new, 1 grown."
    ready.append(lines(42))
    report = json.loads(done("sync", "--json"))
    assert (report["lines_read"], report["bytes_read"]) == (1, len(line(42)))
    ready.settled([*range(43), 50])


def test_rewritten_renamed_and_deleted_files_are_named_in_the_report(ready: World) -> None:
    for n in range(3):
        ready.write(lines(n), ready.file(f"p/{n}.jsonl"))
    done("sync")
    ready.write(lines(7), ready.file("p/0.jsonl"))
    ready.file("p/1.jsonl").rename(ready.file("p/renamed.jsonl"))
    ready.file("p/2.jsonl").unlink()
    shown = done("sync").splitlines()[1]
    assert shown == "Files: 1 rewritten, 1 renamed, 1 gone (rows are kept)."
    assert ready.texts() == texts([0, 1, 2, 7])


def test_without_transcripts_it_says_where_it_has_looked(world: World) -> None:
    shutil.rmtree(world.root)
    assert done("sync") == f"No transcripts found.\n  {world.root}: no such folder\n"


def test_json_has_a_stable_shape(ready: World) -> None:
    ready.write(lines(0) + b"torn {\n")
    report = json.loads(done("sync", "--json"))
    assert set(report) == SYNC_KEYS
    assert report["bad_lines"] == 1
    shown = json.loads(done("status", "--json"))
    assert set(shown) == STATUS_KEYS
    assert shown["rows"]["messages"] == 1
    assert shown["database"] == str(ready.db)
    assert shown["problems"] == [
        {"path": str(ready.main), "byte_start": len(line(0)), "reason": "not_json"}
    ]
    checked = json.loads(done("verify", "--json"))
    assert (checked["ok"], checked["lines_read"], checked["bad"]) == (True, 2, 1)


def test_quiet_says_nothing_at_all(world: World) -> None:
    world.write(lines(0))
    result = ctxdb("sync", "--quiet")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_status_names_bad_lines_and_files_with_their_place(ready: World) -> None:
    bad = line(1)[:60] + b"\n"
    ready.write(line(0) + bad + line(2) + b"[]\n")
    assert "2 lines could not be read; `ctxdb status` tells which." in done("sync")
    shown = done("status")
    assert "2 unreadable lines, 0 unreadable files" in shown
    assert f"torn: {ready.main} at byte {len(line(0))}\n" in shown
    assert f"not_object: {ready.main} at byte {len(line(0) + bad + line(2))}\n" in shown


def test_status_names_bad_lines_before_mended_ones_and_says_how_many_there_are(
    ready: World,
) -> None:
    glued = line(1)[:-1] + line(2)
    ready.write(b"".join(b"torn %d\n" % n for n in range(10)) + glued * 9)
    assert "10 lines could not be read" in done("sync")
    shown = done("status")
    assert shown.count("not_json: ") == 8
    assert "... and 2 more: `ctxdb query ingest_errors`\n" in shown
    assert "glued: " not in shown
    assert "Repaired     9 lines had to be repaired (glued)\n" in shown
    problems = json.loads(done("status", "--json"))["problems"]
    assert {one["reason"] for one in problems} == {"not_json"}


def test_status_shows_local_time(ready: World) -> None:
    ready.write(line(0, timestamp="2026-03-01T23:30:00.000Z"))
    done("sync")
    done("daemon", "start")
    done("daemon", "stop")
    at = ready.one("SELECT max(last_read_at) FROM source_files")
    local = datetime.fromisoformat(at).astimezone(timezone(timedelta(hours=9)))
    shown = done("status", env={**os.environ, "TZ": "JST-9"})
    assert "Period       2026-03-02 to 2026-03-02\n" in shown
    assert f"last read {local:%Y-%m-%d %H:%M}\n" in shown
    assert re.search(rf"stopped since {local:%Y-%m-%d} \d\d:\d\d", shown)


def test_status_counts_new_transcripts_and_those_of_other_folders_as_behind(
    ready: World, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    old = other / "p" / "6e550000-0000-4000-8000-000000000001.jsonl"
    old.parent.mkdir(parents=True)
    old.write_bytes(line(100, sessionId=old.stem))
    ready.write(lines(0))
    done("sync", "--root", str(ready.root), "--root", str(other))
    assert json.loads(done("status", "--json"))["bytes_behind"] == 0
    new = ready.file("p/6e550000-0000-4000-8000-000000000002.jsonl")
    ready.write(lines(1, 2), new)
    with old.open("ab") as file:
        file.write(lines(3))
    assert json.loads(done("status", "--json"))["bytes_behind"] == len(lines(1, 2) + lines(3))
    assert "Behind       nothing" not in done("status")


def test_status_says_how_far_it_is_behind_and_who_writes(ready: World) -> None:
    ready.write(lines(0, 1))
    done("sync")
    assert "Behind       nothing; last read 2" in done("status")
    ready.append(lines(*range(2, 12)))
    assert re.search(r"Behind       [\d.]+ kB;", done("status"))
    assert json.loads(done("status", "--json"))["bytes_behind"] == len(lines(*range(2, 12)))
    with WriterLock(ready.db):
        assert f"process {os.getpid()} is writing now" in done("status")


def test_status_before_the_first_sync_makes_nothing(world: World) -> None:
    assert "does not exist yet; `ctxdb sync` makes it" in done("status")
    assert not world.db.parent.exists()


def test_several_roots_are_one_database(ready: World, tmp_path: Path) -> None:
    ready.write(lines(0), tmp_path / "a.jsonl")
    for name in ("one", "two"):
        (tmp_path / name / "p").mkdir(parents=True)
    ready.write(lines(0, 1), tmp_path / "one/p/a.jsonl")
    ready.write(lines(1, 2), tmp_path / "two/p/b.jsonl")
    done("sync", "--root", tmp_path / "one", "--root", tmp_path / "two")
    assert ready.texts() == texts([0, 1, 2])
    done("sync", env={**os.environ, "CLAUDE_CONFIG_DIR": f"{tmp_path}/x,{tmp_path}/y"})
    # Files below roots that are not looked at this time have not vanished.
    assert ready.ask("SELECT count(missing_since) FROM source_files") == [(0,)]


# -- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        (os.mkfifo, "not a regular file"),
        (lambda db: db.write_text("my novel"), "is not a SQLite database"),
        (lambda db: db.symlink_to("elsewhere.db"), "is a symbolic link"),
    ],
    ids=["pipe", "text", "link"],
)
def test_what_cannot_be_a_database_is_one_line_and_exit_1(
    world: World, prepare: Any, words: str
) -> None:
    world.db.parent.mkdir(parents=True)
    prepare(world.db)
    result = ctxdb("sync")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith(f"Error: {world.db}: ")
    assert words in result.stderr
    assert result.stderr.count("\n") == 1


def test_wrong_usage_is_exit_2(world: World) -> None:
    for args in (["sync", "--no-such-flag"], ["sync", "--root", world.root / "nowhere"], ["sink"]):
        result = ctxdb(*args)
        assert (result.returncode, result.stdout) == (2, "")
        assert "Traceback" not in result.stderr


def test_a_path_without_a_place_to_write_is_one_line(world: World) -> None:
    (world.root / "file").touch()
    result = ctxdb("--db", world.root / "file/x.db", "sync")
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("Error: ")


def test_an_unreadable_file_is_named_and_the_exit_code_is_still_0(ready: World) -> None:
    ready.write(lines(0))
    fifo_to_be = ready.write(lines(1), ready.file("q/q.jsonl"))
    done("sync")
    fifo_to_be.unlink()
    fifo_to_be.mkdir()  # was a file; now it is something else
    ready.write(lines(2), fifo_to_be / "inside.jsonl")
    report = json.loads(done("sync", "--json"))
    assert report["lines_read"] == 1
    assert ready.texts() == texts([0, 1, 2])


# -- one writer ----------------------------------------------------------------------------------


def test_while_another_process_writes_it_exits_3_and_names_it(ready: World) -> None:
    ready.write(lines(0))
    with WriterLock(ready.db):
        result = ctxdb("sync")
        assert (result.returncode, result.stdout) == (3, "")
        assert result.stderr.startswith(f"Error: process {os.getpid()} ")
        assert "--wait" in result.stderr
        assert result.stderr.count("\n") == 1
    done("sync")
    ready.settled([0])


def waiting_sync(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [COMMAND, "sync", "--wait", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def first_words(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    return process.stderr.readline()


def test_with_wait_it_says_for_whom_it_waits_and_then_does_its_work(ready: World) -> None:
    ready.write(lines(0))
    with WriterLock(ready.db):
        waiting = waiting_sync()
        says = f"Waiting for process {os.getpid()}, which is writing to {ready.db}.\n"
        assert first_words(waiting) == says
        assert waiting.poll() is None
    said, errors = waiting.communicate(timeout=PATIENCE)
    assert waiting.returncode == 0
    assert said.startswith("Read 1 new line (")
    assert "Waiting" not in errors
    ready.settled([0])


def test_waiting_can_be_interrupted(world: World) -> None:
    with WriterLock(world.db):
        waiting = waiting_sync()
        first_words(waiting)
        waiting.send_signal(signal.SIGINT)
        _, errors = waiting.communicate(timeout=PATIENCE)
    assert waiting.returncode == 130
    assert "Traceback" not in errors


def test_a_daemon_is_not_waited_for(ready: World, tmp_path: Path) -> None:
    ready.write(lines(0))
    (tmp_path / "other").mkdir()
    done("daemon", "start")
    try:
        result = ctxdb("sync", "--wait")
        assert (result.returncode, result.stdout) == (0, "")
        assert result.stderr.count("\n") == 1
        assert f"is already running and keeps {ready.db} up to date.\n" in result.stderr
        assert ready.one("SELECT count(*) FROM messages") == 1
        assert json.loads(done("sync", "--wait", "--json")).keys() == SYNC_KEYS
        assert ctxdb("sync", "--wait", "--quiet").stderr == ""
        assert ctxdb("sync").returncode == 3
        waiting = waiting_sync("--root", str(tmp_path / "other"))
        assert "a daemon that reads other folders" in first_words(waiting)
    finally:
        done("daemon", "stop")
    said, _ = waiting.communicate(timeout=PATIENCE)
    assert waiting.returncode == 0
    assert said.startswith("No transcripts found.")


@pytest.mark.parametrize("state", ["stopped", "nothing yet"])
def test_a_daemon_that_begins_or_ends_is_not_said_to_keep_the_database_up_to_date(
    ready: World, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    ready.write(lines(0))
    lock = WriterLock(ready.db, role="daemon")
    lock.acquire()
    if state == "stopped":
        beats.write(beats.health_path(ready.db), beats.Health(pid=os.getpid(), state=state))
    clock = SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: lock.release())
    monkeypatch.setattr("ctxdb.ingest.sync.time", clock)
    said: list[str] = []
    report = sync(ready.config, wait=True, progress=NullProgress(), say=said.append)
    assert (report.lines_read, said) == (1, [])
    ready.settled([0])


# -- the bar -------------------------------------------------------------------------------------

BAR = re.compile(
    r"Reading transcripts .*[━╌]+ +(\d+)%  [\d.]+ of [\d.]+ MB  [\d.]+ [kM]B/s  \d+:\d\d left"
)
COLOUR = re.compile(r"\x1b\[\d+m")


def test_on_a_terminal_a_bar_shows_bytes_rate_and_time_left_and_is_gone_at_the_end(
    world: World,
) -> None:
    count = many_lines(world, 1)
    seen = on_a_terminal("sync", eager=True)
    assert seen.exit_code == 0
    drawn = [part for part in COLOUR.sub("", seen.shown).split("\r") if "Reading" in part]
    assert drawn
    shares = [int(found[1]) for part in drawn if (found := BAR.search(part))]
    assert len(shares) > 2
    assert shares == sorted(shares)
    # Wiped: after the last bar comes an empty line, and then only the note.
    after = seen.shown[seen.shown.rindex("Reading transcripts") :]
    assert "\r\x1b[K" in after
    assert after.split("\r\x1b[K")[-1].startswith("Note: the database keeps")
    assert seen.stdout.startswith(f"Read {count:,} new lines")


def test_no_color_is_respected_and_the_bar_fits_the_terminal(ready: World) -> None:
    many_lines(ready, 1)
    seen = on_a_terminal("sync", columns=50, eager=True, NO_COLOR="1")
    assert seen.exit_code == 0
    assert not COLOUR.search(seen.shown)
    drawn = [part for part in seen.shown.split("\r") if part.startswith("Reading")]
    assert drawn
    assert max(len(part.removesuffix("\x1b[K")) for part in drawn) < 50


def test_in_a_pipe_there_is_no_bar(world: World) -> None:
    many_lines(world, 1)
    result = ctxdb("sync")
    assert result.returncode == 0
    assert "Reading transcripts" not in result.stderr
    assert result.stderr.count("\n") == 1  # the note of a first sync
    assert "\r" not in result.stdout + result.stderr
    assert "\x1b" not in result.stdout + result.stderr


@pytest.mark.parametrize("how", ["--quiet", "dumb"])
def test_nobody_who_does_not_want_a_bar_gets_one(ready: World, how: str) -> None:
    many_lines(ready, 1)
    quiet, env = ([], {"TERM": "dumb"}) if how == "dumb" else (["--quiet"], {})
    seen = on_a_terminal("sync", *quiet, eager=True, **env)
    assert seen.exit_code == 0
    assert "Reading transcripts" not in seen.shown
    assert "\x1b" not in seen.shown


def test_a_sync_with_nothing_new_does_not_flicker(ready: World) -> None:
    ready.write(lines(0))
    done("sync")
    assert on_a_terminal("sync").shown == ""


# -- Ctrl-C --------------------------------------------------------------------------------------


# Reads in other processes, and keeps the bar drawn while it waits.
STALLED = stalled(
    "ingest.READ_AHEAD_BYTES = 1",
    "ingest.BATCH_BYTES = 1 << 17",
    wait="while True: self.progress.advance(0); time.sleep(0.01)",
)


@pytest.mark.parametrize("stored", thinned(["1", "0"], 2))
def test_control_c_exits_130_leaves_the_database_intact_and_the_next_sync_finishes(
    world: World, stored: str
) -> None:
    count = many_lines(world, 1)
    child = subprocess.Popen(
        [sys.executable, "-c", STALLED, stored, "sync"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "here\n"
    os.killpg(child.pid, signal.SIGINT)  # as a terminal does: to all processes of the command
    said, errors = child.communicate(timeout=PATIENCE)
    assert child.returncode == 130, errors
    assert said == ""
    assert "Traceback" not in errors
    with closing(sqlite3.connect(world.db)) as conn:
        assert conn.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    done("sync", "--quiet")
    assert world.one("SELECT count(*) FROM messages") == count
    assert world.one("SELECT count(DISTINCT uuid) FROM messages") == count
    world.sound()


def test_control_c_on_a_terminal_leaves_no_bar_behind(world: World) -> None:
    many_lines(world, 1)
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-c", STALLED, "1", "sync"],
        stdin=theirs,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "LANG": "C.UTF-8"},
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509
    )
    os.close(theirs)
    shown = b""
    while b"Reading" not in shown:
        shown += os.read(ours, 65536)
    os.write(ours, b"\x03")  # the terminal makes a signal of it
    while True:
        try:
            data = os.read(ours, 65536)
        except OSError:
            break
        if not data:
            break
        shown += data
    os.close(ours)
    assert child.wait(PATIENCE) == 130
    assert b"Traceback" not in shown
    assert b"\r\x1b[K" in shown[shown.rindex(b"Reading") :]


# -- the demo ------------------------------------------------------------------------------------


def test_the_demo_has_transcripts_and_a_database_of_its_own_and_is_the_same_twice(
    world: World, home: Path
) -> None:
    folder = home / "demo"
    first = ctxdb("demo", folder)
    assert first.returncode == 0, first.stderr
    assert "sessions" in first.stdout
    assert not world.db.exists()
    database = folder / "demo.db"
    with closing(sqlite3.connect(database)) as conn:
        sessions = conn.execute("SELECT count(*) FROM sessions").fetchone()[0]
        assert sessions >= 12
        assert conn.execute("SELECT count(*) FROM ingest_errors").fetchone() == (0,)
    again = ctxdb("demo", folder)
    assert again.returncode == 0
    assert again.stdout == first.stdout
    assert done("--db", database, "verify", "--root", folder / "projects")


def test_the_command_that_is_tested_is_the_installed_one() -> None:
    assert COMMAND.exists()
    assert done("--version") == ctxdb("--version", cwd="/").stdout
    module = subprocess.run(
        [sys.executable, "-m", "ctxdb", "--version"], capture_output=True, text=True, check=True
    )
    assert module.stdout == done("--version")


def test_what_the_demo_suggests_can_be_typed_also_where_there_is_no_command(home: Path) -> None:
    env = {**os.environ, "PATH": os.defpath}
    made = subprocess.run(
        [sys.executable, "-m", "ctxdb", "demo", home / "demo"],
        capture_output=True,
        text=True,
        check=True,
        env=env,
    )
    suggested = made.stderr.splitlines()[-1].strip()
    assert " --db " in suggested
    assert "__main__" not in made.stderr
    subprocess.run(shlex.split(suggested), check=True, env=env, stdout=subprocess.DEVNULL)
