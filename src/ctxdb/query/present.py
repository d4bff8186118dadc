"""Ask, and print the answer in the shape that was asked for."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from ctxdb.errors import CtxdbError, UsageError
from ctxdb.output import note, say, telling_candidates
from ctxdb.query.build import build
from ctxdb.query.guard import Guarded, limit_memory
from ctxdb.query.resolve import meant
from ctxdb.query.run import run

if TYPE_CHECKING:
    from pathlib import Path

    from ctxdb.query.build import Ask, Statement
    from ctxdb.query.run import Answer
    from ctxdb.query.table import Page

SCREEN_ROWS = 1000  # of a table, unless --limit says otherwise
NAMED = 6  # columns that are left out and said to be
MOST_ROWS = 1_000_000  # of everything else


def answer(
    ask: Ask, db_path: Path, format_: str, *, seconds: float, plot: bool = False, raw: bool = False
) -> None:
    """Answer a question on standard output; what else is to be said goes to standard error."""
    limit_memory()
    guarded = Guarded(db_path, seconds=seconds, hard=True)
    try:
        with guarded.asking() as conn, telling_candidates():
            statement = build(ask, conn)
        is_page = format_ in ("table", "md") and not plot
        try:
            found = run(guarded, statement, SCREEN_ROWS if is_page else MOST_ROWS)
        except UsageError as e:
            raise _explained(e, statement, guarded) from e
        if ask.model:
            _check_model(found, ask.model, guarded)
        if plot:
            _plot(found)
        else:
            known = frozenset({"session_id"} if ask.session and not ask.columns else ())
            write(found, format_, raw=raw, known=known, is_chosen=ask.columns is not None)
    finally:
        guarded.close()
    if (is_page or plot) and (unsure := found.sums.in_words()):
        note(unsure)
    if statement.note:
        note(statement.note)
    if found.is_cut:
        note("Truncated: there are more rows; --limit N shows N of them.")


def _check_model(found: Answer, model: str, guarded: Guarded) -> None:
    """An empty answer for a model that nobody ever used is a mistake, as for a project."""
    from itertools import chain

    from ctxdb.query.resolve import check_model

    first = next(found.rows, None)
    if first is not None:
        found.rows = chain((first,), found.rows)
        return
    with guarded.asking() as conn:
        check_model(conn, model)


def _explained(error: UsageError, statement: Statement, guarded: Guarded) -> CtxdbError:
    """What helps: the name that was meant; or why SQL of ours fails, on another version's file."""
    from ctxdb.store.version import is_current

    with guarded.asking() as conn:
        if not statement.name:
            return UsageError(f"{error}{meant(str(error), conn)}")
        if is_current(conn):
            return error
        row = conn.execute("SELECT root FROM source_files WHERE root IS NOT NULL").fetchone()
    how = f"ctxdb --db {guarded.path} sync --root {row[0]}" if row else "ctxdb sync"
    return CtxdbError(
        f"{statement.name}: the database is of another version of ctxdb ({error});"
        f" `{how}` upgrades it"
    )


def write(
    answer: Answer,
    format_: str,
    *,
    raw: bool = False,
    known: frozenset[str] = frozenset(),
    is_chosen: bool = False,
) -> None:
    """Print rows in one of the formats.

    `known` are columns that a narrow table need not show; `is_chosen`: it is to show all others.
    """
    if format_ == "table":
        _write_table(answer, known, is_chosen=is_chosen)
        return
    from ctxdb.query import formats

    out = sys.stdout.write
    if format_ == "csv":
        formats.write_csv(answer.columns, answer.rows, out, raw=raw)
    elif format_ == "json":
        formats.write_json(answer.columns, answer.rows, out)
    elif format_ == "jsonl":
        formats.write_jsonl(answer.columns, answer.rows, out)
    else:
        formats.write_markdown(answer.columns, answer.rows, out)


def _plot(answer: Answer) -> None:
    from ctxdb.query.plot import draw

    rows = list(answer.rows)
    if not rows:
        note("No rows.")
        return
    for line in draw(answer.columns, rows, page().columns):
        say(line)


def _write_table(answer: Answer, known: frozenset[str], *, is_chosen: bool) -> None:
    from ctxdb.query.table import lay_out

    rows = list(answer.rows)
    if not rows:
        note("No rows.")
        return
    made = lay_out(answer.columns, rows, page()._replace(known=known, is_chosen=is_chosen))
    for line in made.lines:
        say(line)
    if made.left_out:
        some = ", ".join(made.left_out[:NAMED])
        if len(made.left_out) > NAMED:
            some += f" and {len(made.left_out) - NAMED} more"
        how = "widen the terminal or name fewer" if is_chosen else "--columns chooses"
        note(f"No room for {some}: {how}, --format json has all.")


def page() -> Page:
    """What standard output is: a terminal of some width, or a pipe."""
    from ctxdb.query.table import Page

    if os.environ.get("COLUMNS", "").isdecimal() and int(os.environ["COLUMNS"]) > 0:
        columns: int | None = int(os.environ["COLUMNS"])
    else:
        try:
            columns = os.get_terminal_size(sys.stdout.fileno()).columns or None
        except (OSError, ValueError):
            columns = None
    is_colored = (
        sys.stdout.isatty()
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM", "dumb") != "dumb"
    )
    return Page(columns, is_colored)
