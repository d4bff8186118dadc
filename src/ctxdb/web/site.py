"""Write a site of files: the dashboard of a period, the list of sessions, and each session.

It opens from disk without a server, so it has no search, no SQL and no news. The folder has a list
of the files that were written (`FILE_LIST`). A folder with other things in it is refused; what a
later run does not write again is removed only if it is on that list.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from ctxdb.errors import CtxdbError, UsageError
from ctxdb.formatting import moment, period
from ctxdb.query import period as periods
from ctxdb.session import captions
from ctxdb.session.load import Detail, load_conversation
from ctxdb.session.redaction import Redactor, people_in
from ctxdb.web.conversations import reading
from ctxdb.web.page import Arguments, Page, Question
from ctxdb.web.pages import dashboard
from ctxdb.web.reading import Database
from ctxdb.web.session_facts import CHILDREN, RELATIONS, facts_of
from ctxdb.web.site_links import FILES, SESSIONS, SiteLinks, session_file, without_dead_links
from ctxdb.web.site_session import SplitSession
from ctxdb.web.templating import render, static_file

if TYPE_CHECKING:
    from pathlib import Path

    from ctxdb.progress import Progress
    from ctxdb.web.reading import Row

FILE_LIST = "ctxdb-site.json"
STATIC = ("ctxdb.css", "rendered.css", "session.css", "site.css", "site.js", "theme.js", "icon.svg")
EVERYTHING = Detail(tools=True, thinking=True, agents=True)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which sessions, and how much of them."""

    since: str | None = None
    until: str | None = None
    project: str | None = None
    redact: bool = False


@dataclass(slots=True)
class Written:
    """What was written."""

    sessions: int = 0
    files: list[str] = field(default_factory=list)
    size: int = 0


def write_site(db_path: Path, folder: Path, wanted: Wanted, progress: Progress) -> Written:
    """Write the site into a folder."""
    before = _files_of_before(folder)
    db = Database(db_path)
    try:
        made = _Site(db, folder, wanted, progress)
        written = made.write()
    finally:
        db.close()
        progress.finish()
    for name in sorted(before - set(written.files)):
        with suppress(OSError):
            (folder / name).unlink()
    return written


def _files_of_before(folder: Path) -> set[str]:
    """The files that an earlier run wrote here. Raises if the folder holds something else."""
    try:
        names = {one.name for one in folder.iterdir()}
    except FileNotFoundError:
        return set()
    except OSError as e:
        raise UsageError(f"{folder}: cannot be used: {e.strerror}") from e
    if not names:
        return set()
    try:
        found = json.loads((folder / FILE_LIST).read_bytes())["files"]
        return {name for name in found if _is_site_file(name)}
    except (OSError, ValueError, KeyError, TypeError) as e:
        why = f"{folder} is not empty, and ctxdb did not write it; name a new folder"
        raise UsageError(why) from e


def _is_site_file(name: object) -> bool:
    """Whether a name of the list can be a file of a site: none outside of the folder."""
    if not isinstance(name, str):
        return False
    top, _, rest = name.partition("/")
    inside = rest if top in (FILES, SESSIONS) else name
    return bool(inside) and "/" not in inside and not inside.startswith(".")


class _Site:
    def __init__(self, db: Database, folder: Path, wanted: Wanted, progress: Progress) -> None:
        self._db = db
        self._folder = folder
        self._wanted = wanted
        self._progress = progress
        self._now = datetime.now().astimezone()
        self._written = Written()
        narrow = {"since": wanted.since, "until": wanted.until, "project": wanted.project}
        self._rows: list[Row] = list(db.ask("sessions_overview", **narrow))
        self._ids = frozenset(str(row["session_id"]) for row in self._rows)
        self._redactor: Redactor | None = None
        if wanted.redact:
            with reading(db.path) as conn:
                self._redactor = Redactor(people_in(conn))

    def write(self) -> Written:
        if not self._rows:
            raise CtxdbError("no session fits --since, --until and --project")
        for folder in (self._folder, self._folder / FILES, self._folder / SESSIONS):
            try:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as e:
                raise CtxdbError(f"{folder}: cannot be made: {e.strerror}") from e
        for name in STATIC:
            if (found := static_file(name)) is not None:
                body, _, _ = found
                self._save(f"{FILES}/{name}", body)
        self._page("index.html", self._dashboard(), "")
        self._page("sessions.html", self._list(), "")
        self._progress.start(len(self._rows), "Writing sessions")
        for row in self._rows:
            self._session(str(row["session_id"]))
            self._progress.advance(1)
        names = sorted([*self._written.files, FILE_LIST])
        self._save(FILE_LIST, json.dumps({"files": names}, indent=1).encode())
        self._written.sessions = len(self._rows)
        return self._written

    def _dashboard(self) -> Page:
        first, last = periods.bounds(self._wanted.since, self._wanted.until)
        begin, end = moment(first), moment(last)
        args = {
            "period": "" if begin or end else "all",
            "from": f"{begin:%Y-%m-%d}" if begin else "",
            "to": f"{end or self._now:%Y-%m-%d}" if begin or end else "",
            "project": self._wanted.project or "",
        }
        given = Arguments({name: (value,) for name, value in args.items() if value})
        return dashboard.page(Question(self._db, self._links(""), self._now, {}, given))

    def _list(self) -> Page:
        values = {"title": "Sessions", "rows": self._rows, "redacted": self._wanted.redact}
        return Page("site_sessions.html", values)

    def _session(self, session_id: str) -> None:
        with reading(self._db.path) as conn:
            found = load_conversation(conn, session_id, EVERYTHING)
        links = self._links("../")
        facts = facts_of(Question(self._db, links, self._now), found)
        if self._redactor is not None:
            self._redactor.conversation(found)
        split = SplitSession(found)
        files = [session_file(session_id, nth + 1) for nth in range(len(split.bodies))]
        for nth, body in enumerate(split.bodies):
            values: dict[str, Any] = {
                "title": captions.session_title(found),
                "session": found,
                "period": period(found.started_at, found.ended_at),
                "totals": captions.session_totals(found),
                "contents": split.contents,
                "facts": facts,
                "relations": RELATIONS,
                "child_relations": CHILDREN,
                "turns": Markup(body),  # noqa: S704
                "number": nth + 1,
                "files": files,
                "redacted": self._wanted.redact,
            }
            self._page(f"{SESSIONS}/{files[nth]}", Page("site_session.html", values), "../")

    def _links(self, up: str) -> SiteLinks:
        return SiteLinks(up=up, sessions=self._ids)

    def _page(self, name: str, page: Page, up: str) -> None:
        html = without_dead_links(render(page, self._links(up), self._now, for_site=True))
        if self._redactor is not None:
            html = self._redactor.page(html)
        self._save(name, html.encode(errors="replace"))

    def _save(self, name: str, data: bytes) -> None:
        """Write a file completely or not at all; only its owner can read it."""
        target = self._folder / name
        part = target.with_name(f".{target.name}.part")
        try:
            part.unlink(missing_ok=True)
            flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW
            with os.fdopen(os.open(part, flags, 0o600), "wb") as file:
                file.write(data)
            part.replace(target)
        except OSError as e:
            raise CtxdbError(f"{target}: cannot be written: {e.strerror}") from e
        self._written.files.append(name)
        self._written.size += len(data)
