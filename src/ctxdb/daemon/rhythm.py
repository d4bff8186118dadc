"""How often the daemon looks at files in each mode, and when a storm of events begins and ends."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

STORM_EVENTS = 500  # in a second
CALM_FILES = 5  # if no more have changed between two looks, there is no storm
CALM_SECONDS = 2.0
AGAIN_SECONDS = 30.0  # a storm so soon after the last one: wait longer for calm
MAX_CALM_SECONDS = 30.0


class Rhythm(NamedTuple):
    """How often to look, in seconds."""

    hot: float  # files that changed in the last minutes
    tick: float  # files of the last day, a part of the others, folders, roots, the database
    walk: float  # everything at once: the shortest pause between two walks
    walk_most: float  # and the longest
    walk_share: float  # the share of a core that walks may take


RHYTHMS = {
    "events": Rhythm(hot=2.0, tick=30.0, walk=math.inf, walk_most=math.inf, walk_share=1.0),
    "polling": Rhythm(hot=0.5, tick=2.0, walk=2.0, walk_most=60.0, walk_share=1 / 100),
    "storm": Rhythm(hot=0.2, tick=0.5, walk=2.0, walk_most=30.0, walk_share=1 / 50),
}


@dataclass(slots=True)
class Storm:
    """Whether there are more events than can be handled."""

    is_on: bool = False
    window: float = 0.0
    count: int = 0
    busy_at: float = 0.0
    ended_at: float = float("-inf")
    calm: float = CALM_SECONDS

    def begins(self, now: float, events: int) -> bool:
        """Count events; True when a storm has just begun."""
        if now - self.window > 1.0:
            self.window, self.count = now, 0
        self.count += events
        if self.is_on or self.count < STORM_EVENTS:
            return False
        again = now - self.ended_at < AGAIN_SECONDS
        self.calm = min(self.calm * 2, MAX_CALM_SECONDS) if again else CALM_SECONDS
        self.is_on, self.busy_at = True, now
        return True

    def ends(self, now: float, changed: int) -> bool:
        """Count files that changed since the last look; True when the storm is over."""
        if changed > CALM_FILES:
            self.busy_at = now
        if not self.is_on or now - self.busy_at < self.calm:
            return False
        self.is_on, self.ended_at, self.count = False, now, 0
        return True
