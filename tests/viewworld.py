"""One small world, written by hand, so that every number of every view can be counted on fingers.

Lines are a second apart, the first at 09:00:01 on 1 March 2026. Every request has 10 tokens of
input, 20 written to the cache, 30 read from it; the output is 5 for each block of the reply. With
Opus 4.5 at 5 / 25 / 6.25 / 0.5 USD per million, a request of one block costs 315 millionths of a
dollar (10 x 5 + 5 x 25 + 20 x 6.25 + 30 x 0.5), one of two blocks 440.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from builder import World, fork, stamp, text, thinking, tool_use

if TYPE_CHECKING:
    from builder import Transcript

ONE = 0.000315  # USD for a request of one block
TWO = 0.000440

MAIN = "aaaaaaaa-0000-4000-8000-000000000001"
SECOND = "bbbbbbbb-0000-4000-8000-000000000002"
A_PY = "/home/ada/engine/src/a.py"


def patch(added: int, removed: int) -> list[dict[str, Any]]:
    lines = ["-x"] * removed + ["+y"] * added
    return [{"oldStart": 1, "oldLines": removed, "newStart": 1, "newLines": added, "lines": lines}]


def edited(t: Transcript, path: str, added: int, removed: int) -> None:
    detail = {"filePath": path, "structuredPatch": patch(added, removed)}
    t.tool("Edit", {"file_path": path, "old_string": "x", "new_string": "y"}, "updated", detail)


def handmade() -> World:
    world = World()
    first_session(world)
    second_session(world)
    return world


def first_session(world: World) -> None:
    t = world.session(session=MAIN)
    t.prompt("make it green")  # second 1, turn 1
    test = tool_use(world, "Bash", {"command": "npm test", "description": "Run the tests"})
    t.reply(thinking("first the tests"), test)  # 2, 3: one request of two blocks
    t.result(test["id"], "Exit code 1\nFAIL a.test", is_error=True)  # 4
    t.reply(text("I will read it."))  # 5
    t.tool("Read", {"file_path": A_PY}, "x = 1", {"type": "text"})  # 6, 7
    edited(t, A_PY, 2, 1)  # 8, 9
    t.tool("Bash", {"command": "npm test"}, "ok", {"stdout": "ok", "stderr": ""})  # 10, 11
    said = "[main abc1234] Make it green\n 1 file changed"
    t.tool("Bash", {"command": "git commit -am green"}, said, {"stdout": said})  # 12, 13
    t.reply(text("It is green."), text("And committed."))  # 14, 15: one request of two blocks
    t.queue("enqueue", "also the docs")  # 16
    t.queue("remove")  # 17: turn 2 begins
    write = {"file_path": "/home/ada/engine/docs/a.md", "content": "a\nb\nc\n"}
    t.tool("Write", write, "created", {"type": "create", "filePath": write["file_path"]})  # 18, 19
    agent(t)  # 20 to 25
    ask(t)  # 26, 27
    refuse(t)  # 28, 29
    t.prompt("[Request interrupted by user for tool use]")  # 30
    t.prompt("then rename it")  # 31, turn 3
    t.reply(text("I could rename"))  # 32
    t.prompt("[Request interrupted by user]")  # 33
    t.system(  # 34
        "compact_boundary",
        compactMetadata={"trigger": "manual", "preTokens": 1000, "postTokens": 100},
    )
    t.prompt("What was said so far", isCompactSummary=True)  # 35
    t.prompt("/usr/bin is no command")  # 36, turn 4
    t.reply(text("Right."))  # 37
    t.pr_link(7)  # 38


def agent(t: Transcript) -> None:
    """A subagent that reads a file: its request is the session's, too."""
    task = {"description": "Look around", "prompt": "look", "subagent_type": "Explore"}
    call = tool_use(t.world, "Task", task)
    t.reply(call)  # 20
    sub = t.agent_file("a1")
    sub.prompt("look")  # 21
    sub.tool("Read", {"file_path": A_PY}, "x = 1", {"type": "text"})  # 22, 23
    sub.reply(text("Nothing new."))  # 24
    detail = {"status": "completed", "agentId": "a1", "totalTokens": 99}
    t.result(call["id"], "Nothing new.", detail)  # 25


def ask(t: Transcript) -> None:
    questions = [
        {"question": 'Which "colour"?', "options": [{"label": "red"}, {"label": "blue"}]},
        {"question": "How many?", "options": [{"label": "1"}]},
    ]
    answer = (
        'User has answered your questions: "Which "colour"?"="red, or "blue"", '
        '"How many?"="2.5 or so". You can now continue with the user\'s answers in mind.'
    )
    t.tool("AskUserQuestion", {"questions": questions}, answer)


def refuse(t: Transcript) -> None:
    call = tool_use(t.world, "Bash", {"command": "rm -rf build"})
    t.reply(call)
    said = "The user doesn't want to proceed with this tool use. To tell you how to proceed, "
    t.result(call["id"], f"{said}the user said:\nkeep the build", is_error=True)


def second_session(world: World) -> None:
    """A fork of the first two lines, a day later, in another model that has no price."""
    t = fork(world.files[0], 3, says_so=True, renew=True)
    t.session = SECOND
    for line in t.entries:
        line["sessionId"] = SECOND
    t.path = t.path.rpartition("/")[0] + f"/{SECOND}.jsonl"
    world.seconds += 86400
    t.prompt("another way", timestamp=stamp(world.seconds))
    t.reply(text("Like this."), model="mystery-1")
    t.system(
        "api_error",
        error={"status": 529, "error": {"type": "error", "error": {"type": "overloaded_error"}}},
        retryAttempt=1,
    )
    t.reply(
        text("API Error: overloaded"),
        model="<synthetic>",
        isApiErrorMessage=True,
        error="overloaded",
        apiErrorStatus=529,
    )
    call = tool_use(world, "mcp__tracker__find", {"query": "x"})
    t.reply(call, model="mystery-1")
    t.result(call["id"], "found", timestamp=stamp(world.seconds + 4))
