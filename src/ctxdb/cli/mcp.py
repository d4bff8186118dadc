"""`ctxdb mcp`: answer an agent over the Model Context Protocol, on standard input and output."""

from __future__ import annotations

from ctxdb.cli.declare import Context
from ctxdb.cli.shared_options import Project
from ctxdb.errors import CtxdbError


def mcp(ctx: Context, project: Project = None) -> None:
    """Answer an agent over MCP, on standard input and output.

    MCP is the Model Context Protocol.

    An MCP client such as Claude Code starts it. The tools are search, session, file_history, query,
    views and schema. It only reads, apart from the sync that every command does, and uses no
    network. With --project it answers only about that project.

    \b
    Examples:
      claude mcp add --scope user ctxdb -- ctxdb mcp
      ctxdb mcp --project lantern
    """
    try:
        from ctxdb.mcp.server import make_server
    except ImportError as e:
        if e.name is None or e.name.startswith("ctxdb"):
            raise
        raise CtxdbError("the MCP server needs an extra: pip install 'ctxdb[mcp]'") from None
    from ctxdb.api import open_database

    with open_database(ctx.db) as db:
        if project is not None:
            db.query("sessions", project=project, limit=1)  # says so if there is no such project
        make_server(db, project).run("stdio")
