"""Long lists of cases: `make test` runs some of them, `make check` all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from _pytest.mark import ParameterSet

if TYPE_CHECKING:
    from collections.abc import Iterable


def thinned(cases: Iterable[Any], every: int) -> list[Any]:
    """Every n-th case for `make test`, beginning with the first; the others are slow."""
    return [case if n % every == 0 else _slow(case) for n, case in enumerate(cases)]


def _slow(case: Any) -> ParameterSet:
    values, marks, name = ParameterSet.extract_from(case, force_tuple=not isinstance(case, tuple))
    return pytest.param(*values, marks=[*marks, pytest.mark.slow], id=name)
