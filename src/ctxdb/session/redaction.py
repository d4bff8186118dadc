"""Take out of a session what its owner would not show to others.

Secrets are masked by the rules of `ctxdb.privacy`. Home folders become ``~``, and the names of
people in them ``user``. What tools printed, files that were attached and images are left out: they
often hold more than their owner knows.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ctxdb.privacy.masking import Masker
from ctxdb.progress import human_bytes
from ctxdb.session.conversation import Agent, Call, Passage

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    from ctxdb.session.conversation import Conversation, Item

MAX_DEPTH = 40  # of agents inside agents; deeper ones are left out
NAME = "user"
_HOME = re.compile(r"(?:/home/|/Users/|[A-Za-z]:\\Users\\)(?P<name>[^/\\\s:\"'<>|]{1,64})")
# Names that no person has: they say nothing, and as words they are common.
_COMMON = frozenset(
    {"admin", "app", "code", "dev", "home", "node", "root", "runner", "shared", "test", "ubuntu",
     "user", "vscode", "work"}
)  # fmt: skip


class Redactor:
    """What is taken out of texts; `people` are the names that home folders have."""

    def __init__(self, people: Iterable[str] = ()) -> None:
        names = {name for name in people if len(name) > 2 and name.lower() not in _COMMON}
        longest_first = sorted(names, key=lambda name: (-len(name), name))
        self._names = (
            re.compile(
                rf"(?<![A-Za-z0-9])(?:{'|'.join(map(re.escape, longest_first))})(?![A-Za-z0-9])"
            )
            if names
            else None
        )
        self._masker = Masker()

    def text(self, value: str) -> str:
        """A text without secrets, home folders and names."""
        return self.place(self._masker.mask(value))

    def place(self, value: str) -> str:
        """A text without home folders and names."""
        value = _HOME.sub("~", value)
        return self._names.sub(NAME, value) if self._names else value

    def page(self, html: str) -> str:
        """The texts and titles of a page without secrets, home folders and names."""
        html = re.sub(r">([^<]+)<", lambda found: f">{self.text(found[1])}<", html)
        return re.sub(
            r'(title|aria-label)="([^"]*)"',
            lambda found: f'{found[1]}="{self.text(found[2])}"',
            html,
        )

    def conversation(self, found: Conversation) -> None:
        """Take it out of a whole session."""
        found.title = self.text(found.title)
        found.project = self.text(found.project)
        found.cwd = self._or_none(found.cwd)
        found.branch = self._or_none(found.branch)
        found.parent_title = self._or_none(found.parent_title)
        for exchange in found.exchanges:
            exchange.prompt = self.text(exchange.prompt)
            exchange.images = []
            self._items(exchange.items, 0)
        for agent in found.others:
            self._agent(agent, 0)

    def _or_none(self, value: str | None) -> str | None:
        return None if value is None else self.text(value)

    def _items(self, items: list[Item], depth: int) -> None:
        for item in items:
            if isinstance(item, Call):
                self._call(item, depth)
            elif isinstance(item, Agent):
                self._agent(item, depth)
            else:
                self._passage(item)

    def _passage(self, item: Passage) -> None:
        is_output = item.role in ("output", "context")
        item.text = _left_out(item.text) if is_output and item.text else self.text(item.text)
        item.thinking = self.text(item.thinking)
        item.label = self.text(item.label)
        item.images = []

    def _call(self, call: Call, depth: int) -> None:
        call.target = self.text(call.target)
        call.input = self._or_none(call.input)
        call.result = _left_out(call.result) if call.result else call.result
        call.result_path = None
        call.images = []
        for agent in call.agents:
            self._agent(agent, depth + 1)

    def _agent(self, agent: Agent, depth: int) -> None:
        agent.description = self.text(agent.description)
        agent.type = self.text(agent.type)
        if depth > MAX_DEPTH:
            agent.items, agent.agents = [], []
        self._items(agent.items, depth)
        for inner in agent.agents:
            self._agent(inner, depth + 1)


def _left_out(value: str) -> str:
    return f"[left out: {human_bytes(len(value.encode(errors='replace')))}]"


def people_in(conn: sqlite3.Connection) -> set[str]:
    """The names that the home folders of sessions and projects have."""
    rows = conn.execute(
        "SELECT path FROM projects UNION SELECT repo_path FROM projects"
        " UNION SELECT cwd FROM sessions WHERE cwd IS NOT NULL"
    )
    return {found["name"] for (path,) in rows for found in _HOME.finditer(str(path))}
