"""Which keys of a line say what something is, and not what was said."""

from __future__ import annotations

# Keys of entries and blocks whose values say what something is, not what was said.
STRUCTURE_KEYS = frozenset(
    (
        "agentId", "agentType", "api_message_id", "entrypoint", "id", "kind", "level", "leafUuid",
        "media_type", "messageId", "mode", "model", "name", "operation", "origin",
        "parentToolUseID",
        "parentUuid", "permissionMode", "promptSource", "requestId", "role", "service_tier",
        "sessionId", "session_id", "sessionKind", "signature", "source", "speed", "status",
        "stop_reason", "subtype", "timestamp", "toolUseID", "tool_use_id", "type", "userType",
        "uuid", "version",
    )
)  # fmt: skip
