"""Tell systemd about the service, through the socket that NOTIFY_SOCKET names.

READY=1 when the database is open and events come, WATCHDOG=1 as a sign of life, STOPPING=1 at the
end. Nothing is sent if NOTIFY_SOCKET is not set.
"""

from __future__ import annotations

import os
from contextlib import suppress

SEND_SECONDS = 1.0  # then the message is dropped, so that the daemon can go on


class Notifier:
    """Sends datagrams to systemd."""

    def __init__(self) -> None:
        self.address = os.environ.pop("NOTIFY_SOCKET", "")
        self.watchdog_seconds = _watchdog_seconds()

    def send(self, message: str) -> None:
        """Send a message; do nothing if systemd does not listen."""
        if not self.address.startswith(("/", "@")):
            return
        import socket

        is_abstract = self.address.startswith("@")
        address = "\0" + self.address.removeprefix("@") if is_abstract else self.address
        with (
            suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock,
        ):
            sock.settimeout(SEND_SECONDS)
            sock.sendto(message.encode(), address)


def _watchdog_seconds() -> float | None:
    """How often to send a sign of life: after half the time that systemd allows."""
    allowed = os.environ.pop("WATCHDOG_USEC", "")
    pid = os.environ.pop("WATCHDOG_PID", "")
    if not allowed.isdigit() or int(allowed) == 0 or (pid and pid != str(os.getpid())):
        return None
    return int(allowed) / 2e6
