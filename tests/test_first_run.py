"""The first run: plain `ctxdb` on a terminal, and what people type before they know commands."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from ctxdb.cli import COMMANDS, GUESSED
from ctxdb.output import note
from world import Done, line, run_ctxdb

MAIN = "from ctxdb.cli.main import main; main()"


def on_terminal(*words: str, columns: int = 100) -> str:
    """What a command prints on a terminal."""
    parent, child = pty.openpty()
    environ = os.environ | {"COLUMNS": str(columns), "NO_COLOR": "1", "TERM": "xterm"}
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, *words], stdin=child, stdout=child, stderr=child, env=environ
    )
    os.close(child)
    shown = b""
    try:
        while data := os.read(parent, 65536):
            shown += data
    except OSError:  # the terminal is closed when the process ends
        pass
    finally:
        os.close(parent)
    process.wait()
    return shown.decode(errors="replace").replace("\r\n", "\n")


def in_pipe(*words: str) -> Done:
    return run_ctxdb(*words)


def test_without_transcripts_plain_ctxdb_shows_the_demo(home: Path) -> None:
    shown = on_terminal()
    assert "Here is a demo instead" in shown
    assert "cost_usd by day" in shown
    assert "lantern" in shown
    assert "Try these" in shown
    assert (home / ".local/share/ctxdb/demo/demo.db").exists()
    assert not (home / ".local/share/ctxdb/ctxdb.db").exists()


def test_on_a_narrow_terminal_no_word_is_cut(home: Path) -> None:
    shown = on_terminal(columns=80)
    *_, last, why = shown.splitlines()
    assert last.endswith("/demo.db serve")
    assert why == "    the same in your browser"
    shown = on_terminal("sync", columns=80)
    assert "Note: the database keeps what it has read, even after Claude Code" in shown
    assert all(len(one) <= 80 or str(home) in one for one in shown.splitlines())


def test_hits_of_a_search_are_cut_between_words(home: Path) -> None:
    folder = home / ".claude/projects/-home-me-boat"
    folder.mkdir(parents=True)
    (folder / f"{'1' * 8}-1111-4111-8111-{'1' * 12}.jsonl").write_bytes(
        line(0, "Caulk the wooden boat before the winter " * 9, cwd="/home/me/boat")
    )
    shown = on_terminal("search", "winter", columns=64)
    hits = [one for one in shown.splitlines() if one.startswith("    ")]
    assert len(hits) > 1
    assert all(len(one) <= 64 for one in hits)
    known = {"Caulk", "the", "wooden", "boat", "before", "winter"}
    assert {word.strip("…") for one in hits for word in one.split()} <= known


def test_notes_are_cut_between_words_and_quoted_commands_are_not() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "30")
        patch.setattr(sys, "stderr", Terminal())
        patch.setattr(sys, "stdout", Terminal())
        note("Unit   the disk is full; `ctxdb archive status` shows what takes the room: 12 MB")
        note("  ctxdb --db /a/very/long/path/of/a.db query standup")
        assert isinstance(sys.stderr, Terminal)
        assert sys.stderr.getvalue().splitlines() == [
            "Unit   the disk is full;",
            "       `ctxdb archive status`",
            "       shows what takes the",
            "       room: 12 MB",
            "  ctxdb --db /a/very/long/path/of/a.db query standup",
        ]


def test_with_transcripts_plain_ctxdb_reads_them_and_shows_their_days(home: Path) -> None:
    folder = home / ".claude/projects/-home-me-boat"
    folder.mkdir(parents=True)
    usage = {"input_tokens": 1000, "output_tokens": 2000}
    message = {
        "id": "msg_1", "role": "assistant", "model": "claude-opus-4-1", "usage": usage,
        "content": [{"type": "text", "text": "Done."}], "stop_reason": "end_turn",
    }  # fmt: skip
    (folder / f"{'1' * 8}-1111-4111-8111-{'1' * 12}.jsonl").write_bytes(
        line(0, "Caulk the boat", cwd="/home/me/boat")
        + line(1, type="assistant", message=message, requestId="req_1", cwd="/home/me/boat")
    )
    shown = on_terminal()
    assert "The 14 days to" in shown
    assert "boat" in shown
    assert (home / ".local/share/ctxdb/ctxdb.db").exists()
    assert "Try these" not in on_terminal()  # from now on it is the help


def test_in_a_pipe_plain_ctxdb_prints_the_help_and_makes_nothing(home: Path) -> None:
    result = in_pipe()
    assert result.stdout.startswith("Usage: ")
    assert result.stderr == ""
    assert not (home / ".local").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["query", "overview", "--limit", "0"], "'--limit'"),
        (["query", "overview", "--format", "xml"], "'xml' is not one of 'table', 'json'"),
        (["query", "--lst"], "--list"),
        (["search"], "'TEXT'; `ctxdb search --help` shows how"),
        (["config", "get"], "'set'"),
        (["daemon"], "ctxdb daemon needs a command: start, stop, restart"),
    ],
)
def test_a_wrong_command_line_is_explained_in_one_line(words: list[str], said: str) -> None:
    result = in_pipe(*words)
    assert result.returncode == 2
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    assert said in result.stderr


@pytest.mark.parametrize("word", sorted(GUESSED))
def test_a_guessed_command_names_the_one_that_does_it(word: str) -> None:
    assert word not in {name.partition(" ")[0] for name in COMMANDS}
    result = in_pipe(word)
    assert result.returncode == 2
    assert GUESSED[word] in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_view_as_command_and_a_misspelt_command_are_explained() -> None:
    assert "use ctxdb query daily_usage" in in_pipe("daily_usage").stderr
    assert "did you mean ctxdb search?" in in_pipe("searhc").stderr


def test_a_misspelt_view_is_reported_before_anything_is_read(home: Path) -> None:
    (home / ".claude/projects").mkdir(parents=True)
    result = in_pipe("query", "daily_usagee")
    assert result.returncode == 2
    assert "did you mean daily_usage" in result.stderr
    assert not (home / ".local").exists()
