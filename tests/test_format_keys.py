"""Only `claude/` knows how Claude Code writes its transcripts; no other module spells its keys."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import ctxdb

SOURCE = Path(ctxdb.__file__).parent
MAY_SPELL = ("claude", "demo")  # demo writes transcripts

# Keys, types, tools, ids and tags that only the format has. Words that the database uses for its
# own columns and values (session_id, tool_use_id, prompt, a message's type) are not in this list.
KEYS = frozenset(
    [
        "parentUuid",
        "isSidechain",
        "sessionId",
        "agentId",
        "gitBranch",
        "requestId",
        "toolUseResult",
        "userType",
        "isMeta",
        "isCompactSummary",
        "isApiErrorMessage",
        "parentToolUseID",
        "promptSource",
        "toolDenialKind",
        "sessionKind",
        "forkedFrom",
        "messageUuid",
        "leafUuid",
        "customTitle",
        "aiTitle",
        "prNumber",
        "prUrl",
        "worktreeSession",
        "worktreePath",
        "originalCwd",
        "originalPath",
        "compactMetadata",
        "preTokens",
        "retryAttempt",
        "maxRetries",
        "displayPath",
        "structuredPatch",
        "filePath",
        "originalFile",
        "persistedOutputPath",
        "backgroundTaskId",
        "gitOperation",
        "durationMs",
        "totalDurationMs",
        "trackedFileBackups",
        "backupTime",
        "trackingPath",
        "commandMode",
        "agentType",
        "subagent_type",
        "old_string",
        "new_string",
        "replace_all",
        "notebook_path",
        "cache_creation_input_tokens",
        "cache_read_input_tokens",
        "ephemeral_1h_input_tokens",
        "stop_sequence",
        "media_type",
        "costUSD",
        "queue-operation",
        "popAll",
        "enqueue",
        "dequeue",
        "pr-link",
        "worktree-state",
        "custom-title",
        "ai-title",
        "file-history-snapshot",
        "file-history-delta",
        "agent_progress",
        "queued_command",
        "compact_boundary",
        "redacted_thinking",
        "server_tool_use",
        "web_search_tool_result",
        "AskUserQuestion",
        "MultiEdit",
        "NotebookEdit",
        "PowerShell",
        "WebFetch",
        "WebSearch",
        "TodoWrite",
        "TaskCreate",
        "ExitPlanMode",
        "<synthetic>",
        "toolu_",
        "srvtoolu_",
        "acompact",
        "aprompt_suggestion",
        "command-name",
        "local-command-stdout",
        "local-command-caveat",
        "bash-input",
        "task-notification",
        "teammate-message",
        "meta.json",
        "sessions-index.json",
    ]
)
# A name of a tool or key is a whole word in a text such as a SQL statement.
_KEY = re.compile(
    rf"(?<![\w-])(?:{'|'.join(map(re.escape, sorted(KEYS, reverse=True)))})(?![a-z-])"
)
_TOOL_IN_SQL = re.compile(r"'(?:Agent|Workflow|Bash|Edit|Write|Read)'")


def spelt_in(source: str) -> list[tuple[int, str]]:
    """The lines of a module, and the keys in its texts. Docstrings and comments may name them."""
    nodes = list(ast.walk(ast.parse(source)))
    docstrings = {
        id(node.body[0].value)
        for node in nodes
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and isinstance(node.body[0], ast.Expr)
    }
    return [
        (node.lineno, found.group())
        for node in nodes
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in docstrings
        for pattern in (_KEY, _TOOL_IN_SQL)
        for found in pattern.finditer(node.value)
    ]


def test_no_module_outside_claude_spells_a_key_of_the_format() -> None:
    found = {
        str(path.relative_to(SOURCE)): keys
        for path in sorted(SOURCE.rglob("*.py"))
        if path.relative_to(SOURCE).parts[0] not in MAY_SPELL
        and (keys := spelt_in(path.read_text(encoding="utf-8")))
    }
    wrong = [
        f"{name}:{line} spells {key}: read it with a function of claude/"
        for name, keys in found.items()
        for line, key in keys
    ]
    assert not wrong, "\n" + "\n".join(wrong)


@pytest.mark.parametrize(
    ("source", "keys"),
    [
        pytest.param('entry["parentUuid"]', ["parentUuid"], id="a key"),
        pytest.param("sql = \"name = 'Agent'\"", ["'Agent'"], id="a tool in SQL"),
        pytest.param("\"json_extract(data, '$.aiTitle')\"", [], id="a docstring"),
        pytest.param("x = \"json_extract(data, '$.aiTitle')\"", ["aiTitle"], id="a path in SQL"),
        pytest.param('x = "the agent_id of a prompt"', [], id="words of the database"),
    ],
)
def test_keys_are_found_in_code_and_in_sql(source: str, keys: list[str]) -> None:
    assert [key for _, key in spelt_in(source)] == keys
