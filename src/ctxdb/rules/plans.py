"""The plans of sessions that share a nickname, from calls, turns and the file of that name.

A session has one row for each text it proposed or began with: a plan that was refused and changed
has several. A file whose text a session has adds its path to that row, and else is a row itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ctxdb.side_rows import Plan

Key = tuple[str | None, str | None, str]  # session, path of a file that is a row itself, text


class Proposal(NamedTuple):
    """A plan in a session: the input or result of ExitPlanMode, or planContent."""

    session_id: str
    source: str
    text: str
    path: str | None
    at: str | None


class PlanFile(NamedTuple):
    """A file in plans/."""

    slug: str
    path: str
    text: str
    at: str | None


class Planner(NamedTuple):
    """A session."""

    id: str
    slug: str | None
    started_at: str | None


def plans_of(
    sessions: Iterable[Planner], proposals: Iterable[Proposal], files: Iterable[PlanFile]
) -> dict[Key, Plan]:
    """The plans of these sessions and files, by their keys."""
    known = {session.id: session for session in sessions}
    found: dict[Key, Plan] = {}
    for said in sorted(proposals, key=lambda said: (said.at or "", said.source, said.path or "")):
        slug = known[said.session_id].slug if said.session_id in known else None
        key = (said.session_id, None, said.text.strip())
        before = found.get(key)
        path = said.path or (before.path if before else None)
        found[key] = Plan(
            None, said.session_id, slug, path, said.text.strip(), said.at, said.source
        )
    for file in sorted(files, key=lambda file: file.path):
        text = file.text.strip()
        same = [
            plan
            for plan in found.values()
            if plan.text == text and plan.slug == file.slug and plan.source != "file"
        ]
        for plan in same:
            plan.path = plan.path or file.path
        if text and not same:
            of_slug = [one for one in known.values() if one.slug == file.slug]
            first = min(of_slug, key=lambda one: (one.started_at or "~", one.id), default=None)
            owner = first.id if first else None
            plan = Plan(None, owner, file.slug, file.path, text, file.at, "file")
            found[(owner, file.path, text)] = plan
    return found
