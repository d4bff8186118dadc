"""The entry point: run the command line, and turn errors into messages and exit codes.

Exit codes: 0 done, 1 failed with a one-line reason, 2 wrong usage, 3 another process is writing,
130 interrupted, 141 the program that read the output closed the pipe (as a shell reports SIGPIPE).
If output cannot be written for another reason (a full disk, a terminal that is gone), that is a
failure. Notes and messages that cannot be written are lost, and change no exit code.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from ctxdb.cli import PAIR_FLAGS, refuse_unknown_command, with_default_command
from ctxdb.cli.declare import join_pairs
from ctxdb.cli.plain_command_line import parse_plain
from ctxdb.errors import CtxdbError, UsageError, error_code, is_of_the_machine
from ctxdb.escape import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

WRONG_USAGE = 2
PIPE_CLOSED = 141  # not 1, which means a failure, or in verify a difference
SQLITE_FULL = 13  # so that sqlite3 need not be imported
COMPLETION = "_CTXDB_COMPLETE"  # set when a shell asks for completions


def main(run: Callable[[], int] | None = None) -> NoReturn:
    """Run the command line, or another function in its place."""
    if sys.platform == "win32":
        fail("ctxdb runs on Linux and macOS; on Windows, install it in WSL")
    os.umask(0o077)  # every file that this process makes may hold transcripts
    _open_closed_streams()
    streams = (sys.stdout, sys.stderr)  # Typer may put something else in their place
    for stream in streams:
        # A title may have characters that the terminal's encoding lacks: they are escaped.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        code = run() if run else _run(sys.argv[1:])
        sys.stdout.flush()
    except CtxdbError as e:
        fail(str(e), e.exit_code, error_code(e))
    except BrokenPipeError:
        sys.exit(PIPE_CLOSED)
    except KeyboardInterrupt:
        sys.exit(130)
    except MemoryError:
        fail("not enough memory; what was stored is kept, and `ctxdb sync` goes on from there")
    except UnicodeEncodeError as e:
        if e.reason != "surrogates not allowed":
            raise
        fail(f"{ascii(e.object)[:200]}: not UTF-8, so nothing of that name can be stored", 2)
    except OSError as e:
        fail(f"{e.filename}: {e.strerror}" if e.filename and e.strerror else str(e))
    except Exception as e:
        from ctxdb.cli.explain import explain

        if (reason := explain(e, sys.argv[1:])) is not None:
            fail(str(reason), reason.exit_code, error_code(reason))
        if is_of_the_machine(e):
            is_full = getattr(e, "sqlite_errorcode", 0) & 0xFF == SQLITE_FULL
            fail(f"SQLite: {e}{'; free some space, then try again' if is_full else ''}")
        raise
    finally:
        _drop_unwritten(streams)
    sys.exit(code)


def _open_closed_streams() -> None:
    """Open the standard streams that a shell has closed (`>&-`), so that no file gets 0, 1 or 2."""
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
    if not words and COMPLETION not in os.environ:
        from ctxdb.cli.first_run import first_run, is_first_run

        if is_first_run(words):
            return first_run()
        return _run(["--help"]) or WRONG_USAGE  # on standard output, for `ctxdb | less`
    command = None if COMPLETION in os.environ else parse_plain(words)
    if command is not None:
        return command.run()
    if COMPLETION not in os.environ:
        refuse_unknown_command(words)
    from ctxdb.cli.typer_app import app

    try:
        # Outside standalone mode Typer raises what it would print on several lines.
        is_alone = COMPLETION in os.environ
        code = app(join_pairs(with_default_command(words), PAIR_FLAGS), standalone_mode=is_alone)
        return int(code or 0)
    except SystemExit as e:  # Typer returns in this way
        if isinstance(e.__context__, BrokenPipeError):  # Typer reports it as a failure
            raise e.__context__ from None
        return int(e.code or 0)
    except Exception as e:
        message = getattr(e, "format_message", None)  # of Typer: wrong usage
        if message is None:
            raise
        raise _in_one_line(message(), getattr(e, "ctx", None)) from None


def _in_one_line(message: str, ctx: Any) -> UsageError:
    """The error for what Typer says of wrong usage; `ctx` tells of which command."""
    command = getattr(ctx, "command_path", "ctxdb").replace("python -m ctxdb", "ctxdb")
    if message.startswith("Usage: "):  # a group without a command: Typer gives its whole help
        names = ", ".join(ctx.command.commands)
        return UsageError(f"{command} needs a command: {names}")
    said = " ".join(message.split()).replace("Value error, ", "").rstrip(".?")
    said = said[:1].lower() + said[1:]
    return UsageError(f"{said}; `{command} --help` shows how")


def wants_json(words: list[str]) -> bool:
    """Whether a command line asks for JSON, and so for errors as JSON."""
    flags = words[: words.index("--")] if "--" in words else words
    text = " ".join(flags)
    return "--json" in flags or any(
        f"{flag}json" in text for flag in ("--format=", "--format ", "-f ")
    )


def fail(reason: str, exit_code: int = 1, code: str = "ctxdb_error") -> NoReturn:
    """Print the reason in one line, and exit."""
    line = f"Error: {printable(reason)}"
    if wants_json(sys.argv[1:]):
        from json import dumps

        message, _, hint = reason.partition("; ")
        line = dumps({"error": {"code": code, "message": message, "hint": hint or None}})
    with suppress(OSError):  # the exit code reports the failure, too
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
    sys.exit(exit_code)
