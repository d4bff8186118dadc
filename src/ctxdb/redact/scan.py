"""Count what the rules find in the texts that are stored, without showing any of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from secrets import token_bytes
from typing import TYPE_CHECKING, NamedTuple

from ctxdb.privacy.json_bytes import decoded, places_in
from ctxdb.redact.texts import Column, clear_text, columns

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Mapping

    from ctxdb.privacy.masking import Masker
    from ctxdb.progress import Progress


WHY_NAMES_STAY = (
    "ctxdb opens files by their paths, and cannot mask them: give the folder another name, then"
    " `ctxdb forget` its sessions."
)


class Group(NamedTuple):
    """What one rule finds in one session; no session: in what belongs to none."""

    rule: str
    session_id: str | None


@dataclass(slots=True)
class Scan:
    """How much a rule finds, by session."""

    places: dict[Group, int] = field(default_factory=dict)
    secrets: dict[Group, set[bytes]] = field(default_factory=dict)  # digests, to count them once
    masked: dict[str, int] = field(default_factory=dict)  # in the transcripts, by rule
    names: int = 0  # of transcripts, or of folders they are in, that hold a secret
    in_archive: dict[str, int] | None = None  # by rule; None: it keeps the exact bytes

    @property
    def found(self) -> int:
        """Secrets that are stored in clear."""
        return len(set().union(*self.secrets.values())) if self.secrets else 0

    def as_dict(self) -> Mapping[str, object]:
        """As data with stable names."""
        return {
            "found": [
                {
                    "rule": group.rule,
                    "session_id": group.session_id,
                    "secrets": len(self.secrets[group]),
                    "places": places,
                }
                for group, places in self._sorted()
            ],
            "masked": dict(sorted(self.masked.items())),
            "names": self.names,
            "archive": self.in_archive,
        }

    def lines(self) -> Iterator[str]:
        """As text."""
        width = max((len(group.rule) for group in self.places), default=0)
        for group, places in self._sorted():
            secrets = _counted(len(self.secrets[group]), "secret")
            where = f"in {_counted(places, 'place')}"
            session = group.session_id or "(no session)"
            yield f"{group.rule:{width}}  {session:36}  {secrets} {where}"
        if self.places:
            yield f"{_counted(self.found, 'secret')} in clear; `ctxdb redact --apply` masks them."
        else:
            yield "No rule finds anything in the database."
        if self.names:
            files = _counted(self.names, "file")
            yield f"{files} with a secret in the path. {WHY_NAMES_STAY}"
        if self.in_archive is not None:
            secrets = _counted(sum(self.in_archive.values()), "secret")
            yield f"{secrets} in clear in the archive."
        if self.masked:
            total = sum(self.masked.values())
            yield f"{total:,} were masked as they were read."

    def _sorted(self) -> list[tuple[Group, int]]:
        return sorted(
            self.places.items(), key=lambda one: (one[0].rule, one[0].session_id or "", one[1])
        )


def _counted(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def scan(conn: sqlite3.Connection, masker: Masker, progress: Progress) -> Scan:
    """Look through every text."""
    result = Scan()
    key = token_bytes(32)
    found_columns = list(columns(conn))
    progress.start(len(found_columns), "Looking through the database")
    for column in found_columns:
        for value, session_id, _ in column.rows(conn):
            for rule, secret in secrets_in(column, value, masker):
                group = Group(rule, session_id)
                result.places[group] = result.places.get(group, 0) + 1
                digest = blake2b(secret.encode("utf-8", "surrogatepass"), key=key).digest()
                result.secrets.setdefault(group, set()).add(digest)
        progress.advance(1)
    result.names = count_names(conn, masker)
    result.masked = dict(conn.execute("SELECT rule, count(*) FROM _masked GROUP BY rule"))
    return result


def count_names(conn: sqlite3.Connection, masker: Masker) -> int:
    """How many files have something in their path that the rules find."""
    paths = conn.execute("SELECT path FROM source_files UNION SELECT path FROM _side_files")
    return sum(bool(masker.find(path)) for (path,) in paths if isinstance(path, str))


def secrets_in(column: Column, value: str | bytes, masker: Masker) -> Iterator[tuple[str, str]]:
    """What the rules find in a value: rule and secret."""
    text = clear_text(value)
    if text is None:
        return
    data = text.encode("utf-8", "surrogateescape" if isinstance(value, bytes) else "surrogatepass")
    some = masker.suspects(data)
    if some is None:
        return
    if column.is_json:
        for place in places_in(data, some):
            yield place.rule, decoded(data[place.start : place.end]).text
    else:
        for one in some.find(text):
            yield one.rule, text[one.start : one.end]
