"""Messages through shared memory arrive whole and in order, or not at all."""

from __future__ import annotations

import multiprocessing
import os
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctxdb.ingest.ring import Ring
from world import PATIENCE

FORK = multiprocessing.get_context("fork")
SIZE = 1000


def message(n: int, length: int) -> bytes:
    return bytes([n % 251]) * length


def send_all(ring: Ring, lengths: list[int]) -> None:
    ring.hold_sending()
    for n, length in enumerate(lengths):
        ring.send(message(n, length))


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 2 * SIZE), max_size=60))
def test_messages_of_any_size_arrive_as_they_were_sent(lengths: list[int]) -> None:
    ring = Ring(SIZE)
    process = FORK.Process(target=send_all, args=(ring, lengths))
    process.start()
    ring.hold_receiving()
    with closing(ring):
        for n, length in enumerate(lengths):
            assert bytes(ring.receive()) == message(n, length)
        with pytest.raises(EOFError):
            ring.receive()
    process.join()
    assert process.exitcode == 0


def send_for_ever(ring: Ring) -> None:
    ring.hold_sending()
    try:
        while True:
            ring.send(bytes(SIZE // 3))
    except BrokenPipeError:
        os._exit(7)


def test_a_sender_nobody_listens_to_finds_out() -> None:
    ring = Ring(SIZE)
    process = FORK.Process(target=send_for_ever, args=(ring,))
    process.start()
    ring.hold_receiving()
    assert len(ring.receive()) == SIZE // 3
    ring.close()
    ring.close()  # again is no matter
    process.join(PATIENCE)
    assert process.exitcode == 7
