"""Every key, block and type that ctxdb knows, and what becomes of it.

A place is a column (`messages.uuid`), DATA (the JSON in messages.data), RESULT_DATA (the JSON in
tool_uses.result_data), or `not kept:` with the reason. What is on no list here goes to
messages.extra, and the view unknown_keys shows it (extra.py).
"""

from __future__ import annotations

DATA = "messages.data"
RESULT_DATA = "tool_uses.result_data"
_ACCOUNT = "not kept: an account"
_REPEATS = "not kept: the tool_result repeats it"
_INPUT = "not kept: the call's input has it"
_COUNTED = "not kept: the result's text shows what it counts"
_SCREEN = "not kept: only says how to show the result"
_CACHING = "not kept: how the API caches it"

# Keys of user, assistant, system and attachment entries.
ENTRY: dict[str, str] = {
    "advisorModel": DATA,
    "agentId": "messages.agent_id",
    "agent_transcript_path": DATA,
    "apiBlockIndex": DATA,
    "apiErrorIsTransient": DATA,
    "apiErrorStatus": DATA,
    "attachment": "messages.subtype, messages.text and messages.data",
    "attachments": DATA,
    "attributionAgent": DATA,
    "attributionMcpServer": DATA,
    "attributionMcpTool": DATA,
    "attributionPlugin": DATA,
    "attributionSkill": DATA,
    "classifierMetaLines": DATA,
    "content": "messages.text",
    "costUSD": DATA,
    "customInstructions": DATA,
    "cwd": "messages.cwd",
    "durationMs": DATA,
    "effort": DATA,
    "entrypoint": "sessions.entrypoint",
    "error": DATA,
    "errorDetails": DATA,
    "forkedFrom": DATA,
    "gitBranch": "messages.git_branch",
    "imagePasteIds": DATA,
    "images": DATA,  # kinds and sizes
    "interruptedByShutdown": DATA,
    "interruptedMessageId": DATA,
    "isAbortedMidStream": DATA,
    "isApiErrorMessage": DATA,
    "isCompactSummary": "messages.kind",
    "isMeta": DATA,
    "isSidechain": "messages.is_sidechain",
    "isVisibleInTranscriptOnly": DATA,
    "logicalParentUuid": "messages.logical_parent_uuid",
    "mcpMeta": DATA,
    "message": "the keys of message, below",
    "modelUsage": DATA,
    "origin": DATA,
    "ownerAccountUuid": _ACCOUNT,
    "ownerOrganizationUuid": _ACCOUNT,
    "parentUuid": "messages.parent_uuid",
    "perTurnEffort": DATA,
    "permissionMode": DATA,
    "planContent": DATA,
    "promptId": DATA,
    "promptSource": DATA,
    "queuePriority": DATA,
    "queueSkipAttachments": DATA,
    "requestId": "messages.request_id",
    "serverClassifierRequest": DATA,
    "sessionId": "messages.session_id",
    "sessionKind": DATA,
    "session_id": "sessions.parent_session_id",
    "slug": "sessions.slug",
    "sourceToolAssistantUUID": "not kept: it equals parentUuid",
    "sourceToolUseID": DATA,
    "subtype": "messages.subtype",
    "supersedesUuids": DATA,
    "systemMessage": DATA,
    "thinkingMetadata": DATA,
    "timestamp": "messages.timestamp",
    "todos": DATA,
    "toolDenialKind": DATA,
    "toolEndsTurn": DATA,
    "toolUseResult": "the keys of toolUseResult, below; messages.extra without a tool_result",
    "turnCompanion": DATA,
    "turnOrigin": DATA,
    "type": "messages.type",
    "userFeedback": DATA,
    "userType": "not kept: it is always external",
    "uuid": "messages.uuid",
    "version": "messages.version",
    "wireToolInputs": "not kept: a copy of the inputs of calls",
}
# More keys of system entries.
SYSTEM: dict[str, str] = dict.fromkeys(
    (
        "cause",
        "compactMetadata",
        "fallbackModel",
        "hasOutput",
        "hookAdditionalContext",
        "hookCount",
        "hookErrors",
        "hookInfos",
        "level",
        "maxRetries",
        "messageCount",
        "microcompactMetadata",
        "originalModel",
        "pendingBackgroundAgentCount",
        "preventedContinuation",
        "retryAttempt",
        "retryInMs",
        "stopReason",
        "toolUseID",
    ),
    DATA,
)
# Keys of message.
MESSAGE: dict[str, str] = {
    "container": DATA,
    "content": "the blocks, below",
    "context_management": DATA,
    "diagnostics": DATA,
    "id": "messages.api_message_id",
    "input_transformations": DATA,
    "model": "messages.model",
    "role": "not kept: it follows from the entry's type",
    "stop_details": DATA,
    "stop_reason": "messages.stop_reason",
    "stop_sequence": DATA,
    "type": "not kept: it is always message",
    "usage": "the keys of usage, below",
}
# Keys of message.usage.
USAGE: dict[str, str] = {
    "cache_creation": "usage.cache_write_5m_tokens, usage.cache_write_1h_tokens",
    "cache_creation_input_tokens": "usage.cache_write_5m_tokens",
    "cache_read_input_tokens": "usage.cache_read_tokens",
    "fallback_credit": DATA,  # its meaning is not known: never added to anything
    "inference_geo": "usage.inference_geo",
    "input_tokens": "usage.input_tokens",
    "iterations": "usage.prompt_tokens, and rows of advisor calls",
    "output_tokens": "usage.output_tokens",
    "output_tokens_details": "usage.thinking_tokens",
    "server_tool_use": "usage.web_search_requests",
    "service_tier": "usage.service_tier",
    "speed": "usage.speed",
}
_CALL = {
    "caller": "not kept: it says that the model made the call",
    "id": "tool_uses.tool_use_id",
    "input": "tool_uses.input",
    "name": "tool_uses.name",
    "server_name": "tool_uses.mcp_server",
    "type": "messages.subtype",
}
_RESULT = {
    "cache_control": _CACHING,
    "content": "tool_uses.result_text",
    "is_error": "tool_uses.is_error",
    "tool_use_id": "tool_uses.tool_use_id",
    "type": "messages.kind",
}
_FILE = {
    "cache_control": _CACHING,
    "context": DATA,
    "source": DATA,  # kind and size
    "title": DATA,
    "type": DATA,
}
# Keys of the blocks in message.content, by the type of the block. Those of blocks inside a
# tool_result are in tool_uses.result_text, as text or as JSON.
BLOCKS: dict[str, dict[str, str]] = {
    "document": _FILE,
    "image": _FILE,
    "mcp_tool_use": _CALL,
    "redacted_thinking": {"data": "not kept: encrypted", "type": "messages.subtype"},
    "server_tool_use": _CALL,
    "text": {
        "cache_control": _CACHING,
        "citations": "not kept: the result of the search names the same pages",
        "text": "messages.text",
        "type": "messages.subtype",
    },
    "thinking": {
        "signature": "not kept: only the API can read it",
        "thinking": "messages.thinking",
        "type": "messages.subtype",
    },
    "tool_result": _RESULT,
    "tool_use": _CALL,
}
SERVER_RESULT = "_tool_result"  # how the types of results of server-side calls end
_DURATION = "tool_uses.tool_ms"
_AGENT = "agents"
# Keys of toolUseResult, by tool. A result does not name its tool: a key is known if one has it.
TOOL_RESULTS: dict[str, dict[str, str]] = {
    "Agent": {
        "agentId": _AGENT,
        "agentType": _AGENT,
        "agent_id": _AGENT,
        "agent_type": _AGENT,
        "canReadOutputFile": _SCREEN,
        "color": _SCREEN,
        "content": _REPEATS,
        "description": _INPUT,
        "isAsync": "agents.status",
        "is_splitpane": _SCREEN,
        "model": _AGENT,
        "name": _AGENT,
        "outputFile": RESULT_DATA,
        "plan_mode_required": RESULT_DATA,
        "prompt": _INPUT,
        "resolvedModel": _AGENT,
        "status": "agents.status",
        "team_name": RESULT_DATA,
        "teammate_id": _AGENT,
        "tmux_pane_id": _SCREEN,
        "tmux_session_name": _SCREEN,
        "tmux_window_name": _SCREEN,
        "toolStats": RESULT_DATA,
        "toolsUsed": RESULT_DATA,
        "totalDurationMs": _DURATION,
        "totalTokens": RESULT_DATA,  # the size of the last request: never added to anything
        "totalToolUseCount": RESULT_DATA,
        "usage": "not kept: of the agent's last request, which has its own row in usage",
    },
    "AskUserQuestion": {
        "annotations": RESULT_DATA,
        "answers": _REPEATS,
        "questions": _INPUT,
        "unanswered": RESULT_DATA,
    },
    "Bash, PowerShell": {
        "backgroundTaskId": RESULT_DATA,
        "gitOperation": "git_operations",
        "interrupted": "tool_uses.status",
        "isImage": _SCREEN,
        "noOutputExpected": _SCREEN,
        "persistedOutputPath": "tool_uses.result_path",
        "persistedOutputSize": "tool_uses.result_bytes",
        "returnCodeInterpretation": RESULT_DATA,
        "sandbox": RESULT_DATA,
        "stderr": RESULT_DATA,  # where the tool_result does not have it
        "stdout": _REPEATS,
        "timedOutAfterMs": RESULT_DATA,
    },
    "Edit, MultiEdit, Write, NotebookEdit": {
        "content": _INPUT,
        "edits": _INPUT,
        "filePath": "files_touched.path",
        "newString": _INPUT,
        "oldString": _INPUT,
        "originalFile": "not kept: the whole file before the change",
        "originalFileContents": "not kept: the whole file before the change",
        "replaceAll": _INPUT,
        "structuredPatch": "files_touched.lines_added, files_touched.lines_removed",
        "type": "files_touched.operation",
        "userModified": RESULT_DATA,  # where it is true
    },
    "ExitPlanMode, EnterPlanMode": {
        "filePath": _REPEATS,
        "isAgent": RESULT_DATA,
        "message": _REPEATS,
        "plan": _REPEATS,
    },
    "Grep, Glob, LS": {
        "appliedLimit": RESULT_DATA,
        "appliedOffset": RESULT_DATA,
        "content": _REPEATS,
        "durationMs": _DURATION,
        "filenames": _REPEATS,
        "mode": _INPUT,
        "numFiles": _COUNTED,
        "numLines": _COUNTED,
        "timedOut": RESULT_DATA,
        "truncated": RESULT_DATA,
    },
    "ListAgents": {"listing": _REPEATS},
    "LSP": {
        "fileCount": _COUNTED,
        "filePath": _INPUT,
        "operation": _INPUT,
        "result": _REPEATS,
        "resultCount": _COUNTED,
    },
    "Read": {"file": _REPEATS, "type": _SCREEN},
    "SendMessage": {
        "message": _REPEATS,
        "msg_id": RESULT_DATA,
        "routing": RESULT_DATA,
        "success": "tool_uses.status",
    },
    "Skill, SlashCommand": {"commandName": _INPUT, "success": "tool_uses.status"},
    "TaskCreate, TaskUpdate": {
        "statusChange": RESULT_DATA,
        "success": "tool_uses.status",
        "task": RESULT_DATA,
        "taskId": RESULT_DATA,
        "updatedFields": _INPUT,
    },
    "TaskOutput, TaskStop": {
        "message": _REPEATS,
        "retrieval_status": RESULT_DATA,
        "shell_id": _INPUT,
        "task": RESULT_DATA,
    },
    "TodoWrite": {"newTodos": _INPUT, "oldTodos": "not kept: the call before has it"},
    "ToolSearch": {"matches": _REPEATS, "query": _INPUT, "total_deferred_tools": _COUNTED},
    "WebFetch": {
        "bytes": RESULT_DATA,
        "code": RESULT_DATA,
        "codeText": RESULT_DATA,
        "durationMs": _DURATION,
        "result": _REPEATS,
        "url": _INPUT,
    },
    "WebSearch": {
        "durationSeconds": _DURATION,
        "query": _INPUT,
        "results": _REPEATS,
    },
    "Workflow": {
        "runId": _AGENT,
        "scriptPath": RESULT_DATA,
        "taskId": RESULT_DATA,
        "transcriptDir": RESULT_DATA,
    },
}


def in_place(keys: dict[str, str], place: str) -> frozenset[str]:
    """The keys that go to one place."""
    return frozenset(key for key, kept in keys.items() if kept == place)


# Never stored, however deep in an entry they are.
PRIVATE = in_place(ENTRY, _ACCOUNT)
