"""What `ctxdb forget` says beforehand: nothing goes that was not shown."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from private_lab import FOLDER, OTHER, PRIVATE, WORD, Home, dump, entries, make_home, write
from world import RUN

if TYPE_CHECKING:
    from pathlib import Path

THIRD = "7d1d0000-0000-4000-8000-000000000003"


@pytest.fixture
def private(home: Path, tmp_path: Path) -> Home:
    made = make_home(home / ".claude", tmp_path / "data" / "ctxdb.db")
    made.must("sync")
    return made


def chosen(private: Home, session: str) -> dict[str, dict[str, Any]]:
    done = private.must("forget", "--session", session, "--dry-run", "--json")
    return {one["id"]: one for one in json.loads(done.stdout)["sessions"]}


@pytest.mark.parametrize(
    ("name", "first"),
    [
        pytest.param("renamed", THIRD, id="of a renamed transcript"),
        pytest.param(THIRD, "0a0a0000-0000-4000-8000-00000000000a", id="of a resumed session"),
    ],
)
def test_a_session_that_only_this_transcript_has_is_shown_and_goes_with_it(
    private: Home, name: str, first: str
) -> None:
    other = "0b0b0000-0000-4000-8000-00000000000b"
    sessions = {first, other, THIRD} if name == THIRD else {THIRD, other}
    rows = [row for n, one in enumerate(sorted(sessions)) for row in entries(one, "Odd", 20 + n)]
    rows.sort(key=lambda row: row.get("sessionId") != first)
    path = private.projects / FOLDER / f"{name}.jsonl"
    write(path, dump(rows))
    private.must("sync")
    assert sessions < set(private.sessions())
    found = chosen(private, THIRD)
    assert {one for one in found if found[one]["is_only_there"]} == sessions - {THIRD}
    assert set(found) == sessions
    shown = private.must("forget", "--session", THIRD, "--dry-run").stderr
    assert shown.count("(only in these transcripts)") == len(sessions) - 1
    done = private.must("forget", "--session", THIRD, "--yes", "--sources", "--json")
    assert json.loads(done.stdout)["removed"]["sessions"] == len(sessions)
    assert not path.exists()
    assert private.sessions() == [OTHER, PRIVATE]
    private.must("verify")


def test_a_session_with_a_transcript_of_its_own_stays(private: Home) -> None:
    rows = [*entries(THIRD, "Odd", 20), *entries(PRIVATE, WORD, 7)]
    write(private.projects / FOLDER / f"{THIRD}.jsonl", dump(rows))
    private.must("sync")
    assert set(chosen(private, THIRD)) == {THIRD}
    private.must("forget", "--session", THIRD, "--yes")
    assert private.sessions() == [OTHER, PRIVATE]
    private.must("verify")


# -- the question on a terminal --------------------------------------------------------------------

# Runs the command on a terminal, as a shell does: Ctrl-C ends the command alone. It stays until a
# line comes: a terminal loses what was printed last when its first process ends.
_SHELL = f"""
import fcntl, os, signal, subprocess, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
process = subprocess.Popen([sys.executable, "-c", {RUN!r}, *sys.argv[1:]])
signal.signal(signal.SIGINT, signal.SIG_IGN)
print("exit", process.wait(), flush=True)
sys.stdin.readline()
"""


CTRL_C = b"\x03"


def answered(private: Home, answer: bytes, *words: str) -> tuple[int, str]:
    """Forget the private session on a terminal; returns the exit code and what was on it."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", _SHELL, "--db", private.db, "forget", "--session", PRIVATE]
    process = subprocess.Popen([*command, *words], stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    asked = False
    while not re.search(rb"exit -?[0-9]+\r\n$", shown):
        if asked and answer == CTRL_C and not select.select([ours], [], [], 1)[0]:
            os.write(ours, answer)  # the first one came just before it began to read
            continue
        piece = os.read(ours, 4096)
        assert piece, shown
        shown += piece
        if shown.endswith(b"[y/N] ") and not asked:
            asked = True
            os.write(ours, answer)
    os.write(ours, b"\n")
    process.wait(timeout=60)
    os.close(ours)
    text, _, code = shown.decode().replace("\r\n", "\n").rpartition("exit ")
    return int(code), text


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        pytest.param(b"n\n", 1, id="no"),
        pytest.param(b"\n", 1, id="enter"),
        pytest.param(b"yesterday\n", 1, id="another word"),
        pytest.param(b"\x04", 1, id="ctrl-d"),
        pytest.param(CTRL_C, 130, id="ctrl-c"),
    ],
)
def test_without_a_yes_nothing_is_forgotten(private: Home, answer: bytes, code: int) -> None:
    found, shown = answered(private, answer)
    assert found == code
    assert PRIVATE in shown
    assert shown.endswith("\n")  # the shell's prompt begins a line
    question, _, rest = shown.partition("[y/N] ")
    assert question.endswith("Forget 1 session for good? ")
    assert rest.count("\n") <= 2  # of the answer, and of what is said of it
    assert private.sessions() == [OTHER, PRIVATE]


def test_a_yes_forgets_and_deletes_the_files_that_were_listed(private: Home) -> None:
    dry = private.must("forget", "--session", PRIVATE, "--sources", "--dry-run", "--json")
    files = json.loads(dry.stdout)["sources"]
    assert files
    assert all(os.path.exists(one) for one in files)
    code, shown = answered(private, b"YES\n", "--sources")
    assert code == 0
    said = " ".join(shown.split())  # a terminal breaks long lines between words
    for path in files:
        assert f"to delete: {path} " in said
        assert f"deleted {path} " in f"{said} "
        assert not os.path.lexists(path)
    assert f"and delete {len(files)} files of Claude Code? [y/N]" in shown
    left = [str(one) for one in private.claude.rglob("*") if PRIVATE in str(one) and one.is_file()]
    assert left == []
    assert private.sessions() == [OTHER]


def test_without_sources_no_file_is_listed(private: Home) -> None:
    done = private.must("forget", "--session", PRIVATE, "--dry-run", "--json")
    assert json.loads(done.stdout)["sources"] == []
    assert "to delete" not in private.must("forget", "--session", PRIVATE, "--dry-run").stderr
