"""Wheel, sdist and editable install, each in a clean venv.

Nothing is downloaded: the venvs see this one's packages, all but ctxdb, through a .pth file.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from ctxdb import __version__
from thinning import thinned

CHECKOUT = Path(__file__).resolve().parents[1]

pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.xdist_group("packaging"),  # so that one worker builds, not all of them
]


# What `python -m build` asks of the backend, without a new process for each question.
BUILD = """
import os, sys, tarfile
from hatchling import build
checkout, out = sys.argv[1:]
os.chdir(checkout)
os.makedirs(f"{out}/wheel")
os.makedirs(f"{out}/sdist")
build.build_wheel(f"{out}/wheel")
name = build.build_sdist(f"{out}/sdist")
with tarfile.open(f"{out}/sdist/{name}") as archive:
    archive.extractall(f"{out}/again", filter="data")
os.chdir(f"{out}/again/{name.removesuffix('.tar.gz')}")
build.build_wheel(f"{out}/sdist")
"""


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel made from the checkout in wheel/, an sdist and the wheel made of it in sdist/."""
    out = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-c", BUILD, CHECKOUT, out], check=True, stdout=subprocess.DEVNULL
    )
    return out


def only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def clean_venv(folder: Path) -> Path:
    """Make a venv without ctxdb and return its bin folder."""
    venv.create(folder, with_pip=False)
    site_packages = only(folder, "lib/python*/site-packages")
    (site_packages / "borrowed.pth").write_text(sysconfig.get_path("purelib"))
    return folder / "bin"


def pip_install(bin_folder: Path, *what: str | Path) -> None:
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "--python", bin_folder / "python", "install"),
            *("--quiet", "--no-deps", "--no-index", "--no-build-isolation"),
            *("--disable-pip-version-check", "--ignore-installed", "--no-compile"),
            *what,
        ],
        check=True,
    )


_installed: dict[str, Path] = {}  # in whatever order the tests run, each is made once


@pytest.fixture(params=thinned(["wheel", "sdist", "editable"], 3))
def installed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of a clean venv with ctxdb installed that way."""
    if request.param in _installed:
        return _installed[request.param]
    bin_folder = clean_venv(tmp_path_factory.mktemp("venv") / request.param)
    _installed[request.param] = bin_folder
    if request.param == "editable":
        pip_install(bin_folder, "-e", CHECKOUT)
        return bin_folder
    dist: Path = request.getfixturevalue("dist")
    if request.param == "wheel":
        pip_install(bin_folder, only(dist / "wheel", "*.whl"))
    else:
        pip_install(bin_folder, only(dist / "sdist", "*.tar.gz"))
    return bin_folder


def output(*command: str | Path) -> str:
    # From somewhere else: the checkout must not be found through the current folder.
    return subprocess.run(
        command, check=True, capture_output=True, text=True, cwd=os.environ["HOME"]
    ).stdout.strip()


def files_below(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_installed_command_works(installed: Path, home: Path) -> None:
    where = output(installed / "python", "-c", "import ctxdb; print(ctxdb.__file__)")
    assert Path(where).is_relative_to(
        CHECKOUT if installed.parent.name == "editable" else installed.parent
    )
    assert output(installed / "ctxdb", "--version") == f"ctxdb {__version__}"
    assert output(installed / "python", "-m", "ctxdb", "--version") == f"ctxdb {__version__}"
    assert output(installed / "ctxdb", "path") == f"{home}/.local/share/ctxdb/ctxdb.db"


@pytest.mark.parametrize("name", ["migrations", "sql"])
def test_migrations_and_sql_are_installed_with_it(installed: Path, name: str) -> None:
    folder = Path(output(installed / "ctxdb", "paths", name))
    if installed.parent.name == "editable":
        assert folder == CHECKOUT / name  # the live one, not a copy that grows old
    else:
        assert folder.is_relative_to(installed.parent)
    assert files_below(folder) == files_below(CHECKOUT / name)
    assert list(folder.glob("*.sql"))


def test_sqlite_utils_itself_can_run_the_installed_migrations(
    installed: Path, tmp_path: Path
) -> None:
    folder = output(installed / "ctxdb", "paths", "migrations")
    listed = output(
        installed / "python", "-m", "sqlite_utils", "migrate", tmp_path / "x.db", folder, "--list"
    )
    for migration in Path(folder).glob("[0-9]*.sql"):
        assert migration.stem in listed


def test_the_wheel_of_the_sdist_is_the_wheel_of_the_checkout(dist: Path) -> None:
    names = []
    for folder in ("wheel", "sdist"):
        with zipfile.ZipFile(only(dist / folder, "*.whl")) as wheel:
            names.append(sorted(info.filename for info in wheel.infolist()))
    assert names[0] == names[1]
    assert "ctxdb/py.typed" in names[0]
    assert "ctxdb/_assets/migrations/migrations.py" in names[0]
    assert any(name.endswith("licenses/LICENSE") for name in names[0])


def test_the_sdist_has_what_is_needed_to_test_it(dist: Path) -> None:
    with tarfile.open(only(dist / "sdist", "*.tar.gz")) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert names >= {"Makefile", "README.md", "LICENSE", "CHANGELOG.md", "pyproject.toml"}
    assert names >= {"ARCHITECTURE.md", "CONTRIBUTING.md", "sql/README.md"}
    assert names >= {"tests/conftest.py", "src/ctxdb/cli/main.py", "migrations/migrations.py"}


def test_no_database_and_no_transcript_is_packaged(dist: Path) -> None:
    with zipfile.ZipFile(only(dist / "wheel", "*.whl")) as wheel:
        in_wheel = wheel.namelist()
    with tarfile.open(only(dist / "sdist", "*.tar.gz")) as sdist:
        in_sdist = sdist.getnames()
    assert not [name for name in in_wheel + in_sdist if name.endswith((".db", ".pyc"))]
    # The tests' own transcripts, written by hand, are all there may be.
    transcripts = [name for name in in_wheel + in_sdist if name.endswith(".jsonl")]
    assert not [name for name in transcripts if "/tests/data/" not in name]
