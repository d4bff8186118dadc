"""Draw an answer as a chart in the terminal: bars for a few points, columns for many.

The first column that is not a number is the axis. The value is the cost, else the tokens, else the
first number that can be added up; if there is none, rows are counted. ``--columns day,requests``
chooses others. Rows with the same label (the models of a day, projects of one name) are added up.
Figures that cannot be added up (shares, medians) are drawn only if they are asked for; then rows
with the same label give their mean, and the title says so. Days, weeks and months without a row are
drawn as zero. An answer with a weekday and an hour is a map of the week.
"""

from __future__ import annotations

import math
import re
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from ctxdb.errors import UsageError
from ctxdb.escape import clip, clip_path, printable, width
from ctxdb.query.cells import display_by_name, shown
from ctxdb.query.plot_times import Point, in_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ctxdb.store.sql_files import ColumnKind, Display

    Row = Sequence[object]

# Widths are in columns of a terminal.
WIDTH = 80  # of a chart in a pipe
HEIGHT = 12  # lines of a chart of columns
CHOSEN_COLUMNS = 2  # an axis and a value: all that a chart can show, so they were chosen
BARS = 45  # points that are drawn as bars, one a line; more are a chart of columns
LABEL = 28  # a label; more where the bars have room
BAR = 24  # what bars keep beside long labels
LEAST_BAR = 8  # and on a narrow page, where labels are shortened
SCALE = 9  # the widest figure beside a chart of columns
EIGHTHS = " ▏▎▍▌▋▊▉█"
LEVELS = " ▁▂▃▄▅▆▇█"
SHADES = " ░▒▓█"
SHORT = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")


# Names of figures that cannot be added up.
_NO_SUM = re.compile(
    r"median|p95|mean|average|avg|_rate|ratio|_per_|_before|_after|^exit|percent|^succeeded$|^is_|_number$"
)


class _Column(NamedTuple):
    name: str
    kind: ColumnKind
    values: Sequence[object]
    is_moment: bool = False  # a time, of which the day or hour is drawn: a row is one thing then

    @property
    def has_numbers(self) -> bool:
        return any(isinstance(value, int | float) for value in self.values)

    @property
    def is_numeric(self) -> bool:
        return self.has_numbers and not any(isinstance(value, str | bytes) for value in self.values)

    @property
    def is_measure(self) -> bool:
        """Whether its values can be added up."""
        return self.kind not in ("id", "share", "time") and not _NO_SUM.search(self.name.lower())


def draw(
    names: Sequence[str],
    rows: Sequence[Row],
    page_width: int | None,
    displays: Sequence[Display] | None = None,
    *,
    rows_share_requests: bool = False,
) -> list[str]:
    """Return the lines of a chart; without `displays` the names say how to show each column.

    With `rows_share_requests`, costs and tokens of what happened on one day are not added up.
    """
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
    axis, value = _axes([_by_day(column) for column in columns], shares=rows_share_requests)
    numbers = [_as_number(number) for number in value.values]
    sums: dict[str, float] = {}
    rows_of: dict[str, int] = {}  # with a value
    for label, given, number in zip(axis.values, value.values, numbers, strict=True):
        text = shown(label, axis.kind)
        sums[text] = sums.get(text, 0) + number
        rows_of[text] = rows_of.get(text, 0) + (given is not None)
    name = printable(value.name)
    if not value.is_measure and max(rows_of.values()) > 1:
        name = f"mean of {name}"
        sums = {label: total / max(rows_of[label], 1) for label, total in sums.items()}
    points = in_time(sums) or _in_order(sums, numbers)
    title = f"{name} by {printable(axis.name)}"
    if len(points) <= BARS:
        return [title, *_bars(points, value.kind, room)]
    lines, per = _levels(points, value, room)
    if per > 1:
        each = "sum" if value.is_measure else "mean"
        title += f" (each column is the {each} of {per})"
    return [clip(title, room), *lines]


def _by_day(column: _Column) -> _Column:
    """A column of times as local days; if all are on one day, as hours of it."""
    if column.kind != "time":
        return column
    times = [shown(value, "time") for value in column.values]
    days = {time[:10] for time in times if time}
    if len(days) == 1:
        return _Column(
            f"hour of {next(iter(days))}", "text", [f"{time[11:13]}:00" for time in times], True
        )
    return _Column("day", "text", [time[:10] or None for time in times], True)


def _as_number(value: object) -> float:
    return value if isinstance(value, int | float) else 0


def _axes(columns: Sequence[_Column], *, shares: bool) -> tuple[_Column, _Column]:
    """Return the column of the labels and the column of the values."""
    labels = (column for column in columns if not column.is_numeric)
    axis = next((one for one in labels if any(value is not None for value in one.values)), None)
    if axis is None:
        axis, *_ = columns
    numeric = [column for column in columns if column.is_numeric and column is not axis]
    measures = [column for column in numeric if column.is_measure]
    if axis.is_moment and len(columns) > CHOSEN_COLUMNS:
        # One row for each thing that happened: what else it has in numbers is no sum of days.
        kinds = () if shares else ("money", "tokens")
        measures = [column for column in measures if column.kind in kinds]
    if len(columns) <= CHOSEN_COLUMNS and numeric:  # these were asked for
        measures = measures or numeric
    if not measures:
        return axis, _Column("rows", "number", [1] * len(axis.values))
    numeric = measures
    for kind in ("money", "tokens"):
        # The sum over everything has the shorter name: cost_usd before cost_own_usd.
        if found := sorted(
            (column for column in numeric if column.kind == kind), key=lambda one: len(one.name)
        ):
            numeric = found
            break
    value, *_ = numeric
    return axis, value


def _in_order(sums: dict[str, float], numbers: Sequence[float]) -> list[Point]:
    """Return the points in the order of the rows; sorted by value if the rows were."""
    points = [Point(label, value) for label, value in sums.items()]
    if len(points) == len(numbers):
        return points
    if all(one >= other for one, other in pairwise(numbers)):
        return sorted(points, key=lambda point: -point.value)
    if all(one <= other for one, other in pairwise(numbers)):
        return sorted(points, key=lambda point: point.value)
    return points


# -- drawing ---------------------------------------------------------------------------------------


def _most(values: Iterable[float]) -> float:
    """Return the value of a full bar."""
    return max((value for value in values if math.isfinite(value)), default=0.0)


def _share(value: float, most: float) -> float:
    """Return how full a bar is, from 0 to 1."""
    if value == math.inf:
        return 1.0
    return value / most if value > 0 and most > 0 else 0.0  # 0 also for NaN


def _labels(points: list[Point], most: int) -> list[str]:
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


def _bars(points: list[Point], kind: ColumnKind, room: int) -> list[str]:
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


def _levels(points: list[Point], value: _Column, room: int) -> tuple[list[str], int]:
    """Return the lines, and how many points share a column: their sum, or else their mean."""
    kind = value.kind
    space = max(room - SCALE - 2, 10)
    per = -(-len(points) // space)  # points that share one column of the screen
    # If one column has fewer points than the others, it is the first: the newest has all of its.
    ends = range(len(points) - (len(points) - 1) // per * per, len(points) + 1, per)
    parts = [points[max(end - per, 0) : end] for end in ends]
    values = [sum(point.value for point in part) for part in parts]
    if not value.is_measure:
        values = [total / len(part) for total, part in zip(values, parts, strict=True)]
    top = max(_most(values), 0.0)
    scale = {
        HEIGHT: clip(shown(top, kind), SCALE),
        HEIGHT // 2: clip(shown(top / 2, kind), SCALE),
    }
    margin = max(map(len, scale.values()))
    lines = []
    for line in range(HEIGHT, 0, -1):
        cells = []
        for number in values:
            eighths = round(_share(number, top) * HEIGHT * 8)
            cells.append(LEVELS[max(0, min(8, eighths - (line - 1) * 8))])
        lines.append(f"{scale.get(line, ''):>{margin}} ┤{''.join(cells)}".rstrip())
    first, *_, last = (point.label for point in points)
    gap = max(len(values) - len(first) - len(last), 1)
    lines.append(f"{'':>{margin}} └{'─' * len(values)}")
    lines.append(f"{'':>{margin}}  {first}{' ' * gap}{last}")
    return lines, per


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
