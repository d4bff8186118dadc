"""Every setting of config.toml, declared once: its name, what it may be, its default, its meaning.

commands, the docs and `ctxdb config` all read this list. A name or value that is wrong is an error:
if a misspelt setting were ignored, the wrong folders would be read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ctxdb.errors import ConfigError

# What a value may be. "map" is a table of texts, "tables" a list of tables of texts.
KINDS = {
    "flag": "true or false",
    "number": "a whole number",
    "text": "a text in quotes",
    "path": "a path in quotes",
    "texts": "a list of texts",
    "paths": "a list of paths",
    "map": "a table of texts",
    "tables": "a list of tables, each with texts",
}


class Setting(NamedTuple):
    """A setting that config.toml can have."""

    name: str
    kind: str  # a key of KINDS
    default: Any  # None: worked out where it is used
    help: str
    environ: str = ""  # the variable that comes before the file
    default_text: str = ""  # the default in words, if it is worked out


SETTINGS = (
    Setting(
        "db",
        "path",
        None,
        "the database",
        environ="CTXDB_DB",
        default_text="~/.local/share/ctxdb/ctxdb.db",
    ),
    Setting(
        "roots",
        "paths",
        None,
        "folders with transcripts",
        environ="CLAUDE_CONFIG_DIR",
        default_text="~/.claude/projects and ~/.config/claude/projects",
    ),
    Setting(
        "claude_dirs",
        "paths",
        None,
        "folders with to-dos, plans and the history of prompts",
        default_text="the folders that hold the roots",
    ),
    Setting("archive", "flag", True, "keep the exact bytes of every file beside the database"),
    Setting("redact.enabled", "flag", True, "mask secrets before they are stored"),
    Setting(
        "redact.archive",
        "flag",
        False,
        "overwrite secrets in the archive too; it then no longer has the exact bytes",
    ),
    Setting("redact.off", "texts", (), "rules that do not mask, by name", default_text="none"),
    Setting(
        "redact.rules",
        "tables",
        (),
        "your own rules: name, pattern and keyword of each",
        default_text="none",
    ),
    Setting(
        "ignore",
        "texts",
        (),
        "folders whose sessions are left out; * and ? stand for anything in a name, ** also for"
        " folders",
        default_text="none",
    ),
    Setting(
        "statusline",
        "text",
        None,
        "the format of the status line",
        default_text="cost, window and context",
    ),
    Setting("push.url", "text", None, "the team's PostgreSQL: postgresql://USER@HOST/DATABASE"),
    Setting("push.every_minutes", "number", 0, "how often the daemon pushes; 0 is never"),
    Setting("push.level", "text", "metadata", "what is sent to the team: usage, metadata or full"),
    Setting("push.person", "text", None, "who you are", default_text="your user name"),
    Setting("push.hash_person", "flag", False, "send a hash of your name instead of the name"),
    Setting("push.team", "text", None, "your team", default_text="none"),
    Setting(
        "push.repositories",
        "map",
        {},
        'folders of repositories that no transcript names: {"/home/ada/engine" = "acme/engine"}',
    ),
)
_BY_NAME = {setting.name: setting for setting in SETTINGS}
DEFAULTS: Mapping[str, Any] = {setting.name: setting.default for setting in SETTINGS}


_PASSWORD = re.compile(r"(?<=://)([^/@\s]*?):[^@\s]*@|\bpassword\s*=\s*('[^']*'|\S+)")


def without_password(text: str) -> str:
    """A connection string as it may be shown."""
    return _PASSWORD.sub(lambda m: "password=***" if m[1] is None else f"{m[1]}:***@", text)


def setting_named(name: str) -> Setting | None:
    """The setting with this name."""
    return _BY_NAME.get(name)


def read_settings(path: Path) -> dict[str, Any]:
    """The values that a file has, by name. Raises ConfigError."""
    values = flatten(_read_toml(path))
    for name, value in values.items():
        setting = setting_named(name)
        if setting is None:
            raise ConfigError(path, f"unknown setting {name!r}{nearest(name)}")
        if not is_allowed(setting, value):
            raise ConfigError(path, f"{name} must be {KINDS[setting.kind]}{_example(setting)}")
    return values


def flatten(tables: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The values of nested TOML tables, with dotted names; a setting of kind map stays a table."""
    values: dict[str, Any] = {}
    for key, value in tables.items():
        name = f"{prefix}{key}"
        setting = setting_named(name)
        if isinstance(value, dict) and (setting is None or setting.kind != "map"):
            values |= flatten(value, f"{name}.") if value else {}
        else:
            values[name] = value
    return values


def is_allowed(setting: Setting, value: object) -> bool:
    """Whether a value is of the setting's kind."""
    match setting.kind:
        case "flag":
            return isinstance(value, bool)
        case "number":
            return isinstance(value, int) and not isinstance(value, bool) and value >= 0
        case "text":
            return isinstance(value, str)
        case "path":
            return _is_path(value)
        case "texts":
            return isinstance(value, list) and all(isinstance(one, str) for one in value)
        case "paths":
            return isinstance(value, list) and bool(value) and all(map(_is_path, value))
        case "map":
            return _is_table_of_texts(value)
    return isinstance(value, list) and all(_is_table_of_texts(one) for one in value)


def nearest(name: str) -> str:
    """What to say after an unknown name: the setting that was probably meant, else all names."""
    import difflib

    for near in difflib.get_close_matches(name, _BY_NAME, n=1, cutoff=0.6):
        return f"; did you mean {near!r}?"
    return f"; there are: {', '.join(_BY_NAME)}"


def _example(setting: Setting) -> str:
    if setting.kind in {"texts", "paths"}:
        return f': {setting.name} = ["...", "..."]'
    return ""


def _is_path(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _is_table_of_texts(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(one, str) for one in value.values())


def _read_toml(path: Path) -> Mapping[str, Any]:
    if path.is_fifo():
        raise ConfigError(path, "a pipe can be read only once; make it a file")
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as e:
        raise ConfigError(path, e.strerror or str(e)) from e
    import tomllib  # most people have no configuration file, so this is not needed

    try:
        return tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as e:
        raise ConfigError(path, f"not valid TOML: {e}") from e
