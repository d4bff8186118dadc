from __future__ import annotations

from pathlib import Path

import pytest

from ctxdb import config
from ctxdb.errors import ConfigError, UsageError


@pytest.fixture
def environ(home: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An environment that says nothing but where home is."""
    return {"HOME": str(home)}


def write_config(home: Path, text: str) -> Path:
    path = home / ".config/ctxdb/config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_without_any_setting_the_database_and_roots_are_in_the_home_folder(
    home: Path, environ: dict[str, str]
) -> None:
    loaded = config.load(environ=environ)
    assert loaded.db_path == home / ".local/share/ctxdb/ctxdb.db"
    assert loaded.roots == (str(home / ".claude/projects"), str(home / ".config/claude/projects"))


def test_the_command_line_beats_the_environment_which_beats_the_file_which_beats_the_default(
    home: Path, environ: dict[str, str]
) -> None:
    write_config(home, 'db = "/from/file.db"\nroots = ["/from/file"]\n')
    assert config.load(environ=environ) == config.Config(
        Path("/from/file.db"), ("/from/file",), archive=True
    )
    environ |= {"CTXDB_DB": "/from/env.db", "CLAUDE_CONFIG_DIR": "/from/env"}
    assert config.load(environ=environ) == config.Config(
        Path("/from/env.db"), ("/from/env/projects",), archive=True
    )
    assert config.load(Path("/flag.db"), [Path("/flag")], environ) == config.Config(
        Path("/flag.db"), ("/flag",), archive=True
    )


@pytest.mark.parametrize(
    ("value", "roots"),
    [
        pytest.param("/a", ("/a/projects",), id="one folder"),
        pytest.param("/a,/b", ("/a/projects", "/b/projects"), id="two folders"),
        pytest.param(" /a , /b ,", ("/a/projects", "/b/projects"), id="spaces and a last comma"),
        pytest.param("/a,/a/", ("/a/projects",), id="one folder named twice"),
    ],
)
def test_claude_config_dir_is_a_comma_list_of_folders_with_projects_in_them(
    environ: dict[str, str], value: str, roots: tuple[str, ...]
) -> None:
    assert config.load(environ=environ | {"CLAUDE_CONFIG_DIR": value}).roots == roots


def test_empty_variables_count_as_not_set(home: Path, environ: dict[str, str]) -> None:
    empty = dict.fromkeys(["CTXDB_DB", "CLAUDE_CONFIG_DIR", "XDG_DATA_HOME"], "")
    assert config.load(environ=environ | empty) == config.load(environ=environ)
    assert config.load(environ=environ | {"CLAUDE_CONFIG_DIR": " , "}).roots == (
        str(home / ".claude/projects"),
        str(home / ".config/claude/projects"),
    )


def test_xdg_folders_are_honoured_and_relative_ones_ignored(
    home: Path, environ: dict[str, str]
) -> None:
    assert config.load(environ=environ | {"XDG_DATA_HOME": "/data"}).db_path == Path(
        "/data/ctxdb/ctxdb.db"
    )
    assert (
        config.load(environ=environ | {"XDG_DATA_HOME": "data"}).db_path
        == home / ".local/share/ctxdb/ctxdb.db"
    )


def test_paths_in_the_file_may_begin_with_a_tilde_or_be_relative_to_the_file(
    home: Path, environ: dict[str, str]
) -> None:
    path = write_config(home, 'db = "~/x.db"\nroots = ["old", "../claude/projects"]\n')
    loaded = config.load(environ=environ)
    assert loaded.db_path == home / "x.db"
    assert loaded.roots == (str(path.parent / "old"), str(home / ".config/claude/projects"))


def test_relative_paths_on_the_command_line_become_absolute(
    tmp_path: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    loaded = config.load(Path("x/../my.db"), [Path("logs")], environ)
    assert loaded == config.Config(tmp_path / "my.db", (str(tmp_path / "logs"),), archive=True)


def test_a_symbolic_link_to_a_database_is_not_resolved(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(tmp_path / "real.db")
    assert config.load(link, environ=environ).db_path == link


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("db = ", "not valid TOML", id="broken"),
        pytest.param("db = 7", "db must be a path in quotes", id="db is a number"),
        pytest.param('roots = "/a"', "roots must be a list", id="roots is one string"),
        pytest.param("roots = []", "roots must be a list", id="no root at all"),
        pytest.param('roots = ["/a", 1]', "roots must be a list", id="a root is a number"),
        pytest.param('root = ["/a"]', "unknown setting 'root'", id="misspelt"),
    ],
)
def test_a_wrong_setting_is_named_with_its_file(
    home: Path, environ: dict[str, str], text: str, reason: str
) -> None:
    path = write_config(home, text)
    with pytest.raises(ConfigError, match=reason) as caught:
        config.load(environ=environ)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_config_file_that_is_a_folder_is_reported_and_not_a_traceback(
    home: Path, environ: dict[str, str]
) -> None:
    (home / ".config/ctxdb/config.toml").mkdir(parents=True)
    with pytest.raises(ConfigError, match="directory"):
        config.load(environ=environ)


def test_the_home_of_an_unknown_user_is_wrong_usage(environ: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="~no-such-user"):
        config.load(Path("~no-such-user/x.db"), environ=environ)


def test_the_environment_of_a_test_never_points_outside_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = config.load()
    assert loaded.db_path.is_relative_to(tmp_path)
    assert all(Path(root).is_relative_to(tmp_path) for root in loaded.roots)
