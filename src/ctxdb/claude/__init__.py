"""Everything specific to Claude Code: folders, entries, blocks, tools, side files. Pure."""

from __future__ import annotations

from ctxdb.claude.entries import read_entry

__all__ = ["read_entry"]
