"""Steps of stories about work: plans, time, commits, to-dos, hooks, names; and files beside them.

``stories.py`` draws from ``WORK_STEPS``; ``write_everything`` adds the sessions and
files that need a folder of their own.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from builder import BEGAN, Transcript, World, dumps, text, tool_use

Step = Callable[[Transcript], object]

PLAN = "# Plan: rebuild the *mill*\n\n## Steps\n\n1. stop it\n2. take it apart\n"
WRITTEN = 1_775_000_000  # seconds: 2026-03-31, later than every call of a story


# -- turns and time --------------------------------------------------------------------------------


def planned(t: Transcript) -> None:
    """A plan that another session made and a person approved."""
    maker = t.world.uuid()
    t.prompt(
        f"Implement the following plan:\n\n{PLAN}\n\nIf you need specific details from before"
        " exiting plan mode, read the full transcript at:"
        f" /home/ada/.claude/projects/-home-ada-engine/{maker}.jsonl",
        planContent=PLAN,
    )
    t.reply(text("Stopping the mill."))


def local_command(t: Transcript) -> None:
    """A slash command that only a system entry holds, and what it printed."""
    for content in (
        "<command-name>/model</command-name>\n  <command-args>opus</command-args>",
        "<local-command-stdout>Set model</local-command-stdout>",
    ):
        t.thread("system", {"subtype": "local_command", "content": content, "level": "info"})


def caveat(t: Transcript) -> None:
    """The caveat before a command belongs to the command, an hour after the last reply."""
    t.reply(text("ready"))
    t.world.seconds += 3600
    t.prompt("<local-command-caveat>Caveat: ...</local-command-caveat>", isMeta=True)
    t.command("/exit")
    t.prompt("<local-command-stdout>Bye!</local-command-stdout>")


def lone_caveat(t: Transcript) -> None:
    """No line hangs on this caveat."""
    before = t.parent
    t.prompt("<local-command-caveat>Caveat: ...</local-command-caveat>", isMeta=True)
    t.parent = before


def timed(t: Transcript) -> None:
    """Claude Code reports forty seconds, of which a queued prompt takes the last ten."""
    t.prompt(f"work {t.world.number()}")
    t.world.seconds += 28
    t.reply(text("half"))
    t.queue("enqueue", f"faster {t.world.number()}")
    t.queue("remove")
    t.world.seconds += 8
    t.reply(text("whole"))
    t.system("turn_duration", durationMs=40_000)


def untimed(t: Transcript) -> None:
    """Nothing reports the time: gaps count, but a long one only as a minute."""
    t.prompt(f"slowly {t.world.number()}")
    t.world.seconds += 20
    t.reply(text("one"))
    t.world.seconds += 30
    t.reply(text("two"))
    t.world.seconds += 900
    t.reply(text("three"))
    t.prompt("[Request interrupted by user]")


# -- calls -----------------------------------------------------------------------------------------


def commits(t: Transcript) -> None:
    """What git prints, whatever made it print it and however the call ended."""
    t.tool("Bash", {"command": "git rebase --continue"}, "[detached HEAD 0a1b2c3] Fix the mill")
    t.tool("Bash", {"command": "./release.sh"}, "[main (root-commit) 1a2b3c4d] First\n 1 file")
    call = tool_use(t.world, "Bash", {"command": "git commit -m x && git push"})
    t.reply(call)
    said = "Exit code 1\n[topic/x abcdef0] Turn the wheel\n ! [rejected] topic/x -> topic/x"
    t.result(call["id"], said, is_error=True)
    t.tool("PowerShell", {"command": "git commit"}, "[win 7654321] Windows, too")
    t.tool(
        "Bash",
        {"command": "git commit -m y"},
        "[main 9999999] Reported and printed",
        {"stdout": "", "gitOperation": {"commit": {"sha": "9999999", "kind": "committed"}}},
    )
    t.tool("Read", {"file_path": "/x"}, "[main 1234567] only the words of a file")


def todo_lists(t: Transcript) -> None:
    """Three lists: one item is finished, one is left out and so dropped."""

    def write(*items: tuple[str, str]) -> None:
        todos = [{"content": c, "status": s, "activeForm": c} for c, s in items]
        t.tool("TodoWrite", {"todos": todos}, "Todos have been modified successfully.")

    t.prompt("make a list")
    write(("grind", "in_progress"), ("sift", "pending"))
    t.prompt("go on")
    write(("grind", "completed"), ("sift", "pending"))
    write(("bake", "pending"))


def tasks(t: Transcript) -> None:
    for n, subject in ((1, "buy flour"), (2, "light the oven")):
        t.tool(
            "TaskCreate",
            {"subject": subject, "description": f"{subject}, soon"},
            f"Task #{n} created successfully: {subject}",
            {"task": {"id": str(n), "subject": subject}},
        )
    t.prompt("begin")
    t.tool(
        "TaskUpdate",
        {"taskId": "1", "status": "completed"},
        "Updated task #1 status",
        {"success": True, "taskId": "1", "statusChange": {"from": "pending", "to": "completed"}},
    )


def plan_mode(t: Transcript) -> None:
    """A plan that was refused, then one that only its result holds."""
    call = tool_use(t.world, "ExitPlanMode", {"plan": "# First idea\n\nsell it"})
    t.reply(call)
    t.result(call["id"], "The user doesn't want to proceed with this tool use.", is_error=True)
    detail = {"plan": "# Second idea\n\nkeep it", "filePath": "/home/ada/.claude/plans/owl.md"}
    t.tool("ExitPlanMode", {}, "User has approved your plan.", detail)


def long_call(t: Transcript) -> None:
    t.tool("Bash", {"command": "echo " + "many words " * 60 + "\necho done"})


def code_of_fetch(t: Transcript) -> None:
    detail = {"url": "https://a.example", "code": 404, "bytes": 12, "result": "", "durationMs": 5}
    t.tool("WebFetch", {"url": "https://a.example", "prompt": "read"}, "not there", detail)


def result_without_block(t: Transcript) -> None:
    """toolUseResult on a line that has no tool_result block."""
    t.prompt("no block here", toolUseResult={"stdout": "lost", "interrupted": False})


def progress_without_agent(t: Transcript) -> None:
    """agent_progress that names no agent."""
    call = tool_use(t.world, "Task", {"prompt": "who", "description": "who is it"})
    t.reply(call)
    inner = {"type": "assistant", "uuid": t.world.uuid(), "timestamp": t.world.now()}
    inner["message"] = {"role": "assistant", "model": "claude-x", "content": [text("nameless")]}
    data = {"type": "agent_progress", "message": inner}
    t.thread("progress", {"data": data, "parentToolUseID": call["id"]})


# -- what the client writes ------------------------------------------------------------------------


def hooks(t: Transcript) -> None:
    call = t.tool("Bash", {"command": "ls"})
    ran = {"hookName": "PostToolUse:Bash", "hookEvent": "PostToolUse", "toolUseID": call}
    t.attach("hook_success", **ran, command="lint.sh", exitCode=0, stdout="ok", durationMs=7)
    t.attach(
        "hook_blocking_error",
        **ran,
        blockingError={"blockingError": "no tabs, please", "command": "tabs.sh"},
    )
    t.attach("hook_system_message", **ran, content="hello")
    t.system(
        "stop_hook_summary",
        hookCount=2,
        hookInfos=[{"command": "stop-one.sh", "durationMs": 3}, {"command": "stop-two.sh"}],
        hookErrors=["stop-two.sh failed"],
        preventedContinuation=True,
        stopReason="not yet",
        toolUseID=t.world.uuid(),
    )


def unknown_keys(t: Transcript) -> None:
    """Keys and blocks that are on no list."""
    t.prompt("odd keys", brandNewKey={"deep": [1, 2]})
    t.reply({"type": "brand_new_block", "value": 7}, brandNewToo="x" * 100)


def named_snapshots(t: Transcript) -> None:
    """A snapshot and a delta that name the prompt before them."""
    n = t.world.number()
    t.prompt(f"change it {n}")
    t.snapshot(f"kept-{n}.py")
    backup = {"backupFileName": f"c{n}@v2", "version": 2, "backupTime": t.world.now()}
    t.flat(
        "file-history-delta",
        messageId=t.parent,
        snapshotMessageId=t.parent,
        trackingPath=f"kept-{n}.py",
        backup=backup,
        timestamp=t.world.now(),
    )


def newer_entries(t: Transcript) -> None:
    """Entry types and subtypes of the newest versions."""
    t.flat("continued-in", sessionId=t.session, targetSessionId=t.world.uuid())
    t.flat("tag", sessionId=t.session, tag="nightly")
    t.system("session_writes_lost", lostCount=2)
    t.attach("elapsed_time_reminder", content="two hours")


WORK_STEPS: dict[str, Step] = {
    "planned": planned,
    "local_command": local_command,
    "caveat": caveat,
    "lone_caveat": lone_caveat,
    "timed": timed,
    "untimed": untimed,
    "commits": commits,
    "todo_lists": todo_lists,
    "tasks": tasks,
    "plan_mode": plan_mode,
    "long_call": long_call,
    "code_of_fetch": code_of_fetch,
    "result_without_block": result_without_block,
    "progress_without_agent": progress_without_agent,
    "hooks": hooks,
    "unknown_keys": unknown_keys,
    "named_snapshots": named_snapshots,
    "newer_entries": newer_entries,
    "long_title": lambda t: t.custom_title("a very long title\nof two lines " + "and words " * 20),
    "by_program": lambda t: t.prompt(f"go {t.world.number()}", promptSource="sdk"),
}


# -- sessions of their own -------------------------------------------------------------------------


def places(world: World) -> None:
    """Sessions in worktrees, in folders of CI services, by programs, without a request."""
    for cwd in (
        "/home/ada/engine/.worktrees/one",
        "/home/ada/engine/.claude/worktrees/two/src",
        "/home/ada/engine/worktrees/three",
        "/home/ada/mill-worktrees/four",
        "/home/ada/.worktrees/five",
        "/home/ada/worktrees/six",
        "C:\\Users\\ada\\mill\\.worktrees\\seven",
        "/home/runner/work/mill/mill",
        "/builds/ada/mill",
        "/github/workspace",
    ):
        world.session("-places", cwd=cwd).prompt("here")
    for entrypoint in ("sdk-cli", "sdk-py", "cli", "claude-desktop"):
        started = world.session("-places", extra={"entrypoint": entrypoint})
        started.prompt("by whom", promptSource="sdk")
    world.session("-places").prompt("all by sdk", promptSource="sdk")
    world.session("-places").reply(text("\n\nNo request, only *this* reply.\nAnd a second line."))
    silent = world.session("-places")
    silent.reply(tool_use(world, "Task", {"prompt": "look", "description": "Look around"}))
    helper = silent.agent_file("a0001")
    helper.prompt("look")
    helper.reply(text("nothing here"))
    bare = world.session("-places")
    bare.system("informational")


def superseded(world: World) -> None:
    """An older copy of a transcript, kept under another name; one line is only there."""
    new = world.session("-superseded")
    new.prompt("kept in both")
    new.reply(text("said in both"))
    old = Transcript(world, f"{new.path}.superseded-1772355600000", new.session)
    old.lines = list(new.lines)
    old.parent = new.parent
    old.reply(text("only in the older file"))
    world.add(old)
    new.reply(text("only in the newer file"))


def persisted(world: World, files: dict[str, bytes]) -> None:
    """Whole outputs in files beside the transcript; paths that lead elsewhere are not followed."""
    t = world.session("-persisted")
    folder = f"-persisted/{t.session}/tool-results"
    for name, path in (
        ("whole", f"/home/ada/.claude/projects/{folder}/whole.txt"),
        ("elsewhere", "/etc/passwd"),
        ("gone", f"/home/ada/.claude/projects/{folder}/gone.txt"),
    ):
        t.tool(
            "Bash",
            {"command": f"cat {name}"},
            f"<persisted-output>\nOutput too large (40KB). Full output saved to: {path}\n\n"
            "Preview (first 2KB):\nbeginning\n...\n</persisted-output>",
            {"stdout": "beginning", "stderr": "", "persistedOutputPath": path},
        )
    files[f"{folder}/whole.txt"] = b"beginning\nmiddle\nend of it\n"


def history(world: World, files: dict[str, bytes]) -> None:
    """history.jsonl: prompts with and without a turn, twice the same, pasted, as a command."""
    t = world.session("-history", cwd="/home/ada/history")
    lines: list[Any] = []

    def typed(display: str, at: int, **more: Any) -> None:
        ms = round(BEGAN.timestamp() + at) * 1000
        lines.append(
            dumps(
                {
                    "display": display,
                    "pastedContents": {},
                    "timestamp": ms,
                    "project": t.cwd,
                    **more,
                }
            )
        )

    for words in ("hello mill", "hello mill"):
        t.prompt(words)
        typed(words, world.seconds, sessionId=t.session)
        t.reply(text("hello"))
    t.prompt("read  this:\nline one\nline two")
    pasted = {"1": {"id": 1, "type": "text", "content": "line one\nline two"}}
    typed("read this: [Pasted text #1 +2 lines]", world.seconds, pastedContents=pasted)
    t.command("/model", "opus")
    typed("/model opus", world.seconds, sessionId=t.session)
    typed("its transcript is gone", world.seconds, sessionId=world.uuid())
    lines += [b"{torn", b"[1]", b""]
    files["../history.jsonl"] = b"\n".join([*lines, b'{"display":"not complete'])


def lists_in_files(world: World, files: dict[str, bytes]) -> None:
    """todos/, tasks/ and plans/: known from there only, or later than the calls."""
    t = world.session("-lists", extra={"slug": "soft-purring-owl"})
    t.prompt("lists")
    todos = [{"content": "sweep", "status": "pending", "activeForm": "sweeping"}]
    t.tool("TodoWrite", {"todos": todos}, "Todos have been modified successfully.")
    later = [{"content": "sweep", "status": "completed", "activeForm": "sweeping"}]
    files[f"../todos/{t.session}-agent-{t.session}.json"] = dumps(later)
    helper = [{"content": "of an agent", "status": "in_progress", "activeForm": "x", "id": "7"}]
    files[f"../todos/{t.session}-agent-a0007.json"] = dumps(helper)
    task = {"id": "1", "subject": "from a file", "description": "only there", "status": "pending"}
    files[f"../tasks/{t.session}/1.json"] = dumps(task)
    files["../plans/soft-purring-owl.md"] = b"# Owl plan\n\nfly\n"
    files["../plans/no-session.md"] = b"# Plan of a session that is gone\n"
    files["../todos/torn.json"] = b'[{"content": '
    files[f"../tasks/{t.session}/2.json"] = b"[]"


def write_everything(root: Path, world: World) -> None:
    """All sessions of this module and those of `world`, with the files beside the transcripts."""
    files: dict[str, bytes] = {}
    places(world)
    superseded(world)
    persisted(world, files)
    history(world, files)
    lists_in_files(world, files)
    world.write(root)
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        os.utime(path, (WRITTEN, WRITTEN))
