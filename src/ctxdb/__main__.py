"""``python -m ctxdb`` is the same as ``ctxdb``."""

from __future__ import annotations

from ctxdb.cli.main import main

if __name__ == "__main__":
    main()
