"""Read new lines while `ctxdb serve` runs: in a child process that ends with it.

The child holds one end of a pipe. When the server ends, however it ends, the pipe is closed, and
the child stops after it has stored what it is reading. A daemon that runs already does the same, so
then there is no child. A database that was made from other folders is not changed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ctxdb.config import load
from ctxdb.daemon.logs import Log
from ctxdb.daemon.main import Daemon
from ctxdb.daemon_health import log_path
from ctxdb.errors import CtxdbError
from ctxdb.lock import current_writer
from ctxdb.query.fresh import look

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctxdb.config import Config

STOP_SECONDS = 20.0  # for the child to store what it is reading


@contextmanager
def watching(config: Config) -> Iterator[bool]:
    """Keep the database up to date inside; yields whether a child does it."""
    if current_writer(config.db_path) is not None or not _is_made_from_roots(config):
        yield False
        return
    theirs, ours = os.pipe()
    command = [sys.executable, "-P", "-m", __name__, str(theirs), str(config.db_path)]
    child = subprocess.Popen(
        command,
        pass_fds=(theirs,),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for the server, which then ends the child
    )
    os.close(theirs)
    try:
        yield True
    finally:
        os.close(ours)
        try:
            child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _is_made_from_roots(config: Config) -> bool:
    try:
        return look(config) is not None
    except CtxdbError:
        return False


def main(words: list[str]) -> int:
    """Watch until the pipe is closed; the words are its descriptor and the database."""
    descriptor, db_path = words

    def end_with_the_server() -> None:
        with suppress(OSError):
            os.read(int(descriptor), 1)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end_with_the_server, daemon=True).start()
    config = load(Path(db_path))
    try:
        return Daemon(config, Log(log_path(config.db_path), None)).run(lambda: None)
    except CtxdbError as e:  # another process has begun to write: it does the same work
        return e.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
