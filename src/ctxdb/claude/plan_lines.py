"""What a line says that was written when a person approved a plan: `planContent`."""

from __future__ import annotations

import re
from typing import Any

# Claude Code ends the line with these words and the path of the transcript.
_BEFORE_PATH = "read the full transcript at:"
_SESSION = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def is_plan(entry: dict[str, Any]) -> bool:
    """Whether a line begins the work on a plan."""
    return bool(entry.get("planContent"))


def plan_text(entry: dict[str, Any]) -> str:
    """The plan alone, without the words around it; '' when there is none."""
    plan = entry.get("planContent")
    return plan.strip() if type(plan) is str else ""


def plan_heading(plan: str) -> str:
    """The first heading of a plan, else its first line."""
    first = ""
    fenced = False
    for line in plan.splitlines():
        words = line.strip()
        fenced ^= words.startswith(("```", "~~~"))
        marks = len(words) - len(words.lstrip("#"))
        if not fenced and 1 <= marks <= 6 and words[marks : marks + 1].isspace():
            return words[marks:].strip(" \t#") or first
        first = first or words
    return first


def planning_transcript(text: str | None) -> str | None:
    """The transcript that a plan was made in, by the words after the plan; its path."""
    # The plan itself may quote these words: the last ones count.
    _, found, rest = (text or "").rpartition(_BEFORE_PATH)
    path, ends, _ = rest.strip().partition(".jsonl")
    return f"{path}{ends}" if found and path and ends and "\n" not in path else None


def session_of_transcript(path: str) -> str | None:
    """The session whose id is the name of a transcript; None for another name."""
    name = re.split(r"[/\\]", path)[-1].removesuffix(".jsonl")
    return name if _SESSION.fullmatch(name) else None
