"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ctxdb.cli.declare import Option

Roots = Annotated[
    list[Path] | None,
    Option(
        "--root",
        metavar="DIR",
        is_folder=True,
        help="Read transcripts below DIR instead of the usual places. Repeatable.",
    ),
]
ClaudeDirs = Annotated[
    list[Path] | None,
    Option(
        "--claude-dir",
        metavar="DIR",
        help="Read to-dos, plans and the history of prompts in DIR, such as ~/.claude, instead of"
        " the folders that hold the roots. Repeatable.",
    ),
]
NoArchive = Annotated[
    bool,
    Option("--no-archive", help="Do not keep the exact bytes of what is read in the archive."),
]
AsJson = Annotated[bool, Option("--json", help="Print JSON with a stable shape.")]

NoSync = Annotated[bool, Option("--no-sync", help="Do not read new lines first.")]
Since = Annotated[
    str | None,
    Option(
        "--since",
        metavar="WHEN",
        help="From then on, in local time: 7d, 24h, yesterday, 'last week', 2026-08-01, 2026-08,"
        " all.",
    ),
]
Until = Annotated[
    str | None,
    Option("--until", metavar="WHEN", help="Up to and including then: yesterday, 2026-08."),
]
Project = Annotated[
    str | None,
    Option(
        "--project",
        metavar="NAME",
        help="Only this project: its name, its folder (. is this one), or a part of the path.",
        complete="ctxdb.query.complete:projects",
    ),
]
Human = Annotated[
    bool,
    Option("--human", help="Leave out sessions that a program ran, such as those of a CI service."),
]
Session = Annotated[
    str | None,
    Option(
        "--session",
        metavar="ID",
        help="Only this session: the beginning of its id, a slug, or last.",
        complete="ctxdb.query.complete:sessions",
    ),
]
Model = Annotated[
    str | None,
    Option("--model", metavar="NAME", help="Only models with this in their name: opus."),
]
