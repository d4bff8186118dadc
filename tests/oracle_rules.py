"""What one transcript entry means, written from the format notes and the contract alone.

Part of the oracle (see ``oracle.py``): pure functions of one line, one entry or one tool call.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    pass

Json = dict[str, Any]

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
THREADED = ("user", "assistant", "system", "attachment")
TODAYS_NAME = {
    "View": "Read",
    "LSTool": "LS",
    "Task": "Agent",
    "BashOutput": "TaskOutput",
    "KillBash": "TaskStop",
    "KillShell": "TaskStop",
}
REJECTED = (
    "The user doesn't want to",
    "Permission for this action was denied",
    "Claude requested permissions",
    "User chose to stay in plan mode",
    "User rejected tool use",
)
INTERRUPTED = ("[Request interrupted", "Permission prompt was aborted")
INTERRUPTION = "[Request interrupted by user"
COMMAND_OUTPUT = ("<local-command-stdout", "<local-command-stderr", "<bash-stdout", "<bash-stderr")
NOTIFICATION = (
    "<task-notification",
    "<agent-notification",
    "<teammate-message",
    "<agent-message",
    "Another Claude session sent a message",
)
META_TEXT = ("<local-command-caveat", "<system-reminder")
MACHINE_TEXT = (*COMMAND_OUTPUT, *NOTIFICATION, *META_TEXT)
COMMAND = ("<command-name>", "<command-message>")
IDE_BLOCK = re.compile(r"<(ide_\w+)>.*?</\1>", re.DOTALL)
MAX_COUNTER = 2_000_000  # docs/accounting.md R0


# -- lines -----------------------------------------------------------------------------------------


def parse_line(data: bytes) -> list[tuple[int, int, Json]] | str | None:
    """Objects of a line with their place in it; a reason if it is bad; None if it is blank."""
    if not data.strip():
        return None
    start = len(data) - len(data.lstrip(b"\0 \t\r\xef\xbb\xbf"))
    text = data.strip(b"\0 \t\r\xef\xbb\xbf").decode("utf-8", "replace")
    if not text:
        return "nothing but padding"
    found: list[tuple[int, int, Json]] = []
    at = 0
    while at < len(text):
        try:
            value, end = json.JSONDecoder().raw_decode(text, at)
        except (ValueError, RecursionError):
            return "not JSON"
        if not isinstance(value, dict):
            return "not an object"
        before, within = text[:at].encode(), text[at:end].encode()
        found.append((start + len(before), len(within), clean(value)))
        at = end
    return found


def clean(value: Any) -> Any:
    """The same value with lone surrogates replaced, as no database can hold them."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [clean(item) for item in value]
    if isinstance(value, dict):
        return {clean(key): clean(item) for key, item in value.items()}
    return value


# -- content ---------------------------------------------------------------------------------------


def as_dict(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def as_text(value: Any) -> str | None:
    """A string that says something, else None."""
    return value if isinstance(value, str) and value else None


def blocks_of(content: Any) -> list[Json]:
    """Content blocks, a bare string being one text block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [b for b in content if isinstance(b, dict)] if isinstance(content, list) else []


def entry_blocks(entry: Json) -> list[Json]:
    return blocks_of(as_dict(entry.get("message")).get("content"))


def texts(blocks: list[Json]) -> list[str]:
    return [t for b in blocks if b.get("type") == "text" and (t := as_text(b.get("text")))]


def signature(entry: Json) -> frozenset[tuple[str, str]]:
    """Blocks as the rule of copies compares them: calls and results by id, the rest by value."""
    marks = set()
    for block in entry_blocks(entry):
        kind = str(block.get("type"))
        if kind == "tool_use":
            marks.add((kind, str(block.get("id"))))
        elif kind == "tool_result":
            marks.add((kind, str(block.get("tool_use_id"))))
        elif kind == "text":
            marks.add((kind, str(block.get("text"))))
        else:
            marks.add((kind, json.dumps(block, sort_keys=True)))
    return frozenset(marks)


def message_text(entry: Json) -> str | None:
    """messages.text: what the line says, tool results left out."""
    kind = entry.get("type")
    if kind == "system":
        errors = entry.get("hookErrors")  # so that search finds what hooks said
        said = [e for e in errors if as_text(e)] if isinstance(errors, list) else []
        return as_text(entry.get("content")) or "\n".join(said) or None
    if kind == "attachment":
        attachment = as_dict(entry.get("attachment"))
        if attachment.get("type") == "queued_command":
            return "\n\n".join(texts(blocks_of(attachment.get("prompt")))) or None
        if attachment.get("type") == "nested_memory":
            return as_text(as_dict(attachment.get("content")).get("content"))
        return None  # hook errors and files: see the comparison, which asks only for the two above
    return "\n\n".join(texts(entry_blocks(entry))) or None


def assistant_subtype(entry: Json) -> str | None:
    kinds = {str(b.get("type")) for b in entry_blocks(entry)}
    if len(kinds) > 1:
        return "mixed"
    only = next(iter(kinds), None)
    if only == "redacted_thinking":
        return "thinking"
    if only and only.endswith("_tool_result"):
        return "server_tool_use"
    return only if only in ("text", "thinking", "tool_use", "server_tool_use") else None


# -- people ----------------------------------------------------------------------------------------


def user_kind(entry: Json) -> str:
    """messages.kind of a user line, whoever's thread it is in (agent_prompt is decided outside)."""
    blocks = entry_blocks(entry)
    said = [t.lstrip() for t in texts(blocks)]
    said = [t for t in said if not t.startswith(META_TEXT)] or said
    lead = said[0] if said else ""
    tests = (
        ("tool_result", any(b.get("type") == "tool_result" for b in blocks)),
        ("tool_result", "toolUseResult" in entry),  # its block is missing
        ("meta", entry.get("isMeta")),
        ("compact_summary", entry.get("isCompactSummary")),
        ("plan", as_text(entry.get("planContent"))),
        ("notification", by_machine(entry)),
        ("command", lead.startswith(COMMAND)),
        ("shell", lead.startswith("<bash-input>")),
        ("command_output", lead.startswith(COMMAND_OUTPUT)),
        ("notification", lead.startswith(NOTIFICATION)),
        ("meta", lead.startswith(META_TEXT)),
        ("interruption", lead.startswith(INTERRUPTION)),
        ("meta", said and human_words(blocks) is None),  # the IDE's words alone
    )
    return next((kind for kind, true in tests if true), "human")


def by_machine(entry: Json) -> bool:
    origin = as_dict(entry.get("origin")).get("kind")
    return (origin is not None and origin != "human") or entry.get("promptSource") == "system"


def tagged(text: str, tag: str) -> str:
    found = re.search(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
    return found[1].strip() if found else ""


def human_words(blocks: list[Json]) -> tuple[str, str] | None:
    """What a person said in these blocks: ('shell' | 'command' | '', words), or None."""
    parts = []
    for block in blocks:
        if block.get("type") in ("image", "document"):
            parts.append(f"[{block['type']}]")
        if block.get("type") != "text" or not as_text(block.get("text")):
            continue
        text = block["text"].strip()
        if text.startswith("<bash-input>"):
            return "shell", tagged(text, "bash-input")
        if text.startswith(COMMAND):
            name = tagged(text, "command-name") or tagged(text, "command-message")
            return "command", f"/{name.lstrip('/')} {tagged(text, 'command-args')}".strip()
        if text.startswith(MACHINE_TEXT) or text.startswith(INTERRUPTION):
            continue
        if left := IDE_BLOCK.sub("", text).strip():
            parts.append(left)
    return ("", "\n\n".join(parts)) if parts else None


def turn_of_user_line(entry: Json) -> tuple[str, str] | None:
    """(kind, prompt) if this main-thread user line is a turn."""
    blocks = entry_blocks(entry)
    if any(b.get("type") == "tool_result" for b in blocks):
        words = human_words([b for b in blocks if b.get("type") == "text"])
        return ("queued", words[1]) if words and words[1] else None
    if "toolUseResult" in entry or entry.get("isMeta") or entry.get("isCompactSummary"):
        return None
    if plan := as_text(entry.get("planContent")):
        return "plan", plan.strip()
    if by_machine(entry):
        return None
    words = human_words(blocks)
    if not words or not words[1]:
        return None
    source = entry.get("promptSource")
    return words[0] or (source if source in ("queued", "sdk") else "prompt"), words[1]


def turn_of_local_command(entry: Json) -> tuple[str, str] | None:
    """(kind, prompt) if this system line holds a slash command that a person typed."""
    content = as_text(entry.get("content")) or ""
    if entry.get("subtype") != "local_command" or not content.lstrip().startswith(COMMAND):
        return None
    words = human_words(blocks_of(content))
    return words if words and words[1] else None


def turn_of_queued_text(content: Any) -> tuple[str, str] | None:
    words = human_words(blocks_of(content))
    if not words or not words[1]:
        return None
    return words[0] or ("command" if words[1].startswith("/") else "queued"), words[1]


# -- tools -----------------------------------------------------------------------------------------


def result_text(block: Json) -> str:
    return "\n".join(texts(blocks_of(block.get("content"))))


def folded(text: Any) -> str:
    """The words of a text on one line."""
    return " ".join(text.split()) if isinstance(text, str) else ""


def heading(plan: str) -> str:
    """The first heading of a plan; without one, its first line."""
    lines = [line.strip() for line in plan.splitlines() if line.strip()]
    marked = [line for line in lines if re.match(r"#{1,6}\s+\S", line)]
    first = (marked or lines or [""])[0]
    return folded(re.sub(r"^#{1,6}\s+|\s+#+$", "", first))


def one_line_target(name: str | None, call: Json) -> str | None:
    """What a person would look for, in one line; None for a tool that is not in this list."""
    if name == "ExitPlanMode":
        return heading(as_text(call.get("plan")) or "") or None
    keys = {
        "Bash": "command",
        "PowerShell": "command",
        "Read": "file_path",
        "Write": "file_path",
        "Edit": "file_path",
        "MultiEdit": "file_path",
        "NotebookEdit": "notebook_path",
        "Grep": "pattern",
        "Glob": "pattern",
        "WebFetch": "url",
        "WebSearch": "query",
        "Agent": "description",
        "TaskCreate": "subject",
    }
    return folded(call.get(keys.get(name or "", ""))) or None


def tool_status(block: Json | None, line: Json, extra: Any) -> str:
    """Status of a call by its result block, the line it stands in and that line's toolUseResult."""
    if block is None:
        return "pending"
    said = [result_text(block).lstrip()]
    if isinstance(extra, str):
        said.append(extra.removeprefix("Error: "))
    if line.get("toolDenialKind") or any(t.startswith(REJECTED) for t in said):
        return "rejected"
    if as_dict(extra).get("interrupted") is True or any(t.startswith(INTERRUPTED) for t in said):
        return "interrupted"
    return "error" if block.get("is_error") is True else "ok"


def exit_code(name: str, status: str, block: Json | None, extra: Any) -> int | None:
    if block is not None and (found := re.match(r"Exit code (\d+)", result_text(block))):
        return int(found[1])
    extra = as_dict(extra)
    if name == "Bash" and status == "ok":
        return None if extra.get("backgroundTaskId") or extra.get("returnCodeInterpretation") else 0
    return None


def lines_in(text: Any) -> list[str]:
    """Lines of a text; a final newline ends the last line and begins no other."""
    if not isinstance(text, str) or not text:
        return []
    return text.removesuffix("\n").split("\n")


def line_diff(old: Any, new: Any) -> tuple[int, int]:
    """(added, removed) of the smallest line diff, by the longest common subsequence."""
    a, b = lines_in(old), lines_in(new)
    row = [0] * (len(b) + 1)
    for left in a:
        before = row
        row = [0]
        for i, right in enumerate(b):
            row.append(before[i] + 1 if left == right else max(before[i + 1], row[i]))
    return len(b) - row[-1], len(a) - row[-1]


def file_touch(name: str, call: Json, status: str, block: Json | None, extra: Any) -> Json | None:
    """The files_touched row of a call to a file tool, None for other tools."""
    operation = {
        "Read": "read",
        "NotebookRead": "read",
        "Write": "write",
        "Edit": "edit",
        "MultiEdit": "edit",
        "NotebookEdit": "notebook_edit",
    }.get(name)
    path = as_text(call.get("file_path")) or as_text(call.get("notebook_path"))
    if operation is None or path is None:
        return None
    extra = as_dict(extra)
    if operation == "write" and status == "ok":
        said = result_text(block) if block else ""
        if extra.get("type") == "create" or (not extra and said.startswith("File created")):
            operation = "create"
    row: Json = {"path": path, "operation": operation, "added": None, "removed": None}
    row["succeeded"] = None if status == "pending" else status == "ok"
    if status not in ("ok", "pending"):
        row["added"] = row["removed"] = 0
    elif status == "ok" and operation != "read":
        row["added"], row["removed"] = changed_lines(operation, call, extra)
    return row


def changed_lines(operation: str, call: Json, extra: Json) -> tuple[int | None, int | None]:
    if operation == "create":
        return len(lines_in(call.get("content"))), 0
    patch = extra.get("structuredPatch")
    if isinstance(patch, list):
        lines = [str(line) for hunk in patch for line in as_dict(hunk).get("lines") or []]
        added = sum(line.startswith("+") for line in lines)
        return added, sum(line.startswith("-") for line in lines)
    if operation == "write":
        old = extra.get("originalFile")
        return line_diff(old, call.get("content")) if isinstance(old, str) else (None, None)
    edits = call["edits"] if isinstance(call.get("edits"), list) else [call]
    if operation == "edit":
        each = [line_diff(e.get("old_string"), e.get("new_string")) for e in map(as_dict, edits)]
        return sum(a for a, _ in each), sum(r for _, r in each)
    return None, None


# -- usage -----------------------------------------------------------------------------------------


def counter(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        return 0
    return min(max(value, 0), MAX_COUNTER)


def token_counts(usage: Json) -> Json:
    """Counters of a usage object or of one of its iterations: docs/accounting.md R0 and R6."""
    split = as_dict(usage.get("cache_creation"))
    five = counter(split.get("ephemeral_5m_input_tokens"))
    hour = counter(split.get("ephemeral_1h_input_tokens"))
    total = max(counter(usage.get("cache_creation_input_tokens")), five + hour)
    hour = min(hour, total)
    return {
        "input_tokens": counter(usage.get("input_tokens")),
        "output_tokens": counter(usage.get("output_tokens")),
        "cache_write_5m_tokens": total - hour,
        "cache_write_1h_tokens": hour,
        "cache_read_tokens": counter(usage.get("cache_read_input_tokens")),
    }


def prompt_size(counts: Json) -> int:
    return sum(v for k, v in counts.items() if k != "output_tokens")


def iterations(usage: Json, kind: str) -> list[Json]:
    each = usage.get("iterations")
    return [i for i in each if as_dict(i).get("type") == kind] if isinstance(each, list) else []


def largest_prompt(usage: Json) -> int:
    """Prompt size of the largest single call: docs/accounting.md R7."""
    calls = iterations(usage, "message") or [usage]
    return max(prompt_size(token_counts(call)) for call in calls)
