"""Checks of what the rows say: times, unknown keys, new versions, prices, masking."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from ctxdb.claude.versions import NEWEST_TESTED, version_key
from ctxdb.doctor.finding import NOTE, OK, TODO, Finding, Patient
from ctxdb.formatting import counted, moment

MOST_AHEAD = timedelta(hours=1)
NAMED = 3

_NEWEST = "SELECT max(timestamp) FROM messages WHERE timestamp GLOB '2[0-9][0-9][0-9]-*Z'"
_UNKNOWN = "SELECT count(DISTINCT key), sum(entries) FROM unknown_keys"
_VERSIONS = "SELECT DISTINCT version FROM sessions WHERE version IS NOT NULL"
_UNPRICED = "SELECT model, requests FROM unpriced_models ORDER BY requests DESC"


def check_clock(patient: Patient) -> Iterator[Finding]:
    """See that no entry is from the future: periods such as 7d would leave it out."""
    with patient.reader() as conn:
        ((newest,),) = conn.execute(_NEWEST)
    at = moment(newest)
    ahead = at.astimezone(UTC) - now() if at else timedelta()
    if ahead > MOST_AHEAD:
        hours = ahead / timedelta(hours=1)
        text = f"the newest entry is {hours:,.0f} hours ahead of this machine's clock"
        fix = "set the clock: `timedatectl` shows it; --since all shows such entries"
        yield Finding("clock", TODO, text, fix)
    else:
        yield Finding("clock", OK, "no entry is from the future")


def now() -> datetime:
    """Return the time by this machine's clock."""
    return datetime.now(UTC)


def check_unknown(patient: Patient) -> Iterator[Finding]:
    """Count keys that ctxdb has no column for, and versions that it was not tested with."""
    with patient.reader() as conn:
        ((keys, entries),) = conn.execute(_UNKNOWN)
        versions = [version for (version,) in conn.execute(_VERSIONS)]
    newer = {v for v in versions if version_key(v) > version_key(NEWEST_TESTED)}
    if newer:
        names = ", ".join(sorted(newer, key=version_key)[-NAMED:])
        text = f"transcripts of Claude Code {names}; this ctxdb was tested up to {NEWEST_TESTED}"
        yield Finding("versions", NOTE, text, "look for a newer version of ctxdb")
    else:
        text = f"no transcript is of a later version than {NEWEST_TESTED}, the newest tested one"
        yield Finding("versions", OK, text)
    if keys:
        text = f"{counted(keys, 'key')} without a column, in {counted(entries, 'line')}"
        fix = "nothing is lost: `ctxdb query unknown_keys` shows them; please report them"
        yield Finding("unknown_keys", NOTE, text, fix)
    else:
        yield Finding("unknown_keys", OK, "every key has its place")


def check_prices(patient: Patient) -> Iterator[Finding]:
    """Name the models whose requests no sum of money includes."""
    with patient.reader() as conn:
        found = conn.execute(_UNPRICED).fetchall()
    if not found:
        yield Finding("prices", OK, "every model has a price")
        return
    requests = sum(count for _, count in found)
    names = ", ".join(model for model, _ in found[:NAMED])
    text = f"no price for {names}: {counted(requests, 'request')} not in any cost"
    first, *_ = (model for model, _ in found)
    fix = f"`ctxdb prices add {first} --input USD --output USD` (0 if it is free)"
    yield Finding("prices", TODO, text, fix)


def check_masking(patient: Patient) -> Iterator[Finding]:
    """See whether secrets are masked before they are stored."""
    settings = patient.config.settings
    if not settings["redact.enabled"]:
        text = "switched off: secrets are stored as they are"
        fix = "`ctxdb config set redact.enabled true`, then `ctxdb redact --apply`"
        yield Finding("masking", NOTE, text, fix)
    elif settings["redact.off"]:
        rules = ", ".join(settings["redact.off"])
        yield Finding("masking", NOTE, f"on, but for {rules}", "`ctxdb config unset redact.off`")
    else:
        yield Finding("masking", OK, "known formats of secrets are masked before they are stored")
