"""Find which entry a line replays, among all lines of the same moment, in about one look-up.

A replay has the session, type and time of its original and all of its blocks, or the other way
round. Thousands of lines can share a timestamp, so sets of blocks are kept in a way that answers
"which of you holds this one, or is held by it?" without going over all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations

Blocks = frozenset[str]
# Session, time, type, agent's thread and API message: what a replay and its original have in
# common. The contract does not name the API message, but lines of different ones are no copies: an
# old resume gives all assistant lines the same time, and two of them may well say "Done.".
Moment = tuple[str | None, str | None]
Voice = tuple[str | None, ...]
Thread = tuple[str | None, str | None]  # session, agent

MAX_SUBSETS = 6  # blocks; a line with more is compared with all sets that begin with one of them


def blocks_of(keys: str) -> Blocks:
    """The set that messages.block_keys writes down."""
    return frozenset(keys.split(" "))


def thread_of(agent_id: str | None) -> str | None:
    """Sidechains inside a main file are one thread: a replay gives them other roots."""
    return "side" if agent_id is not None and agent_id.startswith("side-") else agent_id


def threads_of(
    speakers: Iterable[tuple[str | None, str | None]], *, in_main_file: bool
) -> set[Thread]:
    """The threads that lines of a file can be replays in, by their (session, agent).

    A replay can only be in the thread of its original.
    """
    threads: set[Thread] = set()
    for session_id, agent_id in speakers:
        threads.add((session_id, thread_of(agent_id)))
        if in_main_file:
            threads.add((session_id, None))
            threads.add((session_id, "side"))
    return threads


class BlockSets:
    """Sets of blocks, and who has each of them."""

    def __init__(self, first: str = "") -> None:
        self.owners: dict[Blocks, set[int]] = {}
        self.by_block: dict[str, set[Blocks]] = {}
        self.by_first: dict[str, set[Blocks]] = {}
        if first:
            self.add(blocks_of(first))

    def add(self, blocks: Blocks, owner: int = 0) -> None:
        """One more line says this."""
        owners = self.owners.get(blocks)
        if owners is None:
            owners = self.owners[blocks] = set()
            for block in blocks:
                self.by_block.setdefault(block, set()).add(blocks)
            self.by_first.setdefault(min(blocks), set()).add(blocks)
        owners.add(owner)

    def related(self, blocks: Blocks) -> Iterator[Blocks]:
        """Sets that hold all of these blocks, or only blocks of these."""
        if blocks in self.owners:
            yield blocks
        fewest = min((self.by_block.get(block, set()) for block in blocks), key=len)
        for other in fewest:
            if blocks < other:
                yield other
        if 1 < len(blocks) <= MAX_SUBSETS:
            for size in range(1, len(blocks)):
                for some in combinations(blocks, size):
                    if (part := frozenset(some)) in self.owners:
                        yield part
        elif len(blocks) > 1:
            for block in blocks:
                for other in self.by_first.get(block, ()):
                    if other < blocks:
                        yield other

    def is_known(self, blocks: Blocks) -> bool:
        """Whether any line is a replay of one with these blocks, or its original."""
        return next(self.related(blocks), None) is not None

    def owners_of(self, blocks: Blocks) -> set[int]:
        """Whose lines are."""
        return set().union(*(self.owners[found] for found in self.related(blocks)))


class SeenReplays:
    """What was said at each moment so far."""

    def __init__(self) -> None:
        self.seen: dict[tuple[str | None, ...], BlockSets | str] = {}

    def add(self, key: tuple[str | None, ...], keys: str) -> bool:
        """Add what a line says; True when one before it said the same, or part of it, or more.

        `key` is all that a replay and its original have in common: moment and voice.
        """
        others = self.seen.get(key)
        if others is None:
            self.seen[key] = keys  # mostly there is no second one
            return False
        if not isinstance(others, BlockSets):
            others = self.seen[key] = BlockSets(others)
        blocks = blocks_of(keys)
        known = others.is_known(blocks)
        others.add(blocks)
        return known
