"""Real transcripts, where there are some: an archive beside the checkout, or wherever
CTXDB_TEST_CORPUS says. Without it, what needs it is skipped.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_BESIDE = Path(__file__).resolve().parents[2] / "shared/corpus/transcripts.tar.gz"
CORPUS = Path(os.environ.get("CTXDB_TEST_CORPUS") or _BESIDE)
HAS_CORPUS = pytest.mark.skipif(not CORPUS.is_file(), reason=f"no corpus at {CORPUS}")
