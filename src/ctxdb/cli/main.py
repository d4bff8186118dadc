"""Where the program begins, and the only place where errors turn into messages and exit codes.

Exit codes: 0 done, 1 failed with a one-line reason, 2 wrong usage, 3 another process is writing,
130 interrupted, 141 nobody reads the output any more (as a shell says of SIGPIPE). Output that
cannot be written for another reason (a full disk, a terminal that is gone) is a failure; notes and
messages that cannot be written are lost, and change no exit code.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn, TextIO

from ctxdb.cli import PAIR_FLAGS, spelt_out
from ctxdb.cli.declare import join_pairs
from ctxdb.cli.plain_call import plain_call
from ctxdb.errors import CtxdbError, is_of_the_machine
from ctxdb.escape import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

PIPE_CLOSED = 141  # not 1, which would tell of a failure, or in verify of a difference
COMPLETION = "_CTXDB_COMPLETE"  # a shell asks what could come next


def main() -> NoReturn:
    """Run the command line."""
    os.umask(0o077)  # whatever we write holds transcripts
    _open_closed_streams()
    streams = (sys.stdout, sys.stderr)  # Typer may put something else in their place
    for stream in streams:
        # A title may be in any script, and the terminal's encoding may not: spell it out.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        code = _run(sys.argv[1:])
        sys.stdout.flush()
    except CtxdbError as e:
        fail(str(e), e.exit_code)
    except BrokenPipeError:
        sys.exit(PIPE_CLOSED)  # the reader has seen enough
    except KeyboardInterrupt:
        sys.exit(130)
    except MemoryError:
        fail("not enough memory; whatever was stored is kept, and `ctxdb sync` goes on from there")
    except UnicodeEncodeError as e:
        if e.reason != "surrogates not allowed":
            raise
        fail(f"{ascii(e.object)[:200]}: not UTF-8, so that nothing of that name can be stored", 2)
    except OSError as e:
        fail(f"{e.filename}: {e.strerror}" if e.filename and e.strerror else str(e))
    except Exception as e:
        if is_of_the_machine(e):
            fail(f"SQLite: {e}")
        raise
    finally:
        _drop_unwritten(streams)
    sys.exit(code)


def _open_closed_streams() -> None:
    """Where a shell has closed a stream (`>&-`), no file of ours may get its number."""
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
            setattr(sys, name, os.fdopen(fd, "w" if fd else "r"))


def _drop_unwritten(streams: Iterable[TextIO]) -> None:
    """Flush the streams, and drop what they do not take.

    Python flushes them once more at the end. If that fails, it complains and exits with 120.
    """
    for stream in streams:
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _run(words: list[str]) -> int:
    call = None if COMPLETION in os.environ else plain_call(words)
    if call is not None:
        return call.command(call.ctx, **call.arguments) or 0
    from ctxdb.cli.typer_app import app

    try:
        app(join_pairs(spelt_out(words), PAIR_FLAGS))
    except SystemExit as e:  # Typer's way to return
        if isinstance(e.__context__, BrokenPipeError):  # which it takes for a failure
            raise e.__context__ from None
        return int(e.code or 0)
    except OSError as e:  # in Typer's own words about wrong usage
        code = getattr(e.__context__, "exit_code", None)
        if not isinstance(code, int) or isinstance(e.__context__, CtxdbError):
            raise
        return code
    return 0


def fail(reason: str, exit_code: int = 1) -> NoReturn:
    """Say in one line why nothing more happens, and leave."""
    with suppress(OSError):  # the exit code says it, too
        sys.stderr.write(f"Error: {printable(reason)}\n")
        sys.stderr.flush()
    sys.exit(exit_code)
