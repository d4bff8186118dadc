"""`ctxdb redact`: secrets that are stored already are counted, masked and erased."""

from __future__ import annotations

import ast
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ctxdb.claude import structure_keys
from ctxdb.errors import ConfigError, UsageError
from ctxdb.files.identity import open_regular
from ctxdb.ingest.sync import sync
from ctxdb.privacy.masking import Masker
from ctxdb.privacy.rule_settings import BadPattern, check_pattern, masker_of
from ctxdb.privacy.secret_rules import RULES
from ctxdb.progress import NullProgress
from ctxdb.rebuild.rebuild import rebuild
from ctxdb.redact.apply import Applied, apply
from ctxdb.redact.chosen import chosen_text, is_free_text
from ctxdb.redact.scan import scan
from ctxdb.settings import DEFAULTS
from ctxdb.store.connection import open_writer
from kill_lab import EVERY_20TH, Saved, failures, kills
from quick_tables import copy_tables
from secret_lab import (
    BEGAN,
    SecretLab,
    entry,
    lines_with,
    plant,
    put_beside,
    secret_of,
    session_of,
)
from seen_files import Seen
from snapshot import content, differences
from world import run_python

TOKEN = next(rule.example for rule in RULES if rule.name == "github-token")
SOME = RULES[:3]
RUN = "from ctxdb.cli.main import main; main()"


@pytest.fixture(autouse=True)
def _quick_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    copy_tables(monkeypatch)


@pytest.fixture
def lab(tmp_path: Path) -> SecretLab:
    made = SecretLab(tmp_path / "claude")
    made.root.mkdir(parents=True)
    return made


def put(lab: SecretLab, *texts: str, number: int = 1) -> Path:
    session = session_of(number)
    lines = [json.dumps(entry(session, n, "user", text)) + "\n" for n, text in enumerate(texts, 1)]
    return lab.put(f"projects/-work-tides/{session}.jsonl", "".join(lines))


def mask(lab: SecretLab, pattern: str | None = None) -> Applied:
    with closing(open_writer(lab.db)) as conn:
        if pattern is None:
            return apply(conn, Masker(), open_regular, NullProgress())
        return apply(conn, chosen_text(pattern), open_regular, NullProgress(), is_free_text)


def test_a_scan_counts_by_rule_and_session_and_shows_no_secret(lab: SecretLab) -> None:
    put(lab, f"one {TOKEN}", f"again {TOKEN}")
    put(lab, "nothing", number=2)
    lab.sync(enabled=False)
    with closing(sqlite3.connect(lab.db)) as conn:
        found = scan(conn, Masker(), NullProgress())
    [row] = found.as_dict()["found"]  # type: ignore[misc, attr-defined]
    assert (row["rule"], row["session_id"], row["secrets"]) == ("github-token", session_of(1), 1)
    assert TOKEN not in "\n".join(found.lines())
    assert found.found == 1


def test_applying_masks_every_text_and_leaves_nothing_in_any_page(lab: SecretLab) -> None:
    secrets = plant(lab, SOME)
    lab.sync(enabled=False)
    assert lab.holds(secrets) != set()
    applied = mask(lab)
    assert applied.is_erased
    assert set(applied.rules) == {rule.name for rule in SOME}
    assert lab.holds(secrets) == set()
    lab.sound()
    with closing(sqlite3.connect(lab.db)) as conn:
        assert scan(conn, Masker(), NullProgress()).found == 0
    assert mask(lab).rows == 0


def test_what_was_masked_later_is_as_if_it_had_been_masked_at_once(tmp_path: Path) -> None:
    found = []
    for is_late in (True, False):
        lab = SecretLab(tmp_path / str(is_late))
        put(lab, f"token {TOKEN}", "x " * 50 + TOKEN)
        lab.sync(enabled=not is_late)
        if is_late:
            mask(lab)
        found.append(content(lab.db, lab.folder))
        assert lab.verify().shown == []
    one, other = found
    assert differences(one, other) == ""


def test_verify_says_to_run_redact_and_finds_no_difference(lab: SecretLab) -> None:
    put(lab, f"token {TOKEN}")
    lab.sync(enabled=False)
    report = lab.verify()
    assert report.ok
    assert report.secrets_in_clear == 1
    assert any("redact --apply" in line for line in report.lines())
    mask(lab)
    report = lab.verify()
    assert (report.ok, report.secrets_in_clear) == (True, 0)


def test_a_chosen_text_is_masked_and_stays_so_when_the_line_is_read_again(lab: SecretLab) -> None:
    path = put(lab, "my user name is hunter2", "hunter2 again")
    lab.sync()
    applied = mask(lab, "hunter[0-9]+")
    assert applied.rules == {"match": applied.rules["match"]}
    assert lab.holds(["hunter2xx"]) == set()
    assert b"hunter2" not in lab.db.read_bytes()
    assert lab.ask("SELECT text FROM messages ORDER BY id") == [
        ("my user name is [redacted:match]",),
        ("[redacted:match] again",),
    ]
    assert lab.verify().shown == []
    path.touch()
    lab.sync()
    assert b"hunter2" not in lab.db.read_bytes()


def test_a_chosen_text_does_not_change_what_entries_are(lab: SecretLab) -> None:
    put(lab, "a user is a user")
    lab.sync()
    mask(lab, "user")
    assert lab.ask("SELECT type, kind, text FROM messages") == [
        ("user", "human", "a [redacted:match] is a [redacted:match]")
    ]
    assert lab.verify().shown == []


def test_a_history_line_stays_with_its_turn(lab: SecretLab) -> None:
    put(lab, f"use {TOKEN}")
    typed = {"display": f"use {TOKEN}", "timestamp": 1787565601000, "project": "/work/tides"}
    lab.put("history.jsonl", json.dumps({**typed, "sessionId": session_of(1)}) + "\n")
    lab.sync(enabled=False)
    mask(lab)
    [(prompt, turn)] = lab.ask("SELECT prompt, turn_id FROM history")
    assert (prompt, turn is not None) == ("use [redacted:github-token]", True)


def test_the_next_sync_erases_what_a_reader_has_kept(lab: SecretLab) -> None:
    put(lab, f"token {TOKEN}")
    lab.sync(enabled=False)
    with closing(sqlite3.connect(lab.db)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM messages").fetchone()
        impatient = "from ctxdb.store.erase_pages import *; erase_pages.__defaults__ = (0.2,)\n"
        done = run_python(impatient + RUN, "--db", lab.db, "redact", "--apply")
        assert done.returncode == 1
        assert "not yet erased" in done.stdout
        reader.execute("COMMIT")
    lab.sync()
    assert lab.holds([secret_of(RULES[0]), TOKEN]) == set()


# -- settings ------------------------------------------------------------------------------------


def test_rules_of_the_user_mask_and_rules_can_be_switched_off(lab: SecretLab) -> None:
    own = {"name": "acme", "keyword": "acme-", "pattern": "acme-(?P<secret>[0-9]{6})"}
    put(lab, f"acme-123456 and {TOKEN}")
    lab.sync(rules=[own], off=["github-token"])
    assert lab.ask("SELECT text FROM messages") == [(f"acme-[redacted:acme] and {TOKEN}",)]


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"redact.off": ["no-such-rule"]}, "there is no rule"),
        ({"redact.rules": [{"name": "a", "keyword": "abc", "pattern": "abc["}]}, "no regular"),
        ({"redact.rules": [{"name": "a", "keyword": "abc", "pattern": "abc.*"}]}, "no bound"),
        ({"redact.rules": [{"name": "a", "keyword": "ab", "pattern": "abc"}]}, "keyword"),
        ({"redact.rules": [{"name": "A b", "keyword": "abc", "pattern": "abc"}]}, "no name"),
        ({"redact.rules": [{"name": "jwt", "keyword": "abc", "pattern": "abc"}]}, "two rules"),
        ({"redact.rules": [{"name": "a", "pattern": "abc"}]}, "a rule has"),
    ],
)
def test_a_bad_rule_is_an_error_in_one_line(settings: dict[str, object], why: str) -> None:
    with pytest.raises(ConfigError, match=why) as caught:
        masker_of({**DEFAULTS, **settings})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+b",
        "(?:a{1,5}){2,9}",
        "(a|b){2,50}",
        r"(a)\1{1,9}",
        "a{1,5000}",
        "a{1,400}b{1,400}",
        "a?",
    ],
)
def test_a_pattern_that_could_take_long_is_refused(pattern: str) -> None:
    with pytest.raises(BadPattern):
        check_pattern(pattern)


@pytest.mark.parametrize(
    "pattern", [r"acme_[a-z0-9]{20,40}", r"(?:acme|ACME)-\d{6}", r"k=[^\s\]]{8}"]
)
def test_usual_patterns_are_accepted(pattern: str) -> None:
    check_pattern(pattern)


def test_a_chosen_pattern_may_have_repeats_without_end_but_not_nested() -> None:
    chosen_text(r"hunter\d+")
    with pytest.raises(UsageError, match="inside another"):
        chosen_text(r"(a+)+")


# -- the command -----------------------------------------------------------------------------------


def test_the_command_lists_rules_and_refuses_what_makes_no_sense(lab: SecretLab) -> None:
    lab.sync()
    done = run_python(RUN, "--db", lab.db, "redact", "--rules")
    assert "github-token" in done.stdout.splitlines()
    assert run_python(RUN, "--db", lab.db, "redact").returncode == 2
    assert run_python(RUN, "--db", lab.db, "redact", "--scan", "--match", "x").returncode == 2
    assert run_python(RUN, "--db", lab.db.parent / "none.db", "redact", "--apply").returncode == 1


def test_the_command_names_what_still_has_the_text_in_clear(lab: SecretLab, tmp_path: Path) -> None:
    put(lab, "hunter2 spoke")
    lab.put(
        f"projects/-work-hunter2/{session_of(2)}.jsonl",
        json.dumps(entry(session_of(2), 1, "user", "hello")) + "\n",
    )
    lab.sync()
    backup = tmp_path / "backup"
    assert run_python(RUN, "--db", lab.db, "backup", backup).returncode == 0
    kept = lab.db.with_name("ctxdb.db.before-rebuild")
    kept.touch()
    done = run_python(RUN, "--db", lab.db, "redact", "--apply", "--match", "hunter2")
    assert done.returncode == 0, done
    assert "1 file with this in the path. ctxdb opens files by their paths" in done.stderr
    assert "\\n" not in done.stderr
    assert f"{kept} is as it was" in done.stderr
    assert f"The backup in {backup} is as it was" in done.stderr


@EVERY_20TH
def test_case_100_a_kill_at_any_statement_of_redact_loses_nothing(
    lab: SecretLab, every: int
) -> None:
    for number in (1, 2, 3):
        put(lab, f"token {TOKEN}", f"text {number}", number=number)
    lab.sync(enabled=False)
    rows = lab.ask("SELECT count(*) FROM messages")
    saved = Saved(lab.db.parent)
    masked = [f"token {TOKEN}", "token [redacted:github-token]"]
    seen = Seen()
    for _ in kills(every, ["--db", lab.db, "redact", "--apply"], saved.put_back):
        if not seen.is_new(lab.db.parent):
            continue
        lab.sound()
        assert lab.ask("SELECT count(*) FROM messages") == rows
        found = {text for (text,) in lab.ask("SELECT text FROM messages WHERE text LIKE 'token%'")}
        assert len(found) == 1  # all of them or none
        assert found <= set(masked)
        mask(lab)
        lab.sync()
        assert lab.holds([TOKEN]) == set()
    assert lab.holds([TOKEN]) == set()


@EVERY_20TH
def test_case_100_a_failing_write_of_redact_loses_nothing(lab: SecretLab, every: int) -> None:
    for number in (1, 2, 3):
        put(lab, f"token {TOKEN}", f"text {number}", number=number)
    lab.sync(enabled=False)
    rows = lab.ask("SELECT count(*) FROM messages")
    saved = Saved(lab.db.parent)
    seen = Seen()
    for failed in failures(every, ["--db", lab.db, "redact", "--apply"], saved.put_back):
        assert failed.done.returncode in (0, 1)
        if not seen.is_new(lab.db.parent):
            continue
        lab.sound()
        assert lab.ask("SELECT count(*) FROM messages") == rows
        mask(lab)
        lab.sync()
        assert lab.holds([TOKEN]) == set()


@pytest.mark.parametrize("are_sources_gone", [False, True])
def test_a_rebuild_does_not_bring_back_what_was_chosen(
    lab: SecretLab, are_sources_gone: bool
) -> None:
    word = "hunter2xyz"
    session = session_of(1)
    lines = [*lines_with(word, session), *lines_of_git(word, session)]
    lab.put(f"projects/-work-tides/{session}.jsonl", b"".join(lines))
    put_beside(lab, session, word)
    typed = {"display": f"typed {word}", "timestamp": 1756029600000, "project": "/work/tides"}
    lab.put("history.jsonl", json.dumps(typed) + "\n")
    config = lab.config()._replace(archive=True)
    sync(config, progress=NullProgress())
    mask(lab, "hunter2[a-z]+")
    assert lab.holds([word]) == set()
    assert lab.verify().shown == []
    if are_sources_gone:
        for path in lab.folder.rglob("*"):
            if path.is_file() and lab.db.parent not in path.parents:
                path.unlink()
        sync(config, progress=NullProgress())
    before = content(lab.db)
    done = rebuild(config, NullProgress())
    assert done.carried_sessions == 0
    lab.db.with_name("ctxdb.db.before-rebuild").unlink(missing_ok=True)
    assert lab.holds([word]) == set()
    assert differences(before, content(lab.db)) == ""
    lab.sound()
    assert lab.verify().shown == []


def lines_of_git(word: str, session: str) -> list[bytes]:
    """A word in the name of a branch that git prints, and in a key: the path of a snapshot."""
    call = {"type": "tool_use", "id": "toolu_git", "name": "Bash"}
    result = {"type": "tool_result", "tool_use_id": "toolu_git"}
    said = f"[fix-{word}-now 1a2b3c4] Mend it\n 1 file changed\n"
    saved = {f"/work/tides/{word}.py": {"backupFileName": "937a2f4c2a63d9e4@v1", "version": 1,
                                        "backupTime": f"{BEGAN}58.000Z"}}  # fmt: skip
    lines = [
        entry(session, 91, "assistant", [{**call, "input": {"command": "git commit -m x"}}]),
        entry(session, 92, "user", [{**result, "content": said}]),
        {"type": "file-history-snapshot", "messageId": entry(session, 91, "user", "")["uuid"],
         "snapshot": {"trackedFileBackups": saved, "timestamp": f"{BEGAN}58.000Z"},
         "isSnapshotUpdate": False},
    ]  # fmt: skip
    return [json.dumps(line).encode() + b"\n" for line in lines]


@pytest.mark.parametrize("word", ["Caveat", "command", "interrupted", "Another", "out"])
def test_a_chosen_word_does_not_change_which_turns_there_are(lab: SecretLab, word: str) -> None:
    put(
        lab,
        "<command-name>/review</command-name><command-args>the tides</command-args>",
        "[Request interrupted by user]",
        "Another Claude session sent a message: <teammate-message>look</teammate-message>",
        "what is out there",
    )
    lab.sync()
    what = "SELECT session_id, ordinal, kind FROM turns ORDER BY 1, 2"
    kinds = "SELECT kind FROM messages ORDER BY id"
    turns, before = lab.ask(what), lab.ask(kinds)
    mask(lab, word)
    assert lab.verify().shown == []
    rebuild(lab.config(), NullProgress())
    assert (lab.ask(what), lab.ask(kinds)) == (turns, before)


def test_every_key_that_is_read_is_left_as_it_is() -> None:
    asked = set()
    for path in Path(structure_keys.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                key = node.args[0] if node.func.attr == "get" and node.args else None
            else:
                key = node.slice if isinstance(node, ast.Subscript) else None
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                asked.add(key.value)
    assert len(asked) > 100
    assert {key for key in asked if "." not in key} <= structure_keys.READ_KEYS


def test_a_scan_counts_files_with_a_secret_in_their_path_and_does_not_show_it(
    lab: SecretLab,
) -> None:
    session = session_of(1)
    key = next(rule.example for rule in RULES if rule.name.startswith("aws"))
    line = json.dumps(entry(session, 1, "user", "hello")) + "\n"
    lab.put(f"projects/-work-{key}/{session}.jsonl", line)
    lab.sync()
    with closing(sqlite3.connect(lab.db)) as conn:
        found = scan(conn, Masker(), NullProgress())
    assert found.names == 1
    assert "1 file with a secret in the path" in "\n".join(found.lines())
    assert key not in "\n".join(found.lines())
