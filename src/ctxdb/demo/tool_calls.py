"""Tool calls and their results, in the form that Claude Code writes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctxdb.demo.transcript import Transcript

Json = dict[str, Any]

REFUSED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was"
    " a file edit, the new_string was NOT written to the file)."
)


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call and its result."""

    name: str
    input: Json
    content: str | list[Json] = ""  # what the model is told
    result: object = None  # toolUseResult: what the client keeps
    is_error: bool | None = None
    seconds: float = 1.0
    denial: str | None = None
    answered: bool = True


@dataclass(frozen=True, slots=True)
class AgentCall:
    """A call that starts a subagent. `work` is what the agent does, `answer` its last reply."""

    description: str
    prompt: str
    agent_type: str
    answer: str
    work: Callable[[Transcript], None]
    model: str


def bash(
    command: str,
    description: str,
    output: str = "",
    *,
    exit_code: int = 0,
    seconds: float = 2.0,
    git: Json | None = None,
) -> Call:
    """Run a command. If it fails, only the text has its exit code."""
    call_input = {"command": command, "description": description}
    if exit_code:
        text = f"Exit code {exit_code}\n{output}"
        return Call("Bash", call_input, text, f"Error: {text}", is_error=True, seconds=seconds)
    result: Json = {"stdout": output, "stderr": "", "interrupted": False, "isImage": False}
    if git:
        result |= {"noOutputExpected": False, "gitOperation": git}
    return Call("Bash", call_input, output, result, is_error=False, seconds=seconds)


def grep(pattern: str, path: str, hits: list[str]) -> Call:
    """Search in files; the answer is the matching lines."""
    content = "\n".join(hits) if hits else "No matches found"
    result = {
        "mode": "content",
        "numFiles": 0,
        "filenames": [],
        "content": content,
        "numLines": len(hits),
    }
    call_input = {"pattern": pattern, "path": path, "output_mode": "content", "-n": True}
    return Call("Grep", call_input, content, result, seconds=0.3)


def glob(pattern: str, names: list[str]) -> Call:
    """List files by name."""
    result = {"filenames": names, "durationMs": 12, "numFiles": len(names), "truncated": False}
    return Call("Glob", {"pattern": pattern}, "\n".join(names), result, seconds=0.2)


def mcp(server: str, tool: str, call_input: Json, answer: str) -> Call:
    """Call a tool of an MCP server; its result is a list of blocks."""
    blocks: list[Json] = [{"type": "text", "text": answer}]
    return Call(f"mcp__{server}__{tool}", call_input, blocks, blocks, seconds=1.6)


def todo_write(before: list[Json], after: list[Json]) -> Call:
    """Replace the to-do list, as versions up to 2.1.15 did."""
    text = "Todos have been modified successfully."
    return Call("TodoWrite", {"todos": after}, text, {"oldTodos": before, "newTodos": after})


def todo(content: str, status: str) -> Json:
    """One entry of a to-do list."""
    return {"content": content, "status": status, "activeForm": content}


def ask(question: str, options: list[str], answer: str) -> Call:
    """Ask the person a question, with the person's answer."""
    asked = {
        "question": question,
        "header": "Choice",
        "options": [{"label": option, "description": ""} for option in options],
        "multiSelect": False,
    }
    text = f'Your questions have been answered: "{question}"="{answer}".'
    result = {"questions": [asked], "answers": {question: answer}, "annotations": {}}
    return Call("AskUserQuestion", {"questions": [asked]}, text, result, seconds=24)


def web_fetch(url: str, prompt: str, answer: str) -> Call:
    """Read a page."""
    result = {
        "bytes": 48210,
        "code": 200,
        "codeText": "OK",
        "result": answer,
        "durationMs": 2310,
        "url": url,
    }
    return Call("WebFetch", {"url": url, "prompt": prompt}, answer, result, seconds=2.4)


def rejected(call: Call, reason: str = "", *, kind: str | None = None) -> Call:
    """The same call, refused by the person, with or without a reason."""
    said = (
        f" To tell you how to proceed, the user said:\n{reason}"
        if reason
        else (" STOP what you are doing and wait for the user to tell you how to proceed.")
    )
    text = REFUSED + said
    return replace(
        call, content=text, result=f"Error: {text}", is_error=True, seconds=9.0, denial=kind
    )


def failed(call: Call, message: str) -> Call:
    """The same call, failed with that message."""
    text = f"<tool_use_error>{message}</tool_use_error>"
    return replace(call, content=text, result=f"Error: {message}", is_error=True, seconds=0.2)


def unanswered(call: Call) -> Call:
    """The same call, whose result was never written."""
    return replace(call, answered=False)
