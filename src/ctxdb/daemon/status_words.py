"""The state of the daemon, in words for people and in names for programs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ctxdb.daemon_health import Health, read, running
from ctxdb.formatting import day_and_time
from ctxdb.progress import human_bytes

STATES = {
    "starting": "starting",
    "catching_up": "catching up",
    "watching": "watching",
    "blocked": "blocked by another writer",
    "waiting": "waiting",
    "frozen": "frozen",
}
SHOWN_UNREADABLE = 4
SHOWN_WAL_BYTES = 64 << 20


@dataclass(slots=True)
class DaemonReport:
    """The state of one database's daemon."""

    health: Health | None  # of the last one, if none is running
    running: bool

    def as_dict(self) -> dict[str, object]:
        """Stable names for programs; always all of them, None for what is not known."""
        told = dict.fromkeys(Health().as_dict()) if self.health is None else self.health.as_dict()
        return {"running": self.running, **told, "state": self.state}

    @property
    def state(self) -> str:
        """One of STATES, stopped, killed (it ended without writing that it stopped) or none."""
        if self.health is None:
            return "none"
        if self.running and self.health.is_frozen:
            return "frozen"
        if self.running or self.health.state == "stopped":
            return self.health.state
        return "killed"

    def lines(self) -> Iterator[str]:
        """A few lines, for people."""
        health = self.health
        if health is None:
            yield "Daemon       not running; `ctxdb daemon start` starts it"
            return
        if not self.running:
            if self.state == "killed":
                how = f"it was killed after {_at(health.written_at)}"
            else:
                how = f"stopped since {_at(health.written_at)}" + (
                    health.why and f" ({health.why})"
                )
            yield f"Daemon       not running: {how}; `ctxdb daemon start` starts it"
            return
        if self.state == "frozen":
            yield f"Daemon       frozen: {health.frozen_text}"
            return
        yield from _running(health)


def _running(health: Health) -> Iterator[str]:
    state = STATES.get(health.state, health.state)
    since = f" since {_at(health.since)}" if health.state in ("blocked", "waiting") else ""
    why = f": {health.why}" if health.why else ""
    yield f"Daemon       {state}{since}{why} (process {health.pid})"
    yield f"             {health.mode} mode" + (
        f": {health.mode_reason}" if health.mode_reason else f", {health.watches:,} folders watched"
    )
    for root in health.missing_roots:
        yield f"             waits for {root}, which does not exist yet"
    for path in health.unreadable[:SHOWN_UNREADABLE]:
        yield f"             cannot read {path}; `ctxdb daemon logs` says why"
    if more := health.unreadable[SHOWN_UNREADABLE:]:
        yield f"             ... and {len(more):,} more"
    lag = "" if health.lag_ms is None else f", lag {health.lag_ms:,.0f} ms"
    most = "" if health.max_lag_ms is None else f" (at most {health.max_lag_ms:,.0f} lately)"
    yield (
        f"             {health.lines:,} lines in {health.slices:,} slices,"
        f" {health.pending:,} files waiting{lag}{most}"
    )
    lost = f", lost events {health.overflows:,} times" if health.overflows else ""
    yield f"             {health.events:,} events seen, {health.rescans:,} rescans{lost}"
    if health.wal_bytes >= SHOWN_WAL_BYTES:
        reason = f": {health.wal_reason}" if health.wal_reason else ""
        yield f"             the -wal is {human_bytes(health.wal_bytes)}{reason}"
    if health.archive_problem:
        yield f"             {health.archive_problem}; lines are stored all the same"
    if health.last_error:
        at = f" at {_at(health.last_error_at)}" if health.last_error_at else ""
        yield f"             last error{at}: {health.last_error}"


def _at(timestamp: str) -> str:
    """Local time, as everywhere else that people read it."""
    return day_and_time(timestamp) or timestamp


def daemon_report(db_path: Path) -> DaemonReport:
    """Look for the daemon of that database."""
    found = running(db_path)
    return DaemonReport(found or read(db_path), found is not None)
