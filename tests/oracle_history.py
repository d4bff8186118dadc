"""history.jsonl: every prompt as it was typed, and the turn it became.

Part of the oracle (see ``oracle.py``).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import oracle_rules as rules
from oracle_copies import Key, Model
from oracle_rules import Json, as_dict, as_text
from oracle_tools import milliseconds

if TYPE_CHECKING:
    from pathlib import Path

PASTED = re.compile(r"\[Pasted text #(\d+)[^\]]*\]")


def find_history(model: Model, claude: Path) -> None:
    path = claude / "history.jsonl"
    data = path.read_bytes() if path.is_file() else b""
    for line in data.split(b"\n")[:-1]:
        objects = rules.parse_line(line)
        for _, _, whole in objects if isinstance(objects, list) else []:
            if as_text(whole.get("display")):
                model.history.append(history_row(whole))
    taken: set[Key] = set()
    for row in model.history:
        row["turn"] = turn_of(row, model, taken)
        taken.add(row["turn"])


def history_row(whole: Json) -> Json:
    ms = whole.get("timestamp")
    at = datetime.fromtimestamp(ms / 1000, UTC) if isinstance(ms, int) else None
    pasted = as_dict(whole.get("pastedContents"))
    texts = {id_: as_text(as_dict(each).get("content")) or "" for id_, each in pasted.items()}
    words = PASTED.sub(lambda found: texts.get(found[1], found[0]), whole["display"])
    return {
        "ms": ms,
        "timestamp": at.isoformat(timespec="milliseconds").replace("+00:00", "Z") if at else None,
        "project_path": as_text(whole.get("project")),
        "session_id": as_text(whole.get("sessionId")),
        "prompt": whole["display"],
        "pasted_bytes": sum(len(text.encode()) for text in texts.values()),
        "words": " ".join(words.split()),
    }


def turn_of(row: Json, model: Model, taken: set[Key]) -> Key | None:
    """The nearest turn with the same words: of the same session, else of the same project."""
    near: list[tuple[int, int, Key]] = []
    for session, turns in model.turns.items():
        same_session = row["session_id"] is not None and session == row["session_id"]
        place = model.sessions.get(session or "", {}).get("cwd")
        if not same_session and (row["session_id"] or place != row["project_path"]):
            continue
        for n, turn in enumerate(turns, 1):
            began = milliseconds(turn["started_at"])
            alike = " ".join(turn["prompt"].split()) == row["words"]
            if alike and began is not None and (session, n) not in taken:
                near.append((abs(began - (row["ms"] or 0)), n, (session, n)))
    return min(near)[2] if near else None
