"""`ctxdb push`: send what has changed to the team's PostgreSQL."""

from __future__ import annotations

import getpass
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from ctxdb.cli.declare import Argument, Context, Option
from ctxdb.cli.open_database import open_fresh
from ctxdb.cli.shared_options import AsJson, NoSync
from ctxdb.columns import FULL, LEVELS
from ctxdb.config import config_file, load
from ctxdb.errors import ConfigError, UsageError
from ctxdb.formatting import counted
from ctxdb.output import print_result
from ctxdb.progress import progress_on

if TYPE_CHECKING:
    from ctxdb.config import Config
    from ctxdb.push.plan import Planned
    from ctxdb.push.sender import PushReport, Sender

Level = Annotated[
    Literal["usage", "metadata", "full"] | None,
    Option(
        "--level",
        metavar="LEVEL",
        help="What to send: usage (numbers, times, models), metadata (also names, paths, tools) or"
        " full (also what people and models wrote, with secrets masked).",
        default_text="push.level in config.toml, else metadata",
    ),
]


class _Pushed(NamedTuple):
    report: PushReport
    planned: list[Planned] | None  # of a dry run

    def as_dict(self) -> Mapping[str, object]:
        found = self.report.as_json()
        found["dry_run"] = self.planned is not None
        found["columns"] = {one.table: one.columns for one in self.planned or ()}
        return found

    def lines(self) -> Iterator[str]:
        report = self.report
        rows = sum(report.rows.values())
        sent = f"{counted(report.sessions, 'session')} ({counted(rows, 'row')})"
        if self.planned is not None:
            yield (
                f"Would send {sent} at level {report.level} to {report.server}. Nothing was sent."
            )
            for one in self.planned:
                yield f"  {one.table}: {counted(one.rows, 'row')}: {', '.join(one.columns)}"
            return
        if rows or report.sessions:
            yield (
                f"Sent {sent} at level {report.level} to {report.server} in {report.seconds:.1f} s"
            )
        else:
            yield f"{report.server} has everything already"
        if report.forgotten or report.removed:
            yield f"Removed there: {counted(report.forgotten + report.removed, 'session')}"
        if report.rejected:
            yield f"Not sent, because forgotten: {counted(report.rejected, 'session')}"


def push(
    ctx: Context,
    url: Annotated[
        str | None,
        Argument(
            "URL",
            help="postgresql://USER@HOST/DATABASE",
            default_text="push.url in config.toml",
        ),
    ] = None,
    level: Level = None,
    *,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Show what would be sent, and send nothing.")
    ] = False,
    as_json: AsJson = False,
    quiet: Annotated[
        bool, Option("--quiet", "-q", help="Print nothing unless something is wrong.")
    ] = False,
    no_sync: NoSync = False,
) -> None:
    """Send the sessions that have changed to your team's PostgreSQL.

    The first push makes the schema ctxdb there, with tables and views. A later push sends only
    what has changed. It can be killed and run again at any time. If you lower the level, what is no
    longer allowed is erased there. The password is taken from the URL, PGPASSFILE or a service
    file; it is never stored or printed. docs/team.md says what is sent at each level.

    \b
    Examples:
      ctxdb push postgresql://ada@db.example.com/team --dry-run
      ctxdb push postgresql://ada@db.example.com/team --level usage
      ctxdb push
    """
    from ctxdb.push.plan import plan
    from ctxdb.push.push import push as send
    from ctxdb.push.server import target_of

    config = load(ctx.db)
    wanted = url or config.settings["push.url"]
    if not wanted:
        raise UsageError("name a server: ctxdb push postgresql://USER@HOST/DATABASE")
    target = target_of(wanted)
    chosen = level_of(level, config)
    with closing(open_fresh(ctx, no_sync=no_sync)) as conn:
        sender = sender_of(config, chosen)
        if dry_run:
            report, planned = plan(conn, target, sender)
            print_result(_Pushed(report, planned), as_json=as_json)
            return
        progress = progress_on(sys.stderr, quiet=quiet or as_json)
        began = time.monotonic()
        try:
            report = send(conn, target, sender, progress)
        finally:
            progress.finish()
        report.seconds = round(time.monotonic() - began, 2)
    if as_json or not quiet:
        print_result(_Pushed(report, None), as_json=as_json)


def level_of(given: str | None, config: Config) -> str:
    """The level that was asked for."""
    level: str = given or config.settings["push.level"]
    if level not in LEVELS:
        raise ConfigError(config_file(), f"push.level must be one of: {', '.join(LEVELS)}")
    return level


def sender_of(config: Config, level: str) -> Sender:
    """Who sends what, by the settings."""
    from ctxdb.push.sender import Sender
    from ctxdb.team.machine import this_machine

    settings = config.settings
    return Sender(
        machine=this_machine(config.db_path),
        person=settings["push.person"] or getpass.getuser(),
        team=settings["push.team"] or None,
        level=level,
        hash_person=settings["push.hash_person"],
        repositories=settings["push.repositories"],
        mask=_mask_of(config) if level == FULL else str,  # below that, no text is sent
    )


def _mask_of(config: Config) -> Callable[[str], str]:
    """What masks texts: also by rules that are off, because they leave this machine."""
    from ctxdb.privacy.masking import Masker
    from ctxdb.privacy.rule_settings import all_rules

    return Masker(all_rules(config.settings)).mask
