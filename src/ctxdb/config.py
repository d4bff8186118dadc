"""Find out where the database is, where the transcripts are, and what else is set.

Each setting is taken from the first of these that has it:

1. the command line: ``--db``, ``--root``, ``--claude-dir``
2. the environment: ``CTXDB_DB``, ``CLAUDE_CONFIG_DIR`` (a comma list; each folder in it has a
   ``projects`` folder)
3. ``$XDG_CONFIG_HOME/ctxdb/config.toml`` (``~/.config/ctxdb/config.toml``)::

       db = "~/work/transcripts.db"
       roots = ["~/.claude/projects", "/backup/laptop/.claude/projects"]
       claude_dirs = ["~/.claude"]
       archive = false

4. the default: ``$XDG_DATA_HOME/ctxdb/ctxdb.db`` (``~/.local/share/ctxdb/ctxdb.db``), and
   ``~/.claude/projects`` with ``~/.config/claude/projects``.

Files beside the transcripts (to-dos, plans, the history of prompts) are read from the folders that
hold the roots, unless ``claude_dirs`` names others.

A root that does not exist is not an error here: a disk may be unmounted, and most people have only
one of the two default roots.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ctxdb.errors import UsageError
from ctxdb.settings import DEFAULTS, read_settings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

DEFAULT_ROOTS = ("~/.claude/projects", "~/.config/claude/projects")
_ROOT_NAME = "projects"


class Config(NamedTuple):
    """What every command needs to know. Paths are absolute, and need not exist."""

    db_path: Path
    roots: tuple[str, ...]  # not Path: os.scandir returns names of the type that it was given
    given_claude_dirs: tuple[str, ...] | None = None
    archive: bool = False  # keep the exact bytes beside the database; on unless config.toml says no
    settings: Mapping[str, Any] = DEFAULTS  # every setting by its name, as the file or the default

    @property
    def claude_dirs(self) -> tuple[str, ...]:
        """Folders such as ~/.claude, with to-dos, plans and the history of prompts.

        By default those that hold the roots. A root with another name than `projects` may be in
        any folder, so only files that were asked for are read beside it.
        """
        if self.given_claude_dirs is not None:
            return self.given_claude_dirs
        above = [os.path.split(root) for root in self.roots]
        return tuple(dict.fromkeys(folder for folder, name in above if name == _ROOT_NAME))


def load(
    db: Path | None = None,
    roots: Sequence[Path] | None = None,
    environ: Mapping[str, str] = os.environ,
    *,
    claude_dirs: Sequence[Path] | None = None,
) -> Config:
    """Return the settings; `db`, `roots` and `claude_dirs` are those of the command line."""
    path = config_file(environ)
    settings = {**DEFAULTS, **read_settings(path)}
    return Config(
        db_path=_db_path(db, environ, settings, path),
        roots=_roots(roots, environ, settings, path),
        given_claude_dirs=_claude_dirs(claude_dirs, roots, environ, settings, path),
        archive=settings["archive"],
        settings=settings,
    )


def _db_path(
    db: Path | None,
    environ: Mapping[str, str],
    settings: Mapping[str, Any],
    settings_path: Path,
) -> Path:
    if db is not None:
        path = _absolute(db)
    elif environ.get("CTXDB_DB"):
        path = _absolute(environ["CTXDB_DB"])
    elif settings["db"] is not None:
        path = _absolute(settings["db"], settings_path.parent)
    else:
        path = data_dir(environ) / "ctxdb.db"
    # Every command comes through here, so none leaves a lock file beside the folder.
    if path.is_dir() and not path.is_symlink():
        raise UsageError(f"{path}: a folder cannot be the database; name a file")
    return path


def _roots(
    roots: Sequence[Path] | None,
    environ: Mapping[str, str],
    settings: Mapping[str, Any],
    settings_path: Path,
) -> tuple[str, ...]:
    if roots:
        found = [_absolute(root) for root in roots]
    elif claude_dirs := _comma_list(environ.get("CLAUDE_CONFIG_DIR", "")):
        found = [_absolute(part) / "projects" for part in claude_dirs]
    elif settings["roots"] is not None:
        found = _paths("roots", settings, settings_path)
    else:
        found = [_absolute(root) for root in DEFAULT_ROOTS]
    return tuple(dict.fromkeys(str(root) for root in found))


def statusline_format(environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the format of the status line, if config.toml has one."""
    value: str | None = read_settings(config_file(environ)).get("statusline")
    return value


def _claude_dirs(
    claude_dirs: Sequence[Path] | None,
    roots: Sequence[Path] | None,
    environ: Mapping[str, str],
    settings: Mapping[str, Any],
    settings_path: Path,
) -> tuple[str, ...] | None:
    """The folders that were named; None: those that hold the roots.

    Those of the configuration file belong to the roots there.
    """
    if claude_dirs:
        found = [_absolute(folder) for folder in claude_dirs]
    elif settings["claude_dirs"] is not None:
        found = _paths("claude_dirs", settings, settings_path)
        if roots or environ.get("CLAUDE_CONFIG_DIR", "").strip():
            return None
    else:
        return None
    return tuple(dict.fromkeys(str(folder) for folder in found))


def _paths(name: str, settings: Mapping[str, Any], settings_path: Path) -> list[Path]:
    return [_absolute(item, settings_path.parent) for item in settings[name]]


def config_file(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the configuration file, which need not exist."""
    return _xdg(environ, "XDG_CONFIG_HOME", "~/.config") / "ctxdb" / "config.toml"


def data_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the default database and of the demo."""
    return _xdg(environ, "XDG_DATA_HOME", "~/.local/share") / "ctxdb"


def _comma_list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _xdg(environ: Mapping[str, str], name: str, default: str) -> Path:
    # The XDG specification: a relative path is invalid and must be ignored.
    value = environ.get(name, "")
    return Path(value) if value.startswith("/") else _absolute(default)


def _absolute(path: Path | str, base: Path | None = None) -> Path:
    try:
        expanded = Path(path).expanduser()
    except RuntimeError as e:  # ~user, without such a user
        raise UsageError(f"{path}: {e}") from e
    if "\0" in str(expanded):
        raise UsageError(f"{path!r}: a path cannot contain NUL")
    if not expanded.is_absolute():
        try:
            expanded = (base or Path.cwd()) / expanded
        except FileNotFoundError:
            why = "the working folder no longer exists; give a full path"
            raise UsageError(f"{path}: {why}") from None
    # Not resolve(): lock.refuse_unsafe refuses a database that is a symbolic link.
    return Path(os.path.abspath(expanded))  # noqa: PTH100
