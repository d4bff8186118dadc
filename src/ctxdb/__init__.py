"""Claude Code transcripts in one SQLite database.

The database is the product: its tables and views are the public interface. This package fills it,
and its functions may change in any release.
"""

from __future__ import annotations

__version__ = "0.1.0"
