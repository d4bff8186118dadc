"""Which transcripts are not read: those of forgotten sessions and of ignored projects.

A session belongs to the folder that the first line of its transcript with a cwd names. Of a file
without such a line, the name of the folder it is in says at least which folders that may be. A
folder is ignored if the setting `ignore` names it or a folder above it, or if one of them has a
file .ctxdb-ignore in it. Should the folder be deleted with that file, it stays ignored.

Nothing of such a file is stored, not even its name: only keyed hashes (`store/tombstones.py`).
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import orjson

from ctxdb.archive.blank import LeftOut
from ctxdb.claude.layout import role_of
from ctxdb.claude.line_place import may_say_cwd, may_say_session, place_of
from ctxdb.claude.side_contents import Typed, typed_line
from ctxdb.claude.sidecars import sessions_in_index
from ctxdb.files.identity import open_regular, pread
from ctxdb.files.parse import Bad, parse
from ctxdb.files.tail import read_block
from ctxdb.files.walk import FoundFile, Scan, pack
from ctxdb.privacy.digests import Digest
from ctxdb.rules.ignoring import MARKER, Ignore, folders_above
from ctxdb.settle.sessions import folder_name
from ctxdb.store.keys import LINES, key_of
from ctxdb.store.tombstones import FILE, FOLDER, HISTORY_AGAIN, LINE, SESSION, SLUG, Tombstones

PATTERNS = "ignore"  # the key of _meta with the patterns in force, as JSON
MOST_FOLDERS = 2000  # looked into to find out which one a folder's name means
HEAD_BYTES = 16 << 10  # of a file, where nearly always a line says where it began
STEP_BYTES = 1 << 20
_SLUG = re.compile(rb'"slug"\s*:\s*"([^"\\]{1,200})"')


class FirstFacts(NamedTuple):
    """The first session and the first working directory that lines of a file name."""

    session_id: str | None
    cwd: str | None


def set_patterns(conn: sqlite3.Connection, patterns: Sequence[str]) -> None:
    """Note the patterns of the configuration, for all who read files into this database."""
    text = orjson.dumps(list(patterns)).decode()
    row = conn.execute("SELECT value FROM _meta WHERE key = ?", (PATTERNS,)).fetchone()
    if row != (text,) and (row or patterns):
        conn.execute("INSERT OR REPLACE INTO _meta VALUES (?, ?)", (PATTERNS, text))
        conn.execute(HISTORY_AGAIN)


def patterns_of(conn: sqlite3.Connection) -> list[str]:
    """The patterns in force."""
    row = conn.execute("SELECT value FROM _meta WHERE key = ?", (PATTERNS,)).fetchone()
    (text,) = row or ("[]",)
    try:
        found = orjson.loads(text or "[]")
    except ValueError:
        return []
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


class Folders:
    """Which folders are ignored. Each is looked at once."""

    def __init__(self, ignore: Ignore, tombstones: Tombstones | None) -> None:
        self.ignore = ignore
        self.tombstones = tombstones
        self._known: dict[str, bool] = {}

    def are_ignored(self, path: str) -> bool:
        """Whether what happens in this folder is left out."""
        known = self._known.get(path)
        if known is None:
            known = self._known[path] = self._look(path)
        return known

    def _look(self, path: str) -> bool:
        if not path.startswith("/"):
            return self.ignore.has(path)
        return self.ignore.has(path) or self._has_marker(path)

    def _has_marker(self, path: str) -> bool:
        above = folders_above(path)
        marked = [one for one in above if os.path.lexists(os.path.join(one, MARKER))]
        tombstones = self.tombstones
        if tombstones is None:
            return bool(marked)
        for folder in marked:
            tombstones.keep_out(FOLDER, folder)
        if marked or not any(kind == FOLDER for _, kind in tombstones.kept_out):
            return bool(marked)
        for folder in above:
            if os.path.isdir(folder):  # and its owner has taken the marker away
                tombstones.let_in(FOLDER, folder)
        return any(tombstones.keeps_out(FOLDER, folder) for folder in above)

    def may_be_ignored(self, name: str) -> bool:
        """Whether a folder of transcripts with this name may be of an ignored project."""
        return self.ignore.may_have(name) or any(map(self.are_ignored, _folders_named(name)))


class Gate:
    """Decides file by file, in the caller's transaction.

    Without `patterns`, those hold that the last sync has noted.
    """

    def __init__(self, conn: sqlite3.Connection, patterns: Sequence[str] | None = None) -> None:
        self.conn = conn
        self.tombstones = Tombstones(conn)
        ignore = Ignore(patterns_of(conn) if patterns is None else patterns)
        self.folders = Folders(ignore, self.tombstones)
        self._begun_in: dict[str, str | None] = {}

    def keeps_out(self, file: FoundFile, fd: int) -> bool:
        """Whether a file that is not known yet must not be read."""
        tombstones = self.tombstones
        session_id, is_agents = _named(file)
        facts = None
        if session_id is None:
            facts = first_facts(fd, needs_session=True)
            session_id = facts.session_id
        path = file.path
        if tombstones.is_forgotten(session_id):
            tombstones.keep_out(FILE, path, pack(file.numbers))
            return True
        cwd = self._main_cwd(file, session_id) if is_agents else None
        if cwd is None:
            cwd = (facts or first_facts(fd)).cwd
        if cwd is not None:
            is_ignored = self.folders.are_ignored(cwd)
        elif is_agents and tombstones.keeps_out(SESSION, session_id):
            is_ignored = True
        else:
            is_ignored = self.folders.may_be_ignored(_project_folder(file))
        is_ignored = is_ignored or self.folders.ignore.has(os.path.dirname(path))
        if is_ignored:
            tombstones.keep_out(FILE, path, pack(file.numbers))
            if session_id is not None:
                tombstones.keep_out(SESSION, session_id)
            for slug in _slugs(fd):
                tombstones.keep_out(SLUG, slug)
            return True
        if tombstones.kept_out:
            tombstones.let_in(FILE, path)
            if session_id is not None and not is_agents:
                tombstones.let_in(SESSION, session_id)
        return False

    def is_ignored_now(self, path: str, file_id: int, fd: int) -> bool:
        """Whether a file whose lines were read before is of a project that is ignored by now."""
        if self.folders.ignore.has(os.path.dirname(path)):
            return True
        row = self.conn.execute(
            "SELECT coalesce(first_cwd, agent_cwd) FROM _session_files WHERE source_file_id = ?"
            " AND coalesce(first_cwd, agent_cwd) IS NOT NULL"
            " ORDER BY first_cwd IS NULL, first_at LIMIT 1",
            (file_id,),
        ).fetchone()
        (cwd,) = row or (None,)
        if cwd is None:  # all its lines may be copies, and their rows of another file
            cwd = first_facts(fd).cwd
        return cwd is not None and self.folders.are_ignored(cwd)

    def passes_over(self, file: FoundFile) -> bool:
        """Whether the next sync reads nothing of a file that is not known yet."""
        if not (self.folders.ignore.patterns or self.tombstones.are_any):
            return False  # unless there is a marker: the next sync notes that
        return _try(lambda fd: self.keeps_out(file, fd), file.path)

    def reads_no_more_of(self, path: str, file_id: int) -> bool:
        """Whether the next sync reads nothing more of a file that it knows."""
        return _try(lambda fd: self.is_ignored_now(path, file_id, fd), path)

    def _main_cwd(self, file: FoundFile, session_id: str | None) -> str | None:
        """Where the session of an agent's file began, by its own transcript."""
        if session_id is None:
            return None
        if session_id not in self._begun_in:
            main = os.path.join(file.root, _project_folder(file), f"{session_id}.jsonl")
            self._begun_in[session_id] = _cwd_of(main) if main != file.path else None
        return self._begun_in[session_id]


class HistoryGate:
    """Which lines of history.jsonl are left out."""

    def __init__(self, conn: sqlite3.Connection) -> None:
        self.tombstones = Tombstones(conn)
        self.folders = Folders(Ignore(patterns_of(conn)), self.tombstones)
        self.digest = Digest(key_of(conn, LINES))

    def keeps_out(self, typed: Typed, data: bytes) -> bool:
        """Whether a prompt was typed in a forgotten session or in an ignored project."""
        tombstones = self.tombstones
        if tombstones.keeps_out(SESSION, typed.session_id):
            return True
        if typed.project_path is not None and self.folders.are_ignored(typed.project_path):
            return True
        if typed.session_id is not None or not tombstones.forgotten:
            return False
        return tombstones.keeps_out(LINE, str(self.digest(data)))

    @property
    def line_filter(self) -> LeftOut | None:
        """Which lines the archive leaves out; None if there can be none."""
        may_be_any = self.tombstones.are_any or self.folders.ignore.patterns
        return self.leaves_out if may_be_any else None

    def leaves_out(self, line: bytes) -> bool:
        """Whether a line of history.jsonl is kept out. One that cannot be read is not kept."""
        found = parse(line)
        if found is None:
            return False
        if isinstance(found, Bad):
            return True
        for within, length, entry in found.objects:
            typed = typed_line(entry)
            if typed is not None and self.keeps_out(typed, line[within : within + length]):
                return True
        return False

    def is_named_in(self, index: str) -> bool:
        """Whether the index of a folder with transcripts names a session that is kept out."""
        if not self.tombstones.are_any:
            return False
        return any(self.tombstones.keeps_out(SESSION, one) for one in sessions_in_index(index))


def _named(file: FoundFile) -> tuple[str | None, bool]:
    role = role_of(file.path, file.root)
    return role.session_id, role.agent_id is not None


def _project_folder(file: FoundFile) -> str:
    below = file.path[len(file.root) :].lstrip(os.sep)
    folder, slash, _ = below.partition(os.sep)
    return folder if slash else ""


def _cwd_of(path: str) -> str | None:
    try:
        fd = open_regular(path)
    except OSError:
        return None
    try:
        return first_facts(fd).cwd
    except OSError:
        return None
    finally:
        os.close(fd)


def _try(ask: Callable[[int], bool], path: str) -> bool:
    """Ask something of an open file; False if it cannot be read."""
    try:
        fd = open_regular(path)
    except OSError:
        return False
    try:
        return ask(fd)
    except OSError:
        return False
    finally:
        os.close(fd)


def first_facts(fd: int, *, needs_session: bool = False) -> FirstFacts:
    """What the first lines say; nearly always the first one that is a message says all."""
    session_id: str | None = None
    cwd: str | None = None
    for data in _lines(fd):
        if not may_say_cwd(data) and (session_id or not may_say_session(data)):
            continue
        found = parse(data)
        if found is None or isinstance(found, Bad):
            continue
        for _, _, entry in found.objects:
            place = place_of(entry)
            session_id = session_id or place.session_id
            cwd = cwd or place.cwd
        if cwd and (session_id or not needs_session):
            return FirstFacts(session_id, cwd)
    return FirstFacts(session_id, cwd)


def _lines(fd: int) -> Iterator[bytes]:
    """The complete lines of a file: a few first, because most often they are enough."""
    head = pread(fd, HEAD_BYTES, 0)
    *lines, _ = head.split(b"\n")
    yield from lines
    offset = head.rfind(b"\n") + 1
    while True:
        block = read_block(fd, offset)
        if block.is_empty:
            return
        for _, _, data in block.lines:
            yield data
        offset = block.end


def _slugs(fd: int) -> Iterator[str]:
    """The nicknames that a transcript has, which are the names of its plans."""
    found: set[bytes] = set()
    at = 0
    while data := pread(fd, STEP_BYTES + 256, at):
        found.update(_SLUG.findall(data))
        at += STEP_BYTES
    for slug in sorted(found):
        yield slug.decode("utf-8", "replace")


def _folders_named(name: str) -> Iterator[str]:
    """The folders of this machine whose transcripts are in a folder of this name."""
    looked = 0
    waiting = [("/", name)] if name.startswith("-") else []
    while waiting and looked < MOST_FOLDERS:
        path, rest = waiting.pop()
        looked += 1
        try:
            inside = sorted(os.listdir(path))
        except OSError:
            continue
        for one in inside:
            encoded = "-" + folder_name(one)
            whole = os.path.join(path, one)
            if rest == encoded and os.path.isdir(whole):
                yield whole
            elif rest.startswith(encoded + "-") and os.path.isdir(whole):
                waiting.append((whole, rest[len(encoded) :]))


def is_kept_out(tombstones: Tombstones, file: FoundFile) -> bool:
    """Whether a file is known to be of a forgotten session or an ignored project."""
    session_id, _ = _named(file)
    return tombstones.keeps_out(FILE, file.path) or tombstones.is_forgotten(session_id)


def without_kept_out(conn: sqlite3.Connection, found: Scan) -> list[FoundFile]:
    """The files of a scan without those that are known to be kept out and have not changed."""
    tombstones = Tombstones(conn)
    if not tombstones.kept_out:
        return found.files
    return [file for file in found.files if tombstones.stat_of(file.path) != file.stat]
