"""The command line by itself; what the commands do is tested where it is written."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import shlex
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
import typer.main
from typer.testing import CliRunner

from ctxdb import __version__, cli
from ctxdb.cli import main, typer_app
from ctxdb.cli.declare import join_pairs
from ctxdb.config import Config
from ctxdb.errors import CtxdbError, LockHeld, NewerSchema, UsageError
from ctxdb.ingest.sync import sync
from ctxdb.progress import NullProgress
from demo_db import demo_folder
from thinning import thinned
from world import PATIENCE

COMMANDS = sorted([*cli.COMMANDS, *cli.GROUPS])


@dataclass
class FakeReport:
    text: list[str] = field(default_factory=lambda: ["3 new lines"])
    data: dict[str, Any] = field(default_factory=lambda: {"lines": 3})
    ok: bool = True

    def as_dict(self) -> dict[str, Any]:
        return self.data

    def lines(self) -> list[str]:
        return self.text


class Backend:
    """Stands in for sync, status and verify, and remembers what it was told."""

    def __init__(self) -> None:
        self.report = FakeReport()
        self.error: BaseException | None = None
        self.calls: list[tuple[str, Config, dict[str, Any]]] = []

    def answer(self, name: str, config: Config, **more: Any) -> FakeReport:
        self.calls.append((name, config, more))
        if self.error:
            raise self.error
        return self.report


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Backend:
    backend = Backend()

    def replace(module: str, function: str, fake: Any) -> None:
        stand_in = ModuleType(module)
        setattr(stand_in, function, fake)
        monkeypatch.setitem(sys.modules, module, stand_in)

    replace(
        "ctxdb.ingest.sync",
        "sync",
        lambda config, *, wait, progress, say: backend.answer("sync", config, wait=wait),
    )
    replace(
        "ctxdb.cli.database_status", "read_status", lambda config: backend.answer("status", config)
    )
    replace(
        "ctxdb.verify",
        "verify",
        lambda config, progress, *, only_roots: backend.answer("verify", config),
    )
    return backend


class Result(NamedTuple):
    exit_code: int
    stdout: str
    stderr: str


get_command = cache(typer.main.get_command)
parsing_command = cache(get_command.__wrapped__)  # parsing without -h would change the other


def run(*args: str | Path) -> Result:
    """Run a command through main(), in this process."""
    with CliRunner().isolation() as (stdout, stderr, _), pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["ctxdb", *map(str, args)])
        patch.setattr(typer.main, "get_command", get_command)  # typer makes it for each command
        with pytest.raises(SystemExit) as left:
            main.main()
        return Result(int(left.value.code or 0), text_of(stdout), text_of(stderr))


def text_of(stream: io.BytesIO) -> str:
    return stream.getvalue().decode()


# -- help and version ------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example_that_begins_with_ctxdb(command: str) -> None:
    for flag in ("-h", "--help"):
        result = run(*command.split(), flag)
        assert result.exit_code == 0
        assert "Example" in result.stdout
        examples = result.stdout.split("Example")[1]
        group, _, own = command.partition(" ")
        assert f"ctxdb {group if cli.DEFAULTS.get(group) == own else command}" in examples


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_in_examples_parse(command: str) -> None:
    # Only the lines that are plain ctxdb calls: the others are for a shell.
    text = run(*command.split(), "-h").stdout.split("Example")[1].split("Options:")[0]
    for line in text.replace("\\\n", " ").splitlines():
        if not line.strip().startswith("ctxdb ") or "$(" in line:
            continue
        words = join_pairs(cli.with_default_command(shlex.split(line)[1:]), cli.PAIR_FLAGS)
        words = words[2:] if words[0] == "--db" else words
        found: Any = parsing_command(typer_app.app)
        while hasattr(found, "commands"):
            found = found.commands[words.pop(0)]
        context = found.make_context(
            "ctxdb",
            [os.getcwd() if "/" in word else word for word in words],
            resilient_parsing=False,
        )
        assert context.params is not None


def test_without_a_command_the_help_is_shown_and_the_exit_code_is_2() -> None:
    result = run()
    assert result.exit_code == 2
    assert "ctxdb sync" in result.stdout


def test_version() -> None:
    assert run("--version").stdout == f"ctxdb {__version__}\n"


@pytest.mark.parametrize("args", [["bogus"], ["sync", "--bogus"], ["paths", "bogus"], ["paths"]])
def test_wrong_usage_exits_2_and_says_so_on_standard_error(args: list[str]) -> None:
    result = run(*args)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Error: " in result.stderr


def test_help_does_not_load_what_it_does_not_need() -> None:
    code = (
        "import sys, ctxdb.cli.typer_app\n"
        "heavy = {'sqlite_utils', 'watchdog', 'sqlite3', 'orjson', 'ctxdb.demo'}\n"
        "sys.exit(str(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# -- where things are ------------------------------------------------------------------------


def test_path_prints_the_default_the_variable_or_the_flag(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("path").stdout == f"{home}/.local/share/ctxdb/ctxdb.db\n"
    monkeypatch.setenv("CTXDB_DB", "/from/env.db")
    assert run("path").stdout == "/from/env.db\n"
    assert run("--db", "/from/flag.db", "path").stdout == "/from/flag.db\n"


@pytest.mark.parametrize("name", ["migrations", "sql"])
def test_paths_prints_a_folder_that_exists(name: str) -> None:
    assert Path(run("paths", name).stdout.strip()).is_dir()


def test_a_wrong_setting_is_one_line_on_standard_error(home: Path) -> None:
    (home / ".config/ctxdb").mkdir(parents=True)
    (home / ".config/ctxdb/config.toml").write_text("rots = []")
    result = run("path")
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ")
    assert "unknown setting 'rots'" in result.stderr
    assert result.stderr.count("\n") == 1


# -- sync, status, verify --------------------------------------------------------------------


def test_sync_passes_on_database_roots_and_wait(backend: Backend, tmp_path: Path) -> None:
    roots = [tmp_path / "a", tmp_path / "b"]
    for root in roots:
        root.mkdir()
    flags = [word for root in roots for word in ("--root", str(root))]
    assert run("--db", tmp_path / "x.db", "sync", *flags, "--wait").exit_code == 0
    assert backend.calls == [
        ("sync", Config(tmp_path / "x.db", tuple(map(str, roots)), archive=True), {"wait": True})
    ]


def test_sync_without_flags_reads_the_usual_places_and_does_not_wait(
    backend: Backend, home: Path
) -> None:
    run("sync")
    (_, config, more) = backend.calls[0]
    assert config.roots == (str(home / ".claude/projects"),)
    assert more == {"wait": False}


@pytest.mark.parametrize("command", ["sync", "verify"])
def test_a_root_that_does_not_exist_is_wrong_usage(
    backend: Backend, tmp_path: Path, command: str
) -> None:
    result = run(command, "--root", tmp_path / "missing")
    assert result.exit_code == 2
    assert "does not exist" in result.stderr
    assert backend.calls == []


@pytest.mark.parametrize("command", ["sync", "status", "verify"])
def test_reports_go_to_standard_output_as_text_or_json(backend: Backend, command: str) -> None:
    assert run(command).stdout == "3 new lines\n"
    assert json.loads(run(command, "--json").stdout) == {"lines": 3}


def test_quiet_prints_nothing_but_json_if_asked(backend: Backend) -> None:
    assert run("sync", "--quiet") == (0, "", "")
    assert json.loads(run("sync", "-q", "--json").stdout) == {"lines": 3}


def test_the_first_sync_says_on_standard_error_that_the_database_keeps_things(
    backend: Backend, tmp_path: Path
) -> None:
    db = tmp_path / "x.db"
    assert "keeps what it has read" in run("--db", db, "sync").stderr
    db.touch()
    assert run("--db", db, "sync").stderr == ""


@pytest.mark.parametrize(("ok", "exit_code"), [(True, 0), (False, 1)])
def test_verify_exits_1_when_something_differs(backend: Backend, ok: bool, exit_code: int) -> None:
    backend.report.ok = ok
    result = run("verify")
    assert (result.exit_code, result.stdout) == (exit_code, "3 new lines\n")


# -- errors ----------------------------------------------------------------------------------


def sqlite_error(code: int, kind: type[sqlite3.Error] = sqlite3.OperationalError) -> sqlite3.Error:
    error = kind("database or disk is full")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("error", "exit_code", "reason"),
    [
        (CtxdbError("it broke"), 1, "it broke"),
        (UsageError("not like that"), 2, "not like that"),
        (LockHeld("/x.db", 77, "0.1.0"), 3, "process 77 (ctxdb 0.1.0) is writing to /x.db"),
        (NewerSchema("/x.db", ["0009_new"]), 1, "unknown migration 0009_new"),
        (OSError(errno.ENOSPC, "No space left on device", "/x.db"), 1, "/x.db: No space left"),
        (OSError(errno.EIO, "Input/output error"), 1, "Input/output error"),
        (sqlite_error(13), 1, "database or disk is full; free some space, then try again"),
        (sqlite_error(10 | 3 << 8), 1, "SQLite: database or disk is full"),
        (sqlite_error(11, sqlite3.DatabaseError), 1, "SQLite: database or disk is full"),
    ],
)
def test_what_a_person_can_mend_is_one_line_without_a_traceback(
    backend: Backend, error: BaseException, exit_code: int, reason: str
) -> None:
    backend.error = error
    result = run("sync")
    assert result.exit_code == exit_code
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert reason in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "error", [KeyError("bug"), sqlite_error(1), sqlite_error(19, sqlite3.IntegrityError)]
)
def test_a_bug_keeps_its_traceback(backend: Backend, error: BaseException) -> None:
    backend.error = error
    with pytest.raises(type(error)):
        run("sync")


def test_the_bar_is_wiped_when_sync_fails(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    wiped = []

    class Watched:
        def finish(self) -> None:
            wiped.append(True)

    monkeypatch.setattr("ctxdb.cli.sync.progress_on", lambda *_, **__: Watched())
    backend.error = CtxdbError("it broke")
    run("sync")
    assert wiped == [True]


# -- output ----------------------------------------------------------------------------------


def test_text_cannot_steer_the_terminal(backend: Backend) -> None:
    backend.report.text = ["\x1b]52;c;aGk=\x07 \x9b31m \u202egnp.exe \x7f"]
    shown = run("status").stdout
    assert shown == "\\x1b]52;c;aGk=\\x07 \\x9b31m \\u202egnp.exe \\x7f\n"


def test_json_holds_only_printable_ascii_and_stays_the_same_data(backend: Backend) -> None:
    backend.report.data = {"path": "a\x7f\x1b\x9b\u202e\udcff é"}
    shown = run("status", "--json").stdout
    assert shown.replace("\n", "").isascii()
    assert shown.replace("\n", "").isprintable()
    assert json.loads(shown) == backend.report.data


# -- the process -----------------------------------------------------------------------------


WITH_FAKES = """
import os, sys, time, types
def module(name, **functions):
    sys.modules[f"ctxdb.{name}"] = types.SimpleNamespace(**functions)
class Report:
    def lines(self): return ["\\u65e5\\u672c"]
def work(*_, **__):
    print("at work", flush=True)
    time.sleep(600)
module("ingest.sync", sync=work if "sync" in sys.argv else lambda *_, **__: os._exit(0))
module("cli.database_status", read_status=lambda config: Report())
from ctxdb.cli.main import main
main()
"""


def test_a_terminal_with_another_encoding_is_no_reason_to_fail() -> None:
    result = subprocess.run(
        [sys.executable, "-c", WITH_FAKES, "status"],
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
        stdout=subprocess.PIPE,
        check=True,
    )
    assert result.stdout == b"\\u65e5\\u672c\n"


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS allows only UTF-8 in file names")
def test_a_shell_gets_a_path_byte_for_byte(tmp_path: Path) -> None:
    db = os.fsencode(tmp_path) + b"/\xff\xc3\x9c.db"
    result = subprocess.run(
        [sys.executable, "-m", "ctxdb", "--db", db, "path"], stdout=subprocess.PIPE, check=True
    )
    assert result.stdout == db + b"\n"


@pytest.mark.parametrize(
    "words", thinned(["path", "paths sql", "query --list", "prices -h", "--help"], 2)
)
def test_a_reader_that_goes_away_is_neither_a_traceback_nor_a_failure(words: str) -> None:
    out, into = os.pipe()
    os.close(out)
    with os.fdopen(into, "w") as pipe:
        result = subprocess.run(
            [sys.executable, "-m", "ctxdb", *words.split()],
            stdout=pipe,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert result.returncode == 141
    assert result.stderr == b""


def gone(stream: str) -> int:
    """A stream that takes nothing."""
    if stream == "full disk":
        return os.open("/dev/full", os.O_WRONLY)
    ours, its = os.openpty()
    os.close(ours)
    return its


HAS_FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux")
GONE_AND_MARKS: list[tuple[str, list[pytest.MarkDecorator]]] = [
    ("gone terminal", []),
    ("full disk", [HAS_FULL]),
]
GONE = [pytest.param(stream, marks=marks) for stream, marks in GONE_AND_MARKS]


@pytest.mark.parametrize("stream", GONE)
@pytest.mark.parametrize(
    "words", thinned(["query --list", "path", "--help", "status", "daemon status"], 5)
)
def test_output_that_cannot_be_written_is_a_failure_in_one_line(words: str, stream: str) -> None:
    out = gone(stream)
    program = [sys.executable, "-m", "ctxdb", *words.split()]
    told = subprocess.run(program, stdout=out, stderr=subprocess.PIPE, check=False)
    silent = subprocess.run(program, stdout=out, stderr=out, check=False)
    os.close(out)
    assert told.returncode == silent.returncode == 1
    assert told.stderr.startswith(b"Error: ")
    assert told.stderr.count(b"\n") == 1


@pytest.mark.parametrize(
    ("words", "code", "stream"),
    [
        pytest.param(words, code, stream, marks=[*marks, *slow])
        for n, (words, code) in enumerate(
            [("path", 0), ("daemon stop", 0), ("show last", 1), ("nonsense", 2)]
        )
        for k, (stream, marks) in enumerate(GONE_AND_MARKS)
        for slow in [() if n % 2 == k else (pytest.mark.slow,)]
    ],
)
def test_messages_that_cannot_be_written_change_no_exit_code(
    words: str, code: int, stream: str
) -> None:
    out = gone(stream)
    done = subprocess.run(
        [sys.executable, "-m", "ctxdb", *words.split()],
        stdout=subprocess.DEVNULL,
        stderr=out,
        check=False,
    )
    os.close(out)
    assert done.returncode == code


def ctxdb(
    folder: Path, words: str, *, cwd: Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run a line of shell in which $C is the program, in a home of its own."""
    program = f"{shlex.quote(sys.executable)} -m ctxdb"
    env = {"HOME": str(folder), "PATH": os.environ["PATH"]}
    script = f"C={shlex.quote(program)}; CONFIG=.config/ctxdb/config.toml; {words}"
    return subprocess.run(
        ["bash", "-c", script], capture_output=True, check=False, env=env, cwd=cwd, timeout=PATIENCE
    )


@pytest.fixture(scope="module")
def filled_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("filled")
    root, db = folder / ".claude/projects", folder / ".local/share/ctxdb/ctxdb.db"
    shutil.copytree(demo_folder() / "projects", root)
    db.parent.mkdir(parents=True, mode=0o700)
    sync(Config(db, (str(root),)), progress=NullProgress())
    return folder


@pytest.fixture
def filled(filled_once: Path, tmp_path: Path) -> Path:
    """A home with the demo's transcripts and their database."""
    shutil.copytree(filled_once, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.mark.parametrize("closed", thinned([">&- 2>&- <&-", ">&-", "2>&-", "<&-"], 4))
def test_closed_streams_are_nobodys_business(filled: Path, closed: str) -> None:
    (filled / ".local/share/ctxdb/ctxdb.db").unlink()
    done = ctxdb(filled, f"$C sync {closed}")
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr
    with closing(sqlite3.connect(filled / ".local/share/ctxdb/ctxdb.db")) as conn:
        assert conn.execute("SELECT count(*) FROM messages").fetchone()[0] > 100


@pytest.mark.parametrize(
    ("words", "code"),
    thinned(
        [
            *((f"$C {command} $'\\xff'", 2) for command in ("search", "show", "export", "query")),
            ("$C query \"SELECT '\"$'\\xff'\"'\"", 2),
            ("$C prices remove $'\\xff'", 2),
            ("CTXDB_DB=/ $C sync", 2),
            ("CTXDB_DB=/ $C status", 2),
            ("mkdir -p .config/ctxdb; printf 'db = \"a\\\\u0000b\"' > $CONFIG; $C path", 2),
            ("mkdir -p .config/ctxdb; mkfifo $CONFIG; $C path", 1),
            ("mkdir x; cd x; rmdir ../x; $C --db y.db path", 2),
        ],
        2,
    ),
)
def test_what_cannot_be_is_said_in_one_line(filled: Path, words: str, code: int) -> None:
    done = ctxdb(filled, words, cwd=filled)
    assert (done.returncode, done.stdout) == (code, b"")
    assert done.stderr.startswith(b"Error: ")
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("CTXDB_DB=$HOME/$'\\xff.db' $C query --format csv 'SELECT 1 AS a'", b"a\n1\n"),
        ("mkdir x; cd x; rmdir ../x; $C query --format csv 'SELECT 1 AS a'", b"a\n1\n"),
        (f"$C query --format csv 'SELECT :a AS a' -p a {10**30}", b"a\n1" + b"0" * 30 + b"\n"),
    ],
)
def test_odd_surroundings_and_values_do_no_harm(filled: Path, words: str, answer: bytes) -> None:
    done = ctxdb(filled, words, cwd=filled)
    assert (done.returncode, done.stdout) == (0, answer), done.stderr


def test_control_c_exits_130_without_a_traceback() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", WITH_FAKES, "sync"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.readline() == "at work\n"
        child.send_signal(signal.SIGINT)
        assert child.wait(PATIENCE) == 130
        assert "Traceback" not in child.stderr.read()


# -- demo ------------------------------------------------------------------------------------


def test_demo_syncs_its_own_folder_into_its_own_database(
    backend: Backend, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CTXDB_DB", str(home / "precious.db"))
    result = run("demo")
    base = home / ".local/share/ctxdb/demo"
    config = Config(base / "demo.db", (str(base / "projects"),))
    assert [call[:2] for call in backend.calls] == [("sync", config), ("status", config)]
    assert result.stdout == "3 new lines\n"
    assert list(base.rglob("*.jsonl"))
    assert "delete" in (base / "README.txt").read_text()


def test_demo_can_be_made_twice_in_the_same_folder(backend: Backend, tmp_path: Path) -> None:
    assert run("demo", tmp_path / "d").exit_code == 0
    assert run("demo", tmp_path / "d").exit_code == 0


def test_demo_of_another_day_is_made_anew_up_to_yesterday(backend: Backend, tmp_path: Path) -> None:
    folder = tmp_path / "d"
    run("demo", folder)
    mark = folder / "README.txt"
    today = datetime.now(UTC).date()
    mark.write_text(mark.read_text().replace(str(today), "2026-01-01"))
    (folder / "projects/old.jsonl").touch()
    (folder / "demo.db").write_text("of that day")
    run("demo", folder)
    assert not (folder / "projects/old.jsonl").exists()
    assert not (folder / "demo.db").exists()
    written = "".join(path.read_text() for path in folder.rglob("*.jsonl"))
    days = re.findall(r'"timestamp":"(\S{10})T', written)
    assert max(days) in (str(today - timedelta(days=1)), str(today))  # midnight may have come


def test_demo_refuses_a_folder_with_other_things_in_it(backend: Backend, tmp_path: Path) -> None:
    (tmp_path / "projects").mkdir()
    result = run("demo", tmp_path)
    assert result.exit_code == 2
    assert "not empty, and not a demo" in result.stderr
    assert list((tmp_path / "projects").iterdir()) == []
    assert backend.calls == []


def test_demo_refuses_a_file_and_a_database_of_yours(backend: Backend, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert run("demo", tmp_path / "file").exit_code == 2
    assert run("--db", tmp_path / "x.db", "demo", tmp_path / "d").exit_code == 2
    assert backend.calls == []


def test_what_the_process_writes_is_private(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WITH_FAKES, "demo", tmp_path / "demo"]
    subprocess.run(command, check=True, umask=0o022)
    made = [tmp_path / "demo", *(tmp_path / "demo").rglob("*")]
    assert len(made) > 20
    assert not [path for path in made if stat.S_IMODE(path.stat().st_mode) & 0o077]
