"""Real transcripts read as they stand in their files: every reply and every call, in order."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ctxdb.config import Config
from ctxdb.ingest.sync import sync
from ctxdb.progress import NullProgress
from ctxdb.query.candidates import Wanted
from ctxdb.query.search import search
from ctxdb.session.conversation import Call, Passage
from ctxdb.session.find import find_session
from ctxdb.session.load import Detail, load_conversation
from ctxdb.store.connection import open_reader
from real_corpus import CORPUS, HAS_CORPUS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.corpus,
    HAS_CORPUS,
]


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    folder = tmp_path_factory.mktemp("corpus")
    with tarfile.open(CORPUS) as archive:
        small = [one for one in archive.getmembers() if one.isdir() or one.size < 400_000]
        archive.extractall(folder, small, filter="data")
    made = Config(folder / "corpus.db", (str(folder / "projects"),))
    sync(made, progress=NullProgress())
    return made


def written(path: Path) -> tuple[list[str], list[str]]:
    """Texts and calls of the main thread, in the order of the file."""
    texts: list[str] = []
    calls: dict[str, None] = {}
    for entry in entries(path):
        message = entry.get("message")
        if entry.get("type") != "assistant" or entry.get("isSidechain"):
            continue
        if not isinstance(message, dict) or message.get("model") == "<synthetic>":
            continue
        parts = [block for block in message.get("content", []) if isinstance(block, dict)]
        text = "\n\n".join(p["text"] for p in parts if p.get("type") == "text" and p["text"])
        texts += [text.strip()] if text.strip() else []
        calls |= {p["id"]: None for p in parts if p.get("type", "").endswith("tool_use")}
    return texts, list(calls)


def entries(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_bytes().splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            yield entry


def test_replies_and_calls_stand_in_the_order_of_the_file(config: Config) -> None:
    differ, sessions = [], 0
    with closing(open_reader(config.db_path)) as conn:
        for session, path in conn.execute(
            "SELECT f.session_id, f.path FROM source_files f JOIN sessions s ON s.id = f.session_id"
            " WHERE f.agent_id IS NULL"
        ).fetchall():
            found = load_conversation(conn, session, Detail())
            items = [item for turn in found.exchanges for item in turn.items]
            texts = [i.text.strip() for i in items if isinstance(i, Passage) and i.role == "reply"]
            calls = [item.tool_use_id for item in items if isinstance(item, Call)]
            sessions += 1
            if (texts, calls) != written(Path(path)):
                differ.append(Path(path).stem)
    assert sessions > 100
    # Two repeat their own history with new uuids, one holds two sessions: told once here.
    assert len(differ) <= 3, differ


def test_every_session_is_found_by_the_beginning_of_its_id(config: Config) -> None:
    with closing(open_reader(config.db_path)) as conn:
        for (session,) in conn.execute("SELECT id FROM sessions").fetchall():
            assert find_session(conn, session[:13]) == session


def test_the_words_of_every_prompt_find_its_session(config: Config) -> None:
    with closing(open_reader(config.db_path)) as conn:
        asked = conn.execute(
            "SELECT session_id, prompt FROM turns WHERE kind = 'prompt' AND length(prompt) > 20"
            " ORDER BY session_id, ordinal"
        ).fetchall()
        for session, prompt in asked[:: max(len(asked) // 40, 1)]:
            said = prompt.replace("[image]", " ").replace('"', " ")  # a picture is no word
            words = " ".join(said.split()[:12])
            found = search(conn, f'"{words}"', Wanted(session=session))
            assert found.groups, words
