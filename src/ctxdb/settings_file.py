"""Changing config.toml: one setting at a time, with comments and order kept as they are."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ctxdb.errors import ConfigError, UsageError
from ctxdb.settings import KINDS, Setting, nearest, read_settings, setting_named

_YES = frozenset({"true", "yes", "on", "1"})
_NO = frozenset({"false", "no", "off", "0"})


def known_setting(name: str) -> Setting:
    """The setting with this name. Raises UsageError if there is none."""
    setting = setting_named(name)
    if setting is None:
        raise UsageError(f"there is no setting {name!r}{nearest(name)}")
    return setting


def value_from_words(setting: Setting, words: Sequence[str]) -> Any:
    """The value that the words of a command line mean."""
    wanted = UsageError(f"{setting.name} must be {KINDS[setting.kind]}")
    match setting.kind, list(words):
        case "flag", [word] if word.lower() in _YES | _NO:
            return word.lower() in _YES
        case "number", [word] if word.isascii() and word.isdigit():
            return int(word)
        case ("text", [word]) | ("path", [word]) if word or setting.kind == "text":
            return word
        case (("texts" | "paths"), [word]) if (listed := _list_in_toml(word)) is not None:
            return listed
        case (("texts" | "paths"), [_, *_]) if all(words):
            return list(words)
        case "map", [_, *_] if all("=" in word for word in words):
            return dict(word.split("=", 1) for word in words)
        case "map", _:
            raise UsageError(f"{setting.name} takes pairs: KEY=VALUE KEY=VALUE")
        case "tables", _:
            raise UsageError(f"{setting.name} is {KINDS[setting.kind]}; edit config.toml")
    raise wanted


def _list_in_toml(word: str) -> list[str] | None:
    """The texts of a list as it stands in config.toml; None if the word is no such list.

    As one text it would be a pattern that nothing matches, or a folder that is not there.
    """
    import tomllib

    try:
        found = tomllib.loads(f"x = {word}")["x"] if word.startswith("[") else None
    except tomllib.TOMLDecodeError:
        return None
    is_list = isinstance(found, list) and found and all(one and type(one) is str for one in found)
    return found if is_list else None


def change_setting(path: Path, name: str, value: Any) -> None:
    """Write a value into the file, or take the setting out of it if the value is None.

    The file is replaced at once, so a program that reads it sees the old or the new one.
    """
    import tomlkit

    read_settings(path)  # a file that is wrong is not changed
    path = Path(os.path.realpath(path))
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        text = ""
    document: Any = tomlkit.parse(text)
    *tables, key = name.split(".")
    place = document
    for table in tables:
        if table not in place:
            if value is None:
                return
            place[table] = tomlkit.table()
        place = place[table]
    if value is not None:
        place[key] = value
    elif key in place:
        del place[key]
    _replace(path, tomlkit.dumps(document))


def _replace(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fd, aside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(fd, "w", encoding="utf-8") as out:
                out.write(text)
            if path.exists():
                os.chmod(aside, path.stat().st_mode & 0o777)  # noqa: PTH101
            os.replace(aside, path)  # noqa: PTH105
        except BaseException:
            os.unlink(aside)  # noqa: PTH108
            raise
    except OSError as e:
        raise ConfigError(path, e.strerror or str(e)) from e
