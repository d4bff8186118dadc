"""`redact.archive = true`: secrets are overwritten in the archive, and nothing else is lost."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ctxdb.archive.add import QUIET_SECONDS
from ctxdb.archive.archive_file import archive_path, open_archive_to_read
from ctxdb.archive.check import check_archive
from ctxdb.archive.read import ArchiveReader, generations
from ctxdb.config import Config
from ctxdb.ingest.archiving import seal
from ctxdb.ingest.masked_line import SHIPPED
from ctxdb.ingest.plan import utc_now
from ctxdb.ingest.sync import sync
from ctxdb.privacy.secret_rules import RULES
from ctxdb.progress import NullProgress
from ctxdb.rebuild.rebuild import rebuild
from ctxdb.redact.archived import mask_archive
from ctxdb.store.connection import open_writer
from kill_lab import EVERY_20TH, Saved, failures, kills
from private_lab import texts_in
from quick_tables import copy_tables
from secret_lab import SecretLab, entry, plant, session_of, words_of
from seen_files import Seen
from snapshot import content, differences
from thinning import thinned
from world import RUN, Done, run_python

TOKEN = next(rule.example for rule in RULES if rule.name == "github-token")
NEVER = "9999"  # sorts after every time: everything counts as quiet


def config(lab: SecretLab, **settings: Any) -> Config:
    found = lab.config(**{"archive": True, **settings})
    return found._replace(archive=True)


def read(lab: SecretLab, **settings: Any) -> None:
    done = sync(config(lab, **settings), progress=NullProgress())
    assert done.problems == []


def put(lab: SecretLab, *texts: str, number: int = 1) -> Path:
    session = session_of(number)
    lines = [json.dumps(entry(session, n, "user", text)) + "\n" for n, text in enumerate(texts, 1)]
    return lab.put(f"projects/-work-tides/{session}.jsonl", "".join(lines))


def sealed(lab: SecretLab) -> None:
    seal(lab.db, utc_now(), quiet_since=NEVER, smallest=0)


def archived(lab: SecretLab) -> dict[str, bytes]:
    """The newest generation of each file, every byte checked."""
    archive = open_archive_to_read(lab.db)
    assert archive is not None
    with closing(archive):
        checked = check_archive(archive, lambda _: None)
        assert (checked.damaged, checked.different) == ([], [])
        reader = ArchiveReader(archive)
        return {file.open_path: reader.read(file) for file in generations(archive)}


def held(lab: SecretLab, secrets: list[str]) -> set[bytes]:
    """Which words of secrets are in the archive: in its file, in a frame or in a block."""
    words = {word for secret in secrets for word in words_of(secret)}
    found: set[bytes] = set()
    for place, data in texts_in(lab.db.parent):  # freed pages too
        if "archive" in place:
            lowered = data.lower()
            found |= {word for word in words if word in lowered}
    return found


@pytest.fixture(autouse=True)
def _quick_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    copy_tables(monkeypatch)


@pytest.fixture
def lab(tmp_path: Path) -> SecretLab:
    made = SecretLab(tmp_path / "claude")
    made.root.mkdir(parents=True)
    return made


def command(lab: SecretLab, *words: str) -> Done:
    """The command line with redact.archive on."""
    home = lab.folder.parent / "config"
    (home / "ctxdb").mkdir(parents=True, exist_ok=True)
    (home / "ctxdb/config.toml").write_text("[redact]\narchive = true\n")
    return run_python(RUN, "--db", lab.db, *words, env={**os.environ, "XDG_CONFIG_HOME": str(home)})


@pytest.mark.slow
def test_planted_secrets_of_every_rule_are_in_no_frame_and_in_no_file(lab: SecretLab) -> None:
    secrets = plant(lab)
    read(lab, archive=True)
    assert held(lab, secrets) == set()
    assert lab.holds(secrets) == set()
    sources = {str(path): path.read_bytes() for path in lab.folder.rglob("*.jsonl")}
    for path, data in archived(lab).items():
        if path in sources:
            assert len(data) == len(sources[path])  # every other byte is where it was
            assert _differing_are_stars(data, sources[path])
    sealed(lab)
    assert held(lab, secrets) == set()
    assert lab.verify().shown == []


def _differing_are_stars(data: bytes, source: bytes) -> bool:
    return all(
        one in (other, ord("*")) for one, other in zip(data, source, strict=True) if one != other
    )


def test_without_the_setting_the_archive_has_the_exact_bytes(lab: SecretLab) -> None:
    path = put(lab, f"token {TOKEN}")
    read(lab, archive=False)
    assert archived(lab)[str(path)] == path.read_bytes()


def test_a_rebuild_from_overwritten_bytes_alone_gives_the_same_rows(lab: SecretLab) -> None:
    plant(lab, RULES[:4])
    read(lab)
    sealed(lab)
    shutil.rmtree(lab.root)
    for name in ("todos", "plans"):
        shutil.rmtree(lab.folder / name)
    (lab.folder / "history.jsonl").unlink()
    lab.root.mkdir()
    read(lab)
    before = content(lab.db, lab.folder)
    done = rebuild(config(lab), NullProgress())
    assert done.carried_sessions == 0
    assert done.from_archive > 6
    assert differences(before, content(lab.db, lab.folder)) == ""


def test_a_new_database_is_read_from_overwritten_bytes(lab: SecretLab) -> None:
    put(lab, f"token {TOKEN}", "plain")
    read(lab)
    shutil.rmtree(lab.root)
    lab.root.mkdir()
    for path in lab.db.parent.glob("ctxdb.db*"):
        if "archive" not in path.name:
            path.unlink()
    read(lab)
    assert lab.ask("SELECT text FROM messages ORDER BY byte_start") == [
        ("token [redacted:github-token]",),
        ("plain",),
    ]


def test_restore_says_that_it_is_not_exact_and_a_sync_finds_the_same_rows(lab: SecretLab) -> None:
    path = put(lab, f"token {TOKEN}", "plain")
    flat = {"type": "never-seen", "sessionId": session_of(1), "value": TOKEN}  # no uuid
    path.write_text(path.read_text() + json.dumps(flat) + "\n")
    whole = path.read_bytes()
    read(lab)
    before = content(lab.db, lab.folder)
    path.unlink()
    read(lab)
    done = command(lab, "restore", session_of(1))
    assert done.returncode == 0
    assert "Not exact: 2 secrets are overwritten with *" in done.stderr
    assert path.read_bytes() == whole.replace(TOKEN.encode(), b"*" * len(TOKEN))
    read(lab)
    assert lab.ask("SELECT source_deleted_at FROM sessions") == [(None,)]
    found = content(lab.db, lab.folder)
    for one in (before, found):
        for table in ("source_files", "_file_marks"):  # when it was seen
            one.pop(table, None)
    assert differences(before, found) == ""
    assert lab.verify().shown == []
    again = json.loads(command(lab, "restore", session_of(1), "--json").stdout)
    assert (again["written"], again["present"]) == ([], [str(path)])
    # The exact file counts as restored too.
    path.write_bytes(whole)
    assert command(lab, "restore", session_of(1)).returncode == 0
    assert path.read_bytes() == whole
    read(lab)
    assert lab.verify().shown == []
    assert lab.ask("SELECT count(*) FROM events") == [(1,)]


@pytest.mark.parametrize("is_sealed", thinned([True, False], 2))
def test_applying_overwrites_what_is_archived_already(lab: SecretLab, is_sealed: bool) -> None:
    secrets = plant(lab, RULES[:4])
    read(lab, archive=False)
    if is_sealed:
        sealed(lab)
    assert held(lab, secrets) != set()
    assert "in the archive" not in command(lab, "redact", "--rules").stdout
    counted = json.loads(command(lab, "redact", "--scan", "--json").stdout)
    assert sum(counted["archive"].values()) > 20
    done = json.loads(command(lab, "redact", "--apply", "--json").stdout)
    assert done["archive"]["secrets"] == sum(counted["archive"].values())
    assert held(lab, secrets) == set()
    assert archived(lab)  # and all else is intact
    assert command(lab, "archive", "verify").returncode == 0
    assert "secrets overwritten with *" in command(lab, "status").stdout
    again = json.loads(command(lab, "redact", "--apply", "--json").stdout)
    assert again["archive"]["secrets"] == 0


def test_a_chosen_text_is_overwritten_in_the_archive_too(lab: SecretLab) -> None:
    path = put(lab, "my user name is hunter2xyz", "hunter2xyz again")
    read(lab)
    done = command(lab, "redact", "--apply", "--match", "hunter2[a-z]+")
    assert "In the archive: 2 secrets overwritten with * in 1 file." in done.stdout
    assert held(lab, ["hunter2xyz"]) == set()
    path.unlink()
    rebuild(config(lab), NullProgress())
    assert lab.ask("SELECT text FROM messages ORDER BY byte_start") == [
        ("my user name is [redacted:match]",),
        ("[redacted:match] again",),
    ]


def test_a_secret_that_comes_in_two_parts_is_overwritten_when_its_line_is_complete(
    lab: SecretLab,
) -> None:
    path = put(lab, f"token {TOKEN}")
    whole = path.read_bytes()
    cut = whole.index(TOKEN.encode()) + 10
    path.write_bytes(whole[:cut])
    old = path.stat().st_mtime - QUIET_SECONDS - 10
    os.utime(path, (old, old))
    read(lab)
    assert archived(lab)[str(path)] == whole[:cut]
    path.write_bytes(whole)
    read(lab)
    assert archived(lab)[str(path)] == whole.replace(TOKEN.encode(), b"*" * len(TOKEN))
    assert held(lab, [TOKEN]) == set()


def test_a_rewritten_file_starts_a_generation_and_an_appended_one_does_not(lab: SecretLab) -> None:
    path = put(lab, f"token {TOKEN}", "two")
    read(lab)
    with path.open("a") as file:
        file.write(json.dumps(entry(session_of(1), 3, "user", "three")) + "\n")
    read(lab)
    os.utime(path)
    read(lab)
    with closing(sqlite3.connect(archive_path(lab.db))) as conn:
        assert conn.execute("SELECT count(*) FROM files").fetchone() == (1,)
    put(lab, "now other", "lines")
    read(lab)
    with closing(sqlite3.connect(archive_path(lab.db))) as conn:
        assert conn.execute("SELECT count(*) FROM files").fetchone() == (2,)


def test_status_says_when_only_new_bytes_are_overwritten(lab: SecretLab) -> None:
    put(lab, "before")
    read(lab, archive=False)
    put(lab, f"token {TOKEN}", number=2)
    read(lab)
    said = command(lab, "archive", "status").stdout
    assert "1 secret overwritten with *, not in all of it: `ctxdb redact --apply`" in said
    command(lab, "redact", "--apply")
    assert "not in all of it" not in command(lab, "archive", "status").stdout


@EVERY_20TH
def test_case_94_killed_while_it_is_overwritten_the_archive_is_whole(
    lab: SecretLab, every: int
) -> None:
    for number in (1, 2, 3):
        put(lab, f"token {TOKEN}", f"text {number}", number=number)
    read(lab, archive=False)
    saved = Saved(lab.db.parent)
    words = ["--db", lab.db]
    seen = Seen()
    for _ in kills(every, words, saved.put_back, code=MASK):
        if not seen.is_new(lab.db.parent):
            continue
        assert len(archived(lab)) == 3  # checks every byte
        _mask(lab)
        assert held(lab, [TOKEN]) == set()
    assert held(lab, [TOKEN]) == set()


@EVERY_20TH
def test_case_94_a_write_that_fails_while_it_is_overwritten_loses_nothing(
    lab: SecretLab, every: int
) -> None:
    for number in (1, 2, 3):
        put(lab, f"token {TOKEN}", f"text {number}", number=number)
    read(lab, archive=False)
    saved = Saved(lab.db.parent)
    seen = Seen()
    for failed in failures(every, ["--db", lab.db], saved.put_back, code=MASK):
        assert failed.done.returncode in (0, 1)
        if not seen.is_new(lab.db.parent):
            continue
        assert len(archived(lab)) == 3
        _mask(lab)
        assert held(lab, [TOKEN]) == set()


# Runs `redact --apply` with redact.archive on.
MASK = """
import sys
from ctxdb import settings
settings.DEFAULTS = {**settings.DEFAULTS, "redact.archive": True}
from ctxdb import config
config.DEFAULTS = settings.DEFAULTS
sys.argv += ["redact", "--apply"]
from ctxdb.cli.main import main
main()
"""


def _mask(lab: SecretLab) -> None:
    with closing(open_writer(lab.db)) as conn:
        mask_archive(lab.db, conn, SHIPPED, NullProgress())
