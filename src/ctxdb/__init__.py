"""Claude Code transcripts in one SQLite database.

The database is the product: its tables and views are the public interface. From Python,
`ctxdb.open` gives the same answers as the command line (ctxdb/api.py). Everything else in this
package may change in any release.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing alone would take 10 ms of every command
if TYPE_CHECKING:
    from ctxdb.api import Database, Rows
    from ctxdb.api import open_database as open  # noqa: A004

__version__ = "0.2.0"
__all__ = ["Database", "Rows", "__version__", "open"]

_IN_API = {"Database": "Database", "Rows": "Rows", "open": "open_database"}


def __getattr__(name: str) -> object:
    """Import the Python interface when it is first used: `import ctxdb` alone costs nothing."""
    if name not in _IN_API:
        raise AttributeError(f"module 'ctxdb' has no attribute {name!r}")
    from ctxdb import api

    return getattr(api, _IN_API[name])
