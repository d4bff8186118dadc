"""A folder, its database and the oracle's model of it, for the tests that compare the two.

The demo and the stories are always there; the corpus of real transcripts only beside some
checkouts.
Test modules load these fixtures as a plugin: ``pytest_plugins = ["oracle_fixtures"]``.
"""

from __future__ import annotations

import sqlite3
import tarfile
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
        pytest.param(
            "corpus",
            marks=[
                pytest.mark.corpus,
                HAS_CORPUS,
            ],
        ),
    ],
)
def transcripts(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "demo":
        write_demo(folder / "projects")
    elif request.param == "stories":
        write_everything(folder / "projects", build(every_step()))
    else:
        with tarfile.open(CORPUS) as archive:
            archive.extractall(folder, filter="data")
    return folder / "projects"


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
