"""What a page says about a session beside the conversation: place, cost, changes, relatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctxdb.session.captions import resume_command

if TYPE_CHECKING:
    from ctxdb.session.conversation import Conversation
    from ctxdb.web.page import Question
    from ctxdb.web.reading import Row

MOST_FILES = 40
RELATIONS = {
    "clear": "Began with /clear in",
    "resume": "Resumed from",
    "fork": "Fork of",
    "plan": "Carries out the plan of",
}
CHILDREN = {
    "clear": "Cleared, then",
    "resume": "Resumed as",
    "fork": "Forked to",
    "plan": "Its plan was carried out in",
}
_FILES = """
SELECT path, coalesce(max(relative_path), path) AS name, coalesce(sum(lines_added), 0) AS added,
  coalesce(sum(lines_removed), 0) AS removed, max(operation = 'create') AS created,
  max(operation = 'delete') AS deleted
FROM files_touched
WHERE session_id = :id AND succeeded = 1
  AND operation IN ('create', 'write', 'edit', 'notebook_edit', 'delete')
GROUP BY path ORDER BY name
"""
_CHILDREN = """
SELECT id, coalesce(title, id) AS title, relation, started_at FROM sessions
WHERE parent_session_id = :id ORDER BY started_at, id
"""
_PARENT = "SELECT 1 FROM sessions WHERE id = :id"


@dataclass(frozen=True, slots=True)
class Facts:
    """What the page says beside the conversation."""

    usage: Row | None  # of the view usage_by_session
    uncertain: str | None
    files: list[Row]
    files_left: int
    added: int
    removed: int
    commits: list[Row]
    pull_requests: list[Row]
    children: list[Row]
    parent_is_known: bool
    resume: str


def facts_of(question: Question, found: Conversation) -> Facts:
    """Ask for all of it at the same time."""
    db = question.db
    here: dict[str, Any] = {"id": found.id}
    answers = db.together(
        {
            "usage": lambda: db.ask("usage_by_session", session=found.id),
            "files": lambda: db.sql(_FILES, here),
            "commits": lambda: db.ask("commits", session=found.id),
            "pull_requests": lambda: db.ask("pull_requests", session=found.id),
            "children": lambda: db.sql(_CHILDREN, here),
            "parent": lambda: db.sql(_PARENT, {"id": found.parent_id}),
        }
    )
    files = list(answers["files"])
    return Facts(
        usage=next(iter(answers["usage"]), None),
        uncertain=answers["usage"].uncertain,
        files=files[:MOST_FILES],
        files_left=max(len(files) - MOST_FILES, 0),
        added=sum(file["added"] for file in files),
        removed=sum(file["removed"] for file in files),
        commits=list(answers["commits"]),
        pull_requests=list(answers["pull_requests"]),
        children=list(answers["children"]),
        parent_is_known=bool(answers["parent"]),
        resume=resume_command(found.id, found.cwd),
    )
