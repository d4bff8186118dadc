"""One line for the status line of Claude Code: what this session, this day and this window cost."""
