"""Push sends a database to a real PostgreSQL, and what is there equals what is here."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from builder import World, fork
from ctxdb.cli import main
from ctxdb.columns import FULL, LEVELS, METADATA, USAGE
from ctxdb.errors import CtxdbError
from ctxdb.push import make_schema, server
from ctxdb.push import push as pushing
from ctxdb.push.plan import plan
from ctxdb.push.server_schema import plain, row_tables, team_views, texts
from ctxdb.store.connection import open_reader
from ctxdb.team.reading import Terms, prepare, rows_of, sent_tables
from ctxdb.team.tables import allows, team_tables
from stories import build, every_step
from teamlab import Laptop, asked, everything, laptop, new_database, pushed, run, sender_of
from thinning import thinned

pytest.importorskip("psycopg", reason="psycopg is not installed")
pytestmark = pytest.mark.xdist_group("postgres")  # one server for all of them

COSTS = (
    "SELECT date(timestamp) AS day, model, count(*), sum(input_tokens), sum(output_tokens),"
    " sum(cache_read_tokens), sum(cost) FROM _costs GROUP BY 1, 2"
)
TEAM_COSTS = (
    "SELECT day::text, model, count(*), sum(input_tokens), sum(output_tokens),"
    " sum(cache_read_tokens), sum(cost) FROM ctxdb.requests GROUP BY 1, 2"
)


@pytest.fixture
def url() -> Iterator[str]:
    with new_database() as found:
        yield found


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return build(every_step()).contents()


@pytest.fixture
def one(files: dict[str, bytes]) -> Iterator[Laptop]:
    """A machine with everything that transcripts can have: 129 sessions."""
    with laptop(files) as made:
        yield made


@pytest.fixture(scope="module")
def work() -> dict[str, bytes]:
    """Nine sessions as people have them."""
    world = World()
    for number in range(9):
        t = world.session()
        for turn in range(4):
            t.prompt(f"do {turn} of {number}")
            t.reply({"type": "text", "text": f"I do {turn}"})
            t.tool("Bash", {"command": f"make {turn}"}, "done")
            t.reply({"type": "text", "text": f"did {turn}"})
    return world.contents()


@pytest.fixture
def few(work: dict[str, bytes]) -> Iterator[Laptop]:
    """A machine with only that work: enough where it does not matter what is sent."""
    with laptop(work) as made:
        yield made


@contextmanager
def asking(url: str) -> Iterator[Callable[[str], list[tuple[Any, ...]]]]:
    """Ask much in one connection."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("SET TIME ZONE 'UTC'")
        yield lambda sql: conn.execute(sql).fetchall()


def plain_rows(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    numbers = [tuple(int(v) if not isinstance(v, str | None) else v for v in row) for row in rows]
    return sorted(numbers, key=repr)


def must_cost_the_same(db: Laptop, url: str) -> None:
    assert plain_rows(db.rows(COSTS)) == plain_rows(asked(url, TEAM_COSTS))


def test_every_count_and_the_money_equal_those_of_sqlite(one: Laptop, url: str) -> None:
    one.push(url, level=FULL)
    with asking(url) as ask:
        for table in team_tables():
            (here,) = one.rows(f"SELECT count(*) FROM {table.name}")
            (there,) = ask(f"SELECT count(*) FROM ctxdb.{table.name}")
            assert here == there, table.name
    must_cost_the_same(one, url)
    (total,) = one.rows("SELECT round(sum(cost) / 1e12, 2) FROM _costs")
    assert asked(url, "SELECT round(sum(cost_usd)::numeric, 2)::float8 FROM ctxdb.daily_costs") == [
        total
    ]
    here = one.rows("SELECT tool, calls, ok, errors, median_ms, p95_ms FROM tool_stats")
    there = asked(url, "SELECT tool, calls, ok, errors, median_ms, p95_ms FROM ctxdb.tool_stats")
    assert sorted(here) == sorted(there)
    columns = "session_id, turns, tools, errors, files_changed, lines_added, requests, title"
    here = one.rows(f"SELECT {columns} FROM sessions_overview")
    there = asked(
        url,
        "SELECT session_id, turns, tools, errors, coalesce(files_changed, 0), lines_added,"
        " requests, coalesce(title, '(untitled)') FROM ctxdb.sessions_overview",
    )
    assert sorted(here) == sorted(there)
    here = one.rows("SELECT model, requests, cost_usd, saved_usd FROM cache_efficiency")
    there = asked(url, "SELECT model, requests, cost_usd, saved_usd FROM ctxdb.cache_efficiency")
    assert [
        sum(v for v in column if v) for column in list(zip(*here, strict=True))[1:]
    ] == pytest.approx(
        [sum(v for v in column if v) for column in list(zip(*there, strict=True))[1:]]
    )


@pytest.mark.slow
def test_values_arrive_as_they_are(one: Laptop, url: str) -> None:
    one.push(url, level=FULL)
    here = one.rows(
        "SELECT uuid, kind, text, thinking, data, timestamp FROM messages WHERE uuid IS NOT NULL"
    )
    there = asked(
        url,
        "SELECT uuid, kind, text, thinking, data,"
        " to_char(timestamp AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')"
        " FROM ctxdb.messages WHERE uuid IS NOT NULL",
    )
    assert sorted(here, key=repr) == sorted(there, key=repr)


@pytest.mark.parametrize("level", thinned(LEVELS, 2))
def test_a_column_without_a_level_is_never_sent(one: Laptop, url: str, level: str) -> None:
    one.push(url, level=level)
    allowed = {"session_id", "key", "machine"}
    with asking(url) as ask:
        for table in team_tables():
            for name, columns in ((table.name, plain(table)), (f"{table.name}_text", texts(table))):
                if not columns:
                    continue
                levels = {column.name: column.level for column in columns}
                found = ask(
                    "SELECT column_name FROM information_schema.columns"
                    f" WHERE table_schema = 'ctxdb' AND table_name = '_{name}'"
                )
                there = [column for (column,) in found]
                assert there
                for column in there:
                    assert column in levels or column in allowed, f"{name}.{column} has no level"
                kept_back = [c for c in there if c in levels and not allows(level, levels[c])]
                if kept_back:
                    counts = ", ".join(f'count("{column}")' for column in kept_back)
                    (filled,) = ask(f"SELECT {counts} FROM ctxdb._{name}")
                    for column, number in zip(kept_back, filled, strict=True):
                        assert number == 0, f"{name}.{column} is of level {levels[column]}"


def test_what_people_wrote_is_only_in_tables_of_texts() -> None:
    for table in team_tables():
        assert {column.level for column in plain(table)} <= {USAGE, METADATA}
        for column in table.columns:
            assert column.about, f"{table.name}.{column.name}"
    wrote = {f"{t.name}.{c.name}" for t in team_tables() for c in texts(t)}
    assert wrote >= {
        "messages.text",
        "messages.thinking",
        "tool_uses.input",
        "tool_uses.target",
        "tool_uses.result_text",
        "turns.prompt",
        "sessions.title",
        "git_operations.subject",
        "history.prompt",
        "plans.text",
        "todos.subject",
        "events.data",
    }


def test_lowering_the_level_erases_what_is_no_longer_allowed(few: Laptop, url: str) -> None:
    few.push(url, level=FULL)
    assert asked(url, "SELECT count(*) > 0 FROM ctxdb._messages_text") == [(True,)]
    few.push(url, level=METADATA)
    assert asked(url, "SELECT count(*) FROM ctxdb._messages_text") == [(0,)]
    assert asked(url, "SELECT count(cwd) > 0 FROM ctxdb.sessions") == [(True,)]
    few.push(url, level=USAGE)
    assert asked(url, "SELECT count(cwd) FROM ctxdb.sessions") == [(0,)]
    assert asked(url, "SELECT count(name) FROM ctxdb.tool_uses") == [(0,)]
    names = {name for (name,) in few.rows("SELECT name FROM projects")}
    hashed = {name for (name,) in asked(url, "SELECT DISTINCT repository FROM ctxdb.sessions")}
    assert not names & hashed
    must_cost_the_same(few, url)
    few.push(url, level=FULL)
    assert asked(url, "SELECT count(*) > 0 FROM ctxdb._messages_text") == [(True,)]


def test_secrets_are_masked_before_they_leave(few: Laptop, url: str) -> None:
    secret = "ghp_" + "a1B2" * 9
    few.write(
        f"UPDATE messages SET text = 'the token is {secret}' WHERE id = 1",
        f"""UPDATE messages SET data = '{{"k":"{secret}"}}' WHERE id = 1""",
    )
    from ctxdb.privacy.masking import Masker

    few.push(url, level=FULL, mask=Masker().mask)
    assert asked(url, "SELECT 1 FROM ctxdb._messages_text WHERE text LIKE %s", f"%{secret}%") == []
    ((data,),) = asked(url, "SELECT data FROM ctxdb.messages WHERE text LIKE 'the token is %'")
    assert "[redacted:" in data
    assert secret not in data


def test_a_push_with_nothing_new_sends_nothing(few: Laptop, url: str) -> None:
    first = few.push(url)
    assert first.sessions > 0
    before = everything(url)
    second = few.push(url)
    assert (second.sessions, second.rows) == (0, {})
    assert everything(url) == before


def test_only_changed_sessions_are_sent_again(url: str) -> None:
    world = World()
    a, b = world.session(), world.session()
    for t in (a, b):
        t.prompt("hello")
        t.reply({"type": "text", "text": "hi"})
    with laptop(world.contents(), writes=True) as one:
        one.push(url)
        a.prompt("more")
        for name, data in world.contents().items():
            one.put(name, data)
        one.sync()
        assert one.push(url).sessions == 1
        assert asked(url, "SELECT count(*) FROM ctxdb.turns") == one.rows(
            "SELECT count(*) FROM turns"
        )


@pytest.mark.slow
def test_rows_that_are_gone_here_are_removed_there(one: Laptop, url: str) -> None:
    one.push(url)
    ((session_id,),) = one.rows("SELECT session_id FROM messages LIMIT 1")
    with closing(sqlite3.connect(one.db)) as conn, conn:
        from ctxdb.store.changes import stamp

        conn.execute("DELETE FROM events WHERE session_id = ?", (session_id,))
        stamp(conn, [session_id])
    one.push(url)
    found = asked(url, "SELECT count(*) FROM ctxdb.events WHERE session_id = %s", session_id)
    assert found == [(0,)]


def test_a_new_price_changes_the_costs_there(few: Laptop, url: str) -> None:
    few.push(url)
    few.write("UPDATE prices SET output_usd_per_mtok = output_usd_per_mtok * 2")
    report = few.push(url)
    assert report.sessions == 0
    must_cost_the_same(few, url)


def test_costs_are_worked_out_only_for_the_sessions_that_are_sent(one: Laptop) -> None:
    """A push of one session would else take as long as the database has requests."""
    (usage,) = [sent for sent in sent_tables("metadata") if sent.name == "usage"]
    with closing(open_reader(one.db)) as conn:
        statements: list[str] = []
        terms = Terms("metadata", b"salt", {})
        prepare(conn, terms)
        conn.set_trace_callback(statements.append)
        list(rows_of(conn, usage, ["some session"], terms))
        conn.set_trace_callback(None)
        (statement,) = statements
        plan = [detail for *_, detail in conn.execute(f"EXPLAIN QUERY PLAN {statement}")]
    assert not [step for step in plan if step in ("SCAN u", "SCAN t")]


def test_the_first_session_of_a_model_sends_no_requests_of_others(few: Laptop, url: str) -> None:
    few.push(url)
    few.write(
        "INSERT INTO _model_names SELECT 'claude-new-9', place, name FROM _model_names"
        " WHERE model = (SELECT min(model) FROM _model_names)"
    )
    assert few.push(url).rows.get("usage", 0) == 0
    must_cost_the_same(few, url)


@pytest.mark.slow
def test_a_repository_that_config_names_is_sent_for_old_sessions(one: Laptop, url: str) -> None:
    one.push(url)
    ((path,), *_) = one.rows(
        "SELECT repo_path FROM projects p JOIN sessions s ON s.project_id = p.id"
        " WHERE NOT EXISTS (SELECT 1 FROM git_operations) OR 1 ORDER BY p.id"
    )
    name = path.rsplit("/", 1)[-1]
    before = asked(url, "SELECT count(*) FROM ctxdb.sessions WHERE repository = %s", name)
    one.push(url, repositories={path: "acme/engine"})
    if before != [(0,)]:
        after = asked(url, "SELECT count(*) FROM ctxdb.sessions WHERE repository = 'acme/engine'")
        assert after == before


@pytest.mark.slow
def test_person_is_hashed_on_request(one: Laptop, url: str) -> None:
    one.push(url, hash_person=True)
    ((person, team),) = asked(url, "SELECT person, team FROM ctxdb.machines")
    assert (len(person), person != "ada", team) == (32, True, "core")


def test_a_dry_run_shows_columns_and_writes_nothing(few: Laptop, url: str) -> None:
    with closing(sqlite3.connect(few.db)) as conn:
        report, planned = plan(conn, server.target_of(url), sender_of(few.db))
    assert report.sessions > 0
    assert {p.table for p in planned} == {t.name for t in team_tables() if t.sent(METADATA)}
    assert asked(url, "SELECT to_regnamespace('ctxdb')") == [(None,)]
    few.push(url)
    with closing(sqlite3.connect(few.db)) as conn:
        report, _ = plan(conn, server.target_of(url), sender_of(few.db))
    assert (report.sessions, sum(report.rows.values())) == (0, 0)


# -- many machines -------------------------------------------------------------------------------


def killed_at(db: Path, url: str, statement: int) -> int:
    """Push in a fork of this process, which dies at a statement; its exit code."""
    import psycopg

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of other threads
        child = os.fork()
    if child == 0:
        code = 70
        try:
            left = [statement]
            execute = psycopg.Connection.execute

            def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
                left[0] -= 1
                if left[0] < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return execute(self, *args, **kwargs)

            psycopg.Connection.execute = counted  # type: ignore[method-assign]
            pushing.BATCH_SESSIONS = 2
            pushed(db, url, level=FULL)
            code = 0
        except BaseException:  # noqa: BLE001
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def check_kills(one: Laptop, statements: list[int]) -> list[int]:
    """Push and kill, again and again, then push: all is there. How the killed ones ended."""
    codes = []
    with new_database() as whole:
        one.push(whole, level=FULL)
        expected = everything(whole)
    with new_database() as url:
        for number, statement in enumerate(statements):
            if number % 3 == 2:
                run(url, "DROP SCHEMA IF EXISTS ctxdb CASCADE")
            codes.append(killed_at(one.db, url, statement))
            assert codes[-1] in (0, -signal.SIGKILL)
        one.push(url, level=FULL)
        one.push(url, level=FULL)
        assert _without_salt(everything(url)) == _without_salt(expected)
    return codes


def _without_salt(rows: dict[str, list[str]]) -> dict[str, int]:
    return {name: len(found) for name, found in rows.items()}


def test_case_104_a_push_that_is_killed_or_run_twice_gives_the_same_rows(few: Laptop) -> None:
    # While the schema is made, and in a later batch.
    assert check_kills(few, [6, 90]) == [-signal.SIGKILL] * 2


@pytest.mark.slow
def test_case_104_a_push_that_is_killed_in_a_first_batch_too_gives_the_same_rows(
    one: Laptop,
) -> None:
    # While the schema is made, before the rows of a first batch, among them, and in a later batch.
    check_kills(one, [6, 21, 30, 90])


@pytest.mark.crash
@pytest.mark.timeout(3600)
def test_case_104_a_push_that_is_killed_at_many_statements(one: Laptop) -> None:
    check_kills(one, list(range(2, 120)))


def halves(files: dict[str, bytes]) -> dict[str, bytes]:
    """The same files as another machine has them: some shorter, some missing."""
    found = {}
    for number, (name, data) in enumerate(sorted(files.items())):
        lines = data.splitlines(keepends=True)
        if name.endswith(".jsonl") and number % 3 == 0:
            found[name] = b"".join(lines[: len(lines) // 2])
        elif number % 3 == 1:
            found[name] = data
    return found


def test_case_104_two_machines_with_copies_of_one_session_count_once(
    work: dict[str, bytes], url: str
) -> None:
    files = work
    with laptop(files) as whole, laptop(halves(files)) as part:
        part.push(url, person="grace")
        whole.push(url)
        must_cost_the_same(whole, url)
        (here,) = whole.rows("SELECT count(*) FROM messages")
        (there,) = asked(url, "SELECT count(*) FROM ctxdb.messages WHERE uuid IS NOT NULL")
        assert there <= here
        # The order of machines does not matter.
        with new_database() as other:
            whole.push(other)
            part.push(other, person="grace")
            assert plain_rows(asked(url, TEAM_COSTS)) == plain_rows(asked(other, TEAM_COSTS))


def test_case_104_different_lengths_of_a_session_make_a_union(url: str) -> None:
    world = World()
    t = world.session()
    for number in range(6):
        t.prompt(f"prompt {number}")
        t.reply({"type": "text", "text": f"reply {number}"})
    ((name, data),) = world.contents().items()
    lines = data.splitlines(keepends=True)
    first, last = b"".join(lines[:7]), b"".join(lines[5:])
    with laptop({name: first}) as one, laptop({name: last}) as other, laptop({name: data}) as both:
        one.push(url)
        other.push(url, person="grace")
        must_cost_the_same(both, url)
        count = "SELECT count(*) FROM {}messages"
        assert asked(url, count.format("ctxdb.")) == both.rows(count.format(""))


def test_case_104_a_call_without_its_result_is_the_same_touch_of_a_file(url: str) -> None:
    """Only the result says whether a file was created."""
    world = World()
    t = world.session()
    t.prompt("write it")
    detail = {"type": "create", "filePath": "/work/a.txt", "content": "a"}
    t.tool("Write", {"file_path": "/work/a.txt", "content": "a"}, "File created", detail)
    ((name, data),) = world.contents().items()
    lines = data.splitlines(keepends=True)
    with laptop({name: b"".join(lines[:-1])}) as short, laptop({name: data}) as whole:
        short.push(url)
        whole.push(url, person="grace")
        touches = "SELECT operation FROM {}files_touched"
        assert short.rows(touches.format("")) == [("write",)]
        assert asked(url, touches.format("ctxdb.")) == whole.rows(touches.format(""))
        assert whole.rows(touches.format("")) == [("create",)]


def test_case_104_a_fork_on_another_machine_costs_nothing_twice(url: str) -> None:
    world = World()
    t = world.session()
    t.prompt("hello")
    t.reply({"type": "text", "text": "hi"})
    before = set(world.contents())
    forked = fork(t, says_so=True, renew=False)
    forked.prompt("and now")
    forked.reply({"type": "text", "text": "this"})
    files = world.contents()
    theirs = {name: data for name, data in files.items() if name not in before}
    ours = {name: data for name, data in files.items() if name in before}
    with laptop(theirs) as other, laptop(ours) as one, laptop(files) as both:
        other.push(url, person="grace")
        one.push(url)
        must_cost_the_same(both, url)
        here = both.rows("SELECT session_id, count(*) FROM usage GROUP BY 1")
        there = asked(url, "SELECT session_id, count(*) FROM ctxdb.requests GROUP BY 1")
        assert sorted(here) == sorted(there)


def test_case_104_a_replay_in_a_sidechain_on_another_machine_costs_nothing(url: str) -> None:
    steps = ("by_the_way", "agent")
    files = build([("new", 0, ["prompt", step, "answer"]) for step in steps]).contents()
    agents = {name: data for name, data in files.items() if "agent" in name}
    others = {name: data for name, data in files.items() if name not in agents}
    with laptop(agents) as one, laptop(others) as other, laptop(files) as both:
        keys = "SELECT request_key FROM usage"
        assert {*one.rows(keys), *other.rows(keys)} > {*both.rows(keys)}  # one is a replay
        one.push(url)
        other.push(url, person="grace")
        there = asked(url, "SELECT request_key FROM ctxdb.requests")
        assert sorted(there) == sorted(both.rows(keys))


def test_case_104_a_replay_of_a_copied_message_on_another_machine_costs_nothing(url: str) -> None:
    world = World()
    t = world.session()
    t.prompt("hello")
    t.reply({"type": "text", "text": "hi"})
    parent = set(world.contents())
    forked = fork(t, says_so=True, renew=False)
    forked.prompt("and now")
    files = world.contents()
    ((name, data),) = ((name, data) for name, data in files.items() if name not in parent)
    line = next(json.loads(one) for one in data.splitlines() if b'"assistant"' in one)
    replay = {**line, "isSidechain": True, "agentId": "a1", "requestId": "req_other"}
    replay |= {"uuid": "11111111-2222-4333-8444-555555555555", "parentUuid": None}
    replay.pop("forkedFrom", None)
    agents = {f"{name.removesuffix('.jsonl')}/subagents/agent-a1.jsonl": _line(replay)}
    with laptop(agents) as one, laptop(files) as other, laptop({**files, **agents}) as both:
        keys = "SELECT request_key FROM usage"
        assert both.rows(keys) == other.rows(keys)
        assert one.rows(keys) not in ([], both.rows(keys))
        one.push(url)
        other.push(url, person="grace")
        assert asked(url, "SELECT request_key FROM ctxdb.requests") == both.rows(keys)


def _line(entry: dict[str, Any]) -> bytes:
    return json.dumps(entry).encode() + b"\n"


def test_case_104_a_wrong_clock_loses_nothing(
    url: str, work: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    with laptop(work, writes=True) as one:
        one.push(url)
        # As if restored, a day old.
        one.write("UPDATE _session_changes SET seq = seq - 90000000000")
        one.push(url)
        monkeypatch.setattr("ctxdb.store.changes.time.time_ns", lambda: 1)
        name = min(work)
        one.append(name, work[name].replace(b'"uuid":"', b'"uuid":"f'))
        one.sync()
        one.push(url)
        assert asked(url, "SELECT count(*) FROM ctxdb.messages") == one.rows(
            "SELECT count(*) FROM messages"
        )
        must_cost_the_same(one, url)


def test_case_104_a_database_of_another_version_is_refused(few: Laptop, url: str) -> None:
    few.push(url)
    before = everything(url)
    run(url, "UPDATE ctxdb._settings SET value = '99' WHERE name = 'format'")
    with pytest.raises(CtxdbError, match=r"newer ctxdb.*upgrade ctxdb"):
        few.push(url)
    assert everything(url) == before


@pytest.mark.slow
def test_a_database_that_is_made_again_is_sent_again(one: Laptop, url: str) -> None:
    one.push(url)
    ((gone,),) = one.rows("SELECT id FROM sessions ORDER BY id LIMIT 1")
    one.write(
        "UPDATE _meta SET value = 'another' WHERE key = 'database id'",
        f"DELETE FROM _session_changes WHERE session_id = '{gone}'",
    )
    report = one.push(url)
    assert report.sessions > 0
    assert report.removed == 1
    assert asked(url, "SELECT count(*) FROM ctxdb.sessions WHERE session_id = %s", gone) == [(0,)]


def test_a_forgotten_session_is_removed_and_rejected_from_every_machine(
    work: dict[str, bytes], url: str
) -> None:
    with laptop(work) as one, laptop(work) as other:
        one.push(url)
        other.push(url, person="grace")
        ((gone,),) = one.rows("SELECT session_id FROM usage ORDER BY session_id LIMIT 1")
        one.forget(gone)
        report = one.push(url)
        assert report.forgotten == 1
        left = "SELECT count(*) FROM ctxdb._holders WHERE session_id = %s"
        assert asked(url, left, gone) == [(0,)]
        other.write("UPDATE _meta SET value = 'another' WHERE key = 'database id'")
        assert other.push(url, person="grace").rejected == 1
        with asking(url) as ask:
            for name in row_tables():
                found = ask(f"SELECT count(*) FROM ctxdb.{name} WHERE session_id = '{gone}'")
                assert found == [(0,)], name
        # The tombstone names nothing.
        ((hashed, _, _),) = asked(url, "SELECT * FROM ctxdb._forgotten")
        assert gone not in hashed
        one.write("DELETE FROM _forgotten")
        one.push(url)
        assert asked(url, "SELECT count(*) FROM ctxdb._forgotten") == [(0,)]


def test_machines_that_push_at_once_do_not_disturb_each_other(
    work: dict[str, bytes], url: str
) -> None:
    problems: list[BaseException] = []

    def send(one: Laptop, name: str) -> None:
        try:
            one.push(url, person=name)
        except BaseException as e:  # noqa: BLE001
            problems.append(e)

    with ExitStack() as stack:
        parts = [work, halves(work), *[work] * 4]
        labs = [stack.enter_context(laptop(files)) for files in parts]
        one, *_ = labs
        threads = [
            threading.Thread(target=send, args=(lab, f"person {number}"))
            for number, lab in enumerate(labs)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert problems == []
        must_cost_the_same(one, url)
        assert asked(url, "SELECT count(*) FROM ctxdb.machines") == [(len(labs),)]
        assert asked(url, "SELECT count(*) FROM ctxdb.messages") == one.rows(
            "SELECT count(*) FROM messages"
        )


# -- bad input -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_hostile_rows_are_sent(one: Laptop, url: str) -> None:
    long = "x" * 5000
    one.write(
        f"UPDATE usage SET request_key = '{long}' WHERE id = 1",
        "UPDATE usage SET timestamp = 'now', input_tokens = 'many' WHERE id = 2",
        "UPDATE messages SET timestamp = '2026-02-31T25:00:00.000Z' WHERE id = 1",
        "UPDATE messages SET timestamp = '0000-00-00T00:00:00.000Z', uuid = NULL WHERE id = 2",
        "UPDATE messages SET text = CAST(x'61006200ff' AS TEXT), model = x'ff00' WHERE id = 3",
        f"UPDATE messages SET uuid = '{long}' WHERE id = 4",
        "UPDATE messages SET uuid = (SELECT uuid FROM messages WHERE id = 6) WHERE id = 5",
        "UPDATE tool_uses SET duration_ms = 9e300, name = '\\.' WHERE id = 1",
        "UPDATE _session_changes SET seq = 1",
    )
    one.push(url, level=FULL)
    (here,) = one.rows("SELECT count(*) FROM messages")
    assert asked(url, "SELECT count(*) FROM ctxdb.messages") == [here]
    assert asked(url, "SELECT count(*) FROM ctxdb.messages WHERE text LIKE 'a␀b␀%'") == [(1,)]


def refused(one: Laptop, url: str, **changes: Any) -> str:
    with pytest.raises(CtxdbError) as e:
        one.push(url, **changes)
    message = str(e.value)
    assert "\n" not in message
    assert "sekret" not in message
    return message


def test_a_server_that_is_down_is_named_in_one_line(few: Laptop) -> None:
    message = refused(few, "postgresql://u:sekret@127.0.0.1:1/x")
    assert message.startswith("127.0.0.1:1/x cannot be reached")


@pytest.mark.slow
def test_a_read_only_server_is_refused(one: Laptop, url: str) -> None:
    one.push(url)
    run(
        url,
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on',"
        " current_database()); END $$",
    )
    assert "read-only" in refused(one, url, level=FULL)


@pytest.mark.slow
def test_an_old_server_is_refused(one: Laptop, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MIN_VERSION", 990000)
    assert "is too old; ctxdb needs 99 or later" in refused(one, url)


@pytest.mark.slow
def test_a_schema_of_somebody_else_is_left_alone(one: Laptop, url: str) -> None:
    run(url, "CREATE SCHEMA ctxdb", "CREATE TABLE ctxdb.messages (a int)")
    assert "a table is in the way (messages)" in refused(one, url)
    assert asked(url, "SELECT count(*) FROM pg_class WHERE relname = '_machines'") == [(0,)]


@pytest.mark.slow
def test_a_table_in_the_way_of_a_view_is_named_and_nothing_is_half_made(
    one: Laptop, url: str
) -> None:
    one.push(url)
    run(
        url,
        "DROP VIEW ctxdb.limits",
        "CREATE TABLE ctxdb.limits (a int)",
        "UPDATE ctxdb._settings SET value = 'old' WHERE name = 'definitions'",
    )
    assert "ctxdb.limits: rename it, then push again" in refused(one, url)
    assert asked(url, "SELECT count(*) > 0 FROM ctxdb.messages") == [(True,)]


def test_views_that_people_made_on_top_are_never_dropped(few: Laptop, url: str) -> None:
    few.push(url)
    run(
        url,
        "CREATE MATERIALIZED VIEW public.nightly AS SELECT * FROM ctxdb.daily_costs",
        "UPDATE ctxdb._settings SET value = 'old' WHERE name = 'definitions'",
    )
    assert "drop yours, push, then create them again" in refused(few, url)
    assert asked(url, "SELECT count(*) > 0 FROM public.nightly") == [(True,)]


def test_a_full_server_is_named(few: Laptop) -> None:
    import psycopg

    assert "is full" in server.reason_of(psycopg.errors.DiskFull())


@pytest.mark.parametrize(
    "bad", ["mysql://x", "postgresql://u:sekret@h:1/d?nonsense=1", "", "postgresql://u:sek ret@"]
)
def test_a_bad_url_is_not_repeated(bad: str) -> None:
    with pytest.raises(CtxdbError) as e:
        server.target_of(bad)
    assert "sek" not in str(e.value)
    assert "postgresql://USER@HOST/DATABASE" in str(e.value)


# -- roles ---------------------------------------------------------------------------------------


@pytest.fixture
def team(few: Laptop, url: str) -> Iterator[str]:
    """A database that the owner has pushed to once, with roles ada, grace and rita."""
    from ctxdb.assets import asset_dir

    few.push(url, level=USAGE)
    run(url, "DELETE FROM ctxdb._machines")
    script = (asset_dir("sql") / "postgres/roles.sql").read_text()
    run(url, script, script)
    names = {name: f"{name}_{os.getpid()}" for name in ("ada", "grace", "rita")}
    run(
        url,
        *(f"CREATE ROLE {role} LOGIN PASSWORD 'pw'" for role in names.values()),
        f"GRANT ctxdb_writer, ctxdb_reader TO {names['ada']}, {names['grace']}",
        f"GRANT ctxdb_reader TO {names['rita']}",
    )
    try:
        yield url
    finally:
        run(url, *(f"DROP OWNED BY {role}" for role in names.values()))
        run(url, *(f"DROP ROLE {role}" for role in names.values()))


def as_role(url: str, name: str) -> str:
    from psycopg.conninfo import make_conninfo

    return str(make_conninfo(url, user=f"{name}_{os.getpid()}", password="pw"))


def test_roles_keep_machines_and_texts_apart(
    team: str, few: Laptop, work: dict[str, bytes]
) -> None:
    ada, grace, rita = (as_role(team, name) for name in ("ada", "grace", "rita"))
    few.push(ada, level=FULL)
    count = "SELECT count(*) FROM ctxdb.messages WHERE text IS NOT NULL"
    ((own,),) = asked(ada, count)
    assert own > 0
    assert asked(grace, count) == [(0,)]
    assert asked(rita, count) == [(0,)]
    # Readers see numbers of all.
    must_cost_the_same(few, rita)
    # Nobody reads the tables of texts by another way, nor the salt.
    assert asked(rita, "SELECT count(*) FROM ctxdb._messages_text") == [(0,)]
    with pytest.raises(Exception, match="permission denied"):
        asked(rita, "SELECT * FROM ctxdb._settings")
    # A reader cannot push, and a writer cannot push another's machine or change its rows.
    assert "role" in refused(few, rita)
    assert "role" in refused(few, grace)
    run(grace, "DELETE FROM ctxdb._messages", "UPDATE ctxdb._usage SET cost = 0")
    must_cost_the_same(few, rita)
    with laptop(work) as other:
        other.push(grace, level=FULL, person="grace")
        must_cost_the_same(few, rita)
        ((both,),) = asked(rita, "SELECT count(*) FROM ctxdb._messages")
        other.push(grace, level=METADATA, person="grace")
        assert asked(rita, "SELECT count(*) FROM ctxdb._messages") == [(both,)]
    assert asked(ada, count) == [(own,)]


def test_readers_can_read_views_that_a_newer_version_has_made_again(team: str) -> None:
    run(team, "UPDATE ctxdb._settings SET value = 'old' WHERE name = 'definitions'")
    target = server.target_of(team)
    with server.connected(target) as conn:
        make_schema.prepare(conn, target)
    assert len(asked(as_role(team, "rita"), "SELECT * FROM ctxdb.costs_by_team")) == 1
    with pytest.raises(Exception, match="permission denied"):
        asked(as_role(team, "rita"), "SELECT * FROM ctxdb._settings")


def test_a_role_that_cannot_make_the_schema_is_told_who_can(few: Laptop, url: str) -> None:
    run(url, f"CREATE ROLE paul_{os.getpid()} LOGIN PASSWORD 'pw'")
    try:
        assert "owner runs `ctxdb push` once" in refused(few, as_role(url, "paul"))
    finally:
        run(url, f"DROP ROLE paul_{os.getpid()}")


# -- views ---------------------------------------------------------------------------------------


def test_every_view_is_documented_and_runs_at_every_level(one: Laptop, url: str) -> None:
    views = team_views()
    assert {view.name for view in views} >= {
        "daily_costs",
        "costs_by_person",
        "costs_by_team",
        "costs_by_repository",
        "costs_by_model",
        "sessions_overview",
        "tool_stats",
        "tool_errors",
        "file_activity",
        "adoption",
        "cache_efficiency",
        "limits",
    }
    for level in LEVELS:
        one.push(url, level=level)
        with asking(url) as ask:
            for view in views:
                ask(f"SELECT * FROM ctxdb.{view.name}")
    for view in views:
        found = asked(
            url,
            "SELECT a.attname, col_description(a.attrelid, a.attnum) FROM pg_attribute a"
            " WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0",
            f"ctxdb.{view.name}",
        )
        assert dict(found) == view.columns, view.name
    options = asked(
        url,
        "SELECT DISTINCT 'security_invoker=true' = ANY (c.reloptions) FROM pg_class c"
        " JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = 'ctxdb' AND c.relkind = 'v'",
    )
    assert options == [(True,)]


def test_session_id_is_in_every_primary_key_and_no_text_has_an_index(few: Laptop, url: str) -> None:
    few.push(url)
    indexed = asked(
        url,
        "SELECT t.relname, i.indisprimary, array_agg(a.attname::text), max(m.amname)"
        " FROM pg_index i"
        " JOIN pg_class t ON t.oid = i.indrelid JOIN pg_namespace n ON n.oid = t.relnamespace"
        " JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_am m ON m.oid = x.relam"
        " JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = ANY (i.indkey)"
        " WHERE n.nspname = 'ctxdb' GROUP BY 1, 2, i.indexrelid",
    )
    short = {"session_id", "key", "machine", "name", "hash", "api_message_id"}
    rows = set(row_tables())
    for table, is_primary, columns, method in indexed:
        if table in rows and is_primary:
            assert set(columns) == {"session_id", "key", "machine"}
        if method == "btree":
            assert set(columns) <= short, table


def test_the_command_prints_json_and_never_the_password(
    few: Laptop, url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def command(where: str, *words: str) -> tuple[int, str, str]:
        """Run it in this process, which has imported everything."""
        given = ["ctxdb", "--db", str(few.db), "push", where, "--no-sync", *words]
        monkeypatch.setattr(sys, "argv", given)
        try:
            main.main()
            code = 0
        except SystemExit as left:
            code = int(left.code or 0)
        return code, *capsys.readouterr()

    code, out, _ = command(url, "--json")
    found = json.loads(out)
    assert (code, found["level"], found["dry_run"]) == (0, "metadata", False)
    schema = Path(__file__).parents[1] / "docs/schemas/push.schema.json"
    Draft202012Validator(json.loads(schema.read_text())).validate(found)
    code, out, _ = command(url, "--dry-run")
    assert code == 0
    assert "Would send 0 sessions" in out
    code, out, err = command("postgresql://u:sekret@127.0.0.1:1/x")
    assert code == 1
    assert "sekret" not in out + err
    assert len(err.splitlines()) == 1
