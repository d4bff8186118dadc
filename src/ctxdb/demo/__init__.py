"""Write a small set of invented Claude Code transcripts, to try ctxdb without your own.

It has one developer, four projects and versions 1.0.98 to 2.1.280. It has what makes transcripts
hard to read: replies in several lines, results in other files, copied and forked sessions, queued
prompts, agents inside agents, refusals, interruptions and errors.
"""

from __future__ import annotations

import json
from datetime import date
from typing import TYPE_CHECKING

from ctxdb.demo.early_stories import write_early_stories
from ctxdb.demo.latest_stories import write_latest_stories
from ctxdb.demo.recent_stories import write_recent_stories
from ctxdb.demo.world import World

if TYPE_CHECKING:
    from pathlib import Path

# Fixed, so that the demo is the same on every machine.
DEMO_TODAY = date(2026, 10, 16)


def write_demo(folder: Path, seed: int = 7, today: date = DEMO_TODAY) -> int:
    """Write the transcripts below `folder`, in the layout of ~/.claude/projects.

    Returns the number of lines. The same arguments write the same bytes. A file that holds these
    bytes already is not written again, so another sync finds nothing new.
    """
    world = World(seed, today)
    write_early_stories(world)
    write_recent_stories(world)
    write_latest_stories(world)
    for name, lines in world.transcripts.items():
        _write(folder / name, "".join(_dump(line) + "\n" for line in lines))
    for name, metadata in world.metadata.items():
        _write(folder / name, _dump(metadata))
    return sum(len(lines) for lines in world.transcripts.values())


def _dump(value: object) -> str:
    # As JSON.stringify does: no spaces, and only the escapes that are needed.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _write(path: Path, text: str) -> None:
    data = text.encode()
    if path.is_file() and path.read_bytes() == data:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
