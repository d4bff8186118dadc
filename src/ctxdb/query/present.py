"""Answer a question, and print the answer in the format that was asked for.

An answer is limited in rows and in bytes. Whichever limit is reached first, a line on standard
error says so, and which option raises it.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from ctxdb.errors import CtxdbError, UsageError
from ctxdb.output import ByteLimit, columns_of, note, say
from ctxdb.query.execute import execute
from ctxdb.query.guard import Guarded, limit_memory
from ctxdb.query.resolve import meant
from ctxdb.query.statement import statement_for

if TYPE_CHECKING:
    from pathlib import Path

    from ctxdb.query.execute import Answer
    from ctxdb.query.statement import Ask, Statement
    from ctxdb.query.table import Page

# Unless --limit and --max-bytes say otherwise. People read a table or Markdown; programs read the
# other formats.
PEOPLE_ROWS, PEOPLE_BYTES = 1000, 10_000_000
PROGRAM_ROWS, PROGRAM_BYTES = 1_000_000, 100_000_000
NAMED = 6  # columns without room that are named


def answer(
    ask: Ask,
    db_path: Path,
    format_: str,
    *,
    seconds: float,
    max_bytes: int | None = None,
    plot: bool = False,
    raw: bool = False,
) -> None:
    """Print the answer to standard output, and remarks on it to standard error.

    `max_bytes` limits the answer; 0 is no limit, None the usual limit of the format.
    """
    from ctxdb.session.find import telling_candidates

    limit_memory()
    guarded = Guarded(db_path, seconds=seconds, hard=True)
    is_for_people = format_ in ("table", "md") and not plot
    if max_bytes is None:
        max_bytes = PEOPLE_BYTES if is_for_people else PROGRAM_BYTES
    limit = ByteLimit(max_bytes or None)
    try:
        with guarded.asking() as conn, telling_candidates():
            statement = statement_for(ask, conn)
        try:
            found = execute(guarded, statement, PEOPLE_ROWS if is_for_people else PROGRAM_ROWS)
        except UsageError as e:
            raise _explained(e, statement, guarded) from e
        if ask.model:
            _check_model(found, ask.model, guarded)
        if plot:
            _plot(found)
        else:
            known = frozenset({"session_id"} if ask.session and not ask.columns else ())
            is_chosen = ask.columns is not None
            write(found, format_, limit, raw=raw, known=known, is_chosen=is_chosen)
        if not found.count and is_for_people | plot:
            from ctxdb.query.no_rows import explanation

            note(explanation(ask, statement, guarded))
            return
    finally:
        guarded.close()
    if (is_for_people or plot) and (uncertain := found.left_out.in_words()):
        note(uncertain)
    if statement.note and (is_for_people or plot):
        note(statement.note)
    if limit.is_reached:
        note(_truncated_bytes(limit))
    elif found.cut_at is not None:
        note(f"Truncated at {found.cut_at:,} rows, there are more: --limit N shows up to N.")


def _truncated_bytes(limit: ByteLimit) -> str:
    from ctxdb.progress import human_bytes

    return (
        f"Truncated at {human_bytes(limit.most or 0)}, there is more:"
        " --max-bytes N shows up to N bytes, --max-bytes 0 shows all."
    )


def _check_model(found: Answer, model: str, guarded: Guarded) -> None:
    """Refuse a model that was never used: an empty answer would hide the mistake."""
    from itertools import chain

    from ctxdb.query.resolve import check_model

    first = next(found.rows, None)
    if first is not None:
        found.rows = chain((first,), found.rows)
        return
    with guarded.asking() as conn:
        check_model(conn, model)


def _explained(error: UsageError, statement: Statement, guarded: Guarded) -> CtxdbError:
    """Return the error with help.

    In a person's SQL a name may be wrong: names like it are added. A view or query of ctxdb fails
    only on the database of another version: the command that upgrades it is added.
    """
    from ctxdb.store.version import is_current

    with guarded.asking() as conn:
        if not statement.name:
            return UsageError(f"{error}{meant(str(error), conn, statement.sql)}")
        if is_current(conn):
            return error
        row = conn.execute("SELECT root FROM _file_marks WHERE root IS NOT NULL").fetchone()
    (root,) = row or (None,)
    how = f"ctxdb --db {guarded.path} sync --root {root}" if root else "ctxdb sync"
    return CtxdbError(
        f"{statement.name}: the database is of another version of ctxdb ({error});"
        f" `{how}` upgrades it"
    )


def write(
    answer: Answer,
    format_: str,
    limit: ByteLimit | None = None,
    *,
    raw: bool = False,
    known: frozenset[str] = frozenset(),
    is_chosen: bool = False,
) -> None:
    """Print rows in one of the formats.

    `known` are columns that a narrow table need not show. With `is_chosen`, the columns were asked
    for by name, and a table shows all others.
    """
    limit = limit or ByteLimit()
    if format_ == "table":
        _write_table(answer, limit, known, is_chosen=is_chosen)
        return
    from ctxdb.query import formats

    out = sys.stdout.write
    if format_ == "csv":
        formats.write_csv(answer.columns, answer.rows, out, limit, raw=raw)
    elif format_ == "json":
        formats.write_json(answer.columns, answer.rows, out, limit)
    elif format_ == "jsonl":
        formats.write_jsonl(answer.columns, answer.rows, out, limit)
    else:
        formats.write_markdown(answer.columns, answer.rows, out, limit, displays=answer.displays)


def _plot(answer: Answer) -> None:
    from ctxdb.query.plot import draw

    rows = list(answer.rows)
    if not rows:
        return
    shares = answer.left_out.is_shared
    for line in draw(
        answer.columns, rows, page().width, answer.displays, rows_share_requests=shares
    ):
        say(line)


def _write_table(
    answer: Answer, limit: ByteLimit, known: frozenset[str], *, is_chosen: bool
) -> None:
    from ctxdb.query.table import lay_out, total_row

    rows = list(answer.rows)
    if not rows:
        return
    where = page()._replace(known=known, is_chosen=is_chosen)
    total = None
    if answer.total and where.width is not None and not answer.is_limited:
        total = total_row(answer.columns, rows, answer.total)
    made = lay_out(answer.columns, rows, where, answer.displays, total)
    for line in limit.within(f"{line}\n" for line in made.lines):
        sys.stdout.write(line)
    if made.left_out:
        some = ", ".join(made.left_out[:NAMED])
        if len(made.left_out) > NAMED:
            some += f" and {len(made.left_out) - NAMED} more"
        how = "widen the terminal or name fewer" if is_chosen else "--columns chooses"
        note(f"No room for {some}: {how}, --format json has all.")


def page() -> Page:
    """Return what standard output is: a terminal of some width, or a pipe."""
    from ctxdb.query.table import Page

    is_colored = (
        sys.stdout.isatty()
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM", "dumb") != "dumb"
    )
    return Page(columns_of(sys.stdout), is_colored)
