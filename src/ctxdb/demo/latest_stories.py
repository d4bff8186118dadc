"""What happened in the demo's last weeks: Claude Code 2.1.237 to 2.1.280."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from ctxdb.demo.client_lines import compact
from ctxdb.demo.file_tools import create, edit, read
from ctxdb.demo.tool_calls import ask, bash, rejected, unanswered
from ctxdb.demo.transcript import thinking
from ctxdb.demo.world import HAIKU_4_5, OPUS_5, SONNET_5, Start

if TYPE_CHECKING:
    from ctxdb.demo.transcript import Transcript
    from ctxdb.demo.world import World

WORKTREE = "code/lantern/.claude/worktrees/offline"


def write_latest_stories(world: World) -> None:
    """Write all of them, oldest first."""
    stopped(world)
    checklist(world)
    branched(world, conflict_rules(world))
    for number, days_ago in enumerate((13, 6)):
        nightly_review(world, number, days_ago)
    colours(world)
    still_running(world)


def stopped(world: World) -> None:
    """2.1.237: a command refused, then a reply interrupted, then a better plan."""
    s = world.session("stopped", "code/ferry", Start(17, 15, 10), version="2.1.237", model=OPUS_5)
    s.title = "Graceful shutdown of ferryd"
    s.prompt("ferryd should finish running deliveries before it exits")
    s.reply(
        thinking(""),
        "I'll first see what is running on this machine.",
        rejected(bash("pkill -9 ferryd", "Stop ferryd"), kind="user-rejected"),
    )
    s.interrupt(for_tool=True)
    s.prompt("don't kill anything on my machine. just read the code", pause=20)
    s.reply(read(s, "cmd/ferryd/main.go"))
    s.reply("I would rewrite the whole server around an errgroup, beginning with", cut_off=True)
    s.interrupt()
    s.prompt("no rewrite. a signal handler and a wait group is enough", pause=12)
    s.reply(
        edit(
            s,
            "cmd/ferryd/main.go",
            '\tif err := relay.Serve(":7070"); err != nil {',
            "\tctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)\n"
            '\tdefer stop()\n\tif err := relay.Serve(ctx, ":7070"); err != nil {',
        )
    )
    s.reply(
        bash("go vet ./...", "Vet", "cmd/ferryd/main.go:8:2: missing import", exit_code=2),
        bash("gofmt -l .", "Check formatting", ""),
    )
    s.reply("The handler is in; `Serve` still has to wait for its deliveries. Shall I do that?")


def checklist(world: World) -> None:
    """2.1.237: no code at all, and a question to the person."""
    s = world.session(
        "checklist", "notes", Start(15, 19, 22), version="2.1.237", model=HAIKU_4_5, branch=""
    )
    s.title = "Sailing checklist"
    s.prompt("make the sailing checklist fit for night sailing")
    s.reply(read(s, "sailing/checklist.md"))
    s.reply(ask("How many people are on board?", ["two", "three", "four or more"], "three"))
    s.reply(
        edit(
            s,
            "sailing/checklist.md",
            "- radio check, channel 16\n",
            "- radio check, channel 16\n- navigation lights\n- three head torches, red filters\n"
            "- watch plan: two hours each\n",
        )
    )
    s.reply("Added lights, torches and a watch plan for three.")


def conflict_rules(world: World) -> Transcript:
    """2.1.237: work in a worktree, long enough to be compacted."""
    s = world.session(
        "conflicts", WORKTREE, Start(10, 9, 0), version="2.1.237", model=OPUS_5, branch="offline"
    )
    s.title = "Conflict rules for offline edits"
    s.prompt(
        "two devices edit the same book offline. which one should win, and where do we say so?"
    )
    s.reply(
        thinking(""),
        read(s, "src/sync.ts"),
    )
    s.load(121_000)
    s.reply(
        "Last writer wins per field, by the time of the edit.",
        edit(
            s,
            "src/sync.ts",
            "export async function push(",
            "export function merge(mine: Book, theirs: Book): Book {\n"
            "  return mine.editedAt > theirs.editedAt ? mine : theirs;\n}\n\n"
            "export async function push(",
        ),
    )
    s.reply(
        bash(
            "npx tsc --noEmit",
            "Check types",
            "src/sync.ts(9,15): error TS2339: Property 'editedAt' does not exist on type 'Book'.",
            exit_code=2,
            seconds=5,
        )
    )
    s.reply(
        edit(
            s,
            "src/shelf.ts",
            "  finished?: string;\n",
            "  finished?: string;\n  editedAt: number;\n",
        )
    )
    s.reply(bash("npx tsc --noEmit && npm test", "Check and test", "Tests: 34 passed", seconds=14))
    s.reply("`merge` decides per book for now; fields can follow.")
    compact(
        s,
        "Conflicts: `merge` in src/sync.ts, newest edit wins per book. Types and 34 tests"
        " pass. Open: per-field merge, clocks that are wrong.",
    )
    s.prompt("what about phones with a wrong clock?")
    s.reply(
        "A wrong clock would always win. A counter per book, raised with every edit, does not"
        " depend on clocks: compare counters first and times only when they are equal."
    )
    return s


def branched(world: World, old: Transcript) -> None:
    """2.1.237: /branch marks every copied line with where it came from."""
    s = world.session(
        "branched", WORKTREE, Start(9, 16, 45), version="2.1.237", model=SONNET_5, branch="offline"
    )
    last = next(n for n, line in enumerate(old.lines) if line.get("subtype") == "turn_duration")
    for line in copy.deepcopy(old.lines[: last + 1]):
        if "uuid" in line:
            line["forkedFrom"] = {"sessionId": old.session_id, "messageUuid": line["uuid"]}
        if "sessionId" in line:
            line["sessionId"] = s.session_id
        s.lines.append(line)
    s.parent = old.lines[last]["uuid"]
    s.title = "Per-field merge"
    s.prompt("try it per field instead of per book")
    s.reply(
        edit(
            s,
            "src/sync.ts",
            "  return mine.editedAt > theirs.editedAt ? mine : theirs;\n",
            "  const mineIsNewer = mine.editedAt > theirs.editedAt;\n"
            "  return mineIsNewer ? { ...theirs, ...mine } : { ...mine, ...theirs };\n",
        )
    )
    s.reply(bash("npm test", "Run the tests", "Tests: 34 passed, 34 total", seconds=9))
    s.reply("Per field works for added fields, but a removed `finished` comes back. Not better.")


def nightly_review(world: World, number: int, days_ago: int) -> None:
    """2.1.263: a prompt from a script, not from a person."""
    s = world.session(
        f"nightly {number}",
        "code/ferry",
        Start(days_ago, 2, 30),
        version="2.1.263",
        model=SONNET_5,
        entrypoint="sdk-cli",
    )
    s.prompt("Review yesterday's commits. Answer with OK or a list of problems.", source="sdk")
    s.reply(bash("git log --since=yesterday --stat", "Yesterday's commits", ""))
    s.reply("OK")
    s.flat(
        type="cost-state",
        sessionId=s.session_id,
        totalCostUSD=0.0412,
        modelUsage={SONNET_5: {"inputTokens": 11, "outputTokens": 212}},
        totalDuration=9120,
        totalLinesAdded=0,
        totalLinesRemoved=0,
    )


def colours(world: World) -> None:
    """2.1.263: a background task that reports later."""
    s = world.session(
        "colours", "code/lantern", Start(4, 20, 11), version="2.1.263", model=SONNET_5
    )
    s.title = "Dark mode colours"
    s.prompt("dark mode: pick colours with enough contrast and show me the ratio")
    s.reply(
        create(
            s,
            "src/theme.css",
            ":root[data-theme=dark] {\n  --paper: #14161a;\n  --ink: #e8e6e3;\n}\n",
        )
    )
    s.reply(
        bash(
            "node scripts/contrast.mjs '#14161a' '#e8e6e3'", "Contrast ratio", "14.6 : 1", seconds=1
        )
    )
    s.reply("Ink on paper has a ratio of 14.6 to 1, twice what is asked for small text.")
    note = (
        "<task-notification>\n<task-id>b7x2k1q</task-id>\n<status>completed</status>\n"
        "<summary>Visual tests: 18 passed</summary>\n</task-notification>"
    )
    common = {"type": "queue-operation", "sessionId": s.session_id}
    s.wait(90)
    s.flat(**common, operation="enqueue", timestamp=s.timestamp, content=note)
    s.flat(**common, operation="dequeue", timestamp=s.timestamp)
    s.user(note, {"origin": {"kind": "task-notification"}, "promptSource": "system"})
    s.reply("The visual tests passed as well.")


def still_running(world: World) -> None:
    """2.1.280: the last line is a call whose result has not come yet."""
    s = world.session(
        "still running", "code/tidepool", Start(1, 21, 3), version="2.1.280", model=OPUS_5
    )
    s.title = "Moon phases"
    s.prompt("show the moon phase beside spring tides")
    s.reply(
        thinking("Spring tides follow full and new moon; a small table of phases is enough."),
        "I'll add a `moon` module without a dependency.",
        create(
            s,
            "tidepool/moon.py",
            '"""Phases of the moon, good to half a day."""\n\nSYNODIC_DAYS = 29.530588\n\n\n'
            "def phase(days_since_new):\n"
            "    part = days_since_new % SYNODIC_DAYS / SYNODIC_DAYS\n"
            '    return ["new", "waxing", "full", "waning"][round(part * 4) % 4]\n',
        ),
    )
    s.reply(
        "Now the whole test suite, with the slow almanac tests.",
        unanswered(bash("python -m pytest -q --slow", "Run all tests")),
    )
