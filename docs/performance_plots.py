"""Draw the plots of docs/performance.md from docs/performance.toml: `make pictures`."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from html import escape
from pathlib import Path

DOCS = Path(__file__).resolve().parent
LABELS, BARS, ROW, TOP = 330, 380, 24, 44  # pixels
GOOD, BAD, QUIET = "#2a9d6f", "#c8553d", "#8a8f98"


def _text(x: float, y: float, words: str, anchor: str = "start") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{escape(words)}</text>'


def _svg(title: str, rows: int, body: list[str]) -> str:
    height = TOP + rows * ROW + 12
    width = LABELS + BARS + 130
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        f"<title>{escape(title)}</title>",
        "<style>text { font: 13px sans-serif; fill: #333 }</style>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        _text(8, 22, title),
        *body,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def goals(numbers: dict[str, list[dict[str, object]]]) -> str:
    """Each measurement as a share of its goal. A bar beyond the line misses it."""
    rows = numbers["goals"]
    most = 1.3  # times the goal, at the right end
    body = []
    for n, row in enumerate(rows):
        measured, goal = float(str(row["measured"])), float(str(row["goal"]))
        y = TOP + n * ROW
        share = measured / goal
        color = GOOD if share <= 1 else BAD
        body += [
            _text(LABELS - 8, y + 15, str(row["title"]), "end"),
            (
                f'<rect x="{LABELS}" y="{y + 3}" width="{min(share, most) / most * BARS:.1f}" '
                f'height="{ROW - 8}" fill="{color}"/>'
            ),
            _text(LABELS + BARS + 8, y + 15, f"{measured:g} of {goal:g}"),
        ]
    line = LABELS + BARS / most
    bottom = TOP + len(rows) * ROW
    body.append(f'<path d="M{line:.1f} {TOP - 6}V{bottom}" stroke="#333" stroke-dasharray="4 3"/>')
    body.append(_text(line, TOP - 10, "goal", "middle"))
    return _svg("Measured, as a share of the goal", len(rows), body)


def tried(numbers: dict[str, list[dict[str, object]]]) -> str:
    """What a change did to the CPU time of a first sync, or of its writer."""
    rows = numbers["tried"]
    most = max(abs(float(str(row["percent"]))) for row in rows)
    middle = LABELS + BARS / 2
    body = []
    for n, row in enumerate(rows):
        percent = float(str(row["percent"]))
        y = TOP + n * ROW
        length = abs(percent) / most * BARS / 2
        color = QUIET if not row["kept"] else GOOD if percent < 0 else BAD
        state = "kept" if row["kept"] else "dropped"
        body += [
            _text(LABELS - 8, y + 15, str(row["title"]), "end"),
            (
                f'<rect x="{middle if percent > 0 else middle - length:.1f}" y="{y + 3}" '
                f'width="{max(length, 1):.1f}" height="{ROW - 8}" fill="{color}"/>'
            ),
            _text(LABELS + BARS + 8, y + 15, f"{percent:+g} %, {state}"),
        ]
    bottom = TOP + len(rows) * ROW
    body.append(f'<path d="M{middle:.1f} {TOP - 6}V{bottom}" stroke="#333"/>')
    return _svg("CPU time: less to the left, more to the right", len(rows), body)


def plots() -> Iterator[tuple[Path, str]]:
    """Each file with its content."""
    numbers = tomllib.loads((DOCS / "performance.toml").read_text())
    yield DOCS / "pictures/goals.svg", goals(numbers)
    yield DOCS / "pictures/tried.svg", tried(numbers)


if __name__ == "__main__":
    for path, content in plots():
        path.write_text(content)
        print(path.relative_to(DOCS.parent))
