"""A chart in the terminal: bars for a few points, a line of columns for many, a map for a week.

What is drawn: the first column that is no number is the axis, and of the numbers the cost, else
the tokens, else the first; ``--columns day,requests`` chooses others. Rows of one point (a day's
models, projects of one name) are added up, and days, weeks and months without a row are there with
nothing.
"""

from __future__ import annotations

import math
import re
from datetime import date, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

from ctxdb.errors import UsageError
from ctxdb.escape import clip, clip_path, printable, width
from ctxdb.query.cells import kind_of, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ctxdb.query.cells import Kind

    Row = Sequence[object]

WIDTH = 80  # in a pipe
HEIGHT = 12  # lines of a chart of columns
BARS = 45  # points that are drawn as bars, one a line
LABEL = 28  # columns that a name of a point can have; more where bars have room
BAR = 24  # columns that bars keep beside long names
LEAST_BAR = 8  # and on a narrow page, where names give way
SCALE = 9  # widest figure beside a chart of columns
# More days, weeks or months than this are not filled in. Eleven years of days are somebody's
# history; the 57 since 1970 are a clock that was not set, and would leave nothing else to see.
MOST_STEPS = 4000
EIGHTHS = " ▏▎▍▌▋▊▉█"
LEVELS = " ▁▂▃▄▅▆▇█"
SHADES = " ░▒▓█"
SHORT = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")


def draw(names: Sequence[str], rows: Sequence[Row], columns: int | None) -> list[str]:
    """Return the lines of a chart."""
    room = columns or WIDTH
    lower = [name.lower() for name in names]
    if "weekday" in lower and "hour" in lower:
        return _week(lower, rows, room)
    x, y = _axes(names, rows)
    kind = kind_of(names[y])
    points: dict[str, float] = {}
    values: list[float] = []
    for row in rows:
        label, value = shown(row[x], kind_of(names[x])), row[y]
        values.append(value if isinstance(value, int | float) else 0)
        points[label] = points.get(label, 0) + values[-1]
    series = _in_time(points) or _in_order(points, values)
    title = f"{printable(names[y])} by {printable(names[x])}"
    if len(series) <= BARS:
        return [title, *_bars(series, kind, room)]
    return [title, *_levels(series, kind, room)]


def _axes(names: Sequence[str], rows: Sequence[Row]) -> tuple[int, int]:
    if not rows:
        raise UsageError("nothing to plot: the answer has no rows")
    numbers = [
        n
        for n in range(len(names))
        if any(isinstance(row[n], int | float) for row in rows)
        and not any(isinstance(row[n], str | bytes) for row in rows)
    ]
    texts = [n for n in range(len(names)) if n not in numbers]
    x = texts[0] if texts else 0
    wanted = [n for n in numbers if n != x]
    if not wanted:
        raise UsageError("nothing to plot: no column of numbers; --columns chooses two")
    for kind in ("money", "tokens"):
        if found := [n for n in wanted if kind_of(names[n]) == kind]:
            # Whole sums have the shorter names: cost_usd before cost_own_usd.
            return x, min(found, key=lambda n: (len(names[n]), n))
    return x, wanted[0]


def _in_order(points: dict[str, float], values: Sequence[float]) -> list[tuple[str, float]]:
    """As the rows came; where these were sorted by value, their sums are too."""
    series = list(points.items())
    if len(series) == len(values):
        return series
    if all(one >= other for one, other in pairwise(values)):
        return sorted(series, key=lambda point: -point[1])
    if all(one <= other for one, other in pairwise(values)):
        return sorted(series, key=lambda point: point[1])
    return series


# -- time ------------------------------------------------------------------------------------------

_DAY = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_WEEK = re.compile(r"(\d{4})-W(\d\d)")
_MONTH = re.compile(r"(\d{4})-(\d\d)")


def _in_time(points: dict[str, float]) -> list[tuple[str, float]] | None:
    """The points in order, if they are times; what lies between them counts as nothing."""
    if not all(label[:4].isdecimal() and label[4:5] == "-" for label in points):
        return None
    for pattern, begin, next_, name in (
        (_DAY, date, _next_day, date.isoformat),
        (_WEEK, _monday, _next_week, _week_name),
        (_MONTH, _first_day, _next_month, _month_name),
    ):
        try:
            days = sorted(begin(*map(int, found.groups())) for found in _all(pattern, points))
        except ValueError:
            continue
        if len(days) != len(points):
            continue
        are_weeks = pattern is _DAY and not any((day - days[0]).days % 7 for day in days)
        return _filled(points, days, _next_week if are_weeks else next_, name)
    return sorted(points.items())


def _filled(
    points: dict[str, float],
    days: list[date],
    next_: Callable[[date], date],
    name: Callable[[date], str],
) -> list[tuple[str, float]]:
    found: list[tuple[str, float]] = []
    day = days[0]
    while day <= days[-1]:
        if len(found) > MOST_STEPS:
            return sorted(points.items())
        found.append((name(day), points.get(name(day), 0.0)))
        if day == days[-1]:
            break
        day = next_(day)
    return found


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
    """What a full bar stands for."""
    return max((value for value in values if math.isfinite(value)), default=0.0)


def _share(value: float, most: float) -> float:
    """How full a bar is, from 0 to 1."""
    if value == math.inf:
        return 1.0
    return value / most if value > 0 and most > 0 else 0.0  # and nothing for what is no number


def _labels(series: list[tuple[str, float]], most: int) -> list[str]:
    """Names of points in so many columns; those that begin alike show their ends too."""
    labels = [clip(label, most) for label, _ in series]
    if len(set(labels)) == len(labels):
        return labels
    return [_ends(label, most) for label, _ in series]


def _ends(text: str, columns: int) -> str:
    if width(text) <= columns:
        return text
    tail = clip_path(text, columns * 2 // 3)
    return clip(text, columns - width(tail) + 1).removesuffix("…") + tail


def _bars(series: list[tuple[str, float]], kind: Kind, room: int) -> list[str]:
    figures = [shown(value, kind) for _, value in series]
    right = max(map(width, figures))
    beside = room - right - 4
    labels = _labels(series, max(beside - BAR, min(LABEL, beside - LEAST_BAR), 1))
    margin = max(map(width, labels))
    space = max(beside - margin, LEAST_BAR)
    most = _most(value for _, value in series)
    lines = []
    for label, figure, (_, value) in zip(labels, figures, series, strict=True):
        eighths = round(_share(value, most) * space * 8)
        bar = "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()
        pad = " " * (margin - width(label))
        lines.append(f"{label}{pad}  {bar}{' ' * (space - len(bar))}  {figure:>{right}}")
    return lines


def _levels(series: list[tuple[str, float]], kind: Kind, room: int) -> list[str]:
    space = max(room - SCALE - 2, 10)
    per = -(-len(series) // space)  # points that share one column of the screen
    # A column of fewer points, if there must be one, is the first: the newest is whole.
    ends = range(len(series) - (len(series) - 1) // per * per, len(series) + 1, per)
    parts = [series[max(end - per, 0) : end] for end in ends]
    values = [sum(value for _, value in part) / len(part) for part in parts]
    top = max(_most(values), 0.0)
    scale = [clip(shown(value, kind), SCALE) for value in (top, top / 2)]
    margin = max(map(len, scale))
    lines = []
    for line in range(HEIGHT, 0, -1):
        cells = []
        for value in values:
            eighths = round(_share(value, top) * HEIGHT * 8)
            cells.append(LEVELS[max(0, min(8, eighths - (line - 1) * 8))])
        label = scale[0] if line == HEIGHT else scale[1] if line == HEIGHT // 2 else ""
        lines.append(f"{label:>{margin}} ┤{''.join(cells)}".rstrip())
    first, last = series[0][0], series[-1][0]
    gap = max(len(values) - len(first) - len(last), 1)
    lines.append(f"{'':>{margin}} └{'─' * len(values)}")
    lines.append(f"{'':>{margin}}  {first}{' ' * gap}{last}")
    if per > 1:
        lines.append(f"{'':>{margin}}  (each column is the mean of {per})")
    return lines


def _week(names: list[str], rows: Sequence[Row], room: int) -> list[str]:
    """Weekdays by hours; the darker, the more."""
    day_at, hour_at = names.index("weekday"), names.index("hour")
    rest = [n for n in range(len(names)) if n not in (day_at, hour_at)]
    numbers = [n for n in rest if any(isinstance(row[n], int | float) for row in rows)]
    if not numbers:
        raise UsageError("nothing to plot: no column of numbers beside weekday and hour")
    y = numbers[0]
    cells: dict[tuple[str, int], float] = {}
    days: dict[str, None] = {}
    for row in rows:
        day, hour, value = _weekday(row[day_at]), row[hour_at], row[y]
        days[day] = None
        if isinstance(value, int | float) and str(hour).isdecimal():
            key = (day, int(str(hour)))
            cells[key] = cells.get(key, 0) + value
    if days.keys() <= set(SHORT):
        days = dict.fromkeys(SHORT)  # days off are a part of the week
    most = _most(cells.values())
    margin = max(map(width, days))
    # Two signs and a gap for each hour, where there is room; else without the gap, else one sign.
    wide = max(1, min(3, (room - margin - 1) // 24))
    hours = "".join(f"{hour:<{3 * wide}}" for hour in (0, 3, 6, 9, 12, 15, 18, 21))
    lines = [f"{printable(names[y])} by weekday and hour", f"{'':{margin}}  {hours}".rstrip()]
    for day in days:
        shades = []
        for hour in range(24):
            share = _share(cells.get((day, hour), 0), most)
            # Anything at all is visible.
            level = 0 if share <= 0 else 1 + min(3, int(share * 3.999))
            shades.append(f"{SHADES[level] * min(wide, 2):<{wide}}")
        lines.append(f"{day}{' ' * (margin - width(day))}  {''.join(shades)}".rstrip())
    lines.append(f"{'':{margin}}  darkest: {shown(most, kind_of(names[y]))}")
    return lines


def _weekday(value: object) -> str:
    if isinstance(value, int) and 0 <= value <= 6:
        return WEEKDAYS[value]
    return printable(str(value))
