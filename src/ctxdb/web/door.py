"""Who may come in under `ctxdb serve`: those who have the cookie, which a token is exchanged for.

Every user of the machine can reach a port on loopback, but only the owner may read the database. So
`ctxdb serve` makes a secret for each run, and keeps it in a file that only the owner can read. A
token is signed with it, works once, and becomes a cookie. The cookie is worthless for the next run:
another user may have listened on this port in between.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from ctxdb.web.safety import encoded, headers_of, policy_for, send_text

if TYPE_CHECKING:
    from ctxdb.web.safety import App, Receive, Scope, Send

HOME = "/-/ctxdb"
LOGIN = "/-/ctxdb/enter"
DOWNLOAD = "/-/ctxdb/download"
COOKIE = "ctxdb"
LOCKED_OUT = (
    "You need the link that `ctxdb serve` prints. It works once; run `ctxdb serve` again for"
    " another one."
)
DOWNLOAD_BYTES = 1 << 20  # at a time
# A cookie with SameSite=Strict is not sent when a page of another site (or a file) leads here, so
# this page itself goes on to the dashboard.
ENTERED = """<!doctype html><html lang="en"><meta charset="utf-8"><title>ctxdb</title>
<meta http-equiv="refresh" content="0;url={home}"><p><a href="{home}">Continue to ctxdb</a></p>"""


def new_token(secret: str) -> str:
    """A token that enters once."""
    nonce = secrets.token_urlsafe(16)
    return f"{nonce}.{_signed(secret, 'token', nonce)}"


def _signed(secret: str, what: str, text: str) -> str:
    return hmac.new(secret.encode(), f"{what}:{text}".encode(), hashlib.sha256).hexdigest()


class Door:
    """The ASGI application around all others: without the cookie, 403."""

    def __init__(self, app: App, secret: str | None, download: Path | None = None) -> None:
        """With `secret` None, there is no cookie. `download` is the database, if it is allowed."""
        self._app = app
        self._secret = secret
        self._download = download
        self._used: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope.get("path", "")
        if path == LOGIN:
            await self._enter(scope, send)
        elif not self._may_enter(scope):
            await send_text(send, 403, LOCKED_OUT, {"content-security-policy": policy_for(HOME)})
        elif path == "/":
            await send(
                {
                    "type": "http.response.start",
                    "status": 302,
                    "headers": encoded({"location": HOME, "cache-control": "no-store"}),
                }
            )
            await send({"type": "http.response.body", "body": b""})
        elif path == DOWNLOAD:
            await self._send_database(send)
        else:
            await self._app(scope, receive, send)

    async def _enter(self, scope: Scope, send: Send) -> None:
        query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
        if not self._accepts(query.get("token", [""])[-1]):
            await send_text(send, 403, LOCKED_OUT, {"content-security-policy": policy_for(HOME)})
            return
        headers = {"content-security-policy": policy_for(HOME)}
        if self._secret is not None:
            value = _signed(self._secret, "cookie", "")
            headers["set-cookie"] = f"{COOKIE}={value}; Path=/; HttpOnly; SameSite=Strict"
        await send_text(send, 200, ENTERED.format(home=HOME), headers, "text/html; charset=utf-8")

    def _accepts(self, token: str) -> bool:
        if self._secret is None:
            return True
        nonce, _, signature = token.partition(".")
        if nonce in self._used or not _equal(signature, _signed(self._secret, "token", nonce)):
            return False
        self._used.add(nonce)
        return True

    def _may_enter(self, scope: Scope) -> bool:
        if self._secret is None:
            return True
        try:
            found = SimpleCookie(headers_of(scope).get("cookie", ""))
        except CookieError:
            return False
        given = found[COOKIE].value if COOKIE in found else ""
        return _equal(given, _signed(self._secret, "cookie", ""))

    async def _send_database(self, send: Send) -> None:
        import asyncio

        if self._download is None:
            why = "Start the server with --allow-download to download the database."
            await send_text(send, 403, why)
            return
        source = self._download
        with TemporaryDirectory(prefix="ctxdb-") as folder:  # only its owner can enter it
            copy = Path(folder) / source.name
            await asyncio.to_thread(_copy, source, copy)
            headers = {
                "content-type": "application/vnd.sqlite3",
                "content-length": str(copy.stat().st_size),
                "content-disposition": 'attachment; filename="ctxdb.db"',
                "cache-control": "no-store",
            }
            await send({"type": "http.response.start", "status": 200, "headers": encoded(headers)})
            with copy.open("rb") as file:
                while block := await asyncio.to_thread(file.read, DOWNLOAD_BYTES):
                    await send({"type": "http.response.body", "body": block, "more_body": True})
            await send({"type": "http.response.body", "body": b""})


def _equal(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())


def _copy(source: Path, target: Path) -> None:
    """Make a whole copy of a database that another process may be writing to."""
    import sqlite3
    from contextlib import closing

    from ctxdb.store.connection import open_reader

    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    with closing(open_reader(source)) as reader, closing(sqlite3.connect(target)) as copy:
        reader.backup(copy)
