"""Run Datasette with our pages on loopback, until it is stopped."""

from __future__ import annotations

import errno
import os
import secrets
import socket
import sys
import webbrowser
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn
from datasette.app import Datasette

from ctxdb.daemon_health import process_started
from ctxdb.errors import CtxdbError
from ctxdb.web import plugin, running
from ctxdb.web.door import LOGIN, Door, new_token
from ctxdb.web.facts import SETTINGS
from ctxdb.web.running import Server

if TYPE_CHECKING:
    from collections.abc import Callable

HOST = "127.0.0.1"
PORTS_TRIED = 50
OPEN_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>ctxdb</title>
<meta http-equiv="refresh" content="0;url={url}"><p><a href="{url}">Open ctxdb</a></p>
"""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the command line asks of the server."""

    port: int | None = None
    open_browser: bool = True
    token: bool = True
    hosts: tuple[str, ...] = ()
    download: bool = False


def application(db_path: Path, secret: str | None, wishes: Wishes) -> tuple[Any, Any]:
    """Datasette with our pages, and the ASGI application around it."""
    plugins = {"ctxdb": {"hosts": list(wishes.hosts)}}
    datasette = Datasette([str(db_path)], settings=dict(SETTINGS), metadata={"plugins": plugins})
    door = Door(datasette.app(), secret, db_path if wishes.download else None)
    return datasette, plugin.gate(datasette, door)


def serve(db_path: Path, wishes: Wishes, say: Callable[[str], None]) -> None:
    """Serve until stopped. If this database is served already, open that page instead."""
    last = running.read(db_path)
    if last and last.is_running and wishes.port in (None, last.port):
        say(f"Process {last.pid} serves it already: {_url(last)}")
        _open(last, db_path, wishes)
        return
    with closing(listener(wishes.port, last.port if last else running.usual_port(db_path))) as sock:
        _, port = sock.getsockname()
        secret = secrets.token_urlsafe(32) if wishes.token else None
        server = Server(port, os.getpid(), process_started(os.getpid()), secret)
        running.write(db_path, server)
        datasette, app = application(db_path, secret, wishes)
        config = uvicorn.Config(app, log_level="warning", access_log=False, lifespan="on")
        say(f"Serving {db_path} at {_url(server)}")
        say("Ctrl-C stops it. Only you can open it." if secret else "Ctrl-C stops it.")
        _open(server, db_path, wishes)
        try:
            uvicorn.Server(config).run(sockets=[sock])
        finally:
            plugin.close(datasette)
            _page_file(db_path).unlink(missing_ok=True)


def listener(wanted: int | None, usual: int) -> socket.socket:
    """A socket on loopback: at the wanted port, or at the first free one from the usual on."""
    ports = [wanted] if wanted is not None else [*range(usual, usual + PORTS_TRIED), 0]
    for port in ports:
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((HOST, port))
            sock.listen(128)
        except OSError as e:
            sock.close()
            if wanted is not None:
                why = "another program uses it" if e.errno == errno.EADDRINUSE else e.strerror
                raise CtxdbError(f"port {port}: {why}; choose another one with --port") from e
        except OverflowError as e:
            sock.close()
            raise CtxdbError(f"port {port}: there is no such port") from e
        else:
            return sock
    raise CtxdbError("no port of this machine is free")


def _url(server: Server) -> str:
    base = f"http://{HOST}:{server.port}"
    return (
        base + "/" if server.secret is None else f"{base}{LOGIN}?token={new_token(server.secret)}"
    )


def _page_file(db_path: Path) -> Path:
    return db_path.with_name(f"{db_path.name}-serve.html")


def _open(server: Server, db_path: Path, wishes: Wishes) -> None:
    """Open a browser. All users can see the words of a command, so the token is in a private file.

    The file is removed when the server ends; the token in it works once.
    """
    if not wishes.open_browser or not _has_browser():
        return
    target = _url(server)
    if server.secret is not None:
        page = _page_file(db_path)
        page.unlink(missing_ok=True)
        descriptor = os.open(page, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(OPEN_PAGE.format(url=target))
        target = page.as_uri()
    with suppress(webbrowser.Error, OSError):
        webbrowser.open(target)


def _has_browser() -> bool:
    """Whether a browser with windows can be opened; one in the terminal would be in the way."""
    if sys.platform == "darwin" or os.environ.get("BROWSER"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
