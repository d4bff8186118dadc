"""Change the rules one by one: a named test must notice each change (`make mutants`).

tests/mutants.toml lists the changes: a file, a text that is in it exactly once, what to put in its
place, and the tests that must fail then. Each change is made in a copy of the sources, and only its
tests run.
"""

from __future__ import annotations

import argparse
import compileall
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

CHECKOUT = Path(__file__).resolve().parents[1]
LIST = CHECKOUT / "tests/mutants.toml"
COPIED = ("src", "migrations", "sql")
MAX_SECONDS = 300  # for the tests of one mutation, on a busy machine
AT_ONCE = 2
PASSED, FAILED = 0, 1  # what pytest exits with


@dataclass(frozen=True)
class Mutation:
    """A change that some tests must notice."""

    rule: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    @property
    def name(self) -> str:
        old, new = (" ".join(text.split()) for text in (self.old, self.new))
        return f"{self.rule}, {self.file}: {old} -> {new}"

    def fault(self) -> str | None:
        """Why it cannot be made, if so."""
        found = (CHECKOUT / self.file).read_text(encoding="utf-8").count(self.old)
        if found != 1:
            return f"the old text is there {found} times, not once"
        return "it changes nothing" if self.old == self.new else None


def load() -> list[Mutation]:
    """The list."""
    with LIST.open("rb") as file:
        found = tomllib.load(file)["mutation"]
    return [Mutation(**{**one, "tests": tuple(one["tests"])}) for one in found]


def run_tests(tests: tuple[str, ...], sources: Path) -> tuple[int, str]:
    """How pytest ends with these sources, and what it prints."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=line", "-p", "pytest_timeout"]
    command += ["-p", "no:randomly", "-p", "no:cacheprovider", *tests]
    env = {
        **os.environ,
        "PYTHONPATH": str(sources),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # loading them takes longer than most of the tests
    }
    done = subprocess.run(
        command,
        cwd=CHECKOUT,
        env=env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=MAX_SECONDS,
        check=False,
    )
    return done.returncode, done.stdout


def copy_checkout(root: Path) -> Path:
    """A copy of what mutations change, compiled."""
    for name in COPIED:
        shutil.copytree(
            CHECKOUT / name, root / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
        )
    shutil.copy(CHECKOUT / "pyproject.toml", root)
    compileall.compile_dir(root / "src", quiet=1)
    return root


def try_one(mutation: Mutation, root: Path) -> str | None:
    """Why a mutation, made in a copy of the checkout, is not killed; None if it is."""
    if fault := mutation.fault():
        return fault
    path = root / mutation.file
    before = path.read_text(encoding="utf-8")
    try:
        _write(path, before.replace(mutation.old, mutation.new))
        code, printed = run_tests(mutation.tests, root / "src")
    except subprocess.TimeoutExpired:
        return f"its tests took more than {MAX_SECONDS} s"
    finally:
        _write(path, before)
    if code == PASSED:
        return "no test noticed"
    return None if code == FAILED else f"pytest could not run its tests:\n{printed}"


def _write(path: Path, text: str) -> None:
    """Write a source, and drop what was compiled of it: both may be of one second and size."""
    path.write_text(text, encoding="utf-8")
    for compiled in path.parent.glob(f"__pycache__/{path.stem}.*"):
        compiled.unlink()


def try_all(mutations: list[Mutation]) -> Iterator[tuple[Mutation, str | None]]:
    """Try mutations, two at a time, each in a copy that no other one is using."""
    with tempfile.TemporaryDirectory(prefix="ctxdb-mutants-") as folder:
        free: Queue[Path] = Queue()
        for n in range(AT_ONCE):
            free.put(copy_checkout(Path(folder) / str(n)))

        def use_copy(mutation: Mutation) -> str | None:
            root = free.get()
            try:
                return try_one(mutation, root)
            finally:
                free.put(root)

        with ThreadPoolExecutor(AT_ONCE) as pool:
            yield from zip(mutations, pool.map(use_copy, mutations), strict=True)


def main() -> int:
    """Try all mutations, or those whose name contains a word."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("word", nargs="*", help="only mutations whose name contains one of these")
    words = parser.parse_args().word
    mutations = [m for m in load() if not words or any(word in m.name for word in words)]
    began = time.monotonic()
    tests = tuple(sorted({test for mutation in mutations for test in mutation.tests}))
    code, printed = run_tests(tests, CHECKOUT / "src")
    if code != PASSED:
        print(printed, "\nThe tests fail without any mutation.", sep="")
        return 1
    survivors = 0
    for mutation, why in try_all(mutations):
        if why is not None:
            survivors += 1
            print(f"SURVIVES {mutation.name}\n  {why}", flush=True)
    seconds = time.monotonic() - began
    print(f"{len(mutations) - survivors} of {len(mutations)} mutations killed in {seconds:.0f} s")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
