"""Keep what was worked out for a page for as long as the database does not change.

A page that is left open, and the next page with the same filters, then cost next to nothing. Any
write to the database ends it, also an edited price: SQLite counts the changes (`data_version`).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

MOST = 100  # answers
MOST_ROWS = 5_000  # of an answer; a longer one is worked out each time


class Remembered:
    """Answers, and the version of the database that they are of. Any thread may ask."""

    def __init__(self, version: Callable[[], Hashable]) -> None:
        self._version = version
        self._lock = threading.Lock()
        self._answers: OrderedDict[Hashable, tuple[Hashable, Any]] = OrderedDict()

    def answer(self, key: Hashable, work: Callable[[], Any]) -> Any:
        """What `work` returns, or what it returned when the database was the same.

        The version is read before the work. If the database changes meanwhile, the answer counts
        as older than it is, and is worked out again. Callers must not change what they get.
        """
        version = self._version()
        with self._lock:
            known = self._answers.get(key)
            if known is not None:
                of_version, answer = known
                if of_version == version:
                    self._answers.move_to_end(key)
                    return answer
        answer = work()
        if not isinstance(answer, list) or len(answer) <= MOST_ROWS:
            with self._lock:
                self._answers[key] = version, answer
                self._answers.move_to_end(key)
                while len(self._answers) > MOST:
                    self._answers.popitem(last=False)
        return answer
