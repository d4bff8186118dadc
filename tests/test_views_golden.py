"""What every view answers about the demo transcripts, line by line in tests/data/views/.

Run with UPDATE_GOLDEN=1 to write the answers again, then read the difference: each number in them
was checked against the transcripts once.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ctxdb.store import sql_files
from viewlab import Row, ask, demo_database

GOLDEN = Path(__file__).parent / "data/views"
# These say where and when transcripts were read, or what the docs say: tested elsewhere.
ELSEWHERE = {"ingest_health", "schema_docs"}
NAMES = [view.name for view in sql_files.all_views() if view.name not in ELSEWHERE]
# In the order of a file's number, which is that of reading and not of content.
ANY_ORDER = {"conversation", "session_messages"}


def shown(key: str, value: Any) -> Any:
    """A value without what only the order of reading decides; long texts begin."""
    if isinstance(value, int) and (key == "id" or key.endswith("_id")):
        return "*"
    if not isinstance(value, str):
        return value
    if key == "example":  # any of several
        return "*"
    if key == "models":
        return ", ".join(sorted(name.strip() for name in value.split(",")))
    return f"{value[:100]}... ({len(value)} characters)" if len(value) > 120 else value


def line(row: Row) -> str:
    return json.dumps({key: shown(key, value) for key, value in row.items()}, ensure_ascii=False)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return demo_database(tmp_path_factory.mktemp("golden"))


@pytest.mark.parametrize("name", NAMES)
def test_the_answer_about_the_demo_is_the_one_that_was_checked(demo: Path, name: str) -> None:
    answer = [line(row) for row in ask(demo, f"SELECT * FROM {name}")]
    if name in ANY_ORDER:
        answer.sort()
    path = GOLDEN / f"{name}.jsonl"
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(f"{row}\n" for row in answer), encoding="utf-8")
    assert answer == path.read_text(encoding="utf-8").splitlines()


def test_there_is_no_answer_of_a_view_that_is_gone() -> None:
    assert {path.stem for path in GOLDEN.glob("*.jsonl")} <= set(NAMES)
