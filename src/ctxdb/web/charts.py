"""Draw charts as SVG: pure functions from numbers to markup.

Positions along the width are percentages, so a chart fits any screen while its text keeps its
size. Colours are classes (s1 to s7, other, h0 to h4), because the pages allow no style attributes.
Every mark is a link with a title. A chart is hidden from screen readers: beside it, the page shows
the same numbers as a table.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from ctxdb.escape import safe

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

SERIES = 7  # colours; all that is beyond is "other"
HEAT = 5  # shades of a heat map, the first for nothing
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a bar."""

    style: str  # the class of its colour
    value: float
    title: str
    url: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of parts, one above the other."""

    label: str  # below it, if there is room
    parts: Sequence[Part]

    @property
    def total(self) -> float:
        """The height of the whole bar."""
        return sum(part.value for part in self.parts)


def _number(value: float) -> str:
    """A coordinate: short, and never in exponents."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if math.isfinite(value) else "0"


def _linked(mark: Markup, url: str) -> Markup:
    return Markup('<a href="{}" tabindex="-1">{}</a>').format(url, mark) if url else mark


def _svg(content: Markup, height: float) -> Markup:
    return Markup(
        '<svg class="chart" width="100%" height="{}" aria-hidden="true" focusable="false">{}</svg>'
    ).format(_number(height), content)


def nice_ceiling(value: float) -> float:
    """The next round number above: 1, 2, 2.5 or 5 times a power of ten."""
    if not value > 0 or not math.isfinite(value):
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next((step * power for step in (1, 2, 2.5, 5, 10) if step * power >= value), 10 * power)


def stacked_bars(
    bars: Sequence[Bar], unit: Callable[[float], str], *, height: int = 200, labels: int = 8
) -> Markup:
    """Bars over time, with a scale at the left and some labels below."""
    top, base = 10, height - 20  # px
    ceiling = nice_ceiling(max((bar.total for bar in bars), default=0))
    scale = (base - top) / ceiling
    levels = [(share, base - (base - top) * share) for share in (0, 0.5, 1)]
    scale_texts = [
        Markup('<text class="axis" x="100%" y="{}" text-anchor="end">{}</text>').format(
            _number(y + 4), unit(ceiling * share)
        )
        for share, y in levels
    ]
    lines = [
        Markup('<line class="grid" x1="0" x2="100%" y1="{0}" y2="{0}"/>').format(_number(y))
        for _, y in levels
    ]
    width = 100 / max(len(bars), 1)
    gap = 0.12 if len(bars) <= 120 else 0.0
    marks = []
    every = max(1, math.ceil(len(bars) / labels))
    for place, bar in enumerate(bars):
        y = float(base)
        for part in bar.parts:
            if not 0 < part.value < math.inf:
                continue
            size = max(part.value * scale, 0.5)
            y -= size
            rect = Markup(
                '<rect class="{}" x="{}%" y="{}" width="{}%" height="{}"><title>{}</title></rect>'
            ).format(
                part.style,
                _number(width * (place + gap / 2)),
                _number(y),
                _number(width * (1 - gap)),
                _number(size),
                safe(part.title),
            )
            marks.append(_linked(rect, part.url))
        if place % every == 0:
            alternate = " alternate" if (place // every) % 2 else ""
            marks.append(
                Markup('<text class="axis{}" x="{}%" y="{}">{}</text>').format(
                    alternate, _number(width * place), height - 4, bar.label
                )
            )
    return _beside(scale_texts, [*lines, *marks], "bars", height)


def _beside(axis: Sequence[Markup], marks: Sequence[Markup], style: str, height: float) -> Markup:
    """A chart with its axis at the left, in two pictures: so the chart's width is all its own."""
    return Markup('<div class="plot {}">{}{}</div>').format(
        style,
        _svg(Markup("").join(axis), height),
        _svg(Markup("").join(marks), height),
    )


def spark(values: Sequence[float | None], style: str = "s1") -> Markup:
    """A small line without scale. Days are joined by straight lines; a gap is a gap."""
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return Markup("")
    top = max(known) or 1.0
    step = 100 / (len(values) - 1)
    runs: list[list[str]] = [[]]
    for place, value in enumerate(values):
        if value is None:
            runs.append([])
        else:
            runs[-1].append(f"{_number(place * step)},{_number(22 - 20 * value / top)}")
    lines = Markup("").join(
        Markup('<polyline class="line {}" points="{}"/>').format(
            style,
            " ".join(run if len(run) > 1 else run * 2),  # a day alone is a dot
        )
        for run in runs
        if run
    )
    return Markup(
        '<svg class="spark" viewBox="0 0 100 24" preserveAspectRatio="none" height="24"'
        ' width="100%" aria-hidden="true" focusable="false">{}</svg>'
    ).format(lines)


def shade(value: float, top: float) -> int:
    """0 for nothing, 1 to 4 for a share of the largest value."""
    if not value > 0 or not top > 0:
        return 0
    return HEAT - 1 if value >= top else 1 + int(value / top * (HEAT - 1))


def _typical_top(values: Sequence[float]) -> float:
    """A value that most others are below: a single huge day would leave the rest pale."""
    known = sorted(value for value in values if value > 0)
    return known[int(0.9 * (len(known) - 1))] if known else 0.0


def calendar(
    values: Mapping[date, float],
    first: date,
    last: date,
    title: Callable[[date, float], str],
    url: Callable[[date], str],
) -> Markup:
    """A square per day, a column per week, as in a calendar of the year."""
    size, left, top = 13, 30, 16
    begin = first - timedelta(days=first.weekday())
    weeks = (last - begin).days // 7 + 1
    limit = _typical_top(list(values.values()))
    marks: list[Markup] = [
        Markup('<text class="axis" x="0" y="{}">{}</text>').format(top + row * size + 10, name)
        for row, name in ((0, "Mon"), (2, "Wed"), (4, "Fri"))
    ]
    last_label = -4
    for week in range(weeks):
        for row in range(7):
            day = begin + timedelta(days=week * 7 + row)
            if not first <= day <= last:
                continue
            value = values.get(day, 0.0)
            x, y = left + week * size, top + row * size
            rect = Markup(
                '<rect class="h{}" x="{}" y="{}" width="{}" height="{}" rx="2"><title>{}</title>'
                "</rect>"
            ).format(shade(value, limit), x, y, size - 2, size - 2, title(day, value))
            marks.append(_linked(rect, url(day) if value > 0 else ""))
            if day.day == 1 and week - last_label >= 3:
                last_label = week
                name = f"{day:%b}" if day.month > 1 else str(day.year)
                marks.append(Markup('<text class="axis" x="{}" y="11">{}</text>').format(x, name))
    width, height = left + weeks * size, top + 7 * size
    return Markup(
        '<svg class="chart calendar" width="{}" height="{}" viewBox="0 0 {} {}"'
        ' aria-hidden="true" focusable="false">{}</svg>'
    ).format(width, height, width, height, Markup("").join(marks))


def hours(
    values: Mapping[tuple[int, int], float],
    title: Callable[[int, int, float], str],
    url: Callable[[int, int], str],
) -> Markup:
    """Weekdays (1 to 7) by hours (0 to 23)."""
    row, top = 20, 4
    limit = _typical_top(list(values.values()))
    width = 100 / 24
    names = [
        Markup('<text class="axis" x="0" y="{}">{}</text>').format(top + n * row + 14, name)
        for n, name in enumerate(WEEKDAYS)
    ]
    marks = []
    for weekday in range(1, 8):
        for hour in range(24):
            value = values.get((weekday, hour), 0.0)
            rect = Markup(
                '<rect class="h{}" x="{}%" y="{}" width="{}%" height="{}" rx="2"><title>{}</title>'
                "</rect>"
            ).format(
                shade(value, limit),
                _number(width * hour),
                top + (weekday - 1) * row,
                _number(width * 0.92),
                row - 2,
                title(weekday, hour, value),
            )
            marks.append(_linked(rect, url(weekday, hour) if value > 0 else ""))
    marks += [
        Markup('<text class="axis" x="{}%" y="{}">{:02}</text>').format(
            _number(width * hour), top + 7 * row + 12, hour
        )
        for hour in range(0, 24, 6)
    ]
    height = top + 7 * row + 18
    return _beside(names, marks, "hours", height)


def share_bar(share: float, style: str) -> Markup:
    """A bar of a list, by its share of the longest one."""
    width = _number(max(0.0, min(1.0, share)) * 100)  # not a number: 0
    return Markup(
        '<svg class="share" width="100%" height="8" aria-hidden="true" focusable="false">'
        '<rect class="{}" width="{}%" height="8" rx="2"/></svg>'
    ).format(escape(style), width)


def colours(shown: Sequence[str], known: Sequence[str]) -> dict[str, str]:
    """A class for each name: always the same one, by its place among all known names.

    If two shown names would have the same colour, the later one gets the next that is free. What is
    beyond SERIES is "other".
    """
    places = {name: place for place, name in enumerate(known)}
    found: dict[str, str] = {}
    taken: set[int] = set()
    for name in shown[:SERIES]:
        wanted = places.get(name, len(places)) % SERIES
        free = next(n for n in range(SERIES) if (wanted + n) % SERIES not in taken)
        slot = (wanted + free) % SERIES
        taken.add(slot)
        found[name] = f"s{slot + 1}"
    return found
