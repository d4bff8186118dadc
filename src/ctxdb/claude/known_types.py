"""Types of entries, system lines and attachments that ctxdb knows."""

from __future__ import annotations

# Types of entries that are stored whole in events.
EVENT_TYPES = frozenset(
    (
        "agent-name",
        "ai-title",
        "atis-latch",
        "bridge-session",
        "cost-state",
        "custom-title",
        "file-history-delta",
        "file-history-snapshot",
        "frame-link",
        "last-prompt",
        "mode",
        "permission-mode",
        "pr-link",
        "queue-operation",
        "relocated",
        "result",
        "started",
        "summary",
        "worktree-state",
    )
)
SYSTEM_SUBTYPES = frozenset(
    (
        "api_error",
        "api_refusal",
        "away_summary",
        "compact_boundary",
        "informational",
        "local_command",
        "microcompact_boundary",
        "model_refusal_fallback",
        "scheduled_task_fire",
        "session_writes_lost",
        "stop_hook_summary",
        "turn_duration",
    )
)
# Of an attachment, every key but its text is in messages.data; long texts are there as sizes.
ATTACHMENT_TYPES = frozenset(
    (
        "agent_listing_delta",
        "auto_mode",
        "batching_reminder_sent",
        "budget_usd",
        "command_permissions",
        "compact_file_reference",
        "date_change",
        "deferred_tools_delta",
        "dynamic_skill",
        "edited_text_file",
        "file",
        "goal_status",
        "hook_additional_context",
        "hook_blocking_error",
        "hook_cancelled",
        "hook_error_during_execution",
        "hook_non_blocking_error",
        "hook_success",
        "hook_system_message",
        "invoked_skills",
        "mcp_instructions_delta",
        "nested_memory",
        "plan_file_reference",
        "plan_mode",
        "plan_mode_exit",
        "plan_mode_reentry",
        "queued_command",
        "read_truncation_notice",
        "selected_lines_in_ide",
        "silent_turn_reminder",
        "skill_listing",
        "structured_output",
        "task_reminder",
        "task_status",
        "todo_reminder",
        "total_tokens_reminder",
        "ultra_effort_enter",
        "ultra_effort_exit",
        "workflow_keyword_request",
    )
)
