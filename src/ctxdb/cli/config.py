"""`ctxdb config`: every setting, its value, and where the value comes from."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from ctxdb.cli.declare import Argument, Context
from ctxdb.cli.shared_options import AsJson
from ctxdb.config import Config, config_file, load
from ctxdb.output import note, print_result, say
from ctxdb.settings import SETTINGS, Setting, read_settings, without_password

_Name = Annotated[
    str, Argument("NAME", help="The setting.", complete="ctxdb.cli.config:complete_names")
]


class _Value(NamedTuple):
    """A setting with its value, and where that comes from."""

    setting: Setting
    value: Any
    source: str  # "command line", a variable, the file, or "default"


class _Values(NamedTuple):
    file: str
    values: list[_Value]

    def as_dict(self) -> Mapping[str, object]:
        return {
            "file": self.file,
            "settings": [
                {
                    "name": one.setting.name,
                    "value": one.value,
                    "source": one.source,
                    "kind": one.setting.kind,
                    "help": one.setting.help,
                }
                for one in self.values
            ],
        }

    def lines(self) -> Iterator[str]:
        shown = [(one.setting.name, _shown(one), one.source) for one in self.values]
        names, values = (max(map(len, column)) for column in list(zip(*shown, strict=True))[:2])
        yield f"Configuration file: {self.file}"
        for name, value, source in shown:
            yield f"{name:{names}}  {value:{min(values, 50)}}  {source}"


def list_(ctx: Context, *, as_json: AsJson = False) -> None:
    """Show every setting, its value, and where the value comes from.

    \b
    Examples:
      ctxdb config
      ctxdb config list --json
    """
    path = config_file()
    print_result(_Values(str(path), [*_values(load(ctx.db), ctx.db, path)]), as_json=as_json)


def set_(
    ctx: Context,
    name: _Name,
    values: Annotated[list[str], Argument("VALUE...", help="Its value; several for a list.")],
) -> None:
    """Write a setting into config.toml. Comments in the file stay.

    \b
    Examples:
      ctxdb config set archive false
      ctxdb config set roots ~/.claude/projects ~/old-laptop/projects
    """
    from ctxdb.settings_file import change_setting, known_setting, value_from_words

    setting = known_setting(name)
    value = value_from_words(setting, values)
    path = config_file()
    change_setting(path, name, value)
    note(f"{path}: {name} is now {_text(_public(value))}")
    if setting.environ and os.environ.get(setting.environ):
        note(f"{setting.environ} is set and comes before it.")
    _say_if_a_daemon_runs(ctx.db, name)


def unset(
    ctx: Context,
    name: _Name,
) -> None:
    """Take a setting out of config.toml, so that the default counts again.

    \b
    Example:
      ctxdb config unset archive
    """
    from ctxdb.settings_file import change_setting, known_setting

    known_setting(name)
    path = config_file()
    change_setting(path, name, None)
    note(f"{path}: {name} is not set; the default counts")
    _say_if_a_daemon_runs(ctx.db, name)


# What a daemon reads when it starts. At `ignore` it looks all the time.
_OF_THE_DAEMON = ("roots", "claude_dirs", "archive", "redact.", "push.")


def _say_if_a_daemon_runs(db: Path | None, name: str) -> None:
    if not name.startswith(_OF_THE_DAEMON):
        return
    from ctxdb.lock import current_writer

    writer = current_writer(load(db).db_path)
    if writer is not None and writer.is_daemon:
        note("The daemon that is running does not know it yet: `ctxdb daemon restart`.")


def path_(_: Context) -> None:
    """Print the path of config.toml. The file need not exist.

    \b
    Example:
      ctxdb config path
    """
    say(str(config_file()))


def complete_names(incomplete: str) -> Iterator[tuple[str, str]]:
    """Names of settings with what they mean, for a shell."""
    for setting in SETTINGS:
        if setting.name.startswith(incomplete):
            yield setting.name, setting.help


def _values(config: Config, db: Path | None, path: Path) -> Iterator[_Value]:
    given = read_settings(path)
    effective = {
        **config.settings,
        "db": str(config.db_path),
        "roots": list(config.roots),
        "claude_dirs": list(config.claude_dirs),
    }
    for setting in SETTINGS:
        if setting.name == "db" and db is not None:
            source = "command line"
        elif setting.environ and os.environ.get(setting.environ, "").strip(" ,"):
            source = setting.environ
        elif setting.name in given:
            source = "config.toml"
        else:
            source = "default"
        yield _Value(setting, _public(effective[setting.name]), source)


def _public(value: Any) -> Any:
    """A value without the password that a URL may hold."""
    return without_password(value) if isinstance(value, str) else value


def _shown(one: _Value) -> str:
    if one.value is None:
        return f"({one.setting.default_text or 'not set'})"
    return _text(one.value)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value)) or "(none)"
    if isinstance(value, dict):
        return ", ".join(f"{key}={_text(one)}" for key, one in value.items()) or "(none)"
    return str(value)
