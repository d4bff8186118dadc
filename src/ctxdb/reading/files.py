"""Files that are there whole or not at all, private, and never in place of another unasked."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from ctxdb.errors import CtxdbError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def new_file(target: Path, *, force: bool) -> Iterator[Path]:
    """Give an empty file of mode 0600 to write to; it gets its name when all is written."""
    if target.is_dir():
        raise UsageError(f"{target} is a folder; name a file")
    if not force and os.path.lexists(target):
        raise _exists(target)
    waiting = target.with_name(f".{target.name[:100]}.{os.getpid()}.part")
    try:
        os.close(os.open(waiting, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600))
    except OSError as e:
        raise CtxdbError(f"{target}: cannot be written: {e.strerror}") from e
    try:
        yield waiting
        if force:
            waiting.replace(target)
        else:
            _name(waiting, target)
    finally:
        with suppress(OSError):
            waiting.unlink(missing_ok=True)


def _name(waiting: Path, target: Path) -> None:
    """Rename, unless something has taken the name meanwhile."""
    try:
        os.link(waiting, target)
    except FileExistsError as e:
        raise _exists(target) from e
    except OSError:  # a file system without hard links
        if os.path.lexists(target):
            raise _exists(target) from None
        waiting.replace(target)


def _exists(target: Path) -> UsageError:
    return UsageError(f"{target} is there already; --force replaces it")
