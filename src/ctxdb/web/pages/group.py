"""The pages of a project and of a model: its costs over time, its sessions, its files and tools."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ctxdb.web.filters import filters_from
from ctxdb.web.page import Missing, Redirect
from ctxdb.web.pages import dashboard

if TYPE_CHECKING:
    from ctxdb.web.page import Page, Question


def project(question: Question) -> Page | Redirect:
    """Show a project."""
    return _narrowed(question, "project")


def model(question: Question) -> Page | Redirect:
    """Show a model."""
    return _narrowed(question, "model")


def _narrowed(question: Question, what: str) -> Page | Redirect:
    """The dashboard narrowed to one project or model, with what only that has."""
    name = question.args.get("name")
    if not name:
        raise Missing(f"Which {what}? Give its name: /-/ctxdb/{what}?name=...")
    if question.args.get(what) not in ("", name):  # the form chose another one
        args = filters_from(question.args, question.now.date()).args()
        chosen = args.pop(what)
        return Redirect(question.links.page(what, name=chosen, **args))
    values = {**question.args.values, what: (name,)}
    values.setdefault("by", ("model" if what == "project" else "project",))
    asked = replace(question, args=replace(question.args, values=values))
    shown = dashboard.page(asked)
    about = _of_project(asked, name) if what == "project" else _of_model(asked, name)
    return replace(
        shown,
        values={
            **shown.values,
            "title": name,
            "heading": name,
            "about": about,
            "action": question.links.page(what),
            "hidden": {"name": name},
            "what": what,
        },
    )


def _of_project(question: Question, name: str) -> dict[str, Any]:
    db, links = question.db, question.links
    found = db.together(
        {
            "overview": lambda: db.ask("projects_overview", project=name),
            "commits": lambda: db.ask("commits", project=name, limit=10),
            "prs": lambda: db.ask("pull_requests", project=name, limit=10),
        }
    )
    rows = found["overview"]
    facts = rows[0] if rows else {}
    return {
        "facts": [
            ("Folder", facts.get("repo_path"), ""),
            ("Worktrees", facts.get("worktrees"), ""),
            ("Commits", facts.get("commits"), links.rows("commits", project=name)),
            (
                "Files changed",
                facts.get("files_changed"),
                links.rows("file_activity", project=name),
            ),
        ],
        "commits": found["commits"],
        "prs": found["prs"],
    }


def _of_model(question: Question, name: str) -> dict[str, Any]:
    rows = question.db.ask("usage_by_model", model=name)
    facts = next((row for row in rows if row["model"] == name), {})
    return {
        "facts": [
            ("Priced as", facts.get("priced_model") or "no price: it is not in any cost", ""),
            ("Sessions", facts.get("sessions"), question.links.page("sessions", model=name)),
            ("Requests", facts.get("requests"), question.links.rows("usage_costs", model=name)),
        ],
        "commits": [],
        "prs": [],
    }
