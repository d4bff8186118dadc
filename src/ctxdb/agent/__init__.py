"""What Claude Code gets from `ctxdb agent install`: a skill, the MCP server and a status line."""
