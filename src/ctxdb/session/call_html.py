"""What a tool call was given and what came of it, as HTML in the form that suits the tool.

An edit is a diff, a shell command looks like a terminal, a file that was read has its line numbers,
a to-do list is a list, a plan is Markdown. Every other tool shows its fields and its result.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ctxdb.claude.names import (
    AGENT,
    EXIT_PLAN_MODE,
    FILE_PATH_KEYS,
    FILE_READERS,
    NOTEBOOK_EDIT,
    QUESTION,
    SHELLS,
    TODO_WRITE,
    WEB_TOOLS,
    WRITE,
)
from ctxdb.claude.stored_data import json_object
from ctxdb.progress import human_bytes
from ctxdb.render.ansi import with_colours
from ctxdb.render.code import code, marked
from ctxdb.render.diff import diff
from ctxdb.render.html_text import text
from ctxdb.render.markdown import markdown, words_and_code
from ctxdb.session import captions
from ctxdb.session.call_inputs import inputs_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ctxdb.session.call_inputs import CallInput
    from ctxdb.session.conversation import Call

MOST = 4_000  # characters of a text that a page shows before it offers all of it
SHORT = 200  # characters of a value that is shown in a line
_NUMBERED = re.compile(r"\s{0,12}(?P<number>\d{1,9})(?:→|\t)(?P<line>.*)")
_ERROR_TAGS = re.compile(r"\A<tool_use_error>(?P<text>.*)</tool_use_error>\s*\Z", re.DOTALL)
_FILES = {(WRITE, "content"), (NOTEBOOK_EDIT, "new_source")}  # values that a file now holds
_TODO_MARKS = {"completed": "✓", "in_progress": "▸", "pending": "○"}
_TODO_WORDS = {"completed": "done", "in_progress": "in progress", "pending": "to do"}


def call_body(call: Call, whole: str = "") -> str:
    """The input and the result. With an address of the whole, long texts are cut and name it."""
    try:
        return "".join(_Body(call, whole).parts())
    except RecursionError:
        return f"<pre>{text(call.input or '')}</pre><pre>{text(call.result or '')}</pre>\n"


class _Body:
    def __init__(self, call: Call, whole: str) -> None:
        self.call = call
        self.whole = whole
        self.fields = json_object(call.input)
        self.file = next(
            (v for k in FILE_PATH_KEYS if isinstance(v := self.fields.get(k), str)),
            "",
        )

    def parts(self) -> Iterator[str]:
        yield from self._input()
        yield from self._result()
        for image in self.call.images:
            yield f'<p class="image">{text(image)}</p>\n'
        if self.call.result_path:
            yield f"<p>full output: <code>{text(self.call.result_path)}</code></p>\n"

    # -- input -------------------------------------------------------------------------------------

    def _input(self) -> Iterator[str]:
        name = self.call.name
        command = self.fields.get("command")
        if name in SHELLS and isinstance(command, str):
            yield from self._fields([one for one in inputs_of(self.call) if one.name != "command"])
            yield self._cut(command, _command)
        elif name == TODO_WRITE and isinstance(self.fields.get("todos"), list):
            yield _todos(self.fields["todos"])
        elif name == QUESTION and isinstance(self.fields.get("questions"), list):
            yield from map(_question, self.fields["questions"])
        else:
            yield from self._fields(inputs_of(self.call))

    def _fields(self, inputs: list[CallInput]) -> Iterator[str]:
        short = [one for one in inputs if not one.is_diff and _is_short(one)]
        if short:
            yield '<dl class="fields">'
            for one in short:
                yield f"<dt>{text(one.name)}</dt><dd><code>{text(one.text)}</code></dd>"
            yield "</dl>\n"
        for one in inputs:
            if one.is_diff:
                yield self._cut(one.text, diff)
            elif not _is_short(one):
                yield f'<p class="label">{text(one.name or "input")}</p>\n'
                yield self._cut(one.text, self._form_of(one.name))

    def _form_of(self, field: str) -> Callable[[str], str]:
        name = self.call.name
        if (name, field) in _FILES:
            return lambda value: f'<div class="written">{code(value, file_name=self.file)}</div>'
        if (name, field) == (EXIT_PLAN_MODE, "plan"):
            return lambda value: f'<div class="document">{markdown(value)}</div>'
        if (name, field) == (AGENT, "prompt"):
            return lambda value: f'<div class="prompt">{words_and_code(value)}</div>'
        return lambda value: f"<pre>{text(value)}</pre>\n"

    # -- result ------------------------------------------------------------------------------------

    def _result(self) -> Iterator[str]:
        call = self.call
        result = (call.result or "").strip("\n")
        if not result:
            return
        if found := _ERROR_TAGS.match(result):
            result = found["text"]
        if answer := captions.answer(call):
            yield f'<div class="prompt">{words_and_code(answer)}</div>\n'
            return
        if call.name == TODO_WRITE and call.status == "ok":
            return  # it only says that the list was written
        if call.name not in SHELLS:
            yield '<p class="label">result</p>\n'
        if call.status != "ok":
            yield self._cut(result, _output)
        elif call.name in (AGENT, *WEB_TOOLS):
            yield self._cut(result, lambda v: f'<div class="document">{markdown(v)}</div>')
        elif call.name in FILE_READERS:
            yield self._cut(result, lambda v: _numbered(v, self.file))
        else:
            yield self._cut(result, _output)

    # -- length ------------------------------------------------------------------------------------

    def _cut_block(self, value: str, form: Callable[[str], str]) -> str:
        return self._cut(value, form)

    def _cut(self, value: str, form: Callable[[str], str]) -> str:
        if not self.whole or len(value) <= MOST:
            return form(value)
        head, _, _ = value[:MOST].rpartition("\n")
        shown = head if len(head) > MOST // 2 else value[:MOST]
        size = human_bytes(len(value.encode(errors="replace")))
        return f'{form(shown)}<p class="more">{later(self.whole, f"Show all ({size})")}</p>\n'


def later(address: str, label: str, when: str = "click") -> str:
    """A link to a part that is not on the page; the page's script puts the part in its place."""
    return f'<a class="later" data-when="{when}" href="{text(address)}">{text(label)}</a>'


def _is_short(one: CallInput) -> bool:
    return bool(one.name) and len(one.text) <= SHORT and "\n" not in one.text


def _command(value: str) -> str:
    words = marked(value, "bash")
    return f'<pre class="terminal command"><span class="sign">$ </span>{words}</pre>\n'


def _output(value: str) -> str:
    return f'<pre class="terminal">{with_colours(value)}</pre>\n'


def _numbered(value: str, file_name: str) -> str:
    """Code behind the numbers of its lines, which the tool has put before them."""
    lines = value.split("\n")
    found: list[re.Match[str]] = []
    for line in lines:
        match = _NUMBERED.fullmatch(line)
        if match is None:
            break
        found.append(match)
    if not found:
        return _output(value)
    shown = marked("\n".join(match["line"] for match in found), file_name=file_name).split("\n")
    rows = (
        f'<span class="line-number">{text(match["number"])}</span>{line}\n'
        for match, line in zip(found, shown, strict=False)
    )
    made = f'<pre class="numbered"><code>{"".join(rows)}</code></pre>\n'
    rest = "\n".join(lines[len(found) :]).strip("\n")
    return made + (_output(rest) if rest else "")


def _todos(todos: list[Any]) -> str:
    rows = []
    for todo in todos:
        fields = todo if isinstance(todo, dict) else {"content": str(todo)}
        status = str(fields.get("status"))
        mark, word = _TODO_MARKS.get(status, "○"), _TODO_WORDS.get(status, status)
        kind = status if status in _TODO_MARKS else "pending"
        rows.append(
            f'<li class="{kind}"><span class="mark" title="{text(word)}">{mark}</span> '
            f"{text(str(fields.get('content', '')))} <small>{text(word)}</small></li>"
        )
    return f'<ul class="todos">{"".join(rows)}</ul>\n'


def _question(question: Any) -> str:
    fields = question if isinstance(question, dict) else {"question": str(question)}
    options = fields.get("options")
    rows = ""
    for option in options if isinstance(options, list) else ():
        about = option if isinstance(option, dict) else {"label": str(option)}
        label, described = str(about.get("label", "")), str(about.get("description", ""))
        rows += f"<li><b>{text(label)}</b> {text(described)}</li>"
    asked = f"<p><strong>{text(str(fields.get('question', '')))}</strong></p>\n"
    return asked + (f"<ul>{rows}</ul>\n" if rows else "")
