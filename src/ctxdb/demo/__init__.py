"""A small, made-up set of Claude Code transcripts, to try ctxdb on without your own.

One developer, four projects, versions 1.0.98 to 2.1.280. It has the things that make transcripts
hard to read: replies in several lines, results in other files, copied and forked sessions, prompts
that were queued, agents inside agents, refusals, interruptions and errors. Every word is invented.
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

# Fixed, so that the demo of one machine is the demo of every machine.
DEMO_TODAY = date(2026, 10, 16)


def write_demo(folder: Path, seed: int = 7, today: date = DEMO_TODAY) -> int:
    """Write the transcripts below `folder`, laid out as ~/.claude/projects; return the lines.

    The same arguments write the same bytes, and files that hold them already are left alone, so
    that syncing again finds nothing new.
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
    # As JSON.stringify does it: no spaces, no escapes that are not needed.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _write(path: Path, text: str) -> None:
    data = text.encode()
    if path.is_file() and path.read_bytes() == data:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
