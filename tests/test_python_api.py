"""`import ctxdb` gives the answers of the command line as Python values."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import ctxdb
from ctxdb.errors import CtxdbError, NoDatabase, UsageError
from demo_db import demo_folder


@pytest.fixture
def db() -> ctxdb.Database:
    return ctxdb.open(demo_folder() / "demo.db", sync=False)


def on_the_command_line(*words: str) -> list[dict[str, object]]:
    code = "from ctxdb.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "--db", str(demo_folder() / "demo.db"), *words],
        capture_output=True,
        text=True,
        check=True,
    )
    return list(json.loads(done.stdout))


def test_a_view_gives_the_rows_of_the_query_command(db: ctxdb.Database) -> None:
    want = on_the_command_line(
        *("query", "sessions_overview", "--since", "all", "--format", "json", "--no-sync")
    )
    rows = db.query("sessions_overview", since="all")
    assert rows == want
    assert rows.columns == list(want[0])


def test_filters_and_parameters_narrow_an_answer(db: ctxdb.Database) -> None:
    everything = db.query("sessions_overview", since="all")
    project = str(everything[0]["project"])
    some = db.query("sessions_overview", since="all", project=project, limit=1, columns="title")
    assert [list(row) for row in some] == [["title"]]
    touched = db.query("files_touched", limit=1)[0]
    path = str(touched["path"]).rpartition("/")[2]
    assert db.query("sessions_touching", path=path)
    assert db.query("SELECT :a + 1 AS b", a=1) == [{"b": 2}]
    by_people = db.query("sessions_overview", since="all", human=True)
    assert 0 < len(by_people) < len(everything)
    assert db.query("SELECT :limit AS b", {"limit": 3}) == [{"b": 3}]


def test_an_answer_says_which_period_it_is_of(db: ctxdb.Database) -> None:
    assert "--since all" in db.query("daily_usage").note


def test_a_search_gives_sessions_with_their_hits(db: ctxdb.Database) -> None:
    prompt = str(db.query("SELECT prompt FROM turns WHERE kind = 'prompt' LIMIT 1")[0]["prompt"])
    word = max(prompt.split(), key=len).strip(".,?!'\"")
    found = db.search(word)
    assert found
    assert found[0]["hits"]
    assert {"session_id", "title"} <= found[0].keys()


def test_a_session_is_read_as_a_conversation(db: ctxdb.Database) -> None:
    last = db.session()
    assert last.exchanges
    assert db.session(last.id[:8]).id == last.id


def test_errors_are_one_line_and_come_from_errors_py(db: ctxdb.Database, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="did you mean sessions_overview"):
        db.query("sessions_overvew")
    with pytest.raises(CtxdbError, match="only reading is allowed"):
        db.query("DELETE FROM messages")
    with pytest.raises(UsageError, match="one or more words"):
        db.search(" ")
    with pytest.raises(NoDatabase):
        ctxdb.open(tmp_path / "none.db", sync=False)
    with db:
        pass
    with pytest.raises(UsageError, match="was closed"):
        db.query("overview")


def test_opening_reads_new_lines_first(home: Path) -> None:
    folder = home / ".claude/projects/-work-tides"
    folder.mkdir(parents=True)
    uuid = "5e551000-0000-4000-8000-00000000000a"
    entry = {
        "type": "user",
        "uuid": uuid.replace("a", "b"),
        "sessionId": uuid,
        "timestamp": "2026-08-24T22:43:22.764Z",
        "message": {"role": "user", "content": "when is high tide"},
    }
    (folder / f"{uuid}.jsonl").write_text(json.dumps(entry) + "\n")
    with ctxdb.open() as db:
        assert db.query("SELECT prompt FROM turns") == [{"prompt": "when is high tide"}]
        assert db.sync().lines_read == 0


def test_importing_ctxdb_loads_nothing() -> None:
    code = "import sys; before = set(sys.modules); import ctxdb; print(set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"sqlite3", "typing", "orjson", "ctxdb.api"} & set(eval(done.stdout))


def test_an_unknown_attribute_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = ctxdb.nothing  # type: ignore[attr-defined]


def test_a_data_frame_needs_pandas(db: ctxdb.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match="pip install pandas"):
        db.query("overview").df()
