"""Everything that can happen to transcripts, in any sequence, against a model of a few sets.

The model remembers which complete lines were on disk at any sync. After every sync the database
must hold each of them exactly once: messages by uuid, events by how often the same line stood in a
file of its session. Nothing else may be in it, every offset must be just after the last newline,
`verify` must agree, and another sync must read nothing and change nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import tempfile
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from builder import OTHER_PROJECT, PROJECT, Json, Transcript, World, dumps, text, thinking, tool_use
from ctxdb.files.identity import HEAD_BYTES
from ctxdb.ingest import run as ingest
from lab import Lab
from world import SMALL_BATCHES, run_python

if TYPE_CHECKING:
    from collections.abc import Iterable

FOLDERS = (PROJECT, OTHER_PROJECT, "moved")
KINDS = ("prompt", "reply", "tool", "title", "mode", "progress", "blank", "bad")
KILLED = -9


@dataclass
class Seen:
    """What a database must hold: all that was on disk at any of its syncs."""

    messages: set[str] = field(default_factory=set)
    calls: set[str] = field(default_factory=set)
    requests: set[str] = field(default_factory=set)
    events: dict[tuple[str, bytes], int] = field(default_factory=dict)

    def copy(self) -> Seen:
        return Seen({*self.messages}, {*self.calls}, {*self.requests}, {**self.events})

    def look(self, session: str, lines: list[bytes]) -> None:
        """Take in the complete lines of a file."""
        flat: Counter[bytes] = Counter()
        for line in lines:
            for entry in entries(line):
                if entry["type"] == "progress":
                    continue
                if "uuid" in entry:
                    self.messages.add(entry["uuid"])
                    self.look_inside(entry)
                else:
                    flat[dumps(entry)] += 1
        for line, times in flat.items():
            key = (session, line)
            self.events[key] = max(times, self.events.get(key, 0))

    def look_inside(self, entry: Json) -> None:
        if "requestId" in entry:
            self.requests.add(entry["requestId"])
        for block in entry["message"]["content"]:
            if isinstance(block, dict) and block["type"] in ("tool_use", "tool_result"):
                self.calls.add(block.get("id") or block["tool_use_id"])


def entries(line: bytes) -> list[Json]:
    """The whole objects that a line begins with: a crash can leave two of them on one line."""
    found: list[Json] = []
    said, at = line.decode(), 0
    while at < len(said):
        try:
            entry, at = json.JSONDecoder().raw_decode(said, at)
        except ValueError:
            break
        found.append(entry)
    return found


def complete_lines(data: bytes) -> list[bytes]:
    return data.split(b"\n")[:-1]


class Transcripts(RuleBasedStateMachine):
    """Files on disk, a database, and what it must hold."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="ctxdb-model-"))
        self.lab = Lab(self.folder)
        self.world = World()
        self.writers: dict[str, Transcript] = {}  # by session: who writes its next line
        self.halves: dict[Path, bytes] = {}  # what is missing of an unfinished last line
        self.trash: dict[Path, bytes] = {}
        self.seen = Seen()
        self.backups: list[tuple[bytes, Seen]] = []
        self.has_changed = False  # a line says something else than it did

    def teardown(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    # -- the disk ------------------------------------------------------------------------------

    def files(self) -> list[Path]:
        return sorted(self.lab.root.rglob("*.jsonl"))

    def choose(self, data: st.DataObject, paths: Iterable[Path] | None = None) -> Path:
        names = [str(p.relative_to(self.lab.root)) for p in paths or self.files()]
        return self.lab.root / data.draw(st.sampled_from(sorted(names)), label="file")

    def session_of(self, path: Path) -> str:
        return path.name[:36]

    def new_lines(self, session: str, kinds: list[str]) -> bytes:
        """The next lines that Claude Code writes in a session."""
        writer = self.writers[session]
        writer.lines.clear()
        for kind in kinds:
            if kind == "prompt":
                writer.prompt(f"please {self.world.number()}")
            elif kind == "reply":
                writer.reply(thinking("hm"), text("yes"))
            elif kind == "tool":
                call = tool_use(self.world, "Bash", {"command": "ls"})
                writer.reply(call)
                writer.result(call["id"], "a.py")
            elif kind == "title":
                writer.custom_title(f"title {self.world.number() % 3}")
            elif kind == "mode":
                writer.flat("mode", mode="normal", sessionId=session)
            elif kind == "progress":
                writer.progress()
            else:
                writer.raw(b"" if kind == "blank" else b'{"torn": "')
        return writer.data

    def rewrite(self, path: Path, data: bytes, *, in_place: bool) -> None:
        if in_place:
            with path.open("r+b") as file:
                file.write(data)
                file.truncate()
        else:
            other = path.with_suffix(".tmp")
            other.write_bytes(data)
            other.replace(path)
        self.halves.pop(path, None)

    # -- what happens --------------------------------------------------------------------------

    @initialize()
    def begin(self) -> None:
        self.create(PROJECT, ["prompt", "reply"])

    @precondition(lambda self: len(self.files()) < 5)
    @rule(folder=st.sampled_from(FOLDERS), kinds=st.lists(st.sampled_from(KINDS), max_size=3))
    def create(self, folder: str, kinds: list[str]) -> None:
        session = self.world.uuid()
        self.writers[session] = Transcript(self.world, "", session)
        path = self.lab.put(f"{folder}/{session}.jsonl", b"")
        path.write_bytes(self.new_lines(session, kinds))

    @precondition(lambda self: self.files())
    @rule(data=st.data(), kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=4))
    def append(self, data: st.DataObject, kinds: list[str]) -> None:
        path = self.choose(data)
        self.finish(path)
        with path.open("ab") as file:
            file.write(self.new_lines(self.session_of(path), kinds))

    @precondition(lambda self: self.files())
    @rule(data=st.data(), kind=st.sampled_from(["prompt", "title", "reply"]))
    def append_partial(self, data: st.DataObject, kind: str) -> None:
        path = self.choose(data)
        self.finish(path)
        lines = self.new_lines(self.session_of(path), [kind])
        cut = data.draw(st.integers(1, len(lines) - 1), label="cut")
        with path.open("ab") as file:
            file.write(lines[:cut])
        self.halves[path] = lines[cut:]

    @precondition(lambda self: self.halves)
    @rule(data=st.data())
    def finish_partial(self, data: st.DataObject) -> None:
        self.finish(self.choose(data, self.halves))

    def finish(self, path: Path) -> None:
        rest = self.halves.pop(path, b"")
        with path.open("ab") as file:
            file.write(rest)

    @precondition(lambda self: self.files())
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        path = self.choose(data)
        size = data.draw(st.integers(0, path.stat().st_size), label="size")
        os.truncate(path, size)
        self.halves.pop(path, None)

    @precondition(lambda self: self.files())
    @rule(data=st.data(), in_place=st.booleans())
    def drop_a_line(self, data: st.DataObject, in_place: bool) -> None:
        """Claude Code removes an orphaned answer from the middle of a file."""
        path = self.choose(data)
        lines = path.read_bytes().splitlines(keepends=True)
        if lines:
            del lines[data.draw(st.integers(0, len(lines) - 1), label="line")]
            self.rewrite(path, b"".join(lines), in_place=in_place)

    @precondition(lambda self: self.files())
    @rule(data=st.data(), in_place=st.booleans())
    def replace_with_same_size(self, data: st.DataObject, in_place: bool) -> None:
        """Another entry in place of one, as long as it, and the clock of the file set back.

        The first kilobyte and the bytes before the offset are what a file is known by: a change
        between these that leaves its size as it was goes unnoticed.
        """
        path = self.choose(data)
        lines = path.read_bytes().splitlines(keepends=True)
        known_by = [
            n
            for n in range(len(lines))
            if sum(map(len, lines[: n + 1])) <= HEAD_BYTES or n == len(lines) - 1
        ]
        named = [n for n in known_by if ["uuid" in e for e in entries(lines[n])] == [True]]
        if not named:
            return
        nth = data.draw(st.sampled_from(named), label="line")
        (entry,) = entries(lines[nth])
        entry["uuid"] = self.world.uuid()
        entry["timestamp"] = self.world.now()  # with the old one it would be a replay
        lines[nth] = dumps(entry) + b"\n"
        before = path.stat()
        self.rewrite(path, b"".join(lines), in_place=in_place)
        assert path.stat().st_size == before.st_size
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    @precondition(lambda self: self.files())
    @rule(data=st.data())
    def change_a_line(self, data: st.DataObject) -> None:
        """The same entry says something else of the same length: more was spent on it."""
        path = self.choose(data)
        content = path.read_bytes()
        spent = data.draw(st.integers(11, 99), label="tokens")
        changed = content.replace(b'"input_tokens":10', b'"input_tokens":%d' % spent)
        if changed != content:
            self.has_changed = True
            self.rewrite(path, changed, in_place=False)

    @precondition(lambda self: self.files())
    @rule(data=st.data(), folder=st.sampled_from(FOLDERS), suffix=st.sampled_from(["", ".old"]))
    def rename_file(self, data: st.DataObject, folder: str, suffix: str) -> None:
        path = self.choose(data)
        to = self.lab.root / folder / f"{self.session_of(path)}{suffix}.jsonl"
        if not to.exists():
            to.parent.mkdir(exist_ok=True)
            path.rename(to)
            if path in self.halves:
                self.halves[to] = self.halves.pop(path)

    @rule(data=st.data(), number=st.integers(0, 3))
    def rename_folder(self, data: st.DataObject, number: int) -> None:
        folders = [path for path in self.lab.root.iterdir() if path.is_dir()]
        if not folders:
            return
        folder = self.choose(data, folders)
        to = folder.with_name(f"renamed-{number}")
        if not to.exists():
            folder.rename(to)
            for path in [path for path in self.halves if path.parent == folder]:
                self.halves[to / path.name] = self.halves.pop(path)

    @precondition(lambda self: self.files())
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        path = self.choose(data)
        self.trash[path] = path.read_bytes()
        self.halves.pop(path, None)
        path.unlink()

    @precondition(lambda self: self.trash)
    @rule(data=st.data(), kinds=st.lists(st.sampled_from(KINDS), max_size=2))
    def recreate(self, data: st.DataObject, kinds: list[str]) -> None:
        path = self.choose(data, self.trash)
        content = self.trash.pop(path)
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            kept = data.draw(st.integers(0, 1), label="as it was") * content
            path.write_bytes(kept + self.new_lines(self.session_of(path), kinds))

    @precondition(lambda self: self.files())
    @rule(data=st.data(), folder=st.sampled_from(FOLDERS))
    def copy_file(self, data: st.DataObject, folder: str) -> None:
        path = self.choose(data)
        to = self.lab.root / folder / path.name
        if not to.exists():
            to.parent.mkdir(exist_ok=True)
            shutil.copyfile(path, to)

    @rule()
    def keep_the_database(self) -> None:
        self.backups.append((self.lab.db.read_bytes(), self.seen.copy()))

    @precondition(lambda self: self.backups)
    @rule(data=st.data())
    def restore_an_older_database(self, data: st.DataObject) -> None:
        older, seen = self.backups[data.draw(st.integers(0, len(self.backups) - 1), label="backup")]
        self.lab.db.write_bytes(older)
        self.seen = seen.copy()
        self.sync()

    @rule(
        when=st.sampled_from(["before_commit", "after_commit"]),
        nth=st.integers(1, 6),
        reader=st.sampled_from(["same", "second"]),
    )
    def kill_and_restart(self, when: str, nth: int, reader: str) -> None:
        """A sync in batches of a line that dies at its nth commit, if it has that many."""
        env = {**os.environ, "CTXDB_TEST_KILL": f"{when}:{nth}", "READER": reader}
        args = ("--db", self.lab.db, "sync", "--root", self.lab.root)
        done = run_python(SMALL_BATCHES, *args, env=env)
        assert done.returncode in (0, KILLED), done.stderr
        self.sync()

    # -- what must hold ------------------------------------------------------------------------

    @rule()
    def sync(self) -> None:
        for path in self.files():
            self.seen.look(self.session_of(path), complete_lines(path.read_bytes()))
        self.lab.sync()
        self.must_hold_what_was_seen()
        self.offsets_must_be_right()
        # What has changed in the middle of a long file that has grown too, only verify notices.
        self.lab.must_verify(again=not self.has_changed)
        self.another_sync_must_do_nothing()

    def must_hold_what_was_seen(self) -> None:
        seen = self.seen
        self.must_be("SELECT uuid FROM messages", [(uuid,) for uuid in seen.messages])
        self.must_be("SELECT tool_use_id FROM tool_uses", [(call,) for call in seen.calls])
        self.must_be("SELECT request_id FROM usage", [(request,) for request in seen.requests])
        self.must_be(
            "SELECT session_id, json(data) FROM events",
            [
                (session, line.decode())
                for (session, line), times in seen.events.items()
                for _ in range(times)
            ],
        )

    def must_be(self, sql: str, expected: list[tuple[Any, ...]]) -> None:
        found, wanted = Counter(self.lab.rows(sql)), Counter(expected)
        lost, extra = wanted - found, found - wanted
        assert (lost, extra) == ({}, {}), f"{sql}: lost {dict(lost)}, too much {dict(extra)}"

    def offsets_must_be_right(self) -> None:
        found = {
            path: rest
            for path, *rest in self.lab.rows(
                'SELECT path, "offset", lines, size, missing_since IS NOT NULL FROM source_files'
            )
        }
        here = {str(path) for path in self.files()}
        assert here <= found.keys()
        for name, (offset, lines, size, is_missing) in found.items():
            assert is_missing == (name not in here)
            if not is_missing:
                data = Path(name).read_bytes()
                whole = complete_lines(data)
                assert (lines, size) == (len(whole), len(data))
                assert offset == sum(len(line) + 1 for line in whole)

    def another_sync_must_do_nothing(self) -> None:
        before = self.dump()
        report = self.lab.sync()
        assert report.lines_read == 0
        changed = self.dump().symmetric_difference(before)
        assert not changed, changed

    def dump(self) -> set[str]:
        """All there is in the database, as statements."""
        with closing(sqlite3.connect(self.lab.db)) as conn:
            return set(conn.iterdump())


def test_every_line_is_in_exactly_once_whatever_happens_to_its_file() -> None:
    run_state_machine_as_test(
        Transcripts,
        settings=settings(max_examples=6, stateful_step_count=15, derandomize=True),
    )


@pytest.mark.crash
@pytest.mark.timeout(7200)
def test_every_line_is_in_exactly_once_whatever_happens_for_long() -> None:
    run_state_machine_as_test(
        Transcripts, settings=settings(max_examples=300, stateful_step_count=50)
    )


# -- examples, kept by name ------------------------------------------------------------------------


def test_a_session_whose_file_was_renamed_and_cut_is_not_deleted(tmp_path: Path) -> None:
    one = Lab(tmp_path)
    world = World()
    session = world.session()
    session.prompt("first")
    session.prompt("second")
    path = one.put(session.path, session.data)
    one.sync()
    path.unlink()
    one.put(f"{PROJECT}/cut.jsonl", session.data.splitlines(keepends=True)[0])
    one.sync()
    assert one.rows("SELECT id, source_deleted_at FROM sessions") == [(session.session, None)]


def test_a_deleted_transcript_that_comes_back_is_not_deleted(tmp_path: Path) -> None:
    one = Lab(tmp_path)
    session = World().session()
    session.prompt("first")
    path = one.put(session.path, session.data)
    one.sync()
    path.rename(tmp_path / "away")
    one.sync()
    assert one.rows("SELECT source_deleted_at IS NULL FROM sessions") == [(0,)]
    (tmp_path / "away").rename(path)
    assert one.sync().lines_read == 0
    assert one.rows("SELECT source_deleted_at IS NULL FROM sessions") == [(1,)]


@pytest.mark.parametrize("is_back", [False, True])
def test_what_a_sync_that_was_killed_at_its_end_left_is_done_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_back: bool
) -> None:
    one = Lab(tmp_path)
    session = World().session()
    session.prompt("first")
    path = one.put(session.path, session.data)
    one.sync()
    path.rename(tmp_path / "away")
    if is_back:
        one.sync()
        (tmp_path / "away").rename(path)
    with monkeypatch.context() as patch:
        patch.setattr(ingest, "finish", stop)
        with pytest.raises(KeyboardInterrupt):
            one.sync()
    assert one.sync().lines_read == 0
    assert one.rows("SELECT source_deleted_at IS NULL FROM sessions") == [(int(is_back),)]
    one.must_verify()


def stop(*_: object) -> None:
    raise KeyboardInterrupt


def test_the_queue_of_a_rewritten_file_begins_its_turns_once(tmp_path: Path) -> None:
    one = Lab(tmp_path)
    session = World().session()
    session.prompt("first")
    session.queue("enqueue", "and then")
    session.queue("remove", "and then")
    path = one.put(session.path, session.data)
    one.sync()
    path.write_bytes(b"".join(session.data.splitlines(keepends=True)[1:]))
    one.sync()
    assert one.rows("SELECT prompt FROM turns ORDER BY ordinal") == [("first",), ("and then",)]


def test_what_follows_in_a_file_that_was_cut_belongs_to_nothing_that_was_cut_off(
    tmp_path: Path,
) -> None:
    one = Lab(tmp_path)
    session = World().session()
    for n in range(4):
        session.prompt(f"request {n}" + "!" * 300)
        session.reply(text("yes" * 100))
        session.custom_title(f"title {n}")
        session.pr_link(n)
    path = one.put(session.path, session.data)
    one.sync()
    del session.lines[2:]
    path.write_bytes(session.data)
    one.sync()
    session.prompt("go on")
    session.custom_title("another title")
    path.write_bytes(session.data)
    one.sync()
    for _ in range(12):
        session.tool("Bash", {"command": "ls"}, "file\n" * 50)
    session.pr_link(9)
    path.write_bytes(session.data)
    one.sync()
    assert one.rows("SELECT title FROM sessions") == [("another title",)]
    found = one.rows(
        "SELECT substr(t.prompt, 1, 9), (SELECT count(*) FROM messages WHERE turn_id = t.id),"
        " (SELECT group_concat(pr_number) FROM git_operations WHERE turn_id = t.id)"
        " FROM turns t ORDER BY t.started_at"
    )
    assert found == [
        ("request 0", 2, "0"),
        ("request 1", 2, "1"),
        ("request 2", 2, "2"),
        ("request 3", 2, "3"),
        ("go on", 25, "9"),
    ]
    one.must_verify()


def test_an_entry_that_tells_of_more_tokens_after_a_rewrite_is_told_anew(tmp_path: Path) -> None:
    one = Lab(tmp_path)
    session = World().session()
    session.prompt("first")
    session.reply(text("yes"))
    path = one.put(session.path, session.data)
    one.sync()
    path.write_bytes(session.data.replace(b'"input_tokens":10', b'"input_tokens":99'))
    one.sync()
    assert one.rows("SELECT input_tokens FROM usage") == [(99,)]
    one.must_verify()
