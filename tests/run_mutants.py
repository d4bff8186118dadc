"""Change the rules one by one: a named test must notice each change (`make mutants`).

tests/mutants.toml lists the changes: a file, a text that is in it exactly once, what to put in its
place, and the tests that must fail then. Each change is made in a copy of the sources, and only its
tests run.
"""

from __future__ import annotations

import argparse
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

    def fault(self, root: Path = CHECKOUT) -> str | None:
        """Why it cannot be made, if so."""
        found = (root / self.file).read_text(encoding="utf-8").count(self.old)
        if found != 1:
            return f"the old text is there {found} times, not once"
        return "it changes nothing" if self.old == self.new else None

    def apply(self, root: Path) -> None:
        path = root / self.file
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")


def load() -> list[Mutation]:
    """The list."""
    with LIST.open("rb") as file:
        found = tomllib.load(file)["mutation"]
    return [Mutation(**{**one, "tests": tuple(one["tests"])}) for one in found]


def run_tests(tests: tuple[str, ...], sources: Path) -> tuple[int, str]:
    """How pytest ends with these sources, and what it prints."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=line"]
    command += ["-p", "no:randomly", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]
    env = {**os.environ, "PYTHONPATH": str(sources), "PYTHONDONTWRITEBYTECODE": "1"}
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


def try_one(mutation: Mutation) -> str | None:
    """Why a mutation is not killed; None if it is."""
    if fault := mutation.fault():
        return fault
    with tempfile.TemporaryDirectory(prefix="ctxdb-mutant-") as folder:
        root = Path(folder)
        for name in COPIED:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(CHECKOUT / name, root / name, ignore=ignored)
        shutil.copy(CHECKOUT / "pyproject.toml", root)
        mutation.apply(root)
        try:
            code, printed = run_tests(mutation.tests, root / "src")
        except subprocess.TimeoutExpired:
            return f"its tests took more than {MAX_SECONDS} s"
    if code == PASSED:
        return "no test noticed"
    return None if code == FAILED else f"pytest could not run its tests:\n{printed}"


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
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for mutation, why in zip(mutations, pool.map(try_one, mutations), strict=True):
            if why is not None:
                survivors += 1
                print(f"SURVIVES {mutation.name}\n  {why}", flush=True)
    seconds = time.monotonic() - began
    print(f"{len(mutations) - survivors} of {len(mutations)} mutations killed in {seconds:.0f} s")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
