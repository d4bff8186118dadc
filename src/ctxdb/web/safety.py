"""Decide which requests are answered, and what a browser may do with the answer.

A web page anywhere can make a browser send requests to a server on this machine. So the Host must
be a name of this machine (else a foreign name that resolves to 127.0.0.1 would do), an Origin must
be this server, and a browser that says that another site asks gets nothing. The headers forbid
everything that the pages do not need. Everything here is a pure function of a request's parts;
`Gate` is the ASGI application around Datasette that asks them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping

    Scope = MutableMapping[str, Any]
    Message = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]
    App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
OUR_PATHS = "/-/ctxdb"
_HOST = re.compile(r"(?P<name>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>\d{1,5}))?\Z")

STRICT = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none';"
    " frame-ancestors 'none'"
)
# Datasette's own pages have inline scripts and styles.
INLINE = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline';"
    " img-src 'self' data:; font-src 'self'; connect-src 'self'; form-action 'self';"
    " base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}


def host_name(host: str) -> str | None:
    """The name in a Host header, in lower case and without the port; None if it is not one."""
    found = _HOST.match(host)
    if not found:
        return None
    return found["name"].strip("[]").lower().rstrip(".")


def is_own_host(host: str | None, allowed: Iterable[str] = ()) -> bool:
    """Whether a Host header names this machine, or one of the allowed hosts."""
    if not host:
        return False
    name = host_name(host)
    return name is not None and (name in LOOPBACK or name in {one.lower() for one in allowed})


def is_own_origin(origin: str | None, host: str | None) -> bool:
    """Whether an Origin header is this server: the same name and port as Host. None passes."""
    if origin is None:
        return True
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return (
        parts.scheme in ("http", "https")
        and bool(host)
        and parts.netloc.lower() == (host or "").lower()
    )


def is_foreign_fetch(headers: Mapping[str, str]) -> bool:
    """Whether the browser says that another site asks for it, other than by a link to it."""
    site = headers.get("sec-fetch-site", "none")
    is_link = headers.get("sec-fetch-mode") == "navigate" and (
        headers.get("sec-fetch-dest", "document") == "document"
    )
    return site not in ("same-origin", "none") and not is_link


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is not answered."""

    status: int
    text: str


def refusal(
    method: str, headers: Mapping[str, str], allowed_hosts: Iterable[str] = ()
) -> Refusal | None:
    """Why a request is refused, from any sender; None if it is not."""
    host = headers.get("host")
    if not is_own_host(host, allowed_hosts):
        return Refusal(
            403,
            "This Host is not allowed. If it is a name of this server, start it with"
            " --allow-host NAME.",
        )
    if not is_own_origin(headers.get("origin"), host):
        return Refusal(403, "A page of another site asks for this: refused.")
    if is_foreign_fetch(headers):
        return Refusal(403, "A page of another site asks for this: refused.")
    if method not in ("GET", "HEAD", "POST"):
        return Refusal(405, "Only reading is possible here.")
    return None


def policy_for(path: str) -> str:
    """The Content-Security-Policy of a path."""
    is_ours = path == OUR_PATHS or path.startswith(f"{OUR_PATHS}/")
    return STRICT if is_ours else INLINE


def headers_of(scope: Scope) -> dict[str, str]:
    """The headers of a request, by lower-case name. A header that is given twice is joined."""
    found: dict[str, str] = {}
    for name, value in scope.get("headers", ()):
        key = name.decode("latin-1").lower()
        text = value.decode("latin-1")
        found[key] = f"{found[key]}, {text}" if key in found else text
    return found


class Gate:
    """The ASGI application that checks every request and adds the headers to every answer."""

    def __init__(self, app: App, allowed_hosts: Iterable[str] = (), base: str = "") -> None:
        self._app = app
        self._allowed = tuple(allowed_hosts)
        self._base = base.rstrip("/")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        policy = policy_for(scope.get("path", "").removeprefix(self._base))
        refused = refusal(scope.get("method", "GET"), headers_of(scope), self._allowed)
        if refused:
            await send_text(send, refused.status, refused.text, {"content-security-policy": policy})
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = {**HEADERS, "content-security-policy": policy}
                own = [pair for pair in message.get("headers", ()) if _name(pair) not in added]
                message = {**message, "headers": own + encoded(added)}
            await send(message)

        await self._app(scope, receive, with_headers)


def _name(pair: tuple[bytes, bytes]) -> str:
    name, _ = pair
    return name.decode("latin-1").lower()


def encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Headers as ASGI has them."""
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]


async def send_text(
    send: Send,
    status: int,
    text: str,
    headers: Mapping[str, str] | None = None,
    kind: str = "text/plain; charset=utf-8",
) -> None:
    """Answer with a text."""
    body = text.encode() + b"\n"
    all_headers = {
        "content-type": kind,
        "content-length": str(len(body)),
        "cache-control": "no-store",
        **HEADERS,
        **(headers or {}),
    }
    await send({"type": "http.response.start", "status": status, "headers": encoded(all_headers)})
    await send({"type": "http.response.body", "body": body})
