"""The pages of a commit and of a pull request: which prompts led to it, and what it cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxdb.web.page import Missing, Page
from ctxdb.web.tables import table

if TYPE_CHECKING:
    from ctxdb.web.page import Question

SHORTEST = 4  # characters of a commit

# Columns that say little to a person who reads what led to a commit; SQL shows them.
_BOOKKEEPING = frozenset({"turn_id", "title", "requests_unpriced"})


def commit(question: Question) -> Page:
    """Show a commit by its hash, or the beginning of it."""
    sha = question.args.get("sha").lower()
    if len(sha) < SHORTEST or not all(char in "0123456789abcdef" for char in sha):
        raise Missing("Which commit? Give at least four characters of its hash: ?sha=...")
    db, links = question.db, question.links
    found = db.ask("commits", params={"sha": f"{sha}%"})
    if not found:
        # A transcript may have a shorter hash than the one that is asked for.
        rows = db.ask("commits", params={"sha": f"{sha[:7]}%"})
        found_shas = [row for row in rows if sha.startswith(row["sha"] or "-")]
        if not found_shas:
            raise Missing(f"No session made a commit {sha}.")
        sha = str(found_shas[0]["sha"])
        found = db.ask("commits", params={"sha": f"{sha}%"})
    around = db.ask("around_commit", params={"sha": sha})
    return Page(
        "commit.html",
        {
            "title": f"Commit {sha[:9]}",
            "commits": found,
            "around": table(question, around, leave_out=_BOOKKEEPING),
            "sql": links.rows("commits", is_sha=f"{sha}%"),
            "around_sql": links.rows("around_commit", p_sha=sha),
        },
    )


def pull_request(question: Question) -> Page:
    """Show a pull request by its number."""
    number = question.args.get("number").removeprefix("#")
    if not number.isascii() or not number.isdecimal():
        raise Missing("Which pull request? Give its number: ?number=...")
    db = question.db
    project = question.args.get("project") or None
    found = [
        row for row in db.ask("pull_requests", project=project) if str(row["pr_number"]) == number
    ]
    if not found:
        raise Missing(f"No session made or named a pull request {number}.")
    around = db.ask("around_pr", params={"pr": number}, project=project)
    return Page(
        "pr.html",
        {
            "title": f"Pull request {number}",
            "prs": found,
            "around": table(question, around, leave_out=_BOOKKEEPING),
            "sql": question.links.rows("pull_requests", is_pr_number=number, project=project),
            "around_sql": question.links.rows("around_pr", p_pr=number, project=project),
        },
    )
