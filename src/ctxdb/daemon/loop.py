"""The loop: wait for a hint or a timer, look at files, and do a slice.

There are three modes, by how far the events can be trusted:

- events: hints come within milliseconds. Looking by stat, a part of the files at a time, finds what
  events have missed.
- polling: there are no events (limit reached, network file system, watcher failed). Changes are
  found only by looking.
- storm: there are so many events that handling them costs more than looking. The watcher is off
  until it is calm.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from ctxdb.daemon.clock import Clock
from ctxdb.daemon.hints import Hints, Taken
from ctxdb.daemon.intake import Intake
from ctxdb.daemon.logs import Log
from ctxdb.daemon.rescan import Rescan
from ctxdb.daemon.rhythm import RHYTHMS, Storm
from ctxdb.daemon.watch import Watcher
from ctxdb.daemon_health import Health
from ctxdb.files.walk import FoundFile

COALESCE_SECONDS = 0.005  # a line is often written in several pieces
CHECKPOINT_SECONDS = 5.0  # after the last write
MOST_CHECKPOINT_SECONDS = 30.0  # after the first one, while lines keep coming
REARM_SECONDS = 300.0  # how often to try for events again where there were none
OVERFLOW_SECONDS = 30.0  # after lost events, look at everything once more
MAX_REARM_WAIT_SECONDS = 60.0
GAP_SECONDS = 2.0  # for the watcher to notice a new folder, also on a busy machine


class Loop:
    """Everything that happens in the daemon's own thread."""

    def __init__(
        self,
        watcher: Watcher,
        hints: Hints,
        rescan: Rescan,
        intake: Intake,
        *,
        clock: Clock | None = None,
    ) -> None:
        self.watcher = watcher
        self.hints = hints
        self.rescan = rescan
        self.intake = intake
        self.health: Health = intake.health
        self.log: Log = intake.log
        self.clock = clock or Clock()
        self.storm = Storm()
        self.mode = ""
        self.failure: str | None = None  # what ended the watcher
        self.gaps = 0  # checks in a row that found fewer folders watched than there are
        self.gap_until = 0.0  # until then the last gap may still close
        self.walk_cost = 0.0
        self.walked_at = 0.0
        now = time.monotonic()
        self.walk_at = now
        self.tick_at = now
        self.hot_at = now
        self.look_again_at: float | None = None
        self.rearm_at: float | None = None
        self.rearm_wait = 1.0
        self.armed_at = now

    # -- one round -----------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to watch."""
        self.watcher.arm()
        self._choose_mode(time.monotonic())

    def once(self, most: float) -> None:
        """Wait for something to do, at most `most` seconds, and do it."""
        if self.hints.wakeup.wait(min(self._until_next(), most)) and not self.storm.is_on:
            time.sleep(COALESCE_SECONDS)
        now = time.monotonic()
        self._heed(self.hints.take(), now)
        self._look(now)
        if self.intake.has_work and now >= self.intake.retry_at:
            self.intake.archiver.stop_sealing()
            self.intake.step()
        if self._is_free(now) and self.intake.beside.is_due(now):
            self.intake.read_beside()
        if self._is_free(now) and self.intake.archiver.is_due(now):
            self.intake.add_to_archive()
        if self._is_free(now) and self.intake.archiver.is_idle(now):
            self.intake.tidy_archive()
        if now > self._checkpoint_at():
            self.intake.checkpoint()
        if self.intake.wants_walk and not self.intake.trouble:
            self.intake.wants_walk = False
            self.walk_at = now

    def _is_free(self, now: float) -> bool:
        """Whether no line of a transcript waits: they come first."""
        intake = self.intake
        return not intake.has_work and intake.has_looked and now >= intake.retry_at

    def _until_next(self) -> float:
        now = time.monotonic()
        if self.intake.has_work and self.intake.retry_at <= now:
            return 0.0
        times = [self.tick_at]
        if self.intake.database.is_open:
            times.append(self.walk_at)
        if self.rescan.hot:
            times.append(self.hot_at)
        if self.intake.retry_at > now:
            times.append(self.intake.retry_at)
        elif self.intake.has_looked:
            if self.intake.beside.is_wanted:
                times.append(self.intake.beside.not_before)
            times.append(self.intake.archiver.next_at)
        if self.rearm_at is not None:
            times.append(self.rearm_at)
        times += [self.intake.retry_file_at, self._checkpoint_at()]
        return max(min(times) - now, 0.0)

    def _checkpoint_at(self) -> float:
        wrote_at, since = self.intake.wrote_at, self.intake.unsaved_since
        if wrote_at is None or since is None:
            return math.inf
        return min(wrote_at + CHECKPOINT_SECONDS, since + MOST_CHECKPOINT_SECONDS)

    def rescan_now(self) -> None:
        """Look at everything in the next round, and try for events again."""
        self.walk_at = time.monotonic()
        self.intake.retry_all_files()
        if self.mode == "polling":
            self.rearm_at = self.walk_at

    # -- hints ---------------------------------------------------------------------------------

    def _heed(self, taken: Taken, now: float) -> None:
        self.health.events += taken.events
        if taken.overflowed:
            self.health.overflows += 1
            self.log.trouble("overflow", "events were lost; looking at everything")
            self.walk_at = now
            self.look_again_at = now + OVERFLOW_SECONDS
        if taken.failure is not None:
            self._watcher_failed(taken.failure, now)
        if taken.files:
            since = min(taken.files.values())
            self.intake.queue.add(self.rescan.look_at_paths(taken.files), since)
        if taken.folders:
            self._queue(self.rescan.look_below(taken.folders), now)
        roots = set(self.watcher.roots)
        if not roots.isdisjoint(taken.folders | taken.gone):
            self._check_roots(now)
        if taken.gone:
            self._walk_soon(now)
        if self.storm.begins(now, taken.events):
            self.health.storms += 1
            self.log.trouble("storm", "very many changes: looking at files instead of events")
            self.watcher.disarm()
            self._choose_mode(now)

    def _queue(self, files: Sequence[FoundFile], now: float) -> None:
        self.intake.queue.add(files, now)

    def _walk_soon(self, now: float) -> None:
        """Something is gone, and only a walk can say what: walk soon, but not all the time."""
        self.walk_at = min(self.walk_at, max(now + 0.1, self.walked_at + 50 * self.walk_cost))

    # -- looking -------------------------------------------------------------------------------

    def _look(self, now: float) -> None:
        rhythm = RHYTHMS[self.mode]
        if now >= self.hot_at:
            self.hot_at = now + rhythm.hot
            changed = self.rescan.look_at_hot()
            self.intake.beside.look()
            self._queue(changed, now)
            if self.storm.ends(now, len(changed)):
                self._arm(now)
        if now >= self.intake.retry_file_at:
            self.intake.retry_files(now)
        if self.rearm_at is not None and now >= self.rearm_at:
            self._arm(now)
        if now >= self.tick_at:
            self.tick_at = now + rhythm.tick
            self._tick(now)
        if self.rescan.needs_walk or self.intake.is_doubtful:
            self._walk_soon(now)
        if now >= self.walk_at and self.intake.database.is_open:
            self._walk(now)
        self.health.files, self.health.folders = len(self.rescan.seen), len(self.rescan.folders)
        self.health.unreadable = sorted(self.rescan.unreadable)

    def _tick(self, now: float) -> None:
        if self.clock.slept():
            self.log.say("the machine slept; looking at everything")
            self.walk_at = now
        self.intake.check()
        self.intake.beside.is_wanted = True
        self._queue(self.rescan.look_at_warm(), now)
        if self.mode == "events":
            self._queue(self.rescan.look_at_part(), now)
            self.health.rescans += self.rescan.has_round_ended
            if not self.watcher.is_alive:
                self._watcher_failed("a watching thread has ended", now)
        self._check_roots(now)
        if self.mode == "events":
            self._check_coverage(now)

    def _check_roots(self, now: float) -> None:
        if not self.storm.is_on and self.watcher.check_roots():
            self.health.rearms += 1
            self.walk_at = now
            self._choose_mode(now)

    def _walk(self, now: float) -> None:
        known = None
        if self.intake.must_compare_all:
            known = self.intake.known_stats()
            if known is None:
                self.walk_at = self.intake.retry_at
                return
        found = self.rescan.walk(known)
        self.health.rescans += 1
        self.walk_cost, self.walked_at = self.rescan.walk_seconds, now
        rhythm = RHYTHMS[self.mode]
        pause = min(max(self.walk_cost / rhythm.walk_share, rhythm.walk), rhythm.walk_most)
        self.walk_at = now + pause
        if self.look_again_at is not None:
            if now < self.look_again_at:
                self.walk_at = min(self.walk_at, self.look_again_at)
            else:
                self.look_again_at = None
        self.health.missing_roots = found.missing_roots
        if found.gone or known is not None:
            self.intake.found = found
            self.intake.is_doubtful = False
        else:
            self._queue(found.files, now)
        if self.mode == "events":
            self._check_coverage(now)

    def _check_coverage(self, now: float) -> None:
        count = self.watcher.count()
        self.health.watches = count or 0
        unreadable = self.rescan.unreadable  # and so not watched
        folders = (path for path in self.rescan.folders if path not in unreadable)
        if count is None or not self.watcher.has_gaps(folders, count):
            self.gaps = 0
            return
        if self.gaps == 0 or now >= self.gap_until:
            self.gaps += 1
            self.gap_until = now + GAP_SECONDS
            if self.gaps == 2:  # perhaps a folder that can be read only now: watch again
                self._arm(now)
            elif self.gaps > 2:
                self.watcher.note_gaps()
                self._choose_mode(now)
                return
        # Perhaps a folder that was just made: look again.
        self.walk_at = min(self.walk_at, self.gap_until)

    # -- modes ---------------------------------------------------------------------------------

    def _arm(self, now: float) -> None:
        self.watcher.disarm()
        self.watcher.arm()
        self.failure = None
        self.rearm_at = None
        self.health.rearms += 1
        self.armed_at = self.walk_at = now  # a walk finds what happened in between
        self._choose_mode(now)

    def _watcher_failed(self, reason: str, now: float) -> None:
        if self.storm.is_on or self.watcher.observer is None:
            return
        self.watcher.disarm()
        self.failure = reason
        self.rearm_wait = (
            min(self.rearm_wait * 2, MAX_REARM_WAIT_SECONDS)
            if now - self.armed_at < MAX_REARM_WAIT_SECONDS
            else 1.0
        )
        self.rearm_at = now + self.rearm_wait
        self.walk_at = now
        self.health.errors += 1
        self.health.last_error = f"watching failed: {reason}"
        self.log.trouble("watcher", f"watching failed: {reason}; looking instead")
        self._choose_mode(now)

    def _choose_mode(self, now: float) -> None:
        reasons = sorted(set(self.watcher.reasons.values()))
        if self.storm.is_on:
            mode, why = "storm", "very many changes at once"
        elif self.failure is not None:
            mode, why = "polling", f"watching failed: {self.failure}"
        elif reasons:
            mode, why = "polling", "; ".join(reasons)
            self.rearm_at = self.rearm_at or now + REARM_SECONDS
        else:
            mode, why = "events", ""
        if mode != self.mode:
            self.mode = mode
            rhythm = RHYTHMS[mode]
            self.hot_at = min(self.hot_at, now + rhythm.hot)
            self.tick_at = min(self.tick_at, now + rhythm.tick)
            self.walk_at = min(self.walk_at, now + rhythm.walk)
            self.log.say(f"mode: {mode}" + (f" ({why})" if why else ""))
        self.health.mode, self.health.mode_reason = mode, why
