"""What the filters offer: the names of all projects and models, oldest first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctxdb.web.filters import PEOPLE, PERIOD_NAMES

if TYPE_CHECKING:
    from ctxdb.web.reading import Database

_KNOWN = """
SELECT 'project' AS kind, n.project AS name, p.first AS first
FROM _project_names n JOIN (SELECT repo_path, min(id) AS first FROM projects GROUP BY repo_path) p
  ON p.repo_path = n.repo_path
WHERE n.project IS NOT NULL
UNION ALL
SELECT 'model', model, first
FROM (SELECT model, min(id) AS first FROM usage WHERE model IS NOT NULL GROUP BY model)
ORDER BY 1, first
"""


def known_names(db: Database) -> dict[str, list[str]]:
    """The names of projects and models, by `project` and `model`."""
    found: dict[str, list[str]] = {"project": [], "model": []}
    for row in db.remember("known names", lambda: db.sql(_KNOWN)):
        found[row["kind"]].append(row["name"])
    return found


def choices(db: Database) -> dict[str, Any]:
    """What the form of filters shows."""
    names = known_names(db)
    return {
        "periods": PERIOD_NAMES,
        "people": PEOPLE,
        "projects": sorted(names["project"], key=str.lower),
        "models": sorted(names["model"]),
    }
