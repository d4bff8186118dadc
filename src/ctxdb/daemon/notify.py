"""What systemd wants to know of a service, by the socket that it names.

READY=1 when the database is open and events come, WATCHDOG=1 as a sign of life, STOPPING=1 at the
end. Nothing happens where NOTIFY_SOCKET is not set.
"""

from __future__ import annotations

import os
from contextlib import suppress

SEND_SECONDS = 1.0  # then what is told is let go: the daemon has other things to do


class Notifier:
    """Sends datagrams to systemd."""

    def __init__(self) -> None:
        self.address = os.environ.pop("NOTIFY_SOCKET", "")
        self.watchdog_seconds = _watchdog_seconds()

    def send(self, message: str) -> None:
        """Tell systemd; if it does not listen, then not."""
        if not self.address.startswith(("/", "@")):
            return
        import socket

        address = "\0" + self.address[1:] if self.address[0] == "@" else self.address
        with (
            suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock,
        ):
            sock.settimeout(SEND_SECONDS)
            sock.sendto(message.encode(), address)


def _watchdog_seconds() -> float | None:
    """How often systemd wants a sign of life: half of what it allows."""
    allowed = os.environ.pop("WATCHDOG_USEC", "")
    pid = os.environ.pop("WATCHDOG_PID", "")
    if not allowed.isdigit() or int(allowed) == 0 or (pid and pid != str(os.getpid())):
        return None
    return int(allowed) / 2e6
