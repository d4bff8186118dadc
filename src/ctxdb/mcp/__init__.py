"""An MCP server on stdio: an agent asks its own history. Read-only, no network."""
