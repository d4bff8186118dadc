"""The demo's database, made once for all tests of a process."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

from ctxdb.config import Config
from ctxdb.demo import write_demo
from ctxdb.ingest.sync import sync
from ctxdb.progress import NullProgress


@cache
def demo_folder() -> Path:
    """A folder with projects/ and demo.db. Copy what you change."""
    folder = Path(tempfile.mkdtemp(prefix="ctxdb-demo-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    write_demo(folder / "projects")
    sync(Config(folder / "demo.db", (str(folder / "projects"),)), progress=NullProgress())
    return folder
