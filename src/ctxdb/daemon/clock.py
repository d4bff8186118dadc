"""Notice that the machine slept: files may have changed without an event."""

from __future__ import annotations

import time

SLEPT_SECONDS = 2.0


def _since_boot() -> float:
    """Seconds since boot, with the time that the machine slept."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.time() if clock is None else time.clock_gettime(clock)


class Clock:
    """Compares a clock that stops in suspend with one that does not."""

    def __init__(self) -> None:
        self._apart = self._difference()

    def _difference(self) -> float:
        return _since_boot() - time.monotonic()

    def slept(self) -> bool:
        """True when the machine was suspended (or its clock set) since the last call."""
        before, self._apart = self._apart, self._difference()
        return abs(self._apart - before) > SLEPT_SECONDS
