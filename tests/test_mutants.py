"""The list of mutations is kept up: each can still be made, and names tests that exist."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from run_mutants import CHECKOUT, load


@cache
def names_in(path: Path) -> set[str]:
    return set(re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE))


def test_there_are_at_least_60_mutations_and_none_is_listed_twice() -> None:
    mutations = load()
    assert len(mutations) >= 60
    assert len({(m.file, m.old, m.new) for m in mutations}) == len(mutations)


def test_each_mutation_can_be_made_and_its_tests_exist() -> None:
    mutations = load()
    faults = [f"{m.name}: {fault}" for m in mutations if (fault := m.fault()) is not None]
    for mutation in mutations:
        for test in mutation.tests:
            path, _, name = test.partition("::")
            if name.partition("[")[0] not in names_in(CHECKOUT / path):
                faults.append(f"{mutation.name}: there is no {test}")
    assert faults == []
    assert all(mutation.tests for mutation in mutations)
