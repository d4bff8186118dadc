"""What happened in the demo's older sessions: Claude Code 1.0, 2.0 and 2.1 up to 2.1.63."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from ctxdb.demo.client_lines import compact, hook
from ctxdb.demo.file_tools import create, edit, read
from ctxdb.demo.tool_calls import (
    AgentCall,
    bash,
    failed,
    glob,
    grep,
    mcp,
    rejected,
    todo,
    todo_write,
    web_fetch,
)
from ctxdb.demo.transcript import thinking
from ctxdb.demo.world import HAIKU_4_5, OPUS_4_6, SONNET_4, Start, folder_of

if TYPE_CHECKING:
    from ctxdb.demo.transcript import Transcript
    from ctxdb.demo.world import World


def write_early_stories(world: World) -> None:
    """Write all of them, oldest first."""
    tides = summer_time(world)
    resumed_summer_time(world, tides)
    parcels(world)
    shelf = offline_shelf(world)
    forked_shelf(world, shelf)


def summer_time(world: World) -> Transcript:
    """1.0.98: a bug in daylight saving time, with a search agent inside the main file."""
    s = world.session(
        "summer time", "code/tidepool", Start(398, 8, 41), version="1.0.98", model=SONNET_4
    )
    s.prompt("the tide table for Brest is one hour off since last weekend, can you find out why?")
    s.reply(
        "I'll look at how local times are computed.",
        glob("**/*.py", [s.full(f"tidepool/{name}.py") for name in ("clock", "table")]),
    )
    s.reply(read(s, "tidepool/clock.py"))

    def search(agent: Transcript) -> None:
        agent.reply(
            grep("to_local", agent.cwd, ["tidepool/clock.py:6:def to_local(when, offset_hours):"])
        )

    s.reply(
        "`to_local` adds a fixed number of hours. I'll check who calls it.",
        AgentCall(
            "Find callers of to_local",
            "List every call of to_local in this repository with the offset it passes.",
            "general-purpose",
            "to_local is defined in tidepool/clock.py and called only from the tests.",
            search,
            SONNET_4,
        ),
    )
    plan = [todo("Use zoneinfo in to_local", "in_progress"), todo("Add a test", "pending")]
    s.reply(todo_write([], plan))
    s.reply(
        edit(
            s,
            "tidepool/clock.py",
            "def to_local(when, offset_hours):\n    return when + timedelta(hours=offset_hours)",
            "def to_local(when, zone):\n"
            "    return when.replace(tzinfo=UTC).astimezone(ZoneInfo(zone))",
        )
    )
    s.reply(
        bash(
            "python -m pytest -q",
            "Run the tests",
            "E   NameError: name 'UTC' is not defined\n1 failed in 0.04s",
            exit_code=1,
        )
    )
    s.reply(
        "The imports are missing.",
        edit(
            s,
            "tidepool/clock.py",
            "from datetime import datetime, timedelta\n",
            "from datetime import UTC, datetime\nfrom zoneinfo import ZoneInfo\n",
        ),
    )
    s.reply(
        edit(
            s,
            "tests/test_clock.py",
            "    assert to_local(datetime(2025, 1, 5, 12), 0) == datetime(2025, 1, 5, 12)\n",
            '    assert to_local(datetime(2025, 1, 5, 12), "Europe/Paris").hour == 13\n\n\n'
            "def test_summer():\n"
            '    assert to_local(datetime(2025, 7, 5, 12), "Europe/Paris").hour == 14\n',
        )
    )
    s.reply(bash("python -m pytest -q", "Run the tests", "2 passed in 0.05s"))
    done = [{**item, "status": "completed"} for item in plan]
    s.reply(todo_write(plan, done))
    s.reply(
        "The offset was fixed at the winter value. Local times now come from the time zone"
        " database, so summer time is right as well; two tests cover both seasons."
    )
    return s


def resumed_summer_time(world: World, old: Transcript) -> None:
    """1.0.98 resumed a session by copying it: replies get new times and the new session id."""
    s = world.session(
        "summer time again", "code/tidepool", Start(397, 17, 5), version="1.0.98", model=SONNET_4
    )
    s.flat(type="summary", summary="Tide table: summer time bug in to_local", leafUuid=old.parent)
    for line in copy.deepcopy(old.lines):
        if line["isSidechain"]:
            continue
        if line["type"] == "assistant":
            line |= {"sessionId": s.session_id, "timestamp": s.timestamp}
        s.lines.append(line)
    s.parent = old.parent
    s.prompt("say in the README that times are local to the station")
    s.reply(
        edit(
            s,
            "README.md",
            "in the terminal.\n",
            "in the terminal.\n\nAll times are local to the station, summer time included.\n",
        )
    )
    s.reply("Added one sentence below the introduction.")


def parcels(world: World) -> None:
    """2.0.76: an agent in a file beside the session's, and a command the person refuses."""
    s = world.session(
        "parcels",
        "code/ferry",
        Start(281, 13, 20),
        version="2.0.76",
        model=HAIKU_4_5,
        branch="retry-backoff",
        slug="brisk-drifting-heron",
    )
    s.prompt(
        "retries hammer the depot when it is down. make the backoff exponential, max 2 minutes"
    )
    s.reply(
        thinking("backoff() is linear. Exponential with a cap, and jitter would be good too."),
        read(s, "internal/relay/queue.go"),
    )

    def review(agent: Transcript) -> None:
        agent.reply(read(agent, "internal/relay/queue_test.go"))
        agent.reply(
            grep("backoff\\(", agent.cwd, ["internal/relay/queue.go:17:backoff(p.Retries)"])
        )

    s.reply(
        AgentCall(
            "Check retry tests",
            "Read the tests of internal/relay and say what they assume about the delays.",
            "Explore",
            "The tests check only that retries are counted; no delay is asserted anywhere.",
            review,
            HAIKU_4_5,
        )
    )
    s.reply(
        edit(
            s,
            "internal/relay/queue.go",
            "\treturn time.Duration(retries) * time.Second\n",
            "\tdelay := time.Second << min(retries, 7)\n\treturn min(delay, 2*time.Minute)\n",
        )
    )
    s.reply(bash("go test ./...", "Run all tests", "ok  \tferry/internal/relay\t0.311s", seconds=7))
    s.reply(
        "Tests pass. I'll push this so that CI can run.",
        rejected(
            bash("git push --force origin retry-backoff", "Push the branch"),
            "never force-push, and let me look at it first",
        ),
    )
    s.reply("Understood: nothing is pushed. The change is in `internal/relay/queue.go`.")
    warm_up(world, s)


def warm_up(world: World, s: Transcript) -> None:
    """2.0.x warmed its cache with agents that no person asked for."""
    agent = copy.copy(s)
    agent.agent_id, agent.sidechain, agent.parent, agent.context = s.hex(8), True, None, 0
    agent.lines = world.lines_of(f"{folder_of(s.cwd)}/agent-{agent.agent_id}.jsonl")
    agent.user("Warmup")
    agent.reply("I'm ready to help with this repository.")


def offline_shelf(world: World) -> Transcript:
    """2.1.34: hooks as progress lines, a queued prompt, an agent copied by progress, compaction."""
    s = world.session(
        "offline shelf",
        "code/lantern",
        Start(244, 9, 2),
        version="2.1.34",
        model=OPUS_4_6,
        branch="offline",
        slug="mellow-baking-lighthouse",
    )
    hook(s, "SessionStart", "./scripts/env.sh")
    s.prompt("lantern should work on the train. what would it take to keep the shelf offline?")
    s.reply(
        thinking("They want offline support. Look at sync.ts first, then decide on storage."),
        "Let me see how books are loaded today.",
        read(s, "src/sync.ts"),
    )

    def compare(agent: Transcript) -> None:
        agent.reply(
            web_fetch(
                "https://example.org/indexeddb-or-localstorage",
                "Which one survives storage pressure?",
                "IndexedDB is evicted per origin and holds far more; localStorage stops at 5 MB.",
            )
        )

    s.reply(
        AgentCall(
            "Compare browser storage",
            "Compare IndexedDB and localStorage for a list of a few thousand books.",
            "general-purpose",
            "IndexedDB: asynchronous, large, structured. localStorage: small and blocking.",
            compare,
            HAIKU_4_5,
        )
    )
    s.load(118_000)
    s.queue("no new dependency please, plain IndexedDB is fine")
    s.reply(
        "Plain IndexedDB it is.",
        create(
            s,
            "src/store.ts",
            'const DB = "lantern";\n\nexport function open(): Promise<IDBDatabase> {\n'
            "  return new Promise((resolve, reject) => {\n"
            "    const request = indexedDB.open(DB, 1);\n"
            '    request.onupgradeneeded = () => request.result.createObjectStore("books");\n'
            "    request.onsuccess = () => resolve(request.result);\n"
            "    request.onerror = () => reject(request.error);\n  });\n}\n",
        ),
    )
    s.reply(
        bash(
            "npm test",
            "Run the tests",
            "FAIL src/store.test.ts\n  ReferenceError: indexedDB is not defined",
            exit_code=1,
            seconds=11,
        )
    )
    s.system(
        "api_error",
        level="error",
        error={"status": 529, "requestID": s.api_id("req_011C")},
        retryInMs=1082,
        retryAttempt=1,
        maxRetries=10,
    )
    s.reply(
        "Node has no IndexedDB, so the store is only tested in the browser run.",
        bash("npm run test:browser", "Run the browser tests", "12 passed (3.4s)", seconds=19),
    )
    s.reply("The shelf is now kept in IndexedDB and read from there first.")
    compact(
        s,
        "The user wants lantern to work offline. src/store.ts holds an IndexedDB store; browser"
        " tests pass. Next: write changes back when the network returns.",
    )
    s.prompt("good. now queue writes while offline and send them later")
    old = "export async function push("
    new = (
        "export async function send(url: string, books: Book[]): Promise<void> {\n"
        '  if (!navigator.onLine) await once(window, "online");\n  await push(url, books);\n}\n\n'
        "export async function push("
    )
    s.reply(
        failed(
            edit(s, "src/sync.ts", old, new, apply=False),
            "File has not been read yet. Read it first before writing to it.",
        )
    )
    s.reply(read(s, "src/sync.ts"))
    s.reply(edit(s, "src/sync.ts", old, new))
    s.reply("`send` now waits for the `online` event before it writes. Next would be conflicts.")
    s.flat(type="summary", summary="Offline shelf with IndexedDB", leafUuid=s.parent)
    return s


def forked_shelf(world: World, old: Transcript) -> None:
    """2.1.34: a fork copies every line and changes only the session's id."""
    s = world.session(
        "forked shelf",
        "code/lantern",
        Start(243, 20, 15),
        version="2.1.34",
        model=OPUS_4_6,
        branch="offline",
        slug="quiet-folding-kite",
    )
    last = next(n for n, line in enumerate(old.lines) if line.get("subtype") == "turn_duration")
    for line in copy.deepcopy(old.lines[: last + 1]):
        if "sessionId" in line:
            line["sessionId"] = s.session_id
        if "slug" in line:
            line["slug"] = s.slug
        s.lines.append(line)
    s.parent = old.lines[last]["uuid"]
    s.prompt("other idea: would a service worker be simpler than our own store?")
    s.reply(
        mcp(
            "docs",
            "search",
            {"query": "service worker cache first"},
            "3 pages: Caching strategies; Life cycle; Updating a worker",
        )
    )
    s.reply(
        "Simpler for reading, not for writing: a worker caches responses, but unsent changes"
        " would still need a queue of their own. I would keep the store."
    )
