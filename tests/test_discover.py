"""Every layout is found, nothing that is no transcript is touched, and blind spots are named."""

from __future__ import annotations

import json
import os
import resource
import shutil
import socket
import struct
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxdb.claude.layout import Role, is_transcript, reading_order, role_of
from ctxdb.files import walk
from ctxdb.files.walk import FoundFile, Scan, covers, numbers_of, pack_stat, store_path, unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SESSION = "11111111-2222-4333-8444-555555555555"
OTHER = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee"

# Where transcripts have been since 1.0, and what each place says: path below the root, session,
# agent, workflow run.
LAYOUTS = [
    (f"-w-app/{SESSION}.jsonl", SESSION, None, None),
    ("-w-app/agent-a21e2f5.jsonl", None, "a21e2f5", None),
    (f"-w-app/agent_{OTHER}.jsonl", None, OTHER, None),
    (f"-w-app/{SESSION}/agent_{OTHER}.jsonl", SESSION, OTHER, None),
    (
        f"-w-app/{SESSION}/subagents/agent-a0123456789abcdef.jsonl",
        SESSION,
        "a0123456789abcdef",
        None,
    ),
    (f"-w-app/{SESSION}/subagents/agent-acompact-9f.jsonl", SESSION, "acompact-9f", None),
    (
        f"-w-app/{SESSION}/subagents/agent-aprompt_suggestion-1b.jsonl",
        SESSION,
        "aprompt_suggestion-1b",
        None,
    ),
    (f"-w-app/{SESSION}/subagents/workflows/wf_77/agent-ab.jsonl", SESSION, "ab", "wf_77"),
    ("-w-app/short.jsonl", None, None, None),
    ("-w-app/task_non_sdk.jsonl", None, None, None),
    (f"-w-app/deep/er/still/{OTHER}.jsonl", OTHER, None, None),
]


def scan(roots: list[str], known: Any = None) -> Scan:
    """A walk for transcripts, in the order in which they are read."""
    found = walk.scan(roots, is_transcript, known)
    found.files.sort(key=reading_order)
    return found


def place(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"{}\n")


def names(found: list[FoundFile], root: Path) -> list[str]:
    return [os.path.relpath(file.path, root) for file in found]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "projects"
    folder.mkdir()
    return folder


# -- numbers ------------------------------------------------------------------------------------

INODES = st.integers(0, 2**64 - 1)
TIMES = st.integers(-(2**70), 2**70)


def stat_of(ino: int, mtime: int, ctime: int) -> Any:
    return SimpleNamespace(st_dev=1, st_ino=ino, st_size=2, st_mtime_ns=mtime, st_ctime_ns=ctime)


@given(INODES, INODES, TIMES, TIMES)
def test_whatever_a_file_system_says_sqlite_can_hold(
    ino: int, other: int, mtime: int, ctime: int
) -> None:
    numbers = numbers_of(stat_of(ino, mtime, ctime))
    assert all(-(2**63) <= number < 2**63 for number in numbers)
    assert (numbers == numbers_of(stat_of(other, mtime, ctime))) == (ino == other)
    if ino < 2**63 > max(abs(mtime), abs(ctime)):
        assert numbers == (1, ino, 2, mtime, ctime)
    assert unpack(pack_stat(stat_of(ino, mtime, ctime))) == numbers


@pytest.mark.parametrize("stored", [None, b"", b"123", bytes(41), "text", 7])
def test_a_damaged_stat_is_that_of_no_file(stored: Any) -> None:
    assert unpack(stored) == (0, 0, 0, 0, 0)


# -- layouts ------------------------------------------------------------------------------------


def test_every_known_layout_is_found_and_nothing_else(root: Path) -> None:
    place(root, *(layout[0] for layout in LAYOUTS))
    place(
        root,
        f"-w-app/{SESSION}/subagents/agent-a0123456789abcdef.meta.json",
        f"-w-app/{SESSION}/subagents/workflows/wf_77/journal.jsonl",
        f"-w-app/{SESSION}/workflows/wf_77.json",
        f"-w-app/{SESSION}/tool-results/toolu_1.txt",
        "-w-app/sessions-index.json",
        "-w-app/memory/MEMORY.md",
        "-w-app/half.jsonl.tmp",
    )
    found = scan([str(root)])
    assert sorted(names(found.files, root)) == sorted(layout[0] for layout in LAYOUTS)
    assert (found.unreadable, found.ignored, found.missing_roots) == ([], [], [])
    for file in found.files:
        info = os.lstat(file.path)
        assert file.root == str(root)
        assert (file.dev, file.ino, file.size) == (info.st_dev, info.st_ino, info.st_size)
        assert (file.mtime_ns, file.ctime_ns) == (info.st_mtime_ns, info.st_ctime_ns)


@pytest.mark.parametrize(("name", "session", "agent", "run"), LAYOUTS)
def test_a_place_tells_session_agent_and_workflow(
    name: str, session: str | None, agent: str | None, run: str | None
) -> None:
    role = Role(session, agent, run)
    assert role_of(f"/r/projects/{name}", "/r/projects") == role
    assert role_of(f"/r/projects/{name}", "/r/projects/") == role
    assert role_of(f"/{name}", "/") == role


def test_a_root_that_is_a_project_folder_is_read_like_any_other() -> None:
    root = "/r/-w-app"
    assert role_of(f"{root}/{SESSION}.jsonl", root) == Role(SESSION, None, None)
    agent = f"{root}/{SESSION}/subagents/agent-a.jsonl"
    assert role_of(agent, root) == Role(SESSION, "a", None)


def test_an_agent_belongs_to_the_nearest_session_folder_below_the_root() -> None:
    path = f"/{OTHER}/projects/p/{SESSION}/subagents/agent-a.jsonl"
    assert role_of(path, f"/{OTHER}/projects").session_id == SESSION
    assert role_of(f"/{OTHER}/projects/p/agent-a.jsonl", f"/{OTHER}/projects").session_id is None


def test_an_agent_file_without_an_id_is_no_agent() -> None:
    assert role_of("/r/p/agent-.jsonl", "/r") == Role(None, None, None)


def test_files_come_by_project_and_main_transcripts_before_agents(root: Path) -> None:
    expected = [
        f"a/{SESSION}.jsonl",
        "a/zzz.jsonl",
        "a/agent-1.jsonl",
        f"a/{SESSION}/subagents/agent-0.jsonl",
        f"b/{OTHER}.jsonl",
        "b/agent_9.jsonl",
    ]
    place(root, *reversed(expected))
    order = names(scan([str(root)]).files, root)
    assert [name.split("/")[0] for name in order] == ["a"] * 4 + ["b"] * 2
    assert order[:2] == expected[:2]
    assert set(order[2:4]) == set(expected[2:4])
    assert order[4:] == expected[4:]
    assert names(scan([str(root)]).files, root) == order


# -- what must not be followed or opened --------------------------------------------------------


def test_symlinks_to_files_folders_loops_and_nowhere_are_ignored_and_listed(
    root: Path, tmp_path: Path
) -> None:
    place(root, "p/real.jsonl")
    place(tmp_path / "outside", "x.jsonl")
    os.symlink(root / "p/real.jsonl", root / "p/link.jsonl")
    os.symlink(tmp_path / "outside", root / "out")
    os.symlink(".", root / "p/loop")
    os.symlink("self.jsonl", root / "p/self.jsonl")
    os.symlink("nowhere", root / "p/dangling.jsonl")
    os.symlink("nowhere", root / "p/readme")
    found = scan([str(root)])
    assert names(found.files, root) == ["p/real.jsonl"]
    assert sorted(os.path.relpath(path, root) for path, _ in found.ignored) == [
        "out",
        "p/dangling.jsonl",
        "p/link.jsonl",
        "p/loop",
        "p/self.jsonl",
    ]
    assert {why for _, why in found.ignored} == {"symlink"}
    assert found.unreadable == []


def test_a_fifo_and_a_socket_named_like_transcripts_are_ignored_and_never_block(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place(root, "real.jsonl")
    os.mkfifo(root / "fifo.jsonl")
    os.mkfifo(root / "fifo")
    monkeypatch.chdir(root)  # the name of a socket must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket.jsonl")
    found = scan([str(root)])
    assert names(found.files, root) == ["real.jsonl"]
    assert sorted((os.path.basename(path), why) for path, why in found.ignored) == [
        ("fifo.jsonl", "fifo"),
        ("socket.jsonl", "socket"),
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make device nodes")
def test_a_device_named_like_a_transcript_is_ignored(root: Path) -> None:
    try:
        os.mknod(root / "null.jsonl", 0o600 | 0o020000, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("no device nodes in this container")
    found = scan([str(root)])
    assert found.files == []
    assert found.ignored == [(str(root / "null.jsonl"), "character device")]


def test_a_folder_named_like_a_transcript_is_a_folder(root: Path) -> None:
    place(root, "p/x.jsonl/inner.jsonl")
    found = scan([str(root)])
    assert names(found.files, root) == ["p/x.jsonl/inner.jsonl"]
    assert found.ignored == []


def test_a_root_may_be_a_symlink_because_its_owner_named_it(root: Path, tmp_path: Path) -> None:
    place(root, "p/x.jsonl")
    link = tmp_path / "link"
    link.symlink_to(root)
    found = scan([str(link)])
    assert [file.path for file in found.files] == [str(link / "p/x.jsonl")]


def test_two_names_of_one_file_are_two_files(root: Path) -> None:
    place(root, "p/x.jsonl")
    os.link(root / "p/x.jsonl", root / "p/y.jsonl")
    found = scan([str(root)])
    assert names(found.files, root) == ["p/x.jsonl", "p/y.jsonl"]
    assert found.files[0].ino == found.files[1].ino


# -- roots --------------------------------------------------------------------------------------


def test_overlapping_roots_give_each_file_once_in_any_order(root: Path, tmp_path: Path) -> None:
    place(root, "p/x.jsonl", "p/sub/y.jsonl", "q/z.jsonl")
    link = tmp_path / "zlink"
    link.symlink_to(root / "p")
    roots = [str(root), str(root / "p"), str(link), str(root) + "/", str(root / "p/../p")]
    expected = scan([str(root)]).files
    assert len(expected) == 3
    for first in range(len(roots)):
        assert scan(roots[first:] + roots[:first]).files == expected


def test_an_inner_root_is_read_where_the_outer_walk_cannot_reach_it(root: Path) -> None:
    place(root, "hidden/inner/x.jsonl")
    os.symlink(root / "hidden", root / "link")
    found = scan([str(root / "link" / "inner"), str(root / "nothing")])
    assert [file.path for file in found.files] == [str(root / "link/inner/x.jsonl")]
    assert found.missing_roots == [str(root / "nothing")]


@pytest.mark.parametrize("name", ["nothing", "dangling", "nul\0name"])
def test_a_missing_root_is_said_to_be_missing(tmp_path: Path, name: str) -> None:
    os.symlink("nowhere", tmp_path / "dangling")
    place(tmp_path / "here", "p/x.jsonl")
    missing = os.path.join(tmp_path, name)
    found = scan([missing, str(tmp_path / "here")])
    assert found.missing_roots == [missing]
    assert len(found.files) == 1


def test_a_root_that_is_a_file_is_unreadable_as_a_root(tmp_path: Path) -> None:
    place(tmp_path, "x.jsonl")
    found = scan([str(tmp_path / "x.jsonl")])
    assert found.unreadable == [(str(tmp_path / "x.jsonl"), "Not a directory")]


def test_relative_roots_give_absolute_paths(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place(root, "p/x.jsonl")
    monkeypatch.chdir(root.parent)
    assert [file.path for file in scan(["projects"]).files] == [str(root / "p/x.jsonl")]


# -- what the walk could not see ----------------------------------------------------------------


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that another user can reach: pytest's own are closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="ctxdb-test-"))
    folder.chmod(0o755)
    yield folder
    for path in [folder, *folder.rglob("*")]:
        if path.is_dir():
            path.chmod(0o755)
    shutil.rmtree(folder)


def as_nobody(work: Callable[[], Any]) -> Any:
    """Run in a child without root's rights, where there are such rights to lose."""
    if os.geteuid() != 0:
        return json.loads(json.dumps(work()))
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            os.write(writer, json.dumps(work()).encode())
            os._exit(0)
        finally:
            os._exit(1)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    return json.loads(answer)


def test_an_unreadable_folder_is_named_and_hides_nothing_else(public_folder: Path) -> None:
    root = public_folder / "projects"
    place(root, "open/x.jsonl", "closed/y.jsonl", "closed/sub/z.jsonl", "listed/w.jsonl")
    (root / "closed").chmod(0o000)
    (root / "listed").chmod(0o744)  # names can be read, nothing behind them

    def look() -> Any:
        found = scan([str(root)])
        gone = ["open/x.jsonl", "open/gone.jsonl", "closed/y.jsonl", "closed/sub/z.jsonl"]
        gone += ["listed/w.jsonl", "listed/gone.jsonl"]
        covered = {name: covers(found, str(root / name)) for name in gone}
        return names(found.files, root), found.unreadable, covered

    files, unreadable, covered = as_nobody(look)
    assert files == ["open/x.jsonl"]
    assert sorted(map(tuple, unreadable)) == [
        (str(root / "closed"), "Permission denied"),
        (str(root / "listed/w.jsonl"), "Permission denied"),
    ]
    assert covered == {
        "open/x.jsonl": True,
        "open/gone.jsonl": True,
        "closed/y.jsonl": False,
        "closed/sub/z.jsonl": False,
        "listed/w.jsonl": False,
        "listed/gone.jsonl": True,
    }


def test_an_unreadable_root_covers_nothing(public_folder: Path) -> None:
    root = public_folder / "projects"
    place(root, "p/x.jsonl")
    root.chmod(0o000)

    def look() -> Any:
        found = scan([str(root)])
        return found.unreadable, covers(found, str(root / "p/x.jsonl")), found.missing_roots

    assert as_nobody(look) == [[[str(root), "Permission denied"]], False, []]


def test_a_file_that_cannot_be_opened_is_still_found(public_folder: Path) -> None:
    root = public_folder / "projects"
    place(root, "p/x.jsonl")
    (root / "p/x.jsonl").chmod(0o000)
    assert as_nobody(lambda: names(scan([str(root)]).files, root)) == ["p/x.jsonl"]


def test_a_vanished_file_below_a_listed_folder_is_covered(root: Path) -> None:
    place(root, "p/x.jsonl")
    found = scan([str(root)])
    assert covers(found, str(root / "p/gone.jsonl"))
    assert covers(found, str(root / "gone/with/its/folder.jsonl"))


def test_a_path_outside_all_roots_or_below_a_missing_one_is_not_covered(
    root: Path, tmp_path: Path
) -> None:
    found = scan([str(root), str(tmp_path / "missing")])
    assert not covers(found, str(tmp_path / "elsewhere/x.jsonl"))
    assert not covers(found, str(tmp_path / "projects-2/x.jsonl"))
    assert not covers(found, str(tmp_path / "missing/p/x.jsonl"))


def test_what_was_moved_away_behind_a_symlink_has_not_vanished(root: Path, tmp_path: Path) -> None:
    place(root, "p/x.jsonl")
    shutil.move(root / "p", tmp_path / "moved")
    os.symlink(tmp_path / "moved", root / "p")
    found = scan([str(root)])
    assert found.files == []
    assert not covers(found, str(root / "p/x.jsonl"))


def test_an_empty_root_on_another_device_is_unmounted_and_not_emptied(root: Path) -> None:
    device = root.stat().st_dev
    empty = scan([str(root)])
    assert covers(empty, str(root / "p/x.jsonl"))
    assert covers(empty, str(root / "p/x.jsonl"), device)
    assert not covers(empty, str(root / "p/x.jsonl"), device + 1)
    place(root, "p/y.jsonl")
    assert covers(scan([str(root)]), str(root / "p/x.jsonl"), device + 1)


# -- what is known already ----------------------------------------------------------------------


def known_now(root: Path) -> dict[str, Any]:
    return {file.path: file.stat for file in scan([str(root)]).files}


def test_a_file_that_is_as_known_is_counted_and_not_returned(root: Path) -> None:
    place(root, "p/same.jsonl", "p/grown.jsonl", "p/unsure.jsonl", "p/gone.jsonl")
    known = known_now(root)
    known[str(root / "p/unsure.jsonl")] = None
    place(root, "p/new.jsonl")
    (root / "p/grown.jsonl").write_bytes(b"{}\n{}\n")
    (root / "p/gone.jsonl").unlink()
    found = scan([str(root)], known)
    assert names(found.files, root) == ["p/grown.jsonl", "p/new.jsonl", "p/unsure.jsonl"]
    assert found.unchanged == 1
    assert list(found.gone) == [str(root / "p/gone.jsonl")]


@pytest.mark.parametrize("what", ["folder", "link", "fifo"])
def test_a_known_file_that_is_no_longer_a_file_is_gone(root: Path, what: str) -> None:
    place(root, "p/x.jsonl", "p/y.jsonl")
    known = known_now(root)
    path = root / "p/x.jsonl"
    path.unlink()
    {"folder": os.mkdir, "fifo": os.mkfifo, "link": lambda at: os.symlink("y.jsonl", at)}[what](
        path
    )
    found = scan([str(root)], known)
    assert (found.files, found.unchanged, list(found.gone)) == ([], 1, [str(path)])
    assert covers(found, str(path)) == (what != "link")


def test_a_file_with_numbers_too_large_for_sqlite_is_recognized(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk, "_LARGEST", 2**31 - 1)  # as if times in nanoseconds were too large
    monkeypatch.setattr(walk, "_FIVE_NUMBERS", struct.Struct("<5i"))
    place(root, "p/x.jsonl")
    known = known_now(root)
    found = scan([str(root)], known)
    assert (found.files, found.unchanged) == ([], 1)


# -- names --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"x\xe9.jsonl", r"x\xe9.jsonl"),
        (b"a\nb.jsonl", r"a\x0ab.jsonl"),
        (b"\x1b[31m.jsonl", r"\x1b[31m.jsonl"),
        (b"literal\\xe9.jsonl", r"literal\x5cxe9.jsonl"),
        (b"\\back\\slash.jsonl", "\\back\\slash.jsonl"),
        ("päper 日本.jsonl".encode(), "päper 日本.jsonl"),
    ],
)
def test_odd_names_are_found_stored_as_text_and_opened_again(
    root: Path, raw: bytes, text: str
) -> None:
    folder = os.fsencode(root) + b"/p"
    os.mkdir(folder)
    with open(folder + b"/" + raw, "wb") as file:
        file.write(b"{}\n")
    (found,) = scan([str(root)]).files
    assert os.fsencode(found.path) == folder + b"/" + raw
    stored, kept = store_path(found.path)
    stored.encode()
    assert stored == f"{root}/p/{text}"
    again = os.fsdecode(kept) if kept is not None else stored
    assert again == found.path
    assert (kept is None) == (stored == found.path)


def test_roles_of_undecodable_names_can_be_stored() -> None:
    role = role_of(os.fsdecode(b"/r/pr\xff/agent-\xfe.jsonl"), "/r")
    assert role == Role(None, r"\xfe", None)


raw_paths = st.lists(
    st.sampled_from([b"\\", b"x", b"\\x", b"ff", b"5c", b"\xff", b"\n", b"\xc3\xa9", b"0a", b"/"]),
    max_size=8,
).map(b"".join)


@given(raw_paths, raw_paths)
def test_stored_text_encodes_and_two_paths_never_share_one(first: bytes, second: bytes) -> None:
    one, raw = store_path(os.fsdecode(first))
    one.encode()
    assert (raw if raw is not None else one.encode()) == first
    if first != second:
        assert one != store_path(os.fsdecode(second))[0]


# -- size ---------------------------------------------------------------------------------------


def test_ten_thousand_files_are_listed_with_one_open_folder_at_a_time(root: Path) -> None:
    for project in range(200):
        folder = root / f"-w-{project}"
        folder.mkdir()
        for number in range(50):
            fd = os.open(folder / f"{number:08d}.jsonl", os.O_CREAT | os.O_WRONLY)
            os.close(fd)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    spare = os.dup(0)
    os.close(spare)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (spare + 2, hard))
        found = scan([str(root)])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(found.files) == 10_000
    assert found.unreadable == []


def test_a_deep_tree_is_walked_without_recursion(root: Path) -> None:
    folders = [root]
    for _ in range(1200):
        folders.append(folders[-1] / "d")
        folders[-1].mkdir()
    transcript = folders[-1] / "x.jsonl"
    transcript.write_bytes(b"{}\n")
    try:
        found = scan([str(root)])
    finally:
        # By hand: shutil.rmtree, which pytest would use, does recurse.
        transcript.unlink()
        for folder in reversed(folders):
            folder.rmdir()
    assert [file.path for file in found.files] == [str(transcript)]
    assert found.unreadable == []
