"""What can be asked by name: all of it in a line each, or one in full."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxdb import canned
from ctxdb.commands.output import say
from ctxdb.query.resolve import unknown
from ctxdb.query.run import Answer

if TYPE_CHECKING:
    from collections.abc import Iterator


def show_list(name: str, format_: str) -> None:
    """Print all of it, or what is to be said of one."""
    if name:
        for line in describe(name):
            say(line)
        return
    from ctxdb.query.present import page, write

    if format_ == "table":
        for line in overview(page().columns or 100):
            say(line)
    else:
        write(Answer(*everything()), format_)


def overview(room: int) -> Iterator[str]:
    """The list for people: questions whole, with what a query wants to be told."""
    from textwrap import wrap

    views, queries = canned.all_views(), canned.all_queries()
    margin = max(len(one.name) for one in [*views, *queries]) + 2
    for title, some in (
        ("Views", views),
        ("Queries (a parameter is given as -p NAME VALUE)", queries),
    ):
        if not some:
            continue
        yield f"{title}:"
        for one in some:
            wants = ", ".join(f":{param.name}" for param in one.params)
            text = f"{one.question} ({wants})" if wants else one.question
            first, *rest = wrap(text, max(room - margin - 2, 30)) or [""]
            yield f"  {one.name:{margin}}{first}"
            yield from (f"  {'':{margin}}{line}" for line in rest)
    yield "What one of them has to offer: ctxdb query --list NAME"


def everything() -> tuple[list[str], Iterator[tuple[object, ...]]]:
    """Columns and rows of the list of views and queries."""
    rows = (
        (one.name, one.kind, one.question, ", ".join(param.name for param in one.params) or None)
        for one in [*canned.all_views(), *canned.all_queries()]
    )
    return ["name", "kind", "question", "params"], rows


def describe(name: str) -> Iterator[str]:
    """What one view or query answers, takes and gives."""
    one = canned.find(name.replace("-", "_"))
    if one is None:
        known = [*canned.names("view"), *canned.names("query")]
        raise unknown("view or query", name, known, "`ctxdb query --list` shows all")
    yield f"{one.name} ({one.kind}): {one.question}"
    if one.params:
        yield ""
        yield "Parameters, each given as -p NAME VALUE:"
        for param in one.params:
            default = "must be given" if param.default is None else f"default {param.default}"
            yield f"  {param.name}: {param.words} ({default})"
    if one.columns:
        yield ""
        yield "Columns:"
        margin = max(map(len, one.columns))
        for column, words in one.columns.items():
            yield f"  {column:{margin}}  {words}"
    options = [f"--{option}" for option in canned.FILTERS if option in one.filters]
    yield ""
    yield "Options: " + ", ".join([*options, "--sort", "--columns", "--limit", "--format"])
    if one.period:
        yield f"Shows the last {one.period.removesuffix('d')} days unless told otherwise."
    if one.example:
        yield f"Example: {one.example}"
