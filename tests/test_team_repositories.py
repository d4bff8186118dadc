"""Which repository a project is, for a team."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from builder import World
from ctxdb.team.repositories import repositories
from teamlab import laptop

REMOTES = (
    "origin\tgit@example.com:acme/pump.git (fetch)\norigin\tgit@example.com:acme/pump.git (push)"
)


def names(world: World, named: dict[str, str]) -> dict[str, str]:
    """The repository of each project, by the last folder of its path."""
    with laptop(world.contents()) as one, closing(sqlite3.connect(one.db)) as conn:
        found = repositories(conn, named)
    return {path.rsplit("/", 1)[-1]: name for path, name in found.items()}


def test_pull_requests_come_before_remotes_then_config_then_the_folder() -> None:
    world = World()
    for folder in ("linked", "remote", "named", "plain"):
        t = world.session(f"-work-{folder}", cwd=f"/work/{folder}")
        t.prompt("hello")
        if folder in ("linked", "remote"):
            t.tool("Bash", {"command": "git remote -v"}, REMOTES)
        if folder == "linked":
            t.pr_link(7)
    named = {"/work/linked": "x/x", "remote": "x/x", "named": "acme/named"}
    assert names(world, named) == {
        "linked": "ada/engine",
        "remote": "acme/pump",
        "named": "acme/named",
        "plain": "plain",
    }
