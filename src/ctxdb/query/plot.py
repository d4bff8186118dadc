"""Draw an answer as a chart in the terminal: bars for a few points, columns for many.

The first column that is not a number is the axis. The value is the cost, else the tokens, else the
first number; ``--columns day,requests`` chooses others. Rows with the same label (the models of a
day, projects of one name) are added up. Days, weeks and months without a row are drawn as zero. An
answer with a weekday and an hour is a map of the week.
"""

from __future__ import annotations

import math
import re
from datetime import date, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from ctxdb.errors import UsageError
from ctxdb.escape import clip, clip_path, printable, width
from ctxdb.query.cells import display_by_name, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ctxdb.store.sql_files import ColumnKind, Display

    Row = Sequence[object]

# Widths are in columns of a terminal.
WIDTH = 80  # of a chart in a pipe
HEIGHT = 12  # lines of a chart of columns
BARS = 45  # points that are drawn as bars, one a line; more are a chart of columns
LABEL = 28  # a label; more where the bars have room
BAR = 24  # what bars keep beside long labels
LEAST_BAR = 8  # and on a narrow page, where labels are shortened
SCALE = 9  # the widest figure beside a chart of columns
# More days, weeks or months than this are not filled in. Eleven years of days can be a person's
# history. The days since 1970 come from a clock that was not set, and would hide everything else.
MOST_STEPS = 4000
EIGHTHS = " ▏▎▍▌▋▊▉█"
LEVELS = " ▁▂▃▄▅▆▇█"
SHADES = " ░▒▓█"
SHORT = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")


class _Column(NamedTuple):
    name: str
    kind: ColumnKind
    values: Sequence[object]

    @property
    def has_numbers(self) -> bool:
        return any(isinstance(value, int | float) for value in self.values)

    @property
    def is_numeric(self) -> bool:
        return self.has_numbers and not any(isinstance(value, str | bytes) for value in self.values)


class _Point(NamedTuple):
    label: str
    value: float


def draw(
    names: Sequence[str],
    rows: Sequence[Row],
    page_width: int | None,
    displays: Sequence[Display] | None = None,
) -> list[str]:
    """Return the lines of a chart; without `displays` the names say how to show each column."""
    if not rows:
        raise UsageError("nothing to plot: the answer has no rows")
    displays = displays or [display_by_name(name) for name in names]
    columns = [
        _Column(name, display.kind, values)
        for name, display, values in zip(names, displays, zip(*rows, strict=True), strict=True)
    ]
    room = page_width or WIDTH
    by_name = {column.name.lower(): column for column in columns}
    if "weekday" in by_name and "hour" in by_name:
        return _week_map(by_name.pop("weekday"), by_name.pop("hour"), [*by_name.values()], room)
    axis, value = _axes(columns)
    numbers = [_as_number(number) for number in value.values]
    sums: dict[str, float] = {}
    for label, number in zip(axis.values, numbers, strict=True):
        text = shown(label, axis.kind)
        sums[text] = sums.get(text, 0) + number
    points = _in_time(sums) or _in_order(sums, numbers)
    title = f"{printable(value.name)} by {printable(axis.name)}"
    if len(points) <= BARS:
        return [title, *_bars(points, value.kind, room)]
    return [title, *_levels(points, value.kind, room)]


def _as_number(value: object) -> float:
    return value if isinstance(value, int | float) else 0


def _axes(columns: Sequence[_Column]) -> tuple[_Column, _Column]:
    """Return the column of the labels and the column of the values."""
    axis = next((column for column in columns if not column.is_numeric), None)
    if axis is None:
        axis, *_ = columns
    numeric = [column for column in columns if column.is_numeric and column is not axis]
    if not numeric:
        raise UsageError("nothing to plot: no column of numbers; --columns chooses two")
    for kind in ("money", "tokens"):
        # The sum over everything has the shorter name: cost_usd before cost_own_usd.
        if found := sorted(
            (column for column in numeric if column.kind == kind), key=lambda one: len(one.name)
        ):
            numeric = found
            break
    value, *_ = numeric
    return axis, value


def _in_order(sums: dict[str, float], numbers: Sequence[float]) -> list[_Point]:
    """Return the points in the order of the rows; sorted by value if the rows were."""
    points = [_Point(label, value) for label, value in sums.items()]
    if len(points) == len(numbers):
        return points
    if all(one >= other for one, other in pairwise(numbers)):
        return sorted(points, key=lambda point: -point.value)
    if all(one <= other for one, other in pairwise(numbers)):
        return sorted(points, key=lambda point: point.value)
    return points


# -- time ------------------------------------------------------------------------------------------

_DAY = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_WEEK = re.compile(r"(\d{4})-W(\d\d)")
_MONTH = re.compile(r"(\d{4})-(\d\d)")


def _in_time(sums: dict[str, float]) -> list[_Point] | None:
    """Return the points in order if they are times, with those between them as zero; else None."""
    if not all(label[:4].isdecimal() and label[4:5] == "-" for label in sums):
        return None
    for pattern, begin, next_, name in (
        (_DAY, date, _next_day, date.isoformat),
        (_WEEK, _monday, _next_week, _week_name),
        (_MONTH, _first_day, _next_month, _month_name),
    ):
        try:
            days = sorted(begin(*map(int, found.groups())) for found in _all(pattern, sums))
        except ValueError:
            continue
        if len(days) != len(sums):
            continue
        first, *_ = days
        are_weeks = pattern is _DAY and not any((day - first).days % 7 for day in days)
        return _filled(sums, days, _next_week if are_weeks else next_, name)
    return _by_label(sums)


def _by_label(sums: dict[str, float]) -> list[_Point]:
    return [_Point(label, value) for label, value in sorted(sums.items())]


def _filled(
    sums: dict[str, float],
    days: list[date],
    next_: Callable[[date], date],
    name: Callable[[date], str],
) -> list[_Point]:
    points: list[_Point] = []
    day, last = min(days), max(days)
    while day <= last:
        if len(points) > MOST_STEPS:
            return _by_label(sums)
        points.append(_Point(name(day), sums.get(name(day), 0.0)))
        if day == last:  # the calendar may end here
            break
        day = next_(day)
    return points


def _all(pattern: re.Pattern[str], labels: Iterable[str]) -> list[re.Match[str]]:
    return [found for label in labels if (found := pattern.fullmatch(label))]


def _monday(year: int, week: int) -> date:
    return date.fromisocalendar(year, week, 1)


def _first_day(year: int, month: int) -> date:
    return date(year, month, 1)


def _next_day(day: date) -> date:
    return day + timedelta(days=1)


def _next_week(day: date) -> date:
    return day + timedelta(days=7)


def _next_month(day: date) -> date:
    return (day + timedelta(days=31)).replace(day=1)


def _week_name(day: date) -> str:
    year, week, _ = day.isocalendar()
    return f"{year:04}-W{week:02}"


def _month_name(day: date) -> str:
    return f"{day.year:04}-{day.month:02}"


# -- drawing ---------------------------------------------------------------------------------------


def _most(values: Iterable[float]) -> float:
    """Return the value of a full bar."""
    return max((value for value in values if math.isfinite(value)), default=0.0)


def _share(value: float, most: float) -> float:
    """Return how full a bar is, from 0 to 1."""
    if value == math.inf:
        return 1.0
    return value / most if value > 0 and most > 0 else 0.0  # 0 also for NaN


def _labels(points: list[_Point], most: int) -> list[str]:
    """Return the labels in at most this width; if their beginnings are equal, with their ends."""
    labels = [clip(point.label, most) for point in points]
    if len(set(labels)) == len(labels):
        return labels
    return [_with_end(point.label, most) for point in points]


def _with_end(text: str, room: int) -> str:
    if width(text) <= room:
        return text
    tail = clip_path(text, room * 2 // 3)
    return clip(text, room - width(tail) + 1).removesuffix("…") + tail


def _bars(points: list[_Point], kind: ColumnKind, room: int) -> list[str]:
    figures = [shown(point.value, kind) for point in points]
    right = max(map(width, figures))
    beside = room - right - 4
    labels = _labels(points, max(beside - BAR, min(LABEL, beside - LEAST_BAR), 1))
    margin = max(map(width, labels))
    space = max(beside - margin, LEAST_BAR)
    most = _most(point.value for point in points)
    lines = []
    for label, figure, point in zip(labels, figures, points, strict=True):
        eighths = round(_share(point.value, most) * space * 8)
        bar = "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()
        pad = " " * (margin - width(label))
        lines.append(f"{label}{pad}  {bar}{' ' * (space - len(bar))}  {figure:>{right}}")
    return lines


def _levels(points: list[_Point], kind: ColumnKind, room: int) -> list[str]:
    space = max(room - SCALE - 2, 10)
    per = -(-len(points) // space)  # points that share one column of the screen
    # If one column has fewer points than the others, it is the first: the newest has all of its.
    ends = range(len(points) - (len(points) - 1) // per * per, len(points) + 1, per)
    parts = [points[max(end - per, 0) : end] for end in ends]
    values = [sum(point.value for point in part) / len(part) for part in parts]
    top = max(_most(values), 0.0)
    scale = {
        HEIGHT: clip(shown(top, kind), SCALE),
        HEIGHT // 2: clip(shown(top / 2, kind), SCALE),
    }
    margin = max(map(len, scale.values()))
    lines = []
    for line in range(HEIGHT, 0, -1):
        cells = []
        for value in values:
            eighths = round(_share(value, top) * HEIGHT * 8)
            cells.append(LEVELS[max(0, min(8, eighths - (line - 1) * 8))])
        lines.append(f"{scale.get(line, ''):>{margin}} ┤{''.join(cells)}".rstrip())
    first, *_, last = (point.label for point in points)
    gap = max(len(values) - len(first) - len(last), 1)
    lines.append(f"{'':>{margin}} └{'─' * len(values)}")
    lines.append(f"{'':>{margin}}  {first}{' ' * gap}{last}")
    if per > 1:
        lines.append(f"{'':>{margin}}  (each column is the mean of {per})")
    return lines


def _week_map(weekday: _Column, hour: _Column, others: list[_Column], room: int) -> list[str]:
    """Draw weekdays by hours; the darker, the more."""
    value = next((column for column in others if column.has_numbers), None)
    if value is None:
        raise UsageError("nothing to plot: no column of numbers beside weekday and hour")
    cells: dict[tuple[str, int], float] = {}
    days: dict[str, None] = {}
    for day_value, at, number in zip(weekday.values, hour.values, value.values, strict=True):
        day = _weekday(day_value)
        days[day] = None
        if isinstance(number, int | float) and str(at).isdecimal():
            key = (day, int(str(at)))
            cells[key] = cells.get(key, 0) + number
    if days.keys() <= set(SHORT):
        days = dict.fromkeys(SHORT)  # days off are part of the week
    most = _most(cells.values())
    margin = max(map(width, days))
    # Each hour has two characters and a gap if there is room, else two characters, else one.
    wide = max(1, min(3, (room - margin - 1) // 24))
    hours = "".join(f"{at:<{3 * wide}}" for at in (0, 3, 6, 9, 12, 15, 18, 21))
    name = printable(value.name.lower())
    lines = [f"{name} by weekday and hour", f"{'':{margin}}  {hours}".rstrip()]
    for day in days:
        shades = []
        for at in range(24):
            share = _share(cells.get((day, at), 0), most)
            # Any value above zero is visible.
            level = 0 if share <= 0 else 1 + min(3, int(share * 3.999))
            shades.append(f"{SHADES[level] * min(wide, 2):<{wide}}")
        lines.append(f"{day}{' ' * (margin - width(day))}  {''.join(shades)}".rstrip())
    lines.append(f"{'':{margin}}  darkest: {shown(most, value.kind)}")
    return lines


def _weekday(value: object) -> str:
    if isinstance(value, int) and 0 <= value <= 6:
        return WEEKDAYS[value]
    return printable(str(value))
