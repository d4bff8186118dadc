"""`ctxdb watch` and `ctxdb daemon ...`: keeping the database up to date all the time."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

from ctxdb.cli.common import AsJson
from ctxdb.cli.declare import Context, Option
from ctxdb.config import Config, load
from ctxdb.errors import CtxdbError
from ctxdb.escape import printable
from ctxdb.output import note, say, show

# Not common.Roots: a root that is not there yet is waited for.
WatchRoots = Annotated[
    list[Path] | None,
    Option(
        "--root",
        metavar="DIR",
        help="Watch transcripts below DIR instead of the usual places. Repeatable.",
    ),
]


def watch(
    ctx: Context,
    root: WatchRoots = None,
    *,
    wait: Annotated[bool, Option("--wait", help="Wait if another process is writing.")] = False,
) -> int:
    """Keep the database up to date until stopped, in the foreground.

    What Claude Code writes is in the database a moment later. Ctrl-C ends it, and so does the end
    of its terminal; without one, SIGHUP makes it look at all files. `ctxdb daemon start` does the
    same in the background.

    \b
    Examples:
      ctxdb watch
      ctxdb watch --root ~/.claude/projects
    """
    from ctxdb.daemon.logs import Log, log_path
    from ctxdb.daemon.main import Daemon
    from ctxdb.daemon.process import Announcement

    announcement = Announcement()
    try:
        config = load(ctx.db, root)
        stream = None if announcement.is_detached else sys.stderr
        daemon = Daemon(
            config,
            Log(log_path(config.db_path), stream),
            wait=wait,
            on_terminal=not announcement.is_detached and any(map(os.isatty, range(3))),
            given_roots=_given_roots(config, root),
        )
        code = daemon.run(announcement.ready)
    except CtxdbError as e:
        announcement.failed(e.exit_code, str(e))
        raise
    if daemon.database.abandoned:
        # Closing their files would remove the log of the database that took their place.
        os._exit(code)
    return code


def start(ctx: Context, root: WatchRoots = None) -> None:
    """Start the daemon, in the background, until stopped or the machine is.

    Returns when it is ready. `ctxdb daemon install` starts it at every login.

    \b
    Examples:
      ctxdb daemon start
      ctxdb daemon start --root ~/.claude/projects
    """
    from ctxdb.daemon import process

    config = load(ctx.db, root)
    pid = process.start(config.db_path, _given_roots(config, root))
    note(f"Watching, as process {pid}: {', '.join(config.roots)}")


def stop(ctx: Context) -> None:
    """Stop the daemon, when what it is reading is stored.

    \b
    Example:
      ctxdb daemon stop
    """
    from ctxdb.daemon import process

    pid = process.stop(load(ctx.db).db_path)
    note("No daemon is running." if pid is None else f"Stopped process {pid}.")


def restart(ctx: Context, root: WatchRoots = None) -> None:
    """Stop the daemon, if it runs, and start it again.

    Without --root it watches what it was told to watch before, or what the configuration says now.

    \b
    Example:
      ctxdb daemon restart
    """
    from ctxdb.daemon import process
    from ctxdb.daemon.health import read

    config = load(ctx.db, root)
    last = read(config.db_path)
    roots = _given_roots(config, root)
    if last is not None and not last.was_stopped and not root:
        # Of an older daemon it is not known which of them were given.
        before = last.roots if last.given_roots is None else last.given_roots
        roots = before or roots
    process.stop(config.db_path)
    pid = process.start(config.db_path, roots)
    note(f"Watching, as process {pid}: {', '.join(roots or config.roots)}")


def status(ctx: Context, *, as_json: AsJson = False) -> int:
    """Show how the daemon is. Exits 1 if none is running.

    \b
    Examples:
      ctxdb daemon status
      ctxdb daemon status --json
    """
    from ctxdb.daemon.status_words import daemon_report

    report = daemon_report(load(ctx.db).db_path)
    show(report, as_json=as_json)
    return 0 if report.running else 1


def logs(
    ctx: Context,
    lines: Annotated[
        int, Option("--lines", "-n", metavar="N", at_least=1, help="How many of the last lines.")
    ] = 50,
    *,
    follow: Annotated[
        bool, Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")
    ] = False,
) -> None:
    """Show what the daemon has logged. It logs no word of a transcript.

    \b
    Examples:
      ctxdb daemon logs
      ctxdb daemon logs -n 5 --follow
    """
    from ctxdb.daemon.logs import lines_of, log_path

    path = log_path(load(ctx.db).db_path)
    if not path.exists():
        note(f"Nothing logged yet: {path}")
        return
    for line in lines_of(path, lines, follow=follow):
        say(printable(line.rstrip("\n")))
        sys.stdout.flush()


def install(
    ctx: Context,
    root: WatchRoots = None,
    *,
    show_only: Annotated[
        bool, Option("--print", help="Print what would be written, and change nothing.")
    ] = False,
) -> None:
    """Start the daemon now and at every login, as a systemd user unit or a launchd agent.

    \b
    Examples:
      ctxdb daemon install
      ctxdb daemon install --print
    """
    from ctxdb.daemon import process, service

    config = load(ctx.db, root)
    unit = service.service_for(config.db_path, _given_roots(config, root))
    if show_only:
        say(unit.text.rstrip("\n"))
        return
    unit.ask()  # before anything is stopped or written
    process.stop(config.db_path)  # else the service would wait for it
    for line in unit.install():
        note(line)


def uninstall(ctx: Context) -> None:
    """Stop the daemon and no longer start it at login.

    \b
    Example:
      ctxdb daemon uninstall
    """
    from ctxdb.daemon import service

    for line in service.service_for(load(ctx.db).db_path, []).uninstall():
        note(line)


def _given_roots(config: Config, root: list[Path] | None) -> list[str]:
    """Roots that were asked for here and now; what the configuration says is read at each start."""
    return list(config.roots) if root or os.environ.get("CLAUDE_CONFIG_DIR") else []
