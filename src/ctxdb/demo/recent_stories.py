"""What happened in the demo's sessions a month ago: Claude Code 2.1.221 to 2.1.232."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxdb.demo.client_lines import api_error, hook
from ctxdb.demo.file_tools import create, edit, mention, read
from ctxdb.demo.tool_calls import AgentCall, bash, grep, mcp
from ctxdb.demo.transcript import thinking
from ctxdb.demo.world import HAIKU_4_5, OPUS_5, SONNET_5, Start

if TYPE_CHECKING:
    from ctxdb.demo.transcript import Transcript
    from ctxdb.demo.world import World


def write_recent_stories(world: World) -> None:
    """Write all of them, oldest first."""
    lost_parcels(world)
    sorted_shelf(world)
    cleared(world, rate_limited(world))


def lost_parcels(world: World) -> None:
    """2.1.221: an MCP tool, agents that start agents, a commit, a push and a pull request."""
    s = world.session(
        "lost parcels",
        "code/ferry",
        Start(34, 12, 48),
        version="2.1.221",
        model=OPUS_5,
        branch="fix/lost-parcels",
    )
    s.flat(type="mode", mode="normal", sessionId=s.session_id)
    hook(s, "SessionStart", "direnv export json")
    s.attach("skill_listing", content="- release: cut a release\n", skillCount=1, isInitial=True)
    s.title = "Fix parcels lost on restart"
    s.prompt("FER-212: parcels vanish when ferryd restarts. please find out why and fix it")
    s.reply(
        thinking(""),
        "I'll read the ticket first.",
        mcp(
            "tracker",
            "get_issue",
            {"id": "FER-212"},
            "FER-212 Parcels lost on restart. Seen twice last week, always with a full queue.",
        ),
    )

    def nested(agent: Transcript) -> None:
        agent.reply(
            bash("git log --oneline -5 -- internal/relay", "History", "8d1f2aa Cap backoff")
        )

    def trace(agent: Transcript) -> None:
        agent.reply(read(agent, "internal/relay/queue.go"))
        agent.reply(
            AgentCall(
                "History of the queue",
                "Which commits changed internal/relay in the last months?",
                "Explore",
                "Only 8d1f2aa, which capped the backoff.",
                nested,
                HAIKU_4_5,
            )
        )
        agent.reply(grep("items", agent.cwd, ["internal/relay/queue.go:20:q.items = append"]))

    s.reply(
        AgentCall(
            "Trace queue persistence",
            "Find where the parcel queue is written to disk, if anywhere.",
            "Explore",
            "Nowhere: Queue.items lives in memory only, so a restart loses what waits.",
            trace,
            HAIKU_4_5,
        )
    )
    s.reply(
        "The queue is never written down. I'll save it on shutdown and load it on start.",
        edit(
            s,
            "internal/relay/queue.go",
            "func (q *Queue) Requeue(p Parcel) {",
            "// Save writes the waiting parcels to path, atomically.\n"
            "func (q *Queue) Save(path string) error {\n"
            "\tdata, err := json.Marshal(q.items)\n"
            "\tif err != nil {\n\t\treturn err\n\t}\n"
            "\treturn renameio.WriteFile(path, data, 0o600)\n}\n\n"
            "func (q *Queue) Requeue(p Parcel) {",
        ),
    )
    s.reply(
        bash(
            "go build ./... && go test ./...",
            "Build and test",
            "internal/relay/queue.go:24:9: undefined: renameio",
            exit_code=1,
            seconds=6,
        )
    )
    s.queue("use os.CreateTemp + os.Rename, we don't want another dependency")
    s.reply(
        edit(
            s,
            "internal/relay/queue.go",
            "\treturn renameio.WriteFile(path, data, 0o600)\n",
            "\treturn writeAtomically(path, data)\n",
        ),
        create(
            s,
            "internal/relay/atomic.go",
            'package relay\n\nimport (\n\t"os"\n\t"path/filepath"\n)\n\n'
            "func writeAtomically(path string, data []byte) error {\n"
            '\tf, err := os.CreateTemp(filepath.Dir(path), ".queue-*")\n'
            "\tif err != nil {\n\t\treturn err\n\t}\n"
            "\tif _, err := f.Write(data); err != nil {\n\t\treturn err\n\t}\n"
            "\tif err := f.Close(); err != nil {\n\t\treturn err\n\t}\n"
            "\treturn os.Rename(f.Name(), path)\n}\n",
        ),
    )
    s.reply(bash("go test ./...", "Run all tests", "ok  \tferry/internal/relay\t0.402s", seconds=8))
    commit_and_open_pr(s)
    s.reply("Fixed: the queue is saved on shutdown and loaded on start. PR #58 is open.")
    s.flat(
        type="file-history-delta",
        messageId=s.parent,
        snapshotMessageId=s.parent,
        trackingPath="internal/relay/atomic.go",
        backup=s.backups["internal/relay/atomic.go"],
        timestamp=s.timestamp,
    )


def commit_and_open_pr(s: Transcript) -> None:
    """Commit, push and open a pull request, which the client notes each time."""
    s.reply(
        bash(
            'git commit -qam "Keep waiting parcels over a restart" && git log -1 --oneline',
            "Commit",
            "[fix/lost-parcels 41c09be] Keep waiting parcels over a restart\n 2 files changed",
            git={"commit": {"sha": "41c09be", "kind": "committed", "branch": s.branch}},
        )
    )
    s.reply(
        bash(
            "git push -u origin fix/lost-parcels",
            "Push the branch",
            "branch 'fix/lost-parcels' set up to track 'origin/fix/lost-parcels'.",
            git={"push": {"branch": s.branch}},
        ),
        bash(
            "gh pr create --fill",
            "Open a pull request",
            "https://github.com/example/ferry/pull/58",
            git={"pr": {"number": 58, "url": "https://github.com/example/ferry/pull/58"}},
        ),
    )
    s.flat(
        type="pr-link",
        sessionId=s.session_id,
        prNumber=58,
        prUrl="https://github.com/example/ferry/pull/58",
        prRepository="example/ferry",
        timestamp=s.timestamp,
    )


def sorted_shelf(world: World) -> None:
    """2.1.232: files named with @, project memory, and a title given by hand."""
    s = world.session(
        "sorted shelf", "code/lantern", Start(27, 18, 31), version="2.1.232", model=SONNET_5
    )
    s.title = "Shelf order changes while scrolling"
    s.prompt("@src/shelf.ts the shelf jumps around when I mark a book as read. why?")
    mention(s, "src/shelf.ts")
    s.attach(
        "nested_memory",
        path=s.full("CLAUDE.md"),
        content={
            "path": s.full("CLAUDE.md"),
            "type": "Project",
            "content": world.files[s.full("CLAUDE.md")],
        },
        displayPath="CLAUDE.md",
    )
    s.reply(
        thinking("byTitle sorts in place: it mutates the array that React compares."),
        "`byTitle` sorts the array in place, so React sees the same array with another order.",
        edit(
            s,
            "src/shelf.ts",
            "  return books.sort((a, b) =>",
            "  return [...books].sort((a, b) =>",
        ),
    )
    s.reply(bash("npm test", "Run the tests", "Tests: 31 passed, 31 total", seconds=9))
    s.reply("Fixed in one line: it now sorts a copy. All 31 tests pass.")
    s.flat(type="custom-title", customTitle="Shelf jumps: sort in place", sessionId=s.session_id)
    s.user("<bash-input>git diff --stat</bash-input>", snapshot=True)
    s.user("<bash-stdout> src/shelf.ts | 2 +-</bash-stdout><bash-stderr></bash-stderr>")


def rate_limited(world: World) -> Transcript:
    """2.1.232: the API refuses for a while, and the person comes back later."""
    s = world.session(
        "rate limited", "code/tidepool", Start(22, 7, 55), version="2.1.232", model=OPUS_5
    )
    s.title = "Heights in feet"
    s.prompt("add a --feet option to the table")
    s.reply(read(s, "tidepool/table.py"))
    api_error(s, "You've hit your session limit · resets 1pm (UTC)", "rate_limit", 429)
    s.prompt("continue", pause=3 * 3600)
    s.reply(
        edit(
            s,
            "tidepool/table.py",
            "def rows(station, tides):\n    for tide in tides:\n"
            '        yield station, label(tide.when), f"{tide.height:.1f} m"\n',
            "FEET_PER_METRE = 3.28084\n\n\n"
            "def height(metres, feet=False):\n"
            '    return f"{metres * FEET_PER_METRE:.1f} ft" if feet else f"{metres:.1f} m"\n\n\n'
            "def rows(station, tides, feet=False):\n    for tide in tides:\n"
            "        yield station, label(tide.when), height(tide.height, feet)\n",
        )
    )
    s.reply(bash("python -m pytest -q", "Run the tests", "5 passed in 0.11s"))
    s.reply("`--feet` works; metres stay the default.")
    return s


def cleared(world: World, before: Transcript) -> None:
    """2.1.232: /clear begins a new file whose session_id still names the first session."""
    s = world.session(
        "cleared",
        "code/tidepool",
        Start(22, 11, 40),
        version="2.1.232",
        model=OPUS_5,
        process_of=before,
    )
    s.user(
        "<local-command-caveat>Caveat: The messages below were generated by the user while"
        " running local commands.</local-command-caveat>",
        {"isMeta": True},
    )
    command = "<command-name>/clear</command-name>\n<command-message>clear</command-message>"
    s.user(f"{command}\n<command-args></command-args>")
    s.system("local_command", content="<local-command-stdout></local-command-stdout>", level="info")
    s.title = "Release 0.9"
    s.prompt("write the changelog for 0.9 from the last commits")
    s.reply(
        bash(
            "git log --oneline v0.8..",
            "Commits since the last release",
            "a51b7e0 Heights in feet\n77c2d41 Summer time from the zone database",
        )
    )
    s.reply(
        create(
            s,
            "CHANGELOG.md",
            "# Changelog\n\n## 0.9\n\n- Heights in feet with `--feet`.\n"
            "- Summer time is right everywhere.\n",
        )
    )
    s.reply("The changelog has two entries: heights in feet, and the summer time fix.")
