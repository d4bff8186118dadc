"""Which keys of a line say what something is, and not what was said; which keys ctxdb reads."""

from __future__ import annotations

from ctxdb.claude.known_keys import BLOCKS, ENTRY, MESSAGE, SYSTEM, TOOL_RESULTS, USAGE

# Keys of entries and blocks whose values say what something is, not what was said.
STRUCTURE_KEYS = frozenset(
    (
        "agent_id", "agent_type", "agentId", "agentType", "api_message_id",
        "backupFileName", "backupTime", "entrypoint", "id", "kind", "leafUuid", "level",
        "media_type", "messageId", "messageUuid", "mode", "model", "name", "operation",
        "origin", "parentAgentId", "parentToolUseID", "parentUuid", "permissionMode",
        "promptSource", "requestId", "role", "service_tier", "session_id", "sessionId",
        "sessionKind", "signature", "slug", "source", "speed", "status", "stop_reason",
        "subagent_type", "subtype", "teammate_id", "timestamp", "tool_use_id", "toolUseID",
        "toolUseId", "type", "userType", "uuid", "version",
    )
)  # fmt: skip
# Keys that are read, of inputs of tools, events, attachments, files beside transcripts, and stored
# JSON, besides those of known_keys.py.
_ALSO_READ = frozenset(
    (
        "addedBlocks", "addedLines", "agent", "backup", "backupFileName", "backupTime", "bash_id",
        "blockingError", "branch", "bytes", "command", "commandMode", "commit", "description",
        "display", "displayPath", "edit_mode", "entries", "ephemeral_1h_input_tokens",
        "ephemeral_5m_input_tokens", "errorInText", "file_path", "filename", "hookName", "images",
        "items", "lines", "mediaType", "messageUuid", "more", "new_source", "new_string",
        "notebook_path", "number", "old_string", "originalCwd", "originalPath", "originalRepoPath",
        "parentAgentId", "pastedContents", "path", "pattern", "plan", "pr", "prNumber", "prUrl",
        "preTokens", "project", "projectPath", "prompt", "push", "query", "question",
        "queued_by_human", "replace_all", "session", "sha", "shell", "skill", "snapshot",
        "spawnDepth", "subject", "subagent_type", "summary", "task_id", "thinking_tokens",
        "todos", "toolUseId", "tool_name", "tool_result", "trackedFileBackups", "trackingPath",
        "trigger", "truncated", "url", "web_search_requests", "worktreePath", "worktreeSession",
    )
)  # fmt: skip
# Names that programs have given. Another key can hold what a person wrote, such as a path.
READ_KEYS = frozenset().union(
    STRUCTURE_KEYS, ENTRY, SYSTEM, MESSAGE, USAGE, *BLOCKS.values(), *TOOL_RESULTS.values(),
    _ALSO_READ,
)  # fmt: skip
