"""Print what a search found, for people or for programs: sessions, and the hits of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ctxdb.escape import one_line, printable, width
from ctxdb.formatting import day_and_time
from ctxdb.query.field_names import names_and_values
from ctxdb.query.snippets import Piece, Snippet, beginning, snippet
from ctxdb.session.captions import MARKS, resume_command, shell_word, short_line
from ctxdb.session.find import short_id

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator

    from ctxdb.output import Painter
    from ctxdb.query.search import Found, Group, Hit
    from ctxdb.query.search_words import Word

SNIPPET_CHARS = 160
MARGIN = "    "  # before a snippet
COLUMNS = (
    "session_id",
    "title",
    "project",
    "timestamp",
    "turn",
    "kind",
    "tool",
    "status",
    "exit_code",
    "agent_id",
    "uuid",
    "score",
    "snippet",
    "show",
    "resume",
)


@dataclass(frozen=True, slots=True)
class ShownHit:
    """A hit, and the words around what was found."""

    hit: Hit
    snippet: Snippet
    show: str  # the command that shows it


@dataclass(frozen=True, slots=True)
class ShownSession:
    """A session and its hits."""

    id: str
    title: str
    project: str
    cwd: str | None
    started_at: str | None
    is_deleted: bool
    hits: tuple[ShownHit, ...]
    more: int
    short: str  # the beginning of its id that no other session has

    @property
    def resume(self) -> str | None:
        """The command that resumes it; None if Claude Code has deleted its transcript."""
        return None if self.is_deleted else resume_command(self.id, self.cwd)


def gather(conn: sqlite3.Connection, found: Found, size: int = SNIPPET_CHARS) -> list[ShownSession]:
    """Read what is shown of the sessions and hits."""
    return [_session(conn, group, found.words, size) for group in found.groups]


def _session(conn: sqlite3.Connection, group: Group, words: list[Word], size: int) -> ShownSession:
    known = conn.execute(
        "SELECT coalesce(s.title, ''), coalesce(p.name, ''), coalesce(s.cwd, p.path), s.started_at,"
        " s.source_deleted_at IS NOT NULL FROM sessions s"
        " LEFT JOIN projects p ON p.id = s.project_id WHERE s.id = ?",
        (group.session_id,),
    ).fetchone()
    # The history of prompts and the files of to-dos may name sessions that no transcript has.
    gone = ("(its transcript is gone)", "", None, None, 1)
    title, project, cwd, started_at, is_deleted = known or gone
    short = short_id(conn, group.session_id)
    hits: dict[str, ShownHit] = {}
    more = group.more
    for hit in group.hits:
        around, where = _around(conn, hit, words, size)
        # The last words of an agent are also the result of the call that started it: one is shown.
        text = "".join(piece.text for piece in around.pieces)
        if text in hits:
            more += 1
        else:
            hits[text] = ShownHit(hit, around, show_command(hit, short if known else "", where))
    shown = tuple(hits.values())
    return ShownSession(
        group.session_id, title, project, cwd, started_at, bool(is_deleted), shown, more, short
    )


def show_command(hit: Hit, short: str, where: str) -> str:
    """Return the command that shows the hit in its session."""
    if hit.source in _TABLE_OF:
        return f"ctxdb query {_TABLE_OF[hit.source]}" + (
            f" --session {shell_word(short)}" if short else ""
        )
    command = f"ctxdb show {shell_word(short)}"
    if hit.turn is not None:
        command += f" --turn {hit.turn}"
    if hit.agent_id is not None:
        command += " --agents"
    return command + {"thinking": " --thinking", "tool": " --tools"}.get(where, "")


class _Text(NamedTuple):
    sort: str  # text, thinking, target or tool: says which options of `ctxdb show` show it
    text: str


# The texts of a hit, by its source.
_TEXT_OF = {
    "turn": "SELECT prompt FROM turns WHERE id = ?",
    "history": "SELECT prompt FROM history WHERE id = ?",
    "plan": "SELECT text FROM plans WHERE id = ?",
    "todo": "SELECT subject, description FROM todos WHERE id = ?",
    "queue": "SELECT json_extract(data, '$.content') FROM events WHERE id = ?",
}
# The table that shows a hit which is no part of a conversation.
_TABLE_OF = {"history": "history", "plan": "plans", "todo": "todos"}


def _texts(conn: sqlite3.Connection, hit: Hit) -> tuple[list[_Text], str]:
    """Return the texts of a hit, and the text to try if no snippet of these can be made."""
    if hit.source == "message":
        sql = "SELECT ifnull(text, ''), ifnull(thinking, '') FROM messages WHERE id = ?"
        text, thinking = conn.execute(sql, (hit.id,)).fetchone()
        return [_Text("text", text), _Text("thinking", thinking)], ""
    if hit.source in _TEXT_OF:
        found = conn.execute(_TEXT_OF[hit.source], (hit.id,)).fetchone()
        return [_Text("text", text or "") for text in found], ""
    if hit.source == "session":
        sql = "SELECT ifnull(names, '') FROM sessions WHERE rowid = ?"
        (names,) = conn.execute(sql, (hit.id,)).fetchone()
        return [_Text("text", name) for name in names.split("\n")], ""
    sql = (
        "SELECT ifnull(target, ''), ifnull(searched_text, ''), ifnull(input, '')"
        " FROM tool_uses WHERE id = ?"
    )
    target, result, input_ = conn.execute(sql, (hit.id,)).fetchone()
    values = names_and_values(input_).values  # people look for values, not for JSON
    return [_Text("target", target), _Text("tool", result), _Text("tool", values)], input_


def _around(
    conn: sqlite3.Connection, hit: Hit, words: list[Word], size: int
) -> tuple[Snippet, str]:
    """Return the snippet with the most words, and the sort of text that it is from."""
    texts, last = _texts(conn, hit)
    best: tuple[Snippet, str] | None = None
    most = -1
    for sort, text in texts:
        found = snippet(text, words, size) if text else None
        if found is not None and found.words > most:
            best, most = (found, sort), found.words
    if best is None and last and (found := snippet(last, words, size)):
        best = (found, "tool")
    if best is not None:
        return best
    first, *_ = texts
    return beginning(next((text for _, text in texts if text), ""), size), first.sort


# -- for people ------------------------------------------------------------------------------------


def text_lines(
    sessions: list[ShownSession], ink: Painter, columns: int, *, fits: bool = False
) -> Iterator[str]:
    """Return the lines for people: sessions with their hits, and commands that show more.

    With `fits`, a snippet is cut between words into lines that fit.
    """
    for nth, session in enumerate(sessions):
        if nth:
            yield ""
        facts = " · ".join(filter(None, (one_line(session.project), _day(session.started_at))))
        title = short_line(session.title, max(columns - len(facts) - 2, 30)) or session.id
        yield f"{ink('bold', title)}  {ink('dim', facts)}"
        for shown in session.hits:
            yield f"  {_label(shown.hit, ink)}  {ink('dim', shown.show)}"
            room = columns - len(MARGIN) if fits else None
            for line in _snippet_lines(shown.snippet.pieces, ink, room):
                yield MARGIN + line
        if session.more:
            yield ink(
                "dim", f"  and {session.more} more here: --session {shell_word(session.short)}"
            )
        gone = ink("dim", "its transcript is deleted, it cannot be resumed")
        yield f"  {ink('green', session.resume) if session.resume else gone}"


def _snippet_lines(pieces: Iterable[Piece], ink: Painter, room: int | None) -> Iterator[str]:
    line, used = "", 0
    words: list[list[Piece]] = [[]]  # a word may be of several pieces
    for piece in pieces:
        first, *others = printable(piece.text).split(" ")
        words[-1].append(piece._replace(text=first))
        words += [[piece._replace(text=word)] for word in others]
    for nth, word in enumerate(words):
        needed = sum(width(part.text) for part in word)
        if nth and room is not None and used + 1 + needed > room:
            yield line
            line, used = "", 0
        elif nth:
            line, used = f"{line} ", used + 1
        used += needed
        line += "".join(ink("found", one.text) if one.is_match else one.text for one in word)
    yield line


def _day(timestamp: str | None) -> str:
    return day_and_time(timestamp)[:10]


def _label(hit: Hit, ink: Painter) -> str:
    if hit.source == "tool":
        ok = hit.status == "ok"
        mark = ink("green" if ok else "red", MARKS.get(hit.status or "", "?"))
        what = f"{mark} {ink('cyan', one_line(hit.tool or '?'))}"
        if hit.exit_code:
            what += f" exit {hit.exit_code}"
    else:
        what = ink("cyan", hit.kind.replace("_", " "))
    agent = " by an agent" if hit.agent_id else ""
    return f"{what}{agent} {day_and_time(hit.timestamp)}".rstrip()


# -- for programs ----------------------------------------------------------------------------------


def as_data(session: ShownSession) -> dict[str, object]:
    """Return a session with its hits as data. Programs rely on its shape."""
    return {
        "session_id": session.id,
        "title": session.title,
        "project": session.project,
        "cwd": session.cwd,
        "started_at": session.started_at,
        "resume": session.resume,
        "more": session.more,
        "hits": [_hit_data(shown) for shown in session.hits],
    }


def as_rows(sessions: list[ShownSession]) -> Iterator[tuple[object, ...]]:
    """Return one row for each hit; the columns are COLUMNS."""
    for session in sessions:
        whole = as_data(session)
        for shown in session.hits:
            row = whole | _hit_data(shown)
            yield tuple(row[name] for name in COLUMNS)


def _hit_data(shown: ShownHit) -> dict[str, object]:
    hit = shown.hit
    at, marks = 0, []
    for piece in shown.snippet.pieces:
        if piece.is_match:
            marks.append([at, at + len(piece.text)])
        at += len(piece.text)
    return {
        "kind": hit.kind,
        "tool": hit.tool,
        "status": hit.status,
        "exit_code": hit.exit_code,
        "timestamp": hit.timestamp,
        "turn": hit.turn,
        "agent_id": hit.agent_id,
        "uuid": hit.uuid,
        "score": round(hit.score, 4),
        "snippet": "".join(piece.text for piece in shown.snippet.pieces),
        "matches": marks,
        "show": shown.show,
    }
