"""Run the daemon at every login, as a systemd user unit or a launchd agent.

The systemd unit has a sandbox: it may write only to the folders of the database, the log and the
health file, and has no network and no new privileges. If the system cannot give a user's service a
sandbox, the unit is written without it, and `install` says so.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ctxdb.config import config_file, data_dir
from ctxdb.daemon.process import command_line
from ctxdb.daemon_health import log_path
from ctxdb.errors import CtxdbError

# Variables that the daemon uses, if they are set when it is installed.
KEPT_VARIABLES = ("CLAUDE_CONFIG_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")
COMMAND_SECONDS = 120.0

UNIT = """\
[Unit]
Description=ctxdb: Claude Code transcripts into {database}

[Service]
Type=notify
ExecStart={command}
ExecReload=/bin/kill -HUP $MAINPID
Restart=on-failure
RestartSec=30
RestartPreventExitStatus=2
TimeoutStartSec=600
TimeoutStopSec=30
WatchdogSec=300
{environment}UMask=0077
Nice=5
MemoryMax=512M
NoNewPrivileges=yes
{sandbox}
[Install]
WantedBy=default.target
"""
SANDBOX = """\
ProtectSystem=strict
ReadWritePaths={writable}
RuntimeDirectory=ctxdb
RuntimeDirectoryMode=0700
RuntimeDirectoryPreserve=yes
PrivateNetwork=yes
PrivateDevices=yes
ProtectKernelTunables=yes
ProtectControlGroups=yes
RestrictAddressFamilies=AF_UNIX
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
"""


@dataclass(frozen=True, slots=True)
class Systemd:
    """A unit of the user's own systemd."""

    name: str
    path: Path
    text: str
    plain_text: str  # without the sandbox
    folders: tuple[Path, ...]  # that must be there before it starts

    def ask(self) -> None:
        """Raise if the user's systemd does not answer, for instance because there is no login."""
        _run("systemctl", "--user", "show-environment")

    def install(self) -> Iterator[str]:
        """Write, enable and start the unit; yield what was done."""
        for folder in self.folders:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._write(self.text)
        yield f"Written: {self.path}"
        _run("systemctl", "--user", "daemon-reload")
        try:
            _run("systemctl", "--user", "enable", "--now", self.name)
        except CtxdbError:
            self._write(self.plain_text)
            _run("systemctl", "--user", "daemon-reload")
            _run("systemctl", "--user", "reset-failed", self.name)
            _run("systemctl", "--user", "restart", self.name)
            yield "This system gives a user's services no sandbox: the unit runs without one."
        yield f"Started, now and at every login: {self.name}"
        yield "To keep it running while you are logged out: loginctl enable-linger"

    def uninstall(self) -> Iterator[str]:
        """Stop, disable and remove the unit; yield what was done."""
        if not self.path.exists():
            yield f"Not installed: {self.path}"
            return
        done = "Stopped and removed"
        try:
            _run("systemctl", "--user", "disable", "--now", self.name)
        except CtxdbError as e:
            # Perhaps the user's systemd does not run. Without its file the unit does not start.
            yield f"Could not be stopped: {e}"
            done = "Removed"
        self.path.unlink()
        self.link.unlink(missing_ok=True)
        _run("systemctl", "--user", "daemon-reload", may_fail=True)
        yield f"{done}: {self.path}"

    @property
    def link(self) -> Path:
        """The link that makes systemd start it at login; usually systemd makes and removes it."""
        return self.path.parent / "default.target.wants" / self.name

    def _write(self, text: str) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(text)


@dataclass(frozen=True, slots=True)
class Launchd:
    """An agent of launchd."""

    name: str
    path: Path
    text: str

    @property
    def _domain(self) -> str:
        return f"gui/{os.getuid()}"

    def ask(self) -> None:
        """Do nothing: launchd always runs."""

    def install(self) -> Iterator[str]:
        """Write and load the agent; yield what was done."""
        if self.path.exists():
            _run("launchctl", "bootout", f"{self._domain}/{self.name}", may_fail=True)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(self.text)
        yield f"Written: {self.path}"
        _run("launchctl", "bootstrap", self._domain, str(self.path))
        yield f"Started, now and at every login: {self.name}"

    def uninstall(self) -> Iterator[str]:
        """Stop and remove the agent; yield what was done."""
        if not self.path.exists():
            yield f"Not installed: {self.path}"
            return
        _run("launchctl", "bootout", f"{self._domain}/{self.name}", may_fail=True)
        self.path.unlink()
        yield f"Stopped and removed: {self.path}"


def service_for(
    db_path: Path,
    roots: list[str],
    system: str = sys.platform,
    *,
    claude_dirs: Iterable[str] = (),
) -> Systemd | Launchd:
    """The service to install on this system for that database; raises if there is none."""
    name = "ctxdb"
    if db_path != data_dir() / "ctxdb.db":
        digest = hashlib.blake2b(os.fsencode(db_path), digest_size=4)
        name = f"ctxdb-{digest.hexdigest()}"
    words = command_line(db_path, roots, "--wait", claude_dirs=claude_dirs)
    if system == "darwin":
        return _launchd(name, db_path, words)
    if system.startswith("linux") and shutil.which("systemctl"):
        return _systemd(name, db_path, words)
    raise CtxdbError(
        "this system has neither systemd nor launchd; make it run this at login: ctxdb daemon start"
    )


def _systemd(name: str, db_path: Path, words: list[str]) -> Systemd:
    folders = (db_path.parent, log_path(db_path).parent)
    environment = "".join(
        f"Environment={_quoted(f'{key}={os.environ[key]}')}\n"
        for key in KEPT_VARIABLES
        if os.environ.get(key)
    )
    facts = {
        "database": str(db_path).replace("%", "%%"),
        "command": " ".join(_quoted(word, dollar="$$") for word in words),
        "environment": environment,
    }
    writable = " ".join(_quoted(str(folder)) for folder in dict.fromkeys(folders))
    home = config_file().parent.parent
    return Systemd(
        f"{name}.service",
        home / "systemd/user" / f"{name}.service",
        UNIT.format(sandbox=SANDBOX.format(writable=writable), **facts),
        UNIT.format(sandbox="", **facts),
        folders,
    )


def _quoted(word: str, dollar: str = "$") -> str:
    """Quote a word for a systemd unit."""
    if "\n" in word:
        raise CtxdbError("a systemd unit cannot name a path with a line break in it")
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return '"' + escaped.replace("$", dollar) + '"'


def _launchd(name: str, db_path: Path, words: list[str]) -> Launchd:
    import plistlib

    label = f"org.{name}.daemon"
    log = str(log_path(db_path))
    facts = {
        "Label": label,
        "ProgramArguments": words,
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": 10,
        "ProcessType": "Background",
        "Umask": 0o077,
        "StandardErrorPath": log,
        "EnvironmentVariables": {
            key: os.environ[key] for key in KEPT_VARIABLES if os.environ.get(key)
        },
    }
    path = Path("~/Library/LaunchAgents").expanduser() / f"{label}.plist"
    return Launchd(label, path, plistlib.dumps(facts).decode())


def _run(*words: str, may_fail: bool = False) -> None:
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, check=False, timeout=COMMAND_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as e:
        raise CtxdbError(f"{' '.join(words)}: {e}") from e
    if done.returncode and not may_fail:
        *_, why = ["", *(done.stderr or done.stdout).strip().splitlines()]
        why = why or f"exit code {done.returncode}"
        raise CtxdbError(f"{' '.join(words)}: {why}")
