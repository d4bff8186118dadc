"""The rules that config.toml switches off and adds.

A user's pattern must not be able to hang the ingest, and Python's regular expressions can take
longer than anyone waits. So each of its repeats needs an upper bound, none may be inside another,
and all ways to match are at most MOST_WAYS. It is looked for near its keyword only.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ctxdb.config import config_file
from ctxdb.errors import ConfigError
from ctxdb.privacy.masking import Masker
from ctxdb.privacy.secret_rules import RULES, Rule

if TYPE_CHECKING:
    from collections.abc import Mapping

Tables = tuple[tuple[tuple[str, str], ...], ...]  # of config.toml, in a form that can be compared

REACH = 4096  # characters before and after the keyword of a user's rule
MOST_REPEATS = 1000
MOST_WAYS = 20_000  # the product of the widths of all repeats: a millisecond for each place
LONGEST_PATTERN = 1000
SHORTEST_KEYWORD = 3
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,49}")
_FIELDS = {"name", "pattern", "keyword"}
CHOSEN = "match"  # what `redact --match` masks is called


class BadPattern(Exception):
    """A pattern cannot be used; says why."""


def masker_of(settings: Mapping[str, Any]) -> Masker | None:
    """What masks as lines are read; None if masking is switched off. Raises ConfigError."""
    if not settings.get("redact.enabled", True):
        return None
    return _masker(_own(settings), tuple(settings.get("redact.off") or ()))


def archive_masker_of(settings: Mapping[str, Any]) -> Masker | None:
    """What masks in the archive; None if it keeps the exact bytes. Raises ConfigError."""
    return masker_of(settings) if settings.get("redact.archive") else None


def all_rules(settings: Mapping[str, Any]) -> list[Rule]:
    """The rules of ctxdb and those of the user, on or off. Raises ConfigError."""
    return _all_rules(_own(settings))


def _own(settings: Mapping[str, Any]) -> Tables:
    return tuple(tuple(sorted(table.items())) for table in settings.get("redact.rules") or ())


def _all_rules(own: Tables) -> list[Rule]:
    rules = [*RULES, *(_rule(dict(table)) for table in own)]
    names = [rule.name for rule in rules]
    for name in names:
        if names.count(name) > 1:
            raise _error(f"redact.rules: there are two rules with the name {name!r}")
    return rules


@lru_cache(maxsize=8)
def _masker(own: Tables, off: tuple[str, ...]) -> Masker:
    rules = _all_rules(own)
    names = [rule.name for rule in rules]
    for name in off:
        if name not in names:
            raise _error(f"redact.off: there is no rule {name!r}; see `ctxdb redact --rules`")
    return Masker(rule for rule in rules if rule.name not in off)


def _rule(table: dict[str, str]) -> Rule:
    name = table.get("name", "")
    if not _NAME.fullmatch(name) or name == CHOSEN:
        raise _error(f"redact.rules: {name!r} is no name; use small letters, digits and -")
    if set(table) != _FIELDS:
        raise _error(f"redact.rules: {name}: a rule has a name, a pattern and a keyword")
    keyword = table["keyword"]
    if len(keyword) < SHORTEST_KEYWORD or not keyword.isascii() or not keyword.isprintable():
        why = f"needs at least {SHORTEST_KEYWORD} plain characters that are in every match"
        raise _error(f"redact.rules: {name}: its keyword {why}")
    if '"' in keyword or "\\" in keyword:
        raise _error(f'redact.rules: {name}: its keyword must be without " and \\')
    try:
        check_pattern(table["pattern"])
    except BadPattern as e:
        raise _error(f"redact.rules: {name}: {e}") from None
    return Rule(name, (keyword,), table["pattern"], "", "", REACH)


def _error(why: str) -> ConfigError:
    return ConfigError(config_file(), why)


def check_pattern(pattern: str, *, is_bounded: bool = True) -> re.Pattern[str]:
    """Compile a pattern that cannot take long. Raises BadPattern.

    Unless it must be bounded, it may have repeats without end, but none inside another.
    """
    if len(pattern) > LONGEST_PATTERN:
        raise BadPattern(f"its pattern is longer than {LONGEST_PATTERN:,} characters")
    try:
        compiled = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as e:
        raise BadPattern(f"its pattern is no regular expression: {e}") from None
    if compiled.match("") is not None:
        raise BadPattern("its pattern matches an empty text")
    _check_repeats(pattern, is_bounded)
    return compiled


_TOKEN = re.compile(
    r"\\(?P<escaped>.)"
    r"|(?P<set>\[\^?\]?(?:[^\]\\]|\\.)*\])"
    r"|(?P<open>\()(?:\?(?:P<\w+>|P=\w+|[aiLmsux-]+:|[:=!>]|<[=!]))?"
    r"|(?P<close>\))"
    r"|(?P<either>\|)"
    r"|(?P<repeat>[*+?]|\{\d*,?\d*\})[?+]?"
    r"|.",
    re.DOTALL,
)


def _check_repeats(pattern: str, is_bounded: bool) -> None:  # noqa: FBT001
    """Raise BadPattern if matching could take long."""
    ways = 1
    # For each open group: whether there is a repeat or an alternative in it.
    inside = [False]
    closed = False  # the token before was a group with one of these in it
    for token in _TOKEN.finditer(pattern):
        was_closed, closed = closed, False
        if token["escaped"] and token["escaped"].isdigit():
            raise BadPattern("its pattern refers back to a group, which can take too long")
        if token["open"]:
            if token[0].startswith("(?P="):
                raise BadPattern("its pattern refers back to a group, which can take too long")
            inside.append(False)
        elif token["close"]:
            closed = inside.pop() if len(inside) > 1 else False
            inside[-1] = inside[-1] or closed
        elif token["either"]:
            inside[-1] = True
            ways += 1
        elif token["repeat"]:
            least, most = _bounds(token["repeat"])
            if most > 1 and was_closed:
                raise BadPattern("a repeat in its pattern is inside another, which can take long")
            inside[-1] = inside[-1] or most != least
            if not is_bounded:
                continue
            if most > MOST_REPEATS:
                raise BadPattern(
                    f"{token['repeat']} in its pattern has no bound, or one over {MOST_REPEATS:,};"
                    " write {1,100} instead of +"
                )
            ways *= most - least + 1
        if ways > MOST_WAYS:
            raise BadPattern("its pattern can match in too many ways; use fewer repeats")


def _bounds(repeat: str) -> tuple[int, int]:
    """The least and the most that a repeat stands for."""
    many = MOST_REPEATS + 1
    match repeat:
        case "*":
            return 0, many
        case "+":
            return 1, many
        case "?":
            return 0, 1
    low, comma, high = repeat[1:-1].partition(",")
    if not low and not high:
        return 1, 1  # {} and {,} are plain text
    least = int(low or 0)
    return least, (int(high) if high else many) if comma else least
