"""Ask the web application in this process, without a network: one request, one answer."""

from __future__ import annotations

import asyncio
import json
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOST = "127.0.0.1:8400"


@dataclass
class Reply:
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """An ASGI application, and an event loop for it."""

    def __init__(self, app: Any, *, database: str = "ctxdb") -> None:
        self.app = app
        self.database = database
        self._loop = asyncio.new_event_loop()

    def close(self) -> None:
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def get(self, url: str, method: str = "GET", **headers: str) -> Reply:
        """Ask for a URL. Header names are written with _; an empty value leaves one out."""
        return self._loop.run_until_complete(self._ask(url, method, headers))

    async def _ask(self, url: str, method: str, headers: dict[str, str]) -> Reply:
        path, _, query = url.partition("?")
        named = {"host": HOST, **{name.replace("_", "-"): one for name, one in headers.items()}}
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote_to_bytes(path).decode(errors="replace"),
            "raw_path": path.encode(),
            "query_string": query.partition("#")[0].encode(),
            "root_path": "",
            "headers": [(name.encode(), one.encode()) for name, one in named.items() if one],
            "client": ("127.0.0.1", 50000),
            "server": ("127.0.0.1", 8400),
        }
        reply = Reply()

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                reply.status = message["status"]
                for name, value in message["headers"]:
                    reply.headers[name.decode().lower()] = value.decode()
            else:
                reply.body += message.get("body", b"")

        await self.app(scope, receive, send)
        return reply


@contextmanager
def served(
    db: Path,
    *,
    secret: str | None = None,
    hosts: tuple[str, ...] = (),
    download: bool = False,
) -> Iterator[Client]:
    """The application of `ctxdb serve` for a database; without a secret, no token is needed."""
    from ctxdb.web import plugin
    from ctxdb.web.server import Wishes, application

    wishes = Wishes(token=secret is not None, hosts=hosts, download=download)
    datasette, app = application(db, secret, wishes)
    client = Client(app, database=db.stem)
    try:
        yield client
    finally:
        client.close()
        plugin.close(datasette)
        if datasette.executor is not None:
            datasette.executor.shutdown()
