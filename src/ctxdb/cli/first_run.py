"""The first run: read the transcripts, or make a demo if there are none, and show what is there.

Plain `ctxdb` does this on a terminal while there is no database yet, and `make run` does it always.
"""

from __future__ import annotations

import shlex
import sys
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

from ctxdb.cli.declare import Context
from ctxdb.config import Config, load
from ctxdb.formatting import moment
from ctxdb.output import note, painter_for, say, terminal_columns

PLOT_DAYS = 14  # that are drawn: the last ones, or the newest that have data
PROJECTS = 5
SECONDS = 20.0  # for each of the two questions
RECENT = timedelta(days=2)  # then there is something for `standup` to show
STANDUP = ("query standup", "what was done since yesterday")
LAST_PROMPTS = ("query last_prompts", "what was asked last in each project")
TO_TRY = (
    ("search queue", "where was it mentioned, and how to resume that session"),
    ("serve", "the same in your browser"),
)


def is_first_run(words: list[str]) -> bool:
    """Whether this is plain `ctxdb` on a terminal, and nothing was read yet."""
    return not words and sys.stdout.isatty() and not load().db_path.exists()


def first_run() -> int:
    """Read the transcripts and show them; without any, show the demo."""
    config = load()
    if _has_transcripts(config):
        from ctxdb.cli.sync import sync

        sync(Context())
    else:
        from ctxdb.cli.demo import make_demo

        roots = " or ".join(config.roots)
        note(f"There are no Claude Code transcripts in {roots}. Here is a demo instead.")
        show_database(make_demo(), is_default=False)
        return 0
    show_database(config.db_path, is_default=True)
    return 0


def show_database(db_path: Path, *, is_default: bool) -> None:
    """Show what a database has: the last days with a chart, top projects, what to try."""
    from ctxdb.cli.demo import program_name
    from ctxdb.query.present import answer
    from ctxdb.query.statement import Ask

    newest = _newest(db_path)
    if newest is None:
        note("No session was found in the transcripts.")
        return
    since = f"{newest - timedelta(days=PLOT_DAYS - 1):%Y-%m-%d}"
    paint = painter_for(sys.stdout)
    usage = Ask("daily_usage", since=since, columns="day,cost_usd")
    projects = Ask(
        "usage_by_project",
        since=since,
        limit=PROJECTS,
        columns="project,sessions,requests,total_tokens,cost_usd",
    )
    say("")
    say(paint("bold", f"The {PLOT_DAYS} days to {newest:%A, %Y-%m-%d}"))
    answer(usage, db_path, "table", seconds=SECONDS, plot=True)
    say("")
    say(paint("bold", "Projects in these days"))
    answer(projects, db_path, "table", seconds=SECONDS)
    say("")
    say(paint("bold", "Try these"))
    program = program_name()
    if not is_default:
        program += f" --db {shlex.quote(str(db_path))}"
    is_recent = datetime.now(newest.tzinfo) - newest < RECENT
    to_try = (STANDUP if is_recent else LAST_PROMPTS, *TO_TRY)
    longest = max(len(command) for command, _ in to_try)
    widest = len(program) + longest + max(len(why) for _, why in to_try) + len("     ")
    for command, why in to_try:
        if widest <= terminal_columns():
            say(f"  {program} {command:{longest}}  {paint('dim', why)}")
        else:
            say(f"  {program} {command}")
            say(f"    {paint('dim', why)}")


def _has_transcripts(config: Config) -> bool:
    from ctxdb.claude.layout import is_transcript
    from ctxdb.files import walk

    return bool(walk.scan(config.roots, is_transcript).files)


def _newest(db_path: Path) -> datetime | None:
    from ctxdb.store.connection import open_reader

    with closing(open_reader(db_path)) as conn:
        (last,) = conn.execute("SELECT max(ended_at) FROM sessions").fetchone()
    return moment(last)


if __name__ == "__main__":
    from ctxdb.cli.main import main

    sys.exit(main(first_run))
