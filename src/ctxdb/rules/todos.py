"""The latest state of a session's to-dos, from the calls and files that name them.

A pure function of what is stored: the order in which lines and files arrived does not matter. Calls
come in reading order; a file counts at the time it was written, so it never overrides a later call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ctxdb.claude.names import TASK_CREATE, TODO_WRITE
from ctxdb.claude.side_contents import (
    TODOS,
    Item,
    changed_item,
    created_item,
    list_items,
)
from ctxdb.side_rows import Todo

FINISHED = ("completed", "deleted", "cancelled", "dropped")
Key = tuple[str | None, str | None, str | None]  # agent, item_id, text where there is no item_id


class TodoCall(NamedTuple):
    """A TodoWrite, TaskCreate or TaskUpdate call that did not fail."""

    name: str
    agent_id: str | None
    turn_id: int | None
    at: str | None
    path: str  # of its transcript
    byte_start: int
    tool_input: str | None
    result: str | None


class TodoFile(NamedTuple):
    """A file in todos/, or one task in tasks/."""

    kind: str
    agent_id: str | None
    at: str | None
    path: str
    items: Sequence[Item]


class _Saying(NamedTuple):
    """Who says something of a to-do, and when."""

    agent_id: str | None
    turn_id: int | None
    at: str | None
    source: str


def todos_of(
    session_id: str, calls: Iterable[TodoCall], files: Iterable[TodoFile]
) -> dict[Key, Todo]:
    """The to-dos of a session by their keys."""
    state = _State(session_id)
    for step in _in_order(list(calls), list(files)):
        if isinstance(step, TodoFile):
            state.take_file(step)
        else:
            state.take_call(step)
    return state.todos


def _in_order(calls: list[TodoCall], files: list[TodoFile]) -> Iterator[TodoCall | TodoFile]:
    """Transcripts by their first call, calls as they are written, files by their time."""
    began: dict[str, str] = {}
    for call in calls:
        at = call.at or ""
        began[call.path] = min(began.get(call.path, at), at)
    calls.sort(key=lambda call: (began[call.path], call.path, call.byte_start))
    files.sort(key=lambda file: (file.at or "", file.path), reverse=True)
    for call in calls:
        while files and (files[-1].at or "") < (call.at or ""):
            yield files.pop()
        yield call
    yield from reversed(files)


class _State:
    """The to-dos after each step."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.todos: dict[Key, Todo] = {}
        self.listed: dict[str | None, set[Key]] = {}  # by agent: to-dos that lists have named

    def take_call(self, call: TodoCall) -> None:
        who = _Saying(call.agent_id, call.turn_id, call.at, TASK_CREATE)
        if call.name == TODO_WRITE:
            items = list_items(call.tool_input)
            if items is not None:
                self._list(who._replace(source=TODO_WRITE), items)
        elif call.name == TASK_CREATE:
            made = created_item(call.tool_input, call.result)
            if made is not None:
                self._set(who, made)
        else:
            changed = changed_item(call.tool_input)
            # Agents share the list of their session: the item may be the main thread's.
            for agent_id in (call.agent_id, None) if changed else ():
                if changed and (agent_id, changed.item_id, None) in self.todos:
                    self._set(who._replace(agent_id=agent_id), changed)
                    break

    def take_file(self, file: TodoFile) -> None:
        who = _Saying(file.agent_id, None, file.at, "file")
        if file.kind == TODOS:
            self._list(who, file.items)
        else:
            for item in file.items:
                self._set(who, item)

    def _list(self, who: _Saying, items: Sequence[Item]) -> None:
        """A whole list: what is unfinished and not in it has been dropped."""
        named = {self._set(who, item) for item in items}
        known = self.listed.setdefault(who.agent_id, set())
        for key in known - named:
            todo = self.todos[key]
            if todo.status not in FINISHED:
                _change(todo, who, todo.subject, todo.description, "dropped")
        known |= named

    def _set(self, who: _Saying, item: Item) -> Key:
        key = (who.agent_id, item.item_id, item.subject if item.item_id is None else None)
        by_text = (who.agent_id, None, item.subject)
        if who.source == "file" and key not in self.todos and by_text in self.todos:
            key = by_text  # calls may leave out the number
        todo = self.todos.get(key)
        if todo is None:
            self.todos[key] = Todo(
                None,
                self.session_id,
                who.agent_id,
                who.turn_id,
                item.item_id,
                item.subject,
                item.description,
                item.status or "pending",
                who.at,
                who.at,
                who.source,
            )
        else:
            _change(
                todo,
                who,
                item.subject or todo.subject,
                item.description or todo.description,
                item.status or todo.status,
            )
        return key


def _change(
    todo: Todo, who: _Saying, subject: str | None, description: str | None, status: str
) -> None:
    """The turn and the time of a to-do are those of its last change: saying it again is none."""
    if (todo.subject, todo.description, todo.status) == (subject, description, status):
        return
    todo.subject, todo.description, todo.status = subject, description, status
    todo.turn_id, todo.updated_at, todo.source = who.turn_id, who.at, who.source
