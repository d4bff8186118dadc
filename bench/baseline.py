"""The baseline of every ratio: read each file and parse each line with orjson, nothing else.

    python bench/baseline.py FOLDER

The files are in the page cache, they are read one by one, and reading them counts. It runs in a
process of its own, as ctxdb does, but starting Python does not count.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import orjson
from tree import Cost


def baseline(root: Path) -> Cost:
    """What it costs, by a process of its own."""
    command = [sys.executable, __file__, str(root)]
    out = subprocess.run(command, check=True, capture_output=True).stdout
    return Cost(**json.loads(out), memory_mb=0.0)


def parse(paths: list[Path]) -> None:
    """Read and parse."""
    for path in paths:
        for line in path.read_bytes().split(b"\n"):
            if line:
                try:
                    orjson.loads(line)
                except orjson.JSONDecodeError:
                    continue


def main() -> None:
    """Measure, and print JSON."""
    paths = sorted(Path(sys.argv[1]).rglob("*.jsonl"))
    for path in paths:  # into the page cache
        with path.open("rb") as file:
            while file.read(1 << 20):
                pass
    wall, cpu = time.perf_counter(), time.process_time()
    parse(paths)
    print(json.dumps({"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}))


if __name__ == "__main__":
    main()
