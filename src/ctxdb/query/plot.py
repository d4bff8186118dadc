"""A chart in the terminal: bars for a few points, a line of columns for many, a map for a week.

What is drawn: the first column that is no number is the axis, and of the numbers the cost, else
the tokens, else the first; ``--columns day,requests`` chooses others. Rows of one point (a day's
models) are added up, and days without a row are there with nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxdb.errors import UsageError
from ctxdb.query.cells import kind_of, shown
from ctxdb.text import clip, printable, width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctxdb.query.cells import Kind

    Row = Sequence[object]

WIDTH = 80  # in a pipe
HEIGHT = 12  # lines of a chart of columns
BARS = 45  # points that are drawn as bars, one a line
LABEL = 28  # longest name of a point
SCALE = 9  # widest figure beside a chart of columns
GAP_DAYS = 400  # more days than this are not filled in
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
        return _week(lower, rows)
    x, y = _axes(names, rows)
    kind = kind_of(names[y])
    points: dict[str, float] = {}
    for row in rows:
        label = shown(row[x], kind_of(names[x]))
        value = row[y]
        points[label] = points.get(label, 0) + (value if isinstance(value, int | float) else 0)
    series = _in_time(points)
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


def _in_time(points: dict[str, float]) -> list[tuple[str, float]]:
    """The points in order; days in between that are not there count as nothing."""
    from datetime import date, timedelta

    try:
        days = sorted(date.fromisoformat(label) for label in points if len(label) == 10)
    except ValueError:
        days = []
    if not points or len(days) != len(points):
        is_time = all(label[:4].isdecimal() and label[4:5] == "-" for label in points)
        return sorted(points.items()) if is_time else list(points.items())
    is_weekly = len(days) > 1 and not any((day - days[0]).days % 7 for day in days)
    step = timedelta(days=7 if is_weekly else 1)
    if (days[-1] - days[0]) / step > GAP_DAYS:
        return sorted(points.items())
    found = []
    day = days[0]
    while day <= days[-1]:
        label = day.isoformat()
        found.append((label, points.get(label, 0.0)))
        day += step
    return found


def _bars(series: list[tuple[str, float]], kind: Kind, room: int) -> list[str]:
    labels = [clip(label, LABEL) for label, _ in series]
    figures = [shown(value, kind) for _, value in series]
    margin = max(map(width, labels))
    right = max(map(width, figures))
    space = max(room - margin - right - 4, 8)
    most = max(*(value for _, value in series), 0.0)
    lines = []
    for label, figure, (_, value) in zip(labels, figures, series, strict=True):
        eighths = round(max(value, 0.0) / most * space * 8) if most else 0
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
    top = max(*values, 0.0)
    scale = [clip(shown(value, kind), SCALE) for value in (top, top / 2)]
    margin = max(map(len, scale))
    lines = []
    for line in range(HEIGHT, 0, -1):
        cells = []
        for value in values:
            eighths = round(max(value, 0.0) / top * HEIGHT * 8) if top else 0
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


def _week(names: list[str], rows: Sequence[Row]) -> list[str]:
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
    most = max(cells.values(), default=0) or 1
    margin = max(map(width, days))
    hours = "".join(f"{hour:<9}" for hour in (0, 3, 6, 9, 12, 15, 18, 21))
    lines = [f"{printable(names[y])} by weekday and hour", f"{'':{margin}}  {hours}".rstrip()]
    for day in days:
        shades = []
        for hour in range(24):
            value = cells.get((day, hour), 0)
            # Anything at all is visible.
            level = 0 if value <= 0 else 1 + min(3, int(value / most * 3.999))
            shades.append(SHADES[level] * 2 + " ")
        lines.append(f"{day}{' ' * (margin - width(day))}  {''.join(shades)}".rstrip())
    lines.append(f"{'':{margin}}  darkest: {shown(most, kind_of(names[y]))}")
    return lines


def _weekday(value: object) -> str:
    if isinstance(value, int) and 0 <= value <= 6:
        return WEEKDAYS[value]
    return printable(str(value))
