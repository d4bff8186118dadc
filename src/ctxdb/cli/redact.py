"""`ctxdb redact`: find and mask secrets that are stored already."""

from __future__ import annotations

import sys
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

from ctxdb.cli.declare import Context, Option
from ctxdb.cli.shared_options import AsJson
from ctxdb.config import load
from ctxdb.errors import UsageError
from ctxdb.formatting import counted
from ctxdb.output import note, print_result, say
from ctxdb.progress import progress_on

if TYPE_CHECKING:
    from ctxdb.config import Config
    from ctxdb.redact.apply import Applied
    from ctxdb.redact.scan import Scan


def redact(
    ctx: Context,
    *,
    scan: Annotated[
        bool, Option("--scan", help="Count what the rules find, by rule and session.")
    ] = False,
    apply: Annotated[bool, Option("--apply", help="Mask it, and erase the clear text.")] = False,
    match: Annotated[
        str | None, Option("--match", metavar="REGEX", help="With --apply: mask this text.")
    ] = None,
    rules: Annotated[bool, Option("--rules", help="List the rules.")] = False,
    as_json: AsJson = False,
) -> int:
    """Find and mask secrets that are stored already.

    New lines are masked as they are read. This is for rows that were stored before a rule existed,
    or while it was off. Nothing here prints a secret. The transcripts stay as they are, and so does
    the archive unless redact.archive is true.

    \b
    Examples:
      ctxdb redact --scan
      ctxdb redact --apply
      ctxdb redact --apply --match 'acme-[0-9]{6}'
      ctxdb redact --rules
    """
    if scan + apply + rules != 1:
        raise UsageError("give one of --scan, --apply and --rules")
    if match is not None and not apply:
        raise UsageError("--match is for --apply")
    from ctxdb.redact.scan import WHY_NAMES_STAY

    config = load(ctx.db)
    if rules:
        _list_rules(config, as_json=as_json)
        return 0
    if scan:
        print_result(_scan(config), as_json=as_json)
        return 0
    applied = _apply(config, match)
    print_result(applied, as_json=as_json)
    if applied.names and not as_json:
        note(f"{counted(applied.names, 'file')} with this in the path. {WHY_NAMES_STAY}")
    if match is not None and applied.rows and not as_json:
        note("A line with this text that comes later is not masked: add a rule to config.toml.")
    if applied.rows and not as_json:
        _tell_of_other_copies(config)
    if applied.in_archive is None and config.archive and not as_json:
        note("The archive keeps the exact bytes, unless you set redact.archive = true.")
    is_erased = applied.in_archive is None or applied.in_archive.is_erased
    return 0 if applied.is_erased and is_erased else 1


def _tell_of_other_copies(config: Config) -> None:
    """Name the files that may still have the text in clear."""
    from ctxdb.rebuild.swap import kept_path
    from ctxdb.store.connection import open_reader
    from ctxdb.store.known_backups import known_backups, moved_aside

    kept = kept_path(config.db_path)
    if kept.exists():
        note(f"{kept} is as it was: `ctxdb rebuild --drop-old` deletes it.")
    with closing(open_reader(config.db_path)) as conn:
        backups = [one for one in known_backups(conn) if one.database.exists()]
    for one in backups:
        note(f"The backup in {one.folder} is as it was: the next `ctxdb backup` replaces it.")
    for folder in moved_aside(config.db_path):
        note(f"{folder} is as it was: delete it if you do not need it.")


def _list_rules(config: Config, *, as_json: bool) -> None:
    from ctxdb.privacy.rule_settings import all_rules, masker_of

    masker = masker_of(config.settings)
    on = {rule.name for rule in masker.rules} if masker is not None else set()
    listed = [(rule.name, rule.name in on) for rule in all_rules(config.settings)]
    if as_json:
        import json

        say(json.dumps({"rules": [{"name": name, "on": is_on} for name, is_on in listed]}))
        return
    for name, is_on in listed:
        say(name if is_on else f"{name} (off)")


def _scan(config: Config) -> Scan:
    from ctxdb.privacy.masking import Masker
    from ctxdb.privacy.rule_settings import masker_of
    from ctxdb.redact.archived import count_in_archive
    from ctxdb.redact.scan import scan
    from ctxdb.store.connection import naming_damage, open_reader

    progress = progress_on(sys.stderr)
    try:
        with naming_damage(config.db_path), closing(open_reader(config.db_path)) as conn:
            masker = masker_of(config.settings) or Masker()
            found = scan(conn, masker, progress)
            if config.settings["redact.archive"]:
                found.in_archive = count_in_archive(config.db_path, conn, masker, progress)
            return found
    finally:
        progress.finish()


def _apply(config: Config, match: str | None) -> Applied:
    from ctxdb.archive.opening import newest_opener
    from ctxdb.lock import WriterLock
    from ctxdb.privacy.masking import Masker
    from ctxdb.privacy.rule_settings import masker_of
    from ctxdb.redact.apply import apply
    from ctxdb.redact.archived import mask_archive
    from ctxdb.redact.chosen import chosen_text, is_free_text
    from ctxdb.redact.scan import count_names
    from ctxdb.store.connection import naming_damage, open_reader, open_writer
    from ctxdb.store.schema import prepare

    masker = masker_of(config.settings) or Masker()
    if match is not None:
        masker = chosen_text(match)
    with closing(open_reader(config.db_path)):
        pass  # there must be one already
    progress = progress_on(sys.stderr)
    try:
        with (
            WriterLock(config.db_path),
            naming_damage(config.db_path),
            closing(open_writer(config.db_path)) as conn,
        ):
            prepare(conn, config.db_path)
            # The database first: the places of its secrets are noted by the archived bytes.
            with closing(newest_opener(config.db_path)) as opener:
                wanted = (lambda _: True) if match is None else is_free_text
                applied = apply(conn, masker, opener, progress, wanted)
            applied.names = count_names(conn, masker)
            if config.settings["redact.archive"]:
                applied.in_archive = mask_archive(
                    config.db_path, conn, masker, progress, by_all_rules=match is None
                )
            return applied
    finally:
        progress.finish()
