"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ctxdb.commands.declare import Option

Roots = Annotated[
    list[Path] | None,
    Option(
        "--root",
        metavar="DIR",
        is_folder=True,
        help="Read transcripts below DIR instead of the usual places. Repeatable.",
    ),
]
AsJson = Annotated[bool, Option("--json", help="Print JSON with a stable shape.")]
