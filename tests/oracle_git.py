"""Commits, pushes and pull requests: by what a result reports, and by what git and gh print.

Part of the oracle (see ``oracle.py``).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from oracle_rules import Json, as_dict, as_text

if TYPE_CHECKING:
    from oracle_copies import Model
    from oracle_tools import ToolUse

SHELLS = ("Bash", "PowerShell")
COMMIT = re.compile(
    r"^\[(detached HEAD|\S+)(?: \(root-commit\))? ([0-9a-f]{7,40})\] (.*)$", re.MULTILINE
)
PUSH = re.compile(
    r"^ (?:[ +*]) ?(?:\[new branch\]|[0-9a-f]+\.{2,3}[0-9a-f]+) +\S+ -> (\S+)", re.MULTILINE
)


def find_git(model: Model) -> None:
    for use in model.tools:
        for done in by_call(use):
            model.git.append({"session": use.at.session, "tool": use, **done})
    for event in model.events:
        if event.type == "pr-link":
            number = event.whole.get("prNumber")
            row = {"session": event.session, "kind": "pr", "pr_number": number}
            if not any(row.items() <= done.items() for done in model.git):  # one row for each
                model.git.append({**row, "tool": None, "source": "link"})


def by_call(use: ToolUse) -> list[Json]:
    command = as_text(use.input.get("command")) or ""
    text = use.result_text or ""
    done = as_dict(as_dict(use.extra).get("gitOperation"))
    found: list[Json] = []
    for kind in ("commit", "push", "pr"):
        if one := as_dict(done.get(kind)):
            row = {
                "kind": kind,
                "sha": one.get("sha"),
                "branch": one.get("branch"),
                "pr_number": one.get("number"),
                "source": "result",
            }
            found.append(row)
    for row in printed_commits(text) if use.name in SHELLS else []:
        known = [f for f in found if f["kind"] == "commit" and same_commit(f["sha"], row["sha"])]
        for one in known:  # the report says which commit, git says what it is about
            one["branch"], one["subject"] = one["branch"] or row["branch"], row["subject"]
        if not known:
            found.append(row)
    if done:
        return found
    if re.search(r"\bgit\b.*\bpush\b", command, re.DOTALL):
        printed = PUSH.finditer(text[max(text.find("To "), 0) :])
        found += [{"kind": "push", "branch": push[1], "source": "text"} for push in printed]
    url = re.search(r"https://github\.com/\S+/pull/(\d+)", text)
    if "gh pr create" in command and url:
        found.append({"kind": "pr", "pr_number": int(url[1]), "source": "text"})
    return found


def printed_commits(text: str) -> list[Json]:
    """Every line `[branch sha] subject`."""
    rows = {}
    for line in COMMIT.finditer(text):
        branch = None if line[1] == "detached HEAD" else line[1]
        row = {"kind": "commit", "sha": line[2], "branch": branch, "subject": line[3].strip()}
        rows.setdefault(line[2], {**row, "source": "text"})
    return list(rows.values())


def same_commit(one: object, other: object) -> bool:
    if not isinstance(one, str) or not isinstance(other, str):
        return False
    return one.startswith(other) or other.startswith(one)
