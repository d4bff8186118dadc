"""The pictures of the docs are those of this version."""

from __future__ import annotations

import runpy
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def test_the_picture_of_the_schema_is_up_to_date() -> None:
    diagram = runpy.run_path(str(DOCS / "er_diagram.py"))["diagram"]
    wanted = "\n".join(diagram()) + "\n"
    assert (DOCS / "pictures/schema.dot").read_text() == wanted, "run `make pictures`"


def test_every_picture_that_a_page_shows_is_there() -> None:
    import re

    for page in [*DOCS.glob("*.md"), DOCS.parent / "README.md"]:
        for name in re.findall(r"!\[[^]]*\]\((?!http)([^)]+)\)", page.read_text()):
            assert (page.parent / name).is_file(), f"{page.name}: {name}"


def test_the_plots_show_the_numbers() -> None:
    for path, content in runpy.run_path(str(DOCS / "performance_plots.py"))["plots"]():
        assert path.read_text() == content, "run `make pictures`"
