from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxdb import config
from ctxdb.errors import ConfigError, UsageError
from ctxdb.lock import WriterLock
from ctxdb.settings import SETTINGS, Setting, is_allowed
from ctxdb.settings_file import value_from_words
from world import Done, run_ctxdb

Run = Callable[..., Done]


@pytest.fixture
def run(home: Path) -> Run:
    """The command line, in a process of its own."""

    return run_ctxdb


@pytest.fixture
def environ(home: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An environment that says nothing but where home is."""
    return {"HOME": str(home)}


def write_config(home: Path, text: str) -> Path:
    path = home / ".config/ctxdb/config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def place(loaded: config.Config) -> tuple[str, tuple[str, ...]]:
    return str(loaded.db_path), loaded.roots


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
    assert place(config.load(environ=environ)) == ("/from/file.db", ("/from/file",))
    environ |= {"CTXDB_DB": "/from/env.db", "CLAUDE_CONFIG_DIR": "/from/env"}
    assert place(config.load(environ=environ)) == ("/from/env.db", ("/from/env/projects",))
    loaded = config.load(Path("/flag.db"), [Path("/flag")], environ)
    assert place(loaded) == ("/flag.db", ("/flag",))


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
    assert place(loaded) == (str(tmp_path / "my.db"), (str(tmp_path / "logs"),))


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
        pytest.param('root = ["/a"]', "'root'; did you mean 'roots'", id="misspelt"),
        pytest.param("[redactt]\nx = 1", r"unknown setting 'redactt.x'", id="no such table"),
        pytest.param('archive = "no"', "archive must be true or false", id="flag in quotes"),
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


# -- ctxdb config ---------------------------------------------------------------------------------


def test_every_setting_is_shown_with_its_value_and_where_it_comes_from(
    home: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_config(home, "archive = false\n")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", "/from/env")
    shown = {
        one["name"]: one for one in json.loads(run("config", "list", "--json").stdout)["settings"]
    }
    assert set(shown) == {setting.name for setting in SETTINGS}
    assert (shown["archive"]["value"], shown["archive"]["source"]) == (False, "config.toml")
    assert shown["roots"]["value"] == ["/from/env/projects"]
    assert shown["roots"]["source"] == "CLAUDE_CONFIG_DIR"
    assert shown["statusline"]["source"] == "default"
    assert shown["db"]["source"] in {"default", "CTXDB_DB"}


def test_the_plain_list_has_a_line_for_each_setting(run: Run) -> None:
    lines = run("config").stdout.splitlines()
    for setting in SETTINGS:
        assert any(line.startswith(setting.name) for line in lines), setting.name


def test_set_writes_a_setting_and_keeps_the_comments(home: Path, run: Run) -> None:
    path = write_config(home, "# mine\nstatusline = 'x' # keep\n")
    assert run("config", "set", "archive", "off").returncode == 0
    assert run("config", "set", "roots", "/a", "/b").returncode == 0
    text = path.read_text()
    assert "# mine" in text
    assert "# keep" in text
    assert tomllib.loads(text) == {"statusline": "x", "archive": False, "roots": ["/a", "/b"]}


def test_unset_takes_a_setting_out_again(home: Path, run: Run) -> None:
    path = write_config(home, "archive = false\nstatusline = 'x'\n")
    assert run("config", "unset", "archive").returncode == 0
    assert tomllib.loads(path.read_text()) == {"statusline": "x"}
    assert run("config", "unset", "archive").returncode == 0


@pytest.mark.parametrize(
    ("words", "why"),
    [
        pytest.param(["archived", "true"], "did you mean 'archive'?", id="misspelt"),
        pytest.param(["archive", "maybe"], "must be true or false", id="no flag"),
        pytest.param(["archive", "true", "false"], "must be true or false", id="two values"),
        pytest.param(["db", ""], "must be a path", id="empty path"),
    ],
)
def test_a_wrong_set_changes_nothing(home: Path, run: Run, words: list[str], why: str) -> None:
    path = write_config(home, "archive = true\n")
    result = run("config", "set", *words)
    assert result.returncode == 2
    assert why in result.stderr
    assert path.read_text() == "archive = true\n"


def test_a_file_that_is_wrong_is_not_changed_by_set(home: Path, run: Run) -> None:
    path = write_config(home, "roots = 7\n")
    result = run("config", "set", "archive", "true")
    assert result.returncode == 1
    assert path.read_text() == "roots = 7\n"


def test_a_linked_config_file_stays_a_link(home: Path, run: Run) -> None:
    real = home / "dotfiles.toml"
    real.write_text("archive = true\n")
    link = home / ".config/ctxdb/config.toml"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(real)
    assert run("config", "set", "archive", "false").returncode == 0
    assert link.is_symlink()
    assert tomllib.loads(real.read_text()) == {"archive": False}


@pytest.mark.parametrize(
    ("words", "patterns"),
    [
        (['["/a", "b*"]'], ["/a", "b*"]),
        (["['/a']"], ["/a"]),
        (["[ab]*"], ["[ab]*"]),
        (["[]"], ["[]"]),
        (["[1]"], ["[1]"]),
        (['["/a"]', "b"], ['["/a"]', "b"]),
    ],
)
def test_a_list_may_be_given_as_it_stands_in_the_file(
    home: Path, run: Run, words: list[str], patterns: list[str]
) -> None:
    assert run("config", "set", "ignore", *words).returncode == 0
    path = home / ".config/ctxdb/config.toml"
    assert tomllib.loads(path.read_text()) == {"ignore": patterns}


def test_it_is_said_if_a_running_daemon_must_be_told(home: Path, run: Run) -> None:
    db = home / ".local/share/ctxdb/ctxdb.db"
    for words in (("set", "redact.off", "mailgun-key"), ("unset", "redact.off")):
        assert "restart" not in run("config", *words).stderr
        with WriterLock(db):
            assert "restart" not in run("config", *words).stderr
        with WriterLock(db, role="daemon"):
            assert "`ctxdb daemon restart`" in run("config", *words).stderr
            assert "restart" not in run("config", "set", "ignore", "/a").stderr


@given(st.sampled_from(SETTINGS), st.lists(st.text(max_size=8), max_size=3))
def test_whatever_set_accepts_can_be_read_again(setting: Setting, words: list[str]) -> None:
    try:
        value = value_from_words(setting, words)
    except UsageError:
        return
    assert is_allowed(setting, value)
