"""Worlds of transcripts that share, repeat and point at each other, for hypothesis to draw.

A world is drawn as a recipe: names of what happens, from two tables. So a failing example shrinks
to the few steps that matter, and can be kept as a test by writing its recipe down.
"""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from builder import (
    OTHER_PROJECT,
    Transcript,
    World,
    copy_to,
    dumps,
    fork,
    replay,
    resume,
    text,
    thinking,
    tool_use,
    usage,
)
from work_stories import WORK_STEPS

OTHER = OTHER_PROJECT
Step = Callable[[Transcript], object]

NOTICE = (
    "<task-notification>\n<task-id>{}</task-id>\n<status>completed</status>\n</task-notification>"
)

# -- what happens within a file ----------------------------------------------------------------


def chunks(t: Transcript) -> None:
    """A reply of three lines, its call and the result between them."""
    n = t.world.number()
    ids = {"message": f"msg_c{n}", "request": f"req_c{n}"}
    call = tool_use(t.world, "Bash", {"command": "git commit -m x"})
    t.reply(thinking(f"hm {n}"), call, **ids, final=False)
    t.result(call["id"], "[main abc1234] x\n 1 file changed")
    t.reply(text(f"and so {n}"), **ids, output=50)


def late_result(t: Transcript) -> None:
    """A result that stands before its call."""
    call = tool_use(t.world, "Read", {"file_path": "/home/ada/engine/late.py"})
    t.result(call["id"], "text of the file")
    t.reply(call)


def edit(t: Transcript) -> None:
    patch = [
        {"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 2, "lines": ["-a", "+b", "+c"]}
    ]
    t.tool(
        "Edit",
        {"file_path": f"{t.cwd}/a.py", "old_string": "a", "new_string": "b\nc"},
        detail={"filePath": f"{t.cwd}/a.py", "structuredPatch": patch},
    )


def failed(t: Transcript) -> None:
    call = tool_use(t.world, "Bash", {"command": "false"})
    t.reply(call)
    t.result(call["id"], "Exit code 1", is_error=True)


def pull(t: Transcript) -> None:
    t.tool(
        "Bash",
        {"command": "gh pr create"},
        "https://github.com/ada/engine/pull/7",
        {"stdout": "", "gitOperation": {"pr": {"number": 7, "url": "https://x/pull/7"}}},
    )


def queued(t: Transcript) -> None:
    n = t.world.number()
    t.queue("enqueue", f"wait {n}")
    t.queue("remove")


def queued_twice(t: Transcript) -> None:
    """Newer versions write the same text as an attachment, too."""
    n = t.world.number()
    t.queue("enqueue", f"both {n}")
    t.queue("remove", f"both {n}")
    t.attach("queued_command", prompt=f"both {n}", commandMode="prompt")


def attached_first(t: Transcript) -> None:
    n = t.world.number()
    t.queue("enqueue", f"early {n}")
    t.attach("queued_command", prompt=f"early {n}", commandMode="prompt")
    t.queue("remove", f"early {n}")


def dequeued(t: Transcript) -> None:
    n = t.world.number()
    t.queue("enqueue", f"later {n}")
    t.queue("dequeue")
    t.prompt(f"later {n}")


def taken_back(t: Transcript) -> None:
    t.queue("enqueue", "never mind")
    t.queue("popAll")


def gateway(t: Transcript) -> None:
    """Another provider: tool ids repeat, there is no request id, and message ids repeat too."""
    call = tool_use(t.world, "Bash", {"command": f"ls {t.world.number()}"}, "call_0")
    t.reply(call, message="chatcmpl-1", request="")
    t.result("call_0", f"listing {t.world.number()}")


def two_calls(t: Transcript) -> None:
    """Two calls of one repeated id before their results."""
    for n in (1, 2):
        t.reply(
            tool_use(t.world, "Bash", {"command": f"echo {n}"}, "call_1"),
            message=f"gen-{t.world.number()}",
            request="",
        )
    t.result("call_1", "first answer")
    t.result("call_1", "second answer")


def orphan_result(t: Transcript) -> None:
    t.result(f"toolu_gone{t.world.number()}", "nobody asked")


def nameless(t: Transcript) -> None:
    """Entries without uuid, one of them twice."""
    for _ in range(2):
        t.thread("user", {"message": {"role": "user", "content": "no name"}}, timestamp="")
        entry = t.entries[-1]
        del entry["uuid"], entry["timestamp"]
        t.parent = entry["parentUuid"] = None


def odd_uuid(t: Transcript) -> None:
    entry = t.prompt("odd")
    entry["uuid"] = "msg-1"
    t.parent = "msg-1"
    t.reply(text("on an odd one"))


def twice(t: Transcript) -> None:
    """The same entry twice in one file."""
    t.prompt(f"again {t.world.number()}")
    t.lines.append(dict(t.entries[-1]))


def agent(where: str, meta: bool = False, wrapped: bool = True, own: bool = True) -> Step:
    """A subagent: its call, its progress lines, its own file, its result, its end."""

    def story(t: Transcript) -> None:
        n = t.world.number()
        name = f"a{n:06x}"
        call = tool_use(
            t.world, "Task", {"prompt": f"look {n}", "description": "d", "subagent_type": "Explore"}
        )
        t.reply(call)
        said = {"toolUseId": call["id"], "agentType": "Plan", "description": "from meta"}
        helper = Transcript(t.world, "", t.session, name, t.version, t.cwd)
        if own:
            helper = t.agent_file(name, where=where, meta=said if meta else None)
        helper.prompt(f"look {n}")
        helper.reply(text("looking"), thinking("well"))
        helper.tool("Read", {"file_path": f"{t.cwd}/seen.py"}, "1 line")
        if wrapped:
            for entry in helper.entries[:3]:
                t.agent_progress(name, call["id"], entry)
        detail = {"status": "completed", "agentId": name, "totalDurationMs": 5}
        t.result(call["id"], "found", detail)

    return story


def background(t: Transcript) -> None:
    n = t.world.number()
    call = tool_use(t.world, "Agent", {"prompt": f"far {n}", "description": "far"})
    t.reply(call)
    t.result(call["id"], "started", {"status": "async_launched", "agentId": f"b{n}"})
    t.prompt(NOTICE.format(f"b{n}"))


def nested_agent(t: Transcript) -> None:
    """An agent that starts another one."""
    n = t.world.number()
    outer = tool_use(t.world, "Agent", {"prompt": f"outer {n}", "description": "o"})
    t.reply(outer)
    first = t.agent_file(f"c{n}")
    first.prompt(f"outer {n}")
    inner = tool_use(t.world, "Agent", {"prompt": f"inner {n}", "description": "i"})
    first.reply(inner)
    second = t.agent_file(f"d{n}")
    second.prompt(f"inner {n}")
    second.tool("Bash", {"command": "ls"})
    first.result(inner["id"], "deep", {"status": "completed", "agentId": f"d{n}"})
    t.result(outer["id"], "done", {"status": "completed", "agentId": f"c{n}"})


def workflow(t: Transcript) -> None:
    n = t.world.number()
    helper = t.agent_file(f"e{n}", where="workflow")
    helper.prompt("part of a workflow")
    helper.reply(text("done"))
    t.tool("Workflow", {"name": "w"}, "ok", {"runId": "wf_1", "transcriptDir": "/x"})


def same_words(t: Transcript) -> None:
    """Two agents asked the same, known by these words only."""
    for _ in range(2):
        t.reply(tool_use(t.world, "Task", {"prompt": "same words", "description": "s"}))
    for _ in range(2):
        helper = t.agent_file(f"f{t.world.number()}", where="beside")
        helper.prompt("same words")
        helper.reply(text("yes"))


def half_wrapped(t: Transcript) -> None:
    """Progress lines of which only some stand in the agent's file, and its prompt nowhere else."""
    n = t.world.number()
    call = tool_use(t.world, "Task", {"prompt": f"part {n}", "description": "p"})
    t.reply(call)
    helper = t.agent_file(f"h{n}")
    helper.prompt(f"part {n}")
    helper.reply(text("first"), text("second"))
    lost = Transcript(t.world, "", t.session, f"h{n}", t.version, t.cwd, parent=helper.parent)
    lost.reply(text("third"))
    for entry in (*helper.entries[1:], *lost.entries):
        t.agent_progress(f"h{n}", call["id"], entry)


def glued(t: Transcript) -> None:
    """Two entries on one line."""
    t.prompt(f"left {t.world.number()}")
    left = t.lines.pop()
    t.prompt(f"right {t.world.number()}")
    right = t.lines.pop()
    t.raw(dumps(left) + dumps(right))


def split_prompt(t: Transcript) -> None:
    """A replay that makes one line of each block."""
    first = t.prompt([text(f"one {t.world.number()}"), text("two")])
    for block in first["message"]["content"]:
        t.prompt([block], timestamp=first["timestamp"])


def done_twice(t: Transcript) -> None:
    """Two answers with the same words: no copies, whatever a resume makes of their times."""
    for _ in range(2):
        t.reply(text("Done."))


def by_the_way(t: Transcript) -> None:
    """A question on the side: the agent's file repeats an answer of the main thread (R3)."""
    answer = t.reply(text("said in the main thread"))[0]
    helper = t.agent_file(f"aside{t.world.number()}")
    helper.prompt("by the way")
    helper.reply(
        text("said in the main thread"), message=answer["message"]["id"], request="req_other"
    )


def hidden(t: Transcript) -> None:
    helper = t.agent_file(f"acompact-{t.world.number()}")
    helper.parent = t.parent
    helper.prompt("summarize")
    helper.reply(text("summary"))


def side_task(t: Transcript) -> None:
    """A sidechain with the call that started it, as version 1.0 has them."""
    n = t.world.number()
    call = tool_use(t.world, "Task", {"prompt": f"task {n}", "description": "t"})
    t.reply(call)
    t.side(f"task {n}", "working", "done")
    t.result(call["id"], "all done")


def worktree(t: Transcript) -> None:
    state = {"worktreePath": t.cwd, "originalCwd": "/home/ada/whole", "worktreeName": "w"}
    t.flat("worktree-state", worktreeSession=state, sessionId=t.session)


def described(t: Transcript) -> None:
    """Lines that say more of their session: nickname, entry point, the process it began in."""
    n = t.world.number()
    t.prompt(
        f"hello {n}", slug=f"owl-{n}", entrypoint="cli", session_id=t.world.uuid(), gitBranch=""
    )


def notified(t: Transcript) -> None:
    """An agent in the background whose end is told three times over."""
    n = t.world.number()
    call = tool_use(t.world, "Agent", {"prompt": f"wait {n}", "description": "w"})
    t.reply(call)
    t.result(call["id"], "started", {"status": "async_launched", "agentId": f"n{n}"})
    notice = NOTICE.format(f"n{n}")
    at = t.world.now()
    t.queue("enqueue", notice, timestamp=at)
    t.queue("remove")
    t.attach("queued_command", prompt=notice, commandMode="task-notification")
    t.prompt(notice.replace("completed", "failed"), origin={"kind": "task-notification"})


def advised(t: Transcript) -> None:
    """A request with an advisor's in it, told on two lines."""
    n = t.world.number()
    own, advice = usage(7), usage(9, type="advisor_message", model="claude-fable-5")
    for nth in (1, 2):
        entry = t.reply(
            text(f"advised {n} {nth}"), message=f"msg_v{n}", request=f"req_v{n}", costUSD=0.5
        )[0]
        entry["message"]["usage"] = {**own, "iterations": [{**own, "type": "message"}, advice]}


def several_results(t: Transcript) -> None:
    """Two results on one line, one of them of a call that comes later."""
    calls = [tool_use(t.world, "Bash", {"command": f"echo {n}"}) for n in (1, 2)]
    t.reply(calls[0])
    more = {"type": "tool_result", "tool_use_id": calls[1]["id"], "content": "two"}
    t.result(calls[0]["id"], "one", beside=[more])
    t.reply(calls[1])


def compacted(t: Transcript) -> None:
    before = t.parent
    t.parent = None
    t.system("compact_boundary", logicalParentUuid=before, compactMetadata={"preTokens": 9})
    t.prompt("what was said so far", isCompactSummary=True)


def hop(t: Transcript) -> None:
    """Progress between entries of the thread."""
    for _ in range(2):
        t.progress()
    t.system("turn_duration", durationMs=5)


def moved(t: Transcript) -> None:
    t.cwd, t.branch, t.version = "/home/ada/engine/sub", "topic", "2.1.45"
    t.prompt("from elsewhere")


STEPS: dict[str, Step] = {
    "prompt": lambda t: t.prompt(f"please {t.world.number()}"),
    "answer": lambda t: t.reply(text(f"answer {t.world.number()}")),
    "chunks": chunks,
    "late_result": late_result,
    "edit": edit,
    "failed": failed,
    "pull": pull,
    "pr_link": lambda t: (t.pr_link(7), t.pr_link(8), t.pr_link(7)),
    "queued": queued,
    "queued_twice": queued_twice,
    "attached_first": attached_first,
    "dequeued": dequeued,
    "taken_back": taken_back,
    "beside": lambda t: t.result(
        f"toolu_x{t.world.number()}", "done", beside=[text(f"and also {t.world.number()}")]
    ),
    "gateway": gateway,
    "two_calls": two_calls,
    "orphan_result": orphan_result,
    "nameless": nameless,
    "odd_uuid": odd_uuid,
    "twice": twice,
    "agent": agent("subagents"),
    "agent_meta": agent("subagents", meta=True, wrapped=False),
    "agent_beside": agent("beside", wrapped=False),
    "agent_underscore": agent("underscore"),
    "agent_without_file": agent("", own=False),
    "agent_beside_meta": agent("beside", meta=True),
    "side_task": side_task,
    "worktree": worktree,
    "described": described,
    "notified": notified,
    "advised": advised,
    "several_results": several_results,
    "compacted": compacted,
    "background": background,
    "nested_agent": nested_agent,
    "workflow": workflow,
    "same_words": same_words,
    "half_wrapped": half_wrapped,
    "glued": glued,
    "split_prompt": split_prompt,
    "done_twice": done_twice,
    "by_the_way": by_the_way,
    "hidden": hidden,
    "side": lambda t: t.side(f"old agent {t.world.number()}", "one", "two"),
    "hop": hop,
    "moved": moved,
    "mention": lambda t: t.attach("file", filename=f"{t.cwd}/m.py", content="x"),
    "snapshot": lambda t: (t.snapshot("rel.py"), t.snapshot("/abs/a.py", 2), t.snapshot("rel.py")),
    "custom_title": lambda t: t.custom_title(f"title {t.world.number()}"),
    "ai_title": lambda t: t.ai_title(f"ai title {t.world.number()}"),
    "system": lambda t: t.system("compact_boundary", compactMetadata={"trigger": "auto"}),
    "mode": lambda t: (t.flat("mode", mode="normal"), t.flat("mode", mode="normal")),
    "unknown": lambda t: t.flat("brand-new", sessionId=t.session, n=t.world.number()),
    "bad": lambda t: t.raw(b'{"torn": '),
    "blank": lambda t: t.raw(b""),
    "replay": replay,
    "replay_tail": lambda t: replay(t, max(0, len(t.entries) - 3)),
    "clear": lambda t: t.command("/clear", session_id=t.world.uuid()),
    **WORK_STEPS,
}

# -- what happens between files ----------------------------------------------------------------


def sdk_fork(t: Transcript) -> Transcript:
    """forkSession() of the SDK: other uuids and another session, and not a word about it."""
    new = fork(t, says_so=False, renew=True)
    for n, entry in enumerate(new.entries):
        if "uuid" in entry and "timestamp" in entry and n % 2:
            entry["timestamp"] = t.world.now()
    return new


def in_background(t: Transcript) -> Transcript:
    """A background session with the same entries."""
    new = fork(t, says_so=False, renew=False)
    for entry in new.entries:
        entry["sessionKind"] = "bg"
    new.extra = {"sessionKind": "bg"}
    return new


def second_part(t: Transcript) -> Transcript:
    """Another file of the same session, not named by it, that begins without naming it."""
    folder = t.path.rpartition("/")[0]
    new = t.world.session(folder, t.session, name=f"part-{t.world.number()}", cwd=t.cwd)
    new.flat("mode", mode="normal")
    new.parent = t.parent
    return new


def split_call(t: Transcript) -> Transcript:
    """A call in one file, its result in another of the same session."""
    call = tool_use(t.world, "Write", {"file_path": f"{t.cwd}/new.py", "content": "a\nb\n"})
    t.reply(call)
    new = second_part(t)
    new.result(call["id"], "File created", {"type": "create", "filePath": f"{t.cwd}/new.py"})
    return new


def summarized(t: Transcript) -> Transcript:
    """A file that holds nothing but summaries of another session."""
    leaves = [e["uuid"] for e in t.entries if "uuid" in e] or [t.world.uuid()]
    new = t.world.session(t.path.rpartition("/")[0])
    new.summary(f"about {t.world.number()}", leaves[-1])
    new.summary(f"older {t.world.number()}", leaves[0])
    return new


def shared_agent_file(t: Transcript) -> Transcript:
    """An old agent's file with lines of two sessions."""
    other = t.world.session(t.path.rpartition("/")[0])
    other.prompt("of another session")
    helper = t.agent_file(f"g{t.world.number()}", where="beside")
    helper.prompt("Warmup")
    helper.session = other.session
    helper.reply(text("ready"))
    return other


def copy_all(t: Transcript) -> Transcript:
    """The whole folder of a session under another name, its agents included."""
    folder = t.path.partition("/")[0]
    twin = t
    for file in [f for f in t.world.files if f.path.partition("/")[0] == folder]:
        copied = copy_to(file, "-home-ada-all")
        twin = copied if file is t else twin
    return twin


Derive = Callable[[Transcript], Transcript]
DERIVED: dict[str, Derive] = {
    "new": lambda t: t.world.session(),
    "elsewhere": lambda t: t.world.session(OTHER, cwd="/home/ada/other"),
    "resume": resume,
    "resume_half": lambda t: resume(t, len(t.entries) // 2),
    "fork": lambda t: fork(t, says_so=True, renew=False),
    "fork_renewed": lambda t: fork(t, says_so=True, renew=True),
    "fork_silent": lambda t: fork(t, says_so=False, renew=False),
    "fork_half": lambda t: fork(t, len(t.entries) // 2, says_so=False, renew=False),
    "fork_twice": lambda t: fork(fork(t, says_so=True, renew=True), says_so=True, renew=True),
    "sdk_fork": sdk_fork,
    "in_background": in_background,
    "copy": lambda t: copy_to(t, OTHER),
    "copy_half": lambda t: copy_to(t, OTHER, len(t.lines) // 2),
    "copy_all": copy_all,
    "second_part": second_part,
    "split_call": split_call,
    "summarized": summarized,
    "shared_agent_file": shared_agent_file,
}


Recipe = list[tuple[str, int, list[str]]]  # how a file begins, from which one, what happens in it


def build(recipe: Recipe) -> World:
    """The world of a recipe; the first file is always a session of its own."""
    world = World()
    mains: list[Transcript] = []
    for how, source, names in recipe:
        new = DERIVED[how](mains[source % len(mains)]) if mains else world.session()
        for name in names:
            STEPS[name](new)
        mains.append(new)
    # Claude Code makes a file when it has something to write.
    paths: dict[str, Transcript] = {f.path: f for f in world.files if f.lines}
    world.files = list(paths.values())
    return world


def every_step() -> Recipe:
    """A recipe in which each step and each way to begin a file occurs."""
    recipe: Recipe = [("new", 0, ["prompt", name, "answer"]) for name in sorted(STEPS)]
    recipe += [("new", 0, [name]) for name in sorted(WORK_STEPS)]
    rich = ["prompt", "answer", "queued", "edit", "todo_lists", "timed", "answer"]
    # In split_call, the second file begins with a result: whose turn that is, is not agreed on.
    for how in sorted({*DERIVED} - {"split_call"}):
        agent = [] if how == "sdk_fork" else ["agent"]  # the agent's lines alone would be shared
        recipe += [("new", 0, [*rich, *agent]), (how, len(recipe), ["prompt", "answer"])]
    return recipe


def recipes(most_files: int = 5, most_steps: int = 4) -> st.SearchStrategy[Recipe]:
    """Recipes of worlds; drawn as plain lists, so that a failing one can be read and kept."""
    steps = st.lists(st.sampled_from(sorted(STEPS)), max_size=most_steps)
    files = st.tuples(st.sampled_from(sorted(DERIVED)), st.integers(0, most_files - 2), steps)
    return st.lists(files, min_size=1, max_size=most_files)
