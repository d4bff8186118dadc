"""Giving memory back to the system after much work."""

from __future__ import annotations

import gc
from contextlib import suppress


def give_back() -> None:
    """Return what is free: the C library keeps it otherwise, and a forked process counts it too."""
    import ctypes  # 2 ms that a sync with nothing new does not need

    gc.collect()
    with suppress(AttributeError, OSError):  # glibc only; it works without
        ctypes.CDLL(None).malloc_trim(0)
