"""Names that Claude Code gives to entries, tools and ids, for the packages above.

They are compared with the columns `events.type`, `messages.subtype`, `tool_uses.name` and so on.
"""

from __future__ import annotations

# Types of entries outside the conversation: events.type.
QUEUE_OPERATION = "queue-operation"
PULL_REQUEST_LINK = "pr-link"
WORKTREE_STATE = "worktree-state"
CUSTOM_TITLE = "custom-title"
AI_TITLE = "ai-title"
FILE_SNAPSHOT = "file-history-snapshot"
FILE_SNAPSHOT_CHANGE = "file-history-delta"
# A line that wraps an entry of an agent: line_counts.type.
PROGRESS = "progress"

# What a queue operation does: events.subtype.
ENQUEUE = "enqueue"
DEQUEUE = "dequeue"
POP_ALL = "popAll"
REMOVE = "remove"

# Sorts of system entries and attachments: messages.subtype.
COMPACT_BOUNDARY = "compact_boundary"
API_ERROR = "api_error"
LOCAL_COMMAND = "local_command"
BOOKKEEPING_ENTRIES = ("turn_duration", "stop_hook_summary", "microcompact_boundary")
QUEUED_COMMAND = "queued_command"
FILE_ATTACHMENTS = ("file", "nested_memory", "edited_text_file")
FAILED_HOOKS = ("hook_blocking_error", "hook_non_blocking_error", "hook_error_during_execution")

# Tools: tool_uses.name.
AGENT = "Agent"
WORKFLOW = "Workflow"
STARTS_AGENTS = (AGENT, WORKFLOW)
BASH = "Bash"
SHELLS = (BASH, "PowerShell")
QUESTION = "AskUserQuestion"
TODO_WRITE = "TodoWrite"
TASK_CREATE = "TaskCreate"
EXIT_PLAN_MODE = "ExitPlanMode"
NOTEBOOK_EDIT = "NotebookEdit"
WRITE = "Write"
FILE_READERS = ("Read", "NotebookRead")
WEB_TOOLS = ("WebFetch", "WebSearch")
FILE_PATH_KEYS = ("file_path", "notebook_path")  # of a tool's input: the file that it is about
LIST_TOOLS = (TODO_WRITE, TASK_CREATE, "TaskUpdate", EXIT_PLAN_MODE)

# The model of replies that the client wrote itself: messages.model.
SYNTHETIC_MODEL = "<synthetic>"

# How the ids of agents begin that the client starts by itself, and what kind of agent that is.
_OWN_AGENTS = {"acompact": "compact", "aprompt_suggestion": "prompt_suggestion"}


def kind_by_prompt(prompt: str) -> str:
    """The kind of an agent by the first thing that it was asked."""
    if prompt.startswith("<teammate-message"):
        return "teammate"
    return "warmup" if prompt.strip() == "Warmup" else "task"


UNIQUE_IDS = "toolu_*"  # a pattern for GLOB


def is_unique_id(tool_use_id: str) -> bool:
    """Anthropic's own ids never repeat. Those of other providers (call_1) do."""
    return tool_use_id.startswith(("toolu_", "srvtoolu_"))


def kind_of_own_agent(agent_id: str) -> str | None:
    """The kind of an agent that the client started by itself; None for all other agents."""
    return next((kind for start, kind in _OWN_AGENTS.items() if agent_id.startswith(start)), None)
