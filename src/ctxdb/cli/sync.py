"""`ctxdb sync`: read new lines of all transcripts into the database."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

from ctxdb.cli.declare import Context, Option
from ctxdb.cli.shared_options import AsJson, ClaudeDirs, NoArchive, Roots
from ctxdb.config import load
from ctxdb.errors import LockHeld
from ctxdb.output import note, print_result
from ctxdb.progress import progress_on

if TYPE_CHECKING:
    from ctxdb.config import Config
    from ctxdb.progress import Progress


def sync(
    ctx: Context,
    root: Roots = None,
    claude_dir: ClaudeDirs = None,
    *,
    wait: Annotated[
        bool, Option("--wait", help="Wait for another sync, or for a daemon to catch up.")
    ] = False,
    no_archive: NoArchive = False,
    as_json: AsJson = False,
    quiet: Annotated[
        bool, Option("--quiet", "-q", help="Print nothing unless something is wrong.")
    ] = False,
) -> None:
    """Read the new lines of all transcripts into the database.

    Only complete lines are read, and each line counts once, even if a sync is interrupted.
    Transcripts that Claude Code has deleted stay in the database.

    \b
    Examples:
      ctxdb sync
      ctxdb sync --root ~/.claude/projects --root /backup/laptop/projects
      ctxdb --db /tmp/try.db sync --json
    """
    from ctxdb.ingest.sync import sync as read_new_lines

    config = load(ctx.db, root, claude_dirs=claude_dir)
    config = config._replace(archive=config.archive and not no_archive)
    is_new = not config.db_path.exists()
    progress = progress_on(sys.stderr, quiet=quiet)
    try:
        _rebuild_if_outdated(config, progress, quiet=quiet)
        result = read_new_lines(
            config, wait=wait, progress=progress, say=(lambda _: None) if quiet else note
        )
    except LockHeld as e:
        e.say_to_reader(has_wait=True)
        if not (wait and e.is_daemon):
            raise
        # The daemon has read all new lines, so this sync has nothing to do.
        if not quiet:
            reason = str(e)
            note(f"{reason[:1].upper()}{reason[1:]}.")
        if as_json:
            from ctxdb.ingest.report import SyncReport

            print_result(SyncReport(), as_json=True)
        return
    finally:
        progress.finish()
    if as_json or not quiet:
        print_result(result, as_json=as_json)
    if is_new and not quiet:
        note(
            "Note: the database keeps what it has read, even after Claude Code deletes the"
            f" transcript (by default after 30 days). Only you can read it: {config.db_path}"
        )
        if sys.stderr.isatty():
            note(_what_is_masked(config))


def _what_is_masked(config: Config) -> str:
    if not config.settings["redact.enabled"]:
        return "Secrets are stored as they are: redact.enabled is false in config.toml."
    exact = ""
    if config.archive:
        exact = " The archive keeps the exact bytes."
        if config.settings["redact.archive"]:
            exact = " In the archive they are overwritten with *."
    return f"Keys, tokens and passwords in it are masked: [redacted:...].{exact}"


def _rebuild_if_outdated(config: Config, progress: Progress, *, quiet: bool) -> None:
    """After an upgrade that changed what rows mean, derive all of them again first."""
    from ctxdb.store.schema import is_outdated

    if not is_outdated(config.db_path):
        return
    from ctxdb.lock import WriterLock
    from ctxdb.rebuild.rebuild import rebuild_if_outdated

    try:
        with WriterLock(config.db_path):
            rebuild_if_outdated(config, progress, (lambda _: None) if quiet else note)
    except LockHeld:
        return  # the other process does it, if it is of this version
