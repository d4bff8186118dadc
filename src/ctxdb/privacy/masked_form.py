"""Whether masking could have made a stored text of a clear one, by present or former rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxdb.privacy.masking import MASKED
from ctxdb.privacy.secret_rules import RULES

if TYPE_CHECKING:
    from ctxdb.privacy.masking import Masker


def is_masked_form(stored: str, clear: str, masker: Masker | None) -> bool:
    """Whether each `[redacted:x]` of a stored text is where the clear text has what x matches.

    A rule that is off now counts as well. Of a rule that is no longer known, any text is accepted.
    The end may have been cut off: masking makes a text shorter or longer.
    """
    from ctxdb.privacy.masking import Masker as AllRules

    known = {rule.name: rule for rule in (*RULES, *(masker.rules if masker is not None else ()))}
    finders = {name: AllRules([rule]) for name, rule in known.items()}
    at = after = 0
    for mark in MASKED.finditer(stored):
        before = stored[after : mark.start()]
        if not clear.startswith(before, at):
            return False
        at, after = at + len(before), mark.end()
        if clear.startswith(mark[0], at):  # the text itself has it
            at += len(mark[0])
            continue
        finder = finders.get(mark["rule"])
        if finder is None:
            rest = stored[after : after + 40]
            next_mark = MASKED.search(rest)
            literal = rest[: next_mark.start()] if next_mark else rest
            found_at = clear.find(literal, at + 1) if literal else len(clear)
            if found_at < 0:
                return False
            at = found_at
            continue
        end = next((one.end for one in finder.find(clear) if one.start == at), None)
        if end is None:
            return False
        at = end
    rest = stored[after:]
    return clear.startswith(rest, at) and (len(clear) == at + len(rest) or len(stored) >= 1 << 19)
