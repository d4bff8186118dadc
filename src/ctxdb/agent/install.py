"""Install the skill, the MCP server and the status line, and take them away again.

Only files and keys that ctxdb wrote are changed. Everything that was done, or not done and why, is
returned as lines for the user.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ctxdb.errors import CtxdbError

PLUGIN = Path(__file__).with_name("plugin")
SKILL = PLUGIN / "skills/ctxdb/SKILL.md"
MARK = "Installed by `ctxdb agent install`"  # is in every skill file that ctxdb wrote
SERVER = {"command": "ctxdb", "args": ["mcp"]}
STATUS_LINE = {"type": "command", "command": "ctxdb statusline"}
ADD_SERVER = ("claude", "mcp", "add", "--scope", "user", "ctxdb", "--", "ctxdb", "mcp")
REMOVE_SERVER = ("claude", "mcp", "remove", "--scope", "user", "ctxdb")
CLAUDE_SECONDS = 60.0


class Place(NamedTuple):
    """Where Claude Code looks: for the user, or for one project."""

    claude: Path  # ~/.claude, or .claude in a project
    project: Path | None  # the folder of the project

    @property
    def skill(self) -> Path:
        """The skill's file."""
        return self.claude / "skills/ctxdb/SKILL.md"

    @property
    def settings(self) -> Path:
        """The settings that hold the status line."""
        return self.claude / "settings.json"


def user_place(environ: Mapping[str, str]) -> Place:
    """The place of the user."""
    first = environ.get("CLAUDE_CONFIG_DIR", "").split(",")[0].strip()
    folder = Path(first) if first else Path("~/.claude")
    return Place(folder.expanduser(), None)


def project_place(folder: Path) -> Place:
    """The place of a project."""
    return Place(folder / ".claude", folder)


def install(place: Place, *, statusline: bool, run: Callable[..., Any] | None = None) -> list[str]:
    """Install; returns what was done."""
    done = [_install_skill(place.skill)]
    if place.project is not None:
        done.append(_set_server(place.project / ".mcp.json"))
    else:
        done.append(_call_claude(ADD_SERVER, "registered the MCP server", run))
    if statusline:
        done.append(_set_status_line(place.settings))
    return done


def uninstall(place: Place, *, run: Callable[..., Any] | None = None) -> list[str]:
    """Take away what `install` did; returns what was done."""
    done = [_remove_skill(place.skill)]
    if place.project is not None:
        done.append(_drop_server(place.project / ".mcp.json"))
    else:
        done.append(_call_claude(REMOVE_SERVER, "removed the MCP server", run))
    done.append(_drop_status_line(place.settings))
    return done


def _install_skill(path: Path) -> str:
    text = SKILL.read_text(encoding="utf-8")
    if os.path.lexists(path):
        try:
            before = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            before = ""
        if before == text:
            return f"{path}: is up to date"
        if MARK not in before or path.is_symlink():
            return f"{path}: was not written by ctxdb, so it is left as it is"
    _write(path, text)
    return f"{path}: wrote the skill"


def _remove_skill(path: Path) -> str:
    try:
        is_mine = MARK in path.read_text(encoding="utf-8") and not path.is_symlink()
    except FileNotFoundError:
        return f"{path}: there is no skill"
    except (OSError, UnicodeDecodeError):
        is_mine = False
    if not is_mine:
        return f"{path}: was not written by ctxdb, so it is left as it is"
    path.unlink()
    if not any(path.parent.iterdir()):
        path.parent.rmdir()
    return f"{path}: removed the skill"


def _set_server(path: Path) -> str:
    settings = _read_json(path)
    servers = settings.setdefault("mcpServers", {})
    if not isinstance(servers, dict):
        raise CtxdbError(f"{path}: mcpServers is not an object; correct it, then install again")
    if servers.get("ctxdb") == SERVER:
        return f"{path}: has the MCP server already"
    if "ctxdb" in servers:
        return f"{path}: has another server with the name ctxdb, so it is left as it is"
    servers["ctxdb"] = SERVER
    _write_json(path, settings)
    return f"{path}: added the MCP server"


def _drop_server(path: Path) -> str:
    if not path.exists():
        return f"{path}: there is no MCP server"
    settings = _read_json(path)
    servers = settings.get("mcpServers")
    if not isinstance(servers, dict) or servers.get("ctxdb") != SERVER:
        return f"{path}: has no MCP server of ctxdb"
    del servers["ctxdb"]
    if settings == {"mcpServers": {}}:
        path.unlink()
    else:
        _write_json(path, settings)
    return f"{path}: removed the MCP server"


def _set_status_line(path: Path) -> str:
    settings = _read_json(path)
    before = settings.get("statusLine")
    if before == STATUS_LINE:
        return f"{path}: has the status line already"
    if before is not None:
        return f"{path}: has another status line, so it is left as it is"
    settings["statusLine"] = STATUS_LINE
    _write_json(path, settings)
    return f"{path}: set the status line"


def _drop_status_line(path: Path) -> str:
    if not path.exists():
        return f"{path}: there is no status line"
    settings = _read_json(path)
    if settings.get("statusLine") != STATUS_LINE:
        return f"{path}: has no status line of ctxdb"
    del settings["statusLine"]
    _write_json(path, settings)
    return f"{path}: removed the status line"


def _call_claude(words: tuple[str, ...], done: str, run: Callable[..., Any] | None) -> str:
    """Let Claude Code change its own settings, or say what to type."""
    line = " ".join(words)
    if shutil.which("claude") is None:
        return f"Claude Code is not on the PATH; type this where it is: {line}"
    try:
        found = (run or subprocess.run)(
            words, capture_output=True, text=True, timeout=CLAUDE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as e:
        return f"{line}: failed ({e}); type it yourself"
    if found.returncode:
        said = (found.stderr or found.stdout or "").strip().splitlines() or ["no reason given"]
        return f"{line}: Claude Code said: {said[-1]}"
    return f"{done}: {line}"


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as e:
        why = e.strerror if isinstance(e, OSError) else "is not valid JSON"
        raise CtxdbError(f"{path}: {why}; it is left as it is") from None
    if not isinstance(found, dict):
        raise CtxdbError(f"{path}: is not a JSON object; it is left as it is")
    return found


def _write_json(path: Path, value: dict[str, Any]) -> None:
    _write(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def _write(path: Path, text: str) -> None:
    """Write a file all at once; a link stays a link, and a file keeps its mode."""
    target = Path(os.path.realpath(path))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o644
        aside = target.with_name(f".{target.name}.ctxdb")
        aside.write_text(text, encoding="utf-8")
        aside.chmod(mode)
        aside.replace(target)
    except OSError as e:
        raise CtxdbError(f"{path}: {e.strerror}") from e
