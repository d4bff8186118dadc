"""The daemon pushes in a process of its own, and goes on whatever comes of it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from ctxdb.config import load
from ctxdb.daemon import pusher
from ctxdb.daemon.pusher import Pusher, pusher_for
from teamlab import asked, laptop, new_database
from world import lines

pytest.importorskip("psycopg", reason="psycopg is not installed")
pytestmark = pytest.mark.xdist_group("postgres")


class Log:
    """What the daemon would write."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def trouble(self, _kind: str, text: str) -> None:
        self.lines.append(text)

    def over(self, _kind: str, text: str) -> None:
        self.lines.append(text)


def configure(home: Path, url: str, minutes: int = 5) -> None:
    path = home / ".config/ctxdb/config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'[push]\nurl = "{url}"\nevery_minutes = {minutes}\n')


def until_it_ended(one: Pusher, log: Any, now: float) -> None:
    give_up = time.monotonic() + 300
    while one.process is not None:
        assert time.monotonic() < give_up
        time.sleep(0.05)
        one.look(now, log)


def test_nothing_is_pushed_unless_config_says_so(home: Path) -> None:
    assert pusher_for(load()).db_path is None
    configure(home, "postgresql://u@h/d", minutes=0)
    assert pusher_for(load()).db_path is None
    configure(home, "postgresql://u@h/d")
    assert pusher_for(load()).every_seconds == 300


def test_a_push_is_tried_again_until_it_works(home: Path) -> None:
    with laptop({"-work-tides/a.jsonl": lines(0, 1)}) as lab, new_database() as url:
        configure(home, "postgresql://u:sekret@127.0.0.1:1/x")
        one, log = Pusher(lab.db, 300.0), Log()
        one.look(0.0, log)  # type: ignore[arg-type]
        assert one.process is None, "the first push waits a little"
        one.look(pusher.FIRST_SECONDS, log)  # type: ignore[arg-type]
        assert one.process is not None
        until_it_ended(one, log, 100.0)
        (line,) = log.lines
        assert line.startswith("push failed: 127.0.0.1:1/x cannot be reached")
        assert "sekret" not in line
        assert one.not_before == 100.0 + pusher.RETRY_SECONDS
        one.look(100.0, log)  # type: ignore[arg-type]
        assert one.process is None
        configure(home, url)
        one.look(200.0, log)  # type: ignore[arg-type]
        until_it_ended(one, log, 250.0)
        assert log.lines[1:] == ["pushed again"]
        assert one.not_before == 550.0
        assert asked(url, "SELECT count(*) > 0 FROM ctxdb.messages") == [(True,)]


def test_a_push_ends_with_the_daemon(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with laptop({}) as lab:
        configure(home, "postgresql://u@127.0.0.1:1/x")
        one, log = Pusher(lab.db, 300.0, not_before=0.0), Log()
        one.look(1.0, log)  # type: ignore[arg-type]
        process = one.process
        assert process is not None
        one.end()
        assert process.returncode is not None
        one.end()
