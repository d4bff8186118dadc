"""Compare what the oracle expects with what a database holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping

SHOWN = 8  # differences in a failure message


def must_agree(expected: Mapping[Any, Any], found: Mapping[Any, Any]) -> None:
    """Fail with the first few items that differ, the oracle's side first."""
    __tracebackhide__ = True
    missing = object()
    different = [
        key
        for key in sorted({*expected, *found}, key=repr)
        if expected.get(key, missing) != found.get(key, missing)
    ]
    shown = [
        f"  {key}: expected {expected.get(key, 'nothing')!r}, found {found.get(key, 'nothing')!r}"
        for key in different[:SHOWN]
    ]
    if different:
        pytest.fail("\n".join([f"{len(different)} items differ", *shown]))
