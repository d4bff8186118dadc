"""The content of the database follows from the files alone.

Not from the order in which they were found, not from how their growth fell into syncs, not from
what was read twice. Every property compares with a database that met all files in one sync; the
tests below them are examples that hypothesis (or a reader) found, kept by name.
"""

from __future__ import annotations

import os
import tarfile
from collections import deque
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builder import Json, Transcript, World, dumps, fork, text, tool_use
from ctxdb.files import tail
from ctxdb.ingest import first_sync as aside
from ctxdb.ingest import line_reader, workers
from ctxdb.ingest import run as ingest
from lab import Content, Lab, at_once, lab, must_equal
from real_corpus import CORPUS
from stories import Recipe, build, recipes
from thinning import thinned

if TYPE_CHECKING:
    from collections.abc import Iterable


Files = dict[str, bytes]
Step = tuple[str, bytes]  # a file, and what is appended to it before the next sync

# The same examples on every machine; `make crash` draws others, and many more.
briefly = settings(max_examples=4, derandomize=True)
most_briefly = settings(max_examples=3, derandomize=True)  # what takes half a second each
IN_FULL = settings.default.max_examples > 100  # in `make check`
at_length = settings(max_examples=400)


def transcripts(files: Files) -> list[str]:
    return sorted(name for name in files if name.endswith(".jsonl"))


def grow(one: Lab, files: Files, steps: Iterable[Step]) -> None:
    """Let files come into being step by step, with a sync after each."""
    for name, data in files.items():
        if not name.endswith(".jsonl"):  # meta.json is written before the agent's first line
            one.put(name, data)
    with one.one_connection():
        for name, data in steps:
            one.append(name, data)
            one.sync()


def must_come_out_equal(
    files: Files, steps: Iterable[Step], expected: Content | None = None
) -> Content:
    """What comes out; `expected` is what `at_once` gives, if that is known."""
    expected = expected or at_once(files)
    with lab() as one:
        grow(one, files, steps)
        must_equal(expected, one.content())
        one.must_verify()
    return expected


# -- (a) the order of files --------------------------------------------------------------------


def check_order(recipe: Recipe, data: st.DataObject) -> None:
    files = build(recipe).contents()
    order = data.draw(st.permutations(transcripts(files)), label="order")
    must_come_out_equal(files, [(name, files[name]) for name in order])


@briefly
@given(recipes(), st.data())
def test_the_order_of_files_does_not_matter(recipe: Recipe, data: st.DataObject) -> None:
    check_order(recipe, data)


@pytest.mark.crash
@pytest.mark.timeout(3600)
@at_length
@given(recipes(), st.data())
def test_the_order_of_many_files_does_not_matter(recipe: Recipe, data: st.DataObject) -> None:
    check_order(recipe, data)


# -- (b) how growth falls into syncs -----------------------------------------------------------


def draw_steps(files: Files, data: st.DataObject) -> list[Step]:
    """Cut files into appends, some of them in the middle of a line."""
    left = {name: files[name] for name in transcripts(files)}
    steps: list[Step] = []
    while left:
        name = data.draw(st.sampled_from(sorted(left)), label="file")
        lines = left[name].splitlines(keepends=True)
        whole = data.draw(st.integers(0, len(lines)), label="lines")
        part = b"".join(lines[:whole])
        if whole < len(lines) and data.draw(st.booleans(), label="and a half"):
            part += lines[whole][: len(lines[whole]) // 2]
        part = part or left[name]
        steps.append((name, part))
        left[name] = left[name][len(part) :]
        if not left[name]:
            del left[name]
    return steps


def check_splits(recipe: Recipe, data: st.DataObject) -> None:
    files = build(recipe).contents()
    must_come_out_equal(files, draw_steps(files, data))


@briefly
@given(recipes(), st.data())
def test_how_growth_falls_into_syncs_does_not_matter(recipe: Recipe, data: st.DataObject) -> None:
    check_splits(recipe, data)


@pytest.mark.crash
@pytest.mark.timeout(3600)
@at_length
@given(recipes(), st.data())
def test_how_much_growth_falls_into_syncs_does_not_matter(
    recipe: Recipe, data: st.DataObject
) -> None:
    check_splits(recipe, data)


def test_a_queued_turn_that_a_fork_gives_back_has_an_end() -> None:
    files = build(
        [
            ("copy", 0, ["advised"]),
            ("fork", 0, ["queued"]),
            ("fork", 1, []),
            ("copy", 1, ["advised"]),
        ]
    ).contents()
    must_come_out_equal(files, [(name, files[name]) for name in transcripts(files)])


def test_an_agent_goes_whose_messages_turn_out_to_be_copies() -> None:
    files = build([("copy", 0, ["side"]), ("elsewhere", 0, []), ("fork_twice", 0, [])]).contents()
    second_fork, fork, first = transcripts(files)
    lines = files[fork].splitlines(keepends=True)
    steps = [
        (first, files[first]),
        (fork, lines[0]),
        (second_fork, files[second_fork]),
        (fork, b"".join(lines[1:])),
    ]
    must_come_out_equal(files, steps)


def test_the_last_slug_of_a_session_holds_however_its_lines_are_read() -> None:
    recipe: Recipe = [("copy", 0, ["advised", "described"]), ("fork", 0, ["described"])]
    files = build(recipe).contents()
    lines = [(name, line) for name in transcripts(files) for line in files[name].splitlines(True)]
    found = must_come_out_equal(files, lines)
    slugs = {row["id"][:8]: row["slug"] for row in map(eval, found["sessions"])}
    assert slugs == {"2e2ac0ea": "owl-11", "9e3779b1": "owl-7"}


# -- (c) reading again -------------------------------------------------------------------------


def replace(path: Path, data: bytes) -> None:
    """The same name for another file."""
    other = path.with_suffix(".new")
    other.write_bytes(data)
    os.replace(other, path)


def disturb(one: Lab, path: Path, data: bytes, how: str, cut: int) -> None:
    """Change a file, sync, and bring it back as it was."""
    if how == "another inode":
        replace(path, data)
        return
    if how == "deleted":
        path.unlink()
    elif how == "truncated":
        os.truncate(path, cut % (len(data) + 1))
    elif how == "a line less":
        lines = data.splitlines(keepends=True)
        del lines[cut % len(lines)]
        replace(path, b"".join(lines))
    one.sync()
    one.must_verify()
    path.write_bytes(data)


DISTURBANCES = ("another inode", "deleted", "truncated", "a line less")


def check_rereading(recipe: Recipe, data: st.DataObject) -> None:
    files = build(recipe).contents()
    names = transcripts(files)
    if not names:
        return
    expected = at_once(files)
    with lab() as one:
        for name, content in files.items():
            one.put(name, content)
        one.sync()
        times = data.draw(st.integers(1, 3), label="times")
        for _ in range(times):
            name = data.draw(st.sampled_from(names), label="file")
            how = data.draw(st.sampled_from(DISTURBANCES), label="how")
            cut = data.draw(st.integers(0, 5000), label="where")
            disturb(one, one.root / name, files[name], how, cut)
            one.sync()
            one.must_verify()
        must_equal(expected, one.content())


@briefly
@given(recipes(most_files=3), st.data())
def test_reading_again_changes_nothing(recipe: Recipe, data: st.DataObject) -> None:
    check_rereading(recipe, data)


@pytest.mark.crash
@pytest.mark.timeout(3600)
@at_length
@given(recipes(most_files=4), st.data())
def test_reading_again_and_again_changes_nothing(recipe: Recipe, data: st.DataObject) -> None:
    check_rereading(recipe, data)


# -- (d) copies of folders ---------------------------------------------------------------------

COUNTED = (
    "messages",
    "events",
    "usage",
    "turns",
    "tool_uses",
    "agents",
    "sessions",
    "git_operations",
)


@briefly
@given(recipes())
def test_a_copied_project_folder_adds_nothing(recipe: Recipe) -> None:
    files = build(recipe).contents()
    copied = {f"copied-{name}": data for name, data in files.items()}
    before, after = at_once(files), at_once({**files, **copied})
    assert {t: len(after[t]) for t in COUNTED} == {t: len(before[t]) for t in COUNTED}
    assert len(after["source_files"]) == 2 * len(before["source_files"])


# -- (e) who reads, and where to ---------------------------------------------------------------


def check_reading_ahead(recipe: Recipe, data: st.DataObject) -> None:
    """In other processes, in pieces of any size, into a database built aside or one in use."""
    files = build(recipe).contents()
    names = transcripts(files)
    if not names:
        return
    expected = at_once(files)
    first = data.draw(st.sets(st.sampled_from(names)), label="first")
    with pytest.MonkeyPatch.context() as patch, lab() as one:
        patch.setattr(ingest, "READ_AHEAD_BYTES", 1)
        patch.setattr(ingest, "BATCH_BYTES", data.draw(st.sampled_from([1, 4000, 1 << 22])))
        patch.setattr(workers, "READERS", data.draw(st.integers(1, 3), label="readers"))
        if data.draw(st.booleans(), label="small chunks"):
            patch.setattr(line_reader, "CHUNK_BYTES", 1)
            patch.setattr(tail.read_block, "__defaults__", (2000, tail.MAX_LINE_BYTES))
        if data.draw(st.booleans(), label="aside"):
            patch.setattr(aside, "MIN_BYTES", 1)
            one.db.unlink()
        for some in (first, names):
            for name in some:
                one.put(name, files[name])
            for name, content in files.items():
                if not name.endswith(".jsonl"):
                    one.put(name, content)
            one.sync()
        must_equal(expected, one.content())
        one.must_verify()


@most_briefly
@given(recipes(), st.data())
def test_who_reads_and_in_what_pieces_does_not_matter(recipe: Recipe, data: st.DataObject) -> None:
    check_reading_ahead(recipe, data)


@pytest.mark.crash
@pytest.mark.timeout(3600)
@at_length
@given(recipes(), st.data())
def test_who_reads_much_and_in_what_pieces_does_not_matter(
    recipe: Recipe, data: st.DataObject
) -> None:
    check_reading_ahead(recipe, data)


# -- (f) one chunk or one line at a time -------------------------------------------------------

WAYS = ("whole files", "a line per chunk", "a line per sync")


def draw_lines(files: Files, order: list[str], data: st.DataObject) -> list[Step]:
    """All lines, each a step of its own: file after file, or files taking turns."""
    left = {name: deque(files[name].splitlines(keepends=True)) for name in order}
    takes_turns = data.draw(st.booleans(), label="files take turns")
    steps: list[Step] = []
    while left:
        name = next(iter(left))
        steps.append((name, left[name].popleft()))
        lines = left.pop(name) if takes_turns else left[name]
        if not lines:
            left.pop(name, None)
        elif takes_turns:
            left[name] = lines
    return steps


def check_pieces(recipe: Recipe, data: st.DataObject) -> None:
    """The same lines in any pieces, in any order of files, with and without workers."""
    files = build(recipe).contents()
    order = data.draw(st.permutations(transcripts(files)), label="order")
    way = data.draw(st.sampled_from(WAYS), label="way")
    steps = [(name, files[name]) for name in order]
    expected = at_once(files)
    with pytest.MonkeyPatch.context() as patch:
        if way == "a line per sync":
            steps = draw_lines(files, order, data)
        elif data.draw(st.booleans(), label="workers"):
            patch.setattr(ingest, "READ_AHEAD_BYTES", 1)
        if way == "a line per chunk":
            patch.setattr(line_reader, "CHUNK_BYTES", 1)
            patch.setattr(tail.read_block, "__defaults__", (1, tail.MAX_LINE_BYTES))
            patch.setattr(ingest, "BATCH_BYTES", data.draw(st.sampled_from([1, 3000, 1 << 22])))
        with lab() as one:
            if way != "a line per sync" and data.draw(st.booleans(), label="in one sync"):
                for name, content in steps[:-1]:
                    one.put(name, content)
                steps = steps[-1:]
            grow(one, files, steps)
            must_equal(expected, one.content(), way)
            one.must_verify()


@briefly
@given(recipes(most_files=4), st.data())
def test_one_chunk_or_one_line_at_a_time_does_not_matter(
    recipe: Recipe, data: st.DataObject
) -> None:
    check_pieces(recipe, data)


@pytest.mark.crash
@pytest.mark.timeout(1800)
@at_length
@given(recipes(), st.data())
def test_one_chunk_or_one_line_of_many_at_a_time_does_not_matter(
    recipe: Recipe, data: st.DataObject
) -> None:
    check_pieces(recipe, data)


# -- real transcripts --------------------------------------------------------------------------

MOST_BYTES = 60_000  # of one real file: larger ones take as long as all others together
# Folders of the corpus with shared agents, resumed and copied sessions, files not named by session.
FOLDERS = (
    "-Users-user-project",
    "slopus-happy-utils-fixtures",
    "moredip-session-share-claude-code-projects",
    "-Users-chip-dev-ai-music",
    "-home-runner-work-erk-erk",
)


@pytest.fixture(scope="module")
def real_files() -> dict[str, Files]:
    """The small files of some folders of the corpus, by folder."""
    if not CORPUS.exists():
        pytest.skip(f"no corpus at {CORPUS}")
    found: dict[str, Files] = {folder: {} for folder in FOLDERS}
    with tarfile.open(CORPUS) as archive:
        for member in archive:
            _, _, name = member.name.partition("/")
            folder = name.partition("/")[0]
            if folder in found and member.isfile() and member.size < MOST_BYTES:
                content = archive.extractfile(member)
                assert content is not None
                found[folder][name] = content.read()
    return found


_real_at_once: dict[str, Content] = {}


def real_at_once(folder: str, files: Files) -> Content:
    """What all files of a folder give in one sync: two tests compare with it."""
    if folder not in _real_at_once:
        _real_at_once[folder] = at_once(files)
    return _real_at_once[folder]


@pytest.mark.corpus
@pytest.mark.parametrize("folder", thinned(FOLDERS, 2))
def test_real_files_come_out_the_same_in_any_order(
    folder: str, real_files: dict[str, Files]
) -> None:
    files = real_files[folder]
    expected = real_at_once(folder, files)
    names = transcripts(files)
    for order in (names[::-1], names[1::2] + names[::2])[: 2 if IN_FULL else 1]:
        must_come_out_equal(files, [(name, files[name]) for name in order], expected)


@pytest.mark.corpus
@pytest.mark.parametrize("folder", thinned(FOLDERS, 2))
def test_real_files_come_out_the_same_however_they_grow(
    folder: str, real_files: dict[str, Files]
) -> None:
    files = real_files[folder]
    steps: list[Step] = []
    for size in (1, 7, 10**9):  # first lines, then some more, then the rest of every file
        for name in transcripts(files):
            done = sum(len(data) for other, data in steps if other == name)
            lines = files[name][done:].splitlines(keepends=True)
            if lines:
                half = lines[size][:20] if size < len(lines) else b""
                steps.append((name, b"".join(lines[:size]) + half))
    must_come_out_equal(files, steps, real_at_once(folder, files))


# -- examples, kept by name --------------------------------------------------------------------


def must_not_depend_on_order(*recipe: tuple[str, int, list[str]]) -> Content:
    """What comes of all files at once, and the same file by file and line by line in other orders.

    By default the last file comes first, and of more than two files also the second one. With
    `make check` files come in any order (in three, if they are many), lines from either end.
    """
    files = build(list(recipe)).contents()
    names = transcripts(files)
    expected = at_once(files)
    orders = [names[::-1], names[1:] + names[:1]][: len(names) - 1]
    if IN_FULL:
        many = [names, *orders]
        orders = [[*order] for order in permutations(names)] if len(names) <= 3 else many
    for order in orders:
        whole = [(name, files[name]) for name in order]
        with lab() as one:
            grow(one, files, whole)
            must_equal(expected, one.content(), f"file by file, {order}")
    for order in (names, names[::-1]) if len(names) > 1 and IN_FULL else (names[::-1],):
        with lab() as one:
            lines = [(n, line) for n in order for line in files[n].splitlines(keepends=True)]
            grow(one, files, lines)
            must_equal(expected, one.content(), f"line by line, {order}")
    return expected


def test_an_event_is_owned_by_the_first_path_that_holds_it() -> None:
    must_not_depend_on_order(("new", 0, ["taken_back", "mode"]), ("copy", 0, []))


def test_agents_that_were_asked_the_same_get_their_calls_in_order() -> None:
    must_not_depend_on_order(("new", 0, ["same_words"]))


def test_results_of_repeating_ids_join_within_the_session_that_owns_them() -> None:
    must_not_depend_on_order(("new", 0, ["gateway", "two_calls"]), ("fork_renewed", 0, []))


def test_merged_entries_leave_one_call_of_a_repeating_id() -> None:
    must_not_depend_on_order(
        ("new", 0, ["gateway"]), ("fork_renewed", 0, []), ("fork_renewed", 0, [])
    )


def test_calls_of_a_repeating_id_keep_their_results_when_their_neighbours_change_hands() -> None:
    must_not_depend_on_order(("new", 0, ["gateway"]), ("fork_renewed", 0, ["gateway"]))


def test_a_forked_queue_begins_its_turns_in_one_session_only() -> None:
    must_not_depend_on_order(("new", 0, ["queued_twice"]), ("fork_renewed", 0, ["dequeued"]))


def test_snapshots_are_relative_to_the_project_that_is_known_in_the_end() -> None:
    must_not_depend_on_order(("new", 0, ["snapshot"]), ("copy", 0, []))
    must_not_depend_on_order(("new", 0, ["queued", "snapshot"]), ("fork_renewed", 0, ["moved"]))


def test_an_entry_whose_uuid_is_none_is_owned_by_its_first_line() -> None:
    must_not_depend_on_order(("new", 0, ["odd_uuid", "replay"]), ("fork_renewed", 0, []))


def test_a_replay_of_a_resumed_line_is_a_copy_of_the_original() -> None:
    must_not_depend_on_order(("new", 0, ["agent_without_file"]), ("resume_half", 0, ["replay"]))


def test_answers_with_the_same_words_stay_apart_when_resumed() -> None:
    recipe: Recipe = [("new", 0, ["done_twice"]), ("resume", 0, [])]
    found = must_not_depend_on_order(*recipe)
    assert sum("'Done.'" in row for row in found["messages"]) == 2


def test_a_replay_that_splits_a_prompt_loses_nothing() -> None:
    recipe: Recipe = [("new", 0, ["split_prompt"])]
    (message,) = must_not_depend_on_order(*recipe)["messages"]
    assert "\\n\\ntwo" in message


def test_a_turn_ends_with_what_is_left_of_it_when_entries_change_hands() -> None:
    must_not_depend_on_order(("new", 0, ["odd_uuid"]), ("fork_silent", 0, []))


def test_progress_lines_name_the_call_of_an_agent_whoever_owns_its_entries() -> None:
    must_not_depend_on_order(("new", 0, ["agent_underscore"]), ("fork_silent", 0, []))
    must_not_depend_on_order(("new", 0, ["half_wrapped"]))


def test_a_call_that_two_sessions_tell_of_belongs_to_the_first() -> None:
    must_not_depend_on_order(("new", 0, ["orphan_result", "edit"]), ("sdk_fork", 0, []))


def test_a_fork_of_a_fork_is_one_entry_with_the_original() -> None:
    must_not_depend_on_order(("new", 0, ["edit", "chunks"]), ("fork_twice", 0, ["clear"]))


def test_the_parent_of_a_session_is_who_owns_its_copies_in_the_end() -> None:
    must_not_depend_on_order(
        ("new", 0, ["half_wrapped"]), ("sdk_fork", 0, ["moved"]), ("in_background", 1, ["answer"])
    )


def test_glued_lines_are_counted_once_whoever_owns_them() -> None:
    must_not_depend_on_order(("new", 0, ["glued", "prompt"]), ("copy", 0, ["odd_uuid"]))


def test_turns_are_counted_in_reading_order_when_the_order_of_files_changes() -> None:
    must_not_depend_on_order(("new", 0, ["nameless", "workflow"]), ("second_part", 0, ["glued"]))


def test_a_folder_known_by_a_cwd_for_a_while_only_is_a_guess_again() -> None:
    must_not_depend_on_order(("new", 0, ["hidden", "moved"]), ("resume_half", 0, []))


def test_a_side_agent_whose_lines_all_went_to_another_session_is_gone() -> None:
    must_not_depend_on_order(("elsewhere", 0, ["side", "clear"]), ("fork_silent", 0, ["failed"]))


def test_a_file_that_names_its_session_late_is_of_that_session_from_its_start() -> None:
    must_not_depend_on_order(
        ("new", 0, ["snapshot", "prompt"]), ("second_part", 0, ["snapshot", "queued", "prompt"])
    )


def test_what_was_billed_before_a_file_names_its_session_is_of_that_session() -> None:
    world = World()
    t = world.session()
    t.prompt("begin")
    t.reply(text("one"), text("two"), message="msg_a", request="", final=False)
    t.reply(text("gateway"), message="chat-1", request="")
    t.reply(text("asked"))
    (nameless,) = t.reply(text("nameless"), request="")
    del nameless["uuid"], nameless["message"]["id"]
    t.tool("Bash", {"command": "git commit -m x"}, "[main 1a2b3c4] x\n 1 file changed")
    for entry in t.entries:
        del entry["sessionId"]
    t.reply(text("three"), message="msg_a", request="", output=90)
    (data,) = world.contents().values()
    files = {"-p/notes.jsonl": data}
    must_come_out_equal(
        files, [("-p/notes.jsonl", line) for line in data.splitlines(keepends=True)]
    )


def test_lines_without_uuid_that_tell_of_one_request_tell_the_same_in_any_order() -> None:
    world = World()
    t, other = world.session(), world.session()
    ids = {"message": "msg_a", "request": "req_a", "timestamp": "2026-08-01T00:00:00.000Z"}
    for n, file in enumerate((t, t, other)):
        if file is t:
            t.prompt(f"prompt {n}")
        (entry,) = file.reply(text(f"answer {n}"), **ids)
        del entry["uuid"]
        entry["sessionId"] = t.session
    files = world.contents()
    expected = at_once(files)
    for names in permutations(files):
        steps = [(name, line) for name in names for line in files[name].splitlines(keepends=True)]
        with lab() as one:
            grow(one, files, steps)
            must_equal(expected, one.content(), str(names))


def test_an_exit_code_that_a_result_says_stays_when_it_turns_out_to_be_of_another_call() -> None:
    world = World()
    calls = world.session()
    for name in ("Bash", "mcp__other__run"):
        calls.reply(tool_use(world, name, {"command": name}, "call_0"))
    results = world.session(session=calls.session, name="results")
    results.result("call_0", "Exit code 0\nfine")
    first, second = calls.data.splitlines(keepends=True)
    steps = [(calls.path, first), (results.path, results.data), (calls.path, second)]
    must_come_out_equal(world.contents(), steps)


def test_what_a_result_reports_of_git_stays_when_its_call_changes_hands() -> None:
    world = World()
    old = world.session()
    old.reply(tool_use(world, "Bash", {"command": "x"}, "call_0"))
    new = fork(old, says_so=True, renew=False)
    results = world.session(session=old.session, name="results")
    results.result("call_0", "done", {"gitOperation": {"push": {"branch": "main"}}})
    steps = [(file.path, file.data) for file in (results, new, old)]
    found = must_come_out_equal(world.contents(), steps)
    assert len(found["git_operations"]) == 1


def test_a_call_of_a_repeating_id_finds_its_result_when_its_file_names_its_session() -> None:
    world = World()
    notes = world.session(name="notes")
    (call,) = notes.reply(tool_use(world, "Bash", {"command": "x"}, "call_0"))
    del call["sessionId"]
    own = world.session(session=notes.session)
    own.result("call_0", "done")
    notes.prompt("of this session")
    steps = [(own.path, own.data)]
    steps += [(notes.path, line) for line in notes.data.splitlines(keepends=True)]
    must_come_out_equal(world.contents(), steps)


def test_a_result_in_another_file_than_its_call_is_joined_to_it() -> None:
    must_not_depend_on_order(("new", 0, ["prompt"]), ("split_call", 0, ["late_result"]))


def test_a_summary_is_of_the_session_that_owns_its_leaf() -> None:
    must_not_depend_on_order(
        ("new", 0, ["answer"]), ("summarized", 0, []), ("fork_silent", 0, ["prompt"])
    )


def test_an_aside_that_repeats_an_answer_is_not_billed_twice() -> None:
    must_not_depend_on_order(("new", 0, ["by_the_way"]), ("sdk_fork", 0, []))


def test_a_child_of_a_merged_entry_hangs_on_what_the_entry_became() -> None:
    recipe: Recipe = [("new", 0, ["prompt"]), ("fork_renewed", 0, ["prompt"]), ("fork", 1, [])]
    must_not_depend_on_order(*recipe)
    files = build(recipe).contents()
    with lab() as one:
        for name, data in files.items():
            one.put(name, data)
        one.sync()
        stored = one.rows("SELECT uuid FROM messages")
        assert {row for row in one.rows("SELECT parent_uuid FROM messages") if row[0]} <= {*stored}


def test_an_agent_of_a_fork_hangs_on_what_an_entry_of_the_main_file_became() -> None:
    world = World()
    original = world.session()
    prompt = original.prompt("begin")
    forked = fork(original, says_so=True, renew=True)
    helper = forked.agent_file("acompact-1")
    first = helper.prompt("summarize", parentUuid=forked.parent)
    for files in ((forked, helper, original), (helper, forked, original)):
        with lab() as one:
            grow(one, {}, [(file.path, file.data) for file in files])
            parents = dict(one.rows("SELECT uuid, parent_uuid FROM messages"))
            assert parents == {prompt["uuid"]: None, first["uuid"]: prompt["uuid"]}
            must_equal(at_once(world.contents()), one.content())
            one.must_verify()


def test_sessions_of_one_file_are_related_when_either_grows() -> None:
    must_not_depend_on_order(
        ("new", 0, ["agent_beside"]), ("resume_half", 0, ["side"]), ("resume", 1, ["queued"])
    )


def test_meta_json_counts_also_where_only_lines_name_the_session() -> None:
    recipe: Recipe = [("new", 0, ["agent_beside_meta"])]
    (agent,) = must_not_depend_on_order(*recipe)["agents"]
    assert "'from meta'" in agent


# -- one uuid on several lines: Claude Code does not write it ----------------------------------


def must_hang_on(expected: dict[str, str | None], *lines: Json) -> None:
    """The parents of messages by uuid, whatever the order of lines and however they are read."""
    orders = list(permutations(lines))
    for order in orders if IN_FULL else orders[:: len(orders) // 6]:
        data = [dumps(line) + b"\n" for line in order]
        ways: list[list[Step]] = [
            [("-p/notes.jsonl", b"".join(data))],
            [("-p/notes.jsonl", line) for line in data],
        ]
        for steps in ways:
            with lab() as one:
                grow(one, {}, steps)
                found = dict(one.rows("SELECT uuid, parent_uuid FROM messages"))
                assert found == expected, order


def said(kind: str, uuid: str, parent: str | None, **more: object) -> Json:
    line = {"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": "s", "cwd": "/c"}
    return {**line, "message": {"role": "user", "content": uuid}, **more}


def test_a_message_is_a_parent_even_if_a_skipped_line_has_its_uuid() -> None:
    top, other = said("user", "a", None), said("user", "x", None)
    skipped, child = said("brand-new", "x", "a"), said("user", "c", "x")
    must_hang_on({"a": None, "x": None, "c": "x"}, top, other, skipped, child)


def test_a_message_is_a_parent_even_if_the_skipped_line_with_its_uuid_ends_the_chain() -> None:
    skipped = [said("progress", "y", "x"), said("progress", "x", None)]
    must_hang_on({"x": None, "c": "x"}, said("user", "x", None), *skipped, said("user", "c", "y"))


def test_of_two_skipped_lines_with_one_uuid_the_smaller_parent_counts() -> None:
    tops = [said("user", "a", None), said("user", "b", None)]
    skipped = [said("progress", "x", "a"), said("brand-new", "x", "b")]
    must_hang_on({"a": None, "b": None, "c": "a"}, *tops, *skipped, said("user", "c", "x"))


def test_skipped_lines_that_lead_back_to_themselves_lead_nowhere_until_a_message_comes() -> None:
    skipped = [said("progress", "x", "y"), said("progress", "y", "x")]
    must_hang_on({"c": None}, *skipped, said("user", "c", "x"))
    must_hang_on({"c": "y", "y": None}, *skipped, said("user", "c", "x"), said("user", "y", None))


def must_have_calls(expected: set[tuple[str, str | None, str | None]], t: Transcript) -> None:
    """The calls with the lines of call and result, whatever the order in which lines are read."""
    lines = t.data.splitlines(keepends=True)
    orders = list(permutations(lines))
    for order in orders if IN_FULL else orders[:: max(1, len(orders) // 6)]:
        for steps in ([(t.path, b"".join(order))], [(t.path, line) for line in order]):
            with lab() as one:
                grow(one, {}, steps)
                found = one.rows(
                    "SELECT tool_use_id, c.uuid, r.uuid FROM tool_uses t"
                    " LEFT JOIN messages c ON c.id = t.message_id"
                    " LEFT JOIN messages r ON r.id = t.result_message_id"
                )
                assert sorted(found) == sorted(expected), order
                one.must_verify()


@pytest.mark.parametrize("prefix", ["toolu_", "call_"])
def test_of_two_lines_with_one_uuid_only_the_owner_has_its_call(prefix: str) -> None:
    world = World()
    t = world.session()
    ids = [f"{prefix}{n}" for n in (1, 2)]
    first, second = (t.reply(tool_use(world, "Bash", {"command": i}, i))[0] for i in ids)
    second["uuid"] = first["uuid"]
    results = [t.result(i)["uuid"] for i in ids]
    expected = {(ids[0], first["uuid"], results[0]), (ids[1], None, results[1])}
    must_have_calls(expected, t)


def test_of_two_lines_with_one_uuid_only_the_owner_has_its_result() -> None:
    world = World()
    t = world.session()
    ids = ["toolu_1", "toolu_2"]
    (call,) = t.reply(tool_use(world, "Bash", {"command": "x"}, ids[1]))
    first, second = (t.result(i) for i in ids)
    second["uuid"] = first["uuid"]
    must_have_calls({(ids[0], None, first["uuid"]), (ids[1], call["uuid"], None)}, t)


def test_a_call_that_its_entry_loses_is_of_the_other_entry_that_has_it() -> None:
    world = World()
    t = world.session()
    calls = [tool_use(world, "Bash", {"command": "x"}) for _ in range(2)]
    first, second = (t.reply(call)[0] for call in calls)
    second["uuid"] = first["uuid"]
    (third,) = t.reply(calls[1])
    expected = {(calls[0]["id"], first["uuid"], None), (calls[1]["id"], third["uuid"], None)}
    must_have_calls(expected, t)


def test_merged_entries_with_other_calls_have_those_of_the_owner() -> None:
    world = World()
    t = world.session()
    calls = [tool_use(world, "Bash", {"command": "x"}) for _ in range(2)]
    first, second, third = (t.reply(call)[0] for call in (*calls, calls[0]))
    third["uuid"] = second["uuid"]
    third["forkedFrom"] = {"sessionId": t.session, "messageUuid": first["uuid"]}
    must_have_calls({(calls[0]["id"], first["uuid"], None)}, t)


def test_a_sidechain_is_named_by_its_root_even_if_the_root_comes_last() -> None:
    world = World()
    t = world.session()
    t.prompt("begin")
    t.side("look", "one", "two")
    lines = t.data.splitlines(keepends=True)
    expected = at_once(world.contents())
    assert len(expected["agents"]) == 1
    for order in permutations(lines[1:]):
        steps = [(t.path, lines[0]), *((f"-p/part-{n}.jsonl", x) for n, x in enumerate(order))]
        with lab() as one:
            grow(one, {}, steps)
            found = one.rows("SELECT agent_id, count(*) FROM messages GROUP BY 1 ORDER BY 1")
            assert [count for _, count in found] == [1, 3], order


def test_a_summary_of_a_line_that_is_no_message_is_of_the_message_above_many() -> None:
    world = World()
    t = world.session()
    t.prompt("begin")
    for _ in range(3):
        leaf = t.progress()
    other = world.session()
    other.summary("about it", leaf["uuid"])
    steps = [(t.path, line) for line in t.data.splitlines(keepends=True)]
    found = must_come_out_equal(world.contents(), [(other.path, other.data), *steps])
    assert any("'title': 'about it'" in row for row in found["sessions"])
