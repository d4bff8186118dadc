"""Draw docs/pictures/terminal.svg: what commands print on a terminal, on the demo.

`make pictures` runs it. Each command runs on a real terminal (a pty) of 100 columns, in an empty
home. Rich draws what it printed, with its colours.
"""

from __future__ import annotations

import os
import pty
import shlex
import struct
import sys
import tempfile
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ

from rich.console import Console
from rich.text import Text

CHECKOUT = Path(__file__).resolve().parents[1]
PICTURE = CHECKOUT / "docs/pictures/terminal.svg"
COLUMNS, LINES = 100, 50
COMMANDS = (
    "ctxdb query daily_usage --since 2026-10 --plot",
    "ctxdb query file_history -p path src/sync.ts --limit 5",
    "ctxdb search queue --limit 1",
)
# As Rich's, without the fonts that it would load from a web site.
SVG = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{
  font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px;
}}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" /></clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g>
</svg>
"""


def on_a_terminal(words: list[str], env: dict[str, str]) -> str:
    """What a command prints on a terminal."""
    child, terminal = pty.fork()
    if child == 0:
        os.execvpe(words[0], words, env)  # noqa: S606
    ioctl(terminal, TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    printed = b""
    while True:
        try:
            some = os.read(terminal, 65536)
        except OSError:  # the terminal of a process that has ended
            break
        if not some:
            break
        printed += some
    _, status = os.waitpid(child, 0)
    if status:
        sys.exit(f"{shlex.join(words)}: {printed.decode()}")
    return printed.decode().replace("\r\n", "\n")


def main() -> None:
    """Make the demo in an empty home and draw the picture."""
    from ctxdb.config import Config
    from ctxdb.demo import write_demo
    from ctxdb.ingest.sync import sync
    from ctxdb.progress import NullProgress

    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "demo.db"
        write_demo(Path(folder) / "projects")
        sync(Config(database, (f"{folder}/projects",)), progress=NullProgress())
        env = {
            "HOME": folder,
            "TZ": "UTC",
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "PATH": os.environ["PATH"],
            "COLUMNS": str(COLUMNS),
            "PAGER": "cat",
            "CTXDB_DB": str(database),
        }
        with Path(os.devnull).open("w") as nowhere:
            console = Console(
                record=True,
                width=COLUMNS,
                file=nowhere,
                force_terminal=True,
                color_system="truecolor",
            )
            for command in COMMANDS:
                _, *options = shlex.split(command)
                console.print(Text(f"$ {command}", style="bold green"))
                words = [sys.executable, "-m", "ctxdb", *options, "--no-sync"]
                console.print(Text.from_ansi(on_a_terminal(words, env)))
                console.print()
            drawn = console.export_svg(title="ctxdb", code_format=SVG, unique_id="ctxdb")
    PICTURE.write_text("\n".join(line.rstrip() for line in drawn.splitlines()) + "\n")
    print(PICTURE.relative_to(CHECKOUT))


if __name__ == "__main__":
    main()
