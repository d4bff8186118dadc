"""The shell command that resumes a session."""

from __future__ import annotations


def resume_command(session_id: str, cwd: str | None) -> str:
    """The command to resume a session in its folder, safe for any name of the folder."""
    command = f"claude --resume {shell_word(session_id)}"
    if not cwd:
        return command
    return f"cd {shell_word(f'./{cwd}' if cwd.startswith('-') else cwd)} && {command}"


def shell_word(text: str) -> str:
    """Quote a text as one word of a shell, in visible characters only."""
    if text and all(c.isascii() and (c.isalnum() or c in "@%+=:,./-_") for c in text):
        return text
    if text.isprintable():
        return "'" + text.replace("'", "'\"'\"'") + "'"
    # Invisible characters are escaped in the way that bash, zsh and ksh understand.
    escaped = "".join(
        "\\" + c
        if c in "\\'"
        else c
        if c.isprintable()
        else "".join(f"\\{byte:03o}" for byte in c.encode("utf-8", "surrogatepass"))
        for c in text
    )
    return f"$'{escaped}'"
