"""`ctxdb watch` and `ctxdb daemon ...`: keep the database up to date all the time."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

from ctxdb.cli.declare import Context, Option
from ctxdb.cli.shared_options import AsJson, ClaudeDirs, NoArchive
from ctxdb.config import Config, load
from ctxdb.errors import CtxdbError, LockHeld
from ctxdb.escape import printable
from ctxdb.output import note, print_result, say

# Not shared_options.Roots: the daemon waits for a root that does not exist yet.
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
    claude_dir: ClaudeDirs = None,
    *,
    wait: Annotated[bool, Option("--wait", help="Wait if another process is writing.")] = False,
    no_archive: NoArchive = False,
) -> int:
    """Keep the database up to date until stopped, in the foreground.

    New lines of transcripts are in the database a moment after Claude Code writes them. Ctrl-C
    stops it. It also stops when its terminal is closed; without a terminal, SIGHUP makes it check
    all files. `ctxdb daemon start` does the same in the background.

    \b
    Examples:
      ctxdb watch
      ctxdb watch --root ~/.claude/projects
    """
    from ctxdb.daemon.logs import Log
    from ctxdb.daemon.main import Daemon
    from ctxdb.daemon.process import Announcement
    from ctxdb.daemon_health import log_path

    announcement = Announcement()
    try:
        config = load(ctx.db, root, claude_dirs=claude_dir)
        config = config._replace(archive=config.archive and not no_archive)
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
        if isinstance(e, LockHeld):
            e.say_to_reader(has_wait=not announcement.is_detached)  # `daemon start` has no --wait
        announcement.failed(e.exit_code, str(e))
        raise
    if daemon.database.abandoned:
        # SQLite would remove the log of the new database when it closes the replaced one.
        os._exit(code)
    return code


def start(
    ctx: Context,
    root: WatchRoots = None,
    claude_dir: ClaudeDirs = None,
    *,
    no_archive: NoArchive = False,
) -> None:
    """Start the daemon in the background.

    It runs until it is stopped or the machine is. The command returns when the daemon is ready.
    `ctxdb daemon install` starts it at every login.

    \b
    Examples:
      ctxdb daemon start
      ctxdb daemon start --root ~/.claude/projects
    """
    from ctxdb.daemon import process

    config = load(ctx.db, root, claude_dirs=claude_dir)
    pid = process.start(
        config.db_path,
        _given_roots(config, root),
        _given_claude_dirs(config, claude_dir),
        archive=not no_archive,
    )
    note(f"Watching, as process {pid}: {', '.join(config.roots)}")


def stop(ctx: Context) -> None:
    """Stop the daemon after it has stored what it is reading.

    \b
    Example:
      ctxdb daemon stop
    """
    from ctxdb.daemon import process

    pid = process.stop(load(ctx.db).db_path)
    note("No daemon is running." if pid is None else f"Stopped process {pid}.")


def restart(
    ctx: Context,
    root: WatchRoots = None,
    claude_dir: ClaudeDirs = None,
    *,
    no_archive: NoArchive = False,
) -> None:
    """Stop the daemon, if it is running, and start it again.

    Without --root it watches the folders that it was started with, or those of the configuration.
    It archives what it reads unless --no-archive is given again.

    \b
    Example:
      ctxdb daemon restart
    """
    from ctxdb.daemon import process
    from ctxdb.daemon_health import read

    config = load(ctx.db, root, claude_dirs=claude_dir)
    last = read(config.db_path)
    roots = _given_roots(config, root)
    if last is not None and not last.was_stopped and not root:
        # An older daemon did not store which of its roots were named on the command line.
        before = last.roots if last.given_roots is None else last.given_roots
        roots = before or roots
    process.stop(config.db_path)
    pid = process.start(
        config.db_path, roots, _given_claude_dirs(config, claude_dir), archive=not no_archive
    )
    note(f"Watching, as process {pid}: {', '.join(roots or config.roots)}")


def status(ctx: Context, *, as_json: AsJson = False) -> int:
    """Show the state of the daemon. Exits 1 if none is running, or if it is frozen.

    \b
    Examples:
      ctxdb daemon status
      ctxdb daemon status --json
    """
    from ctxdb.daemon.status_words import daemon_report

    daemon = daemon_report(load(ctx.db).db_path)
    print_result(daemon, as_json=as_json)
    return 0 if daemon.running and daemon.state != "frozen" else 1


def logs(
    ctx: Context,
    lines: Annotated[
        int, Option("--lines", "-n", metavar="N", at_least=1, help="Show the last N lines.")
    ] = 50,
    *,
    follow: Annotated[
        bool, Option("--follow", "-f", help="Show new lines as they come, until Ctrl-C.")
    ] = False,
) -> None:
    """Show the daemon's log. No text of a transcript is in it.

    \b
    Examples:
      ctxdb daemon logs
      ctxdb daemon logs -n 5 --follow
    """
    from ctxdb.daemon.logs import lines_of
    from ctxdb.daemon_health import log_path

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
    claude_dir: ClaudeDirs = None,
    *,
    show_only: Annotated[
        bool, Option("--print", help="Print the file that would be written, and change nothing.")
    ] = False,
) -> None:
    """Start the daemon now and at every login.

    On Linux it is a systemd user unit, on macOS a launchd agent.

    \b
    Examples:
      ctxdb daemon install
      ctxdb daemon install --print
    """
    from ctxdb.daemon import process, service

    config = load(ctx.db, root, claude_dirs=claude_dir)
    login_service = service.service_for(
        config.db_path,
        _given_roots(config, root),
        claude_dirs=_given_claude_dirs(config, claude_dir),
    )
    if show_only:
        say(login_service.text.rstrip("\n"))
        return
    login_service.ask()  # before anything is stopped or written
    process.stop(config.db_path)  # else the service would wait for this daemon
    for line in login_service.install():
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
    """The roots of this command line or its environment; the daemon reads those of the config."""
    return list(config.roots) if root or os.environ.get("CLAUDE_CONFIG_DIR") else []


def _given_claude_dirs(config: Config, claude_dir: list[Path] | None) -> tuple[str, ...]:
    """The folders of this command line; the daemon reads those of the configuration itself."""
    return config.claude_dirs if claude_dir else ()
