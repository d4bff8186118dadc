"""A folder, its database and the oracle's model of it, for the tests that compare the two.

The demo and the stories are always there; the corpus of real transcripts only beside some
checkouts. By default the lines of the corpus that say something new are compared, in `make check`
all of them.
Test modules load these fixtures as a plugin: ``pytest_plugins = ["oracle_fixtures"]``.
"""

from __future__ import annotations

import re
import sqlite3
import tarfile
from collections import Counter
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import pytest

from ctxdb.demo import write_demo
from oracle import read_folder
from real_corpus import CORPUS, HAS_CORPUS
from stories import build, every_step
from work_stories import write_everything

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oracle_copies import Model


@pytest.fixture(
    scope="session",
    params=[
        "demo",
        "stories",
        pytest.param("corpus", marks=[pytest.mark.corpus, HAS_CORPUS]),
        pytest.param("whole corpus", marks=[pytest.mark.corpus, pytest.mark.slow, HAS_CORPUS]),
    ],
)
def transcripts(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param.replace(" ", "-"))
    if request.param == "demo":
        write_demo(folder / "projects")
    elif request.param == "stories":
        write_everything(folder / "projects", build(every_step()))
    else:
        with tarfile.open(CORPUS) as archive:
            archive.extractall(folder, filter="data")
        if request.param == "corpus":
            keep_what_is_new(folder / "projects")
    return folder / "projects"


NEW = re.compile(rb'"(version|type|subtype|name)": ?"([\w.-]{1,60})"')
SESSION = re.compile(rb'"sessionId": ?"([^"]+)"')


def keep_what_is_new(root: Path) -> None:
    """Cut every transcript after its last line that says something no smaller one says.

    So every version, type of entry and tool is still there. A session that is in several files
    stays whole, as does the first file of every layout.
    """
    contents = {path: path.read_bytes() for path in root.rglob("*.jsonl")}
    sessions = {path: {*SESSION.findall(data)} for path, data in contents.items()}
    files_of = Counter(session for each in sessions.values() for session in each)
    seen: set[object] = set()
    for path, data in sorted(contents.items(), key=lambda item: (len(item[1]), item[0])):
        layout = (len(path.relative_to(root).parts), path.name.startswith("agent-"))
        new = {*NEW.findall(data)} - seen
        is_whole = layout not in seen or any(files_of[session] > 1 for session in sessions[path])
        seen |= {layout, *new}
        if is_whole:
            continue
        end = position = 0
        for line in data.splitlines(keepends=True):
            position += len(line)
            if found := new.intersection(NEW.findall(line)):
                new -= found
                end = position
        if end:
            path.write_bytes(data[:end])
        else:
            path.unlink()


@pytest.fixture(scope="session")
def model(transcripts: Path) -> Model:
    return read_folder(transcripts)


@pytest.fixture(scope="session")
def db(transcripts: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    from ctxdb.config import Config
    from ctxdb.ingest.sync import sync
    from ctxdb.progress import NullProgress

    path = tmp_path_factory.mktemp("database") / "ctxdb.db"
    sync(Config(db_path=path, roots=(str(transcripts),)), wait=False, progress=NullProgress())
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    connection.row_factory = sqlite3.Row
    connection.create_function("in_folder", 1, lambda name: relative(name, transcripts))
    yield connection
    connection.close()


def relative(name: str, folder: Path) -> str:
    return PurePosixPath(name).relative_to(folder.as_posix()).as_posix()
