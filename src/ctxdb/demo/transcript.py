"""Write the lines of one transcript, in the form of Claude Code 1.0 to 2.1.280.

A Transcript adds what its version writes around a prompt or a reply (snapshots, hooks, titles,
token counts), so a story only has to say what happened. Nothing here reads a clock or the operating
system's random numbers: the same seed gives the same bytes.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from ctxdb.demo.client_lines import hook
from ctxdb.demo.line_parts import CHARACTERS_PER_TOKEN, content_block, token_counts
from ctxdb.demo.tool_calls import AgentCall, Call, Json

if TYPE_CHECKING:
    from datetime import datetime
    from random import Random

    from ctxdb.demo.world import World

BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
SYSTEM_PROMPT_TOKENS = 21_400


def thinking(text: str) -> Json:
    """A thinking block. From 2.1.112 on it often has only a signature."""
    return {"type": "thinking", "thinking": text}


class Transcript:
    """A session's file, or a subagent's."""

    def __init__(  # noqa: PLR0913
        self,
        world: World,
        rng: Random,
        *,
        path: str,
        session_id: str,
        cwd: str,
        version: str,
        model: str,
        now: datetime,
        branch: str = "main",
        entrypoint: str = "cli",
        agent_id: str | None = None,
        slug: str | None = None,
        process_id: str | None = None,
    ) -> None:
        self.world = world
        self.rng = rng
        self.path = path
        self.session_id = session_id
        self.cwd = cwd
        self.version = version
        self.model = model
        self.now = now
        self.branch = branch
        self.entrypoint = entrypoint
        self.agent_id = agent_id
        self.slug = slug
        self.process_id = process_id
        self.lines = world.lines_of(path)
        self.parent: str | None = None
        self.sidechain = agent_id is not None
        self.context = 0  # tokens the model has seen
        self.unseen = SYSTEM_PROMPT_TOKENS if agent_id is None else 9_800
        self.prompt_id = self.uuid()
        self.prompted_at = now
        self.last_prompt = ""
        self.title = ""
        self.backups: dict[str, Json] = {}

    # -- what depends on the version ---------------------------------------------------------

    def since(self, *version: int) -> bool:
        """Whether this transcript's version is that one or a later one."""
        return tuple(int(part) for part in self.version.split(".")) >= version

    @property
    def modern(self) -> bool:
        """Attachments, entry points and true token counts."""
        return self.since(2, 1, 112)

    # -- ids and time ------------------------------------------------------------------------

    def uuid(self) -> str:
        """Return a version 4 uuid."""
        return random_uuid(self.rng)

    def hex(self, digits: int) -> str:
        """Return that many hexadecimal digits."""
        return f"{self.rng.getrandbits(4 * digits):0{digits}x}"

    def api_id(self, prefix: str) -> str:
        """Return an id as the API makes them."""
        return prefix + "".join(BASE58[self.rng.getrandbits(16) % 58] for _ in range(22))

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.now += timedelta(milliseconds=round(seconds * 1000) + self.rng.getrandbits(9))

    @property
    def timestamp(self) -> str:
        """Now, as transcripts write it."""
        return stamp(self.now)

    # -- lines -------------------------------------------------------------------------------

    def flat(self, **fields: object) -> None:
        """Write a line that is not part of the thread."""
        self.lines.append(fields)

    def thread(self, kind: str, body: Json, extra: Json | None = None) -> Json:
        """Write a line of the thread, below the last one."""
        where = {
            "userType": "external",
            "cwd": self.cwd,
            "sessionId": self.session_id,
            "version": self.version,
            "gitBranch": self.branch,
        }
        line: Json = {"parentUuid": self.parent, "isSidechain": self.sidechain}
        if not self.modern:
            line |= where
        if self.agent_id and self.since(2, 0, 0):
            line["agentId"] = self.agent_id
        if self.slug:
            line["slug"] = self.slug
        line |= body
        line |= {"type": kind, "uuid": self.uuid(), "timestamp": self.timestamp}
        line |= extra or {}
        if self.modern:
            if self.process_id and self.since(2, 1, 220):
                line["session_id"] = self.process_id
            line["entrypoint"] = self.entrypoint
            line |= where
        self.lines.append(line)
        self.parent = line["uuid"]
        self.unseen += round(len(json.dumps(body)) / CHARACTERS_PER_TOKEN / 2)
        return line

    def attach(self, kind: str, **fields: object) -> None:
        """Write an attachment: context that the client put in."""
        self.wait(0)
        self.thread("attachment", {"attachment": {"type": kind, **fields}})

    def system(self, subtype: str, **fields: object) -> Json:
        """Write a system line."""
        return self.thread("system", {"subtype": subtype, **fields})

    # -- people ------------------------------------------------------------------------------

    def prompt(self, text: str, *, source: str = "typed", pause: float = 45) -> Json:
        """Write what a person asks."""
        self.wait(pause)
        self.prompted_at = self.now
        self.prompt_id = self.uuid()
        self.last_prompt = text
        extra: Json = {}
        if self.since(2, 0, 64) and not self.since(2, 1, 60):
            extra["thinkingMetadata"] = {"level": "high", "disabled": False, "triggers": []}
            extra["todos"] = []
        if self.since(2, 1, 15):
            extra["permissionMode"] = "acceptEdits"
        if self.since(2, 1, 220):
            extra["promptSource"] = source
            if source == "typed":
                extra["origin"] = {"kind": "human"}
        return self.user(text, extra, snapshot=True)

    def user(
        self, content: str | list[Json], extra: Json | None = None, *, snapshot: bool = False
    ) -> Json:
        """Write a user line that is no tool result."""
        body: Json = {"message": {"role": "user", "content": content}}
        if self.modern:
            body = {"promptId": self.prompt_id, **body}
        if snapshot and self.since(2, 0, 5) and not self.sidechain:
            # The snapshot comes first and names the line after it.
            place = len(self.lines)
            line = self.thread("user", body, extra)
            self.lines.insert(place, self.snapshot(line["uuid"], update=False))
            return line
        return self.thread("user", body, extra)

    def snapshot(self, message_id: str, *, update: bool) -> Json:
        """Return a line that says which files have a backup."""
        return {
            "type": "file-history-snapshot",
            "messageId": message_id,
            "snapshot": {
                "messageId": message_id,
                "trackedFileBackups": dict(self.backups),
                "timestamp": self.timestamp,
            },
            "isSnapshotUpdate": update,
        }

    def load(self, tokens: int) -> None:
        """Let the context grow by work that the demo does not show."""
        self.unseen += tokens

    def queue(self, text: str, *, seconds: float = 6) -> None:
        """Write what a person types while the agent is working."""
        common = {"type": "queue-operation", "sessionId": self.session_id}
        self.flat(**common, operation="enqueue", timestamp=self.timestamp, content=text)
        asked = self.timestamp
        self.wait(seconds)
        self.last_prompt = text
        if not self.modern:
            self.flat(**common, operation="remove", timestamp=self.timestamp)
            return
        self.flat(**common, operation="remove", timestamp=self.timestamp, content=text)
        self.attach(
            "queued_command",
            prompt=text,
            commandMode="prompt",
            origin={"kind": "human"},
            timestamp=asked,
            source_uuid=self.uuid(),
        )

    def interrupt(self, *, for_tool: bool = False) -> None:
        """Write that a person pressed Escape."""
        self.wait(4)
        text = (
            "[Request interrupted by user for tool use]"
            if for_tool
            else ("[Request interrupted by user]")
        )
        self.user([{"type": "text", "text": text}])

    # -- the model ---------------------------------------------------------------------------

    def reply(self, *parts: str | Json | Call | AgentCall, cut_off: bool = False) -> None:
        """Write one API message, one line per block, and the results of its calls.

        A reply that is cut off has no stop reason, and does not end the turn.
        """
        self.wait(3)
        calls = [part for part in parts if isinstance(part, (Call, AgentCall))]
        message_id, request_id = self.api_id("msg_01"), self.api_id("req_011C")
        stop = None if cut_off else "tool_use" if calls else "end_turn"
        blocks = [content_block(self, part) for part in parts]
        usage = token_counts(self, sum(len(json.dumps(block)) for block in blocks))
        written: list[tuple[Json, Json]] = []
        for index, block in enumerate(blocks):
            last = index == len(blocks) - 1
            counted = dict(usage)
            if not self.since(2, 1, 59) and not (last and not self.since(2, 0, 0)):
                counted["output_tokens"] = 1 + self.rng.getrandbits(3)  # streaming placeholder
            message: Json = {
                "model": self.model,
                "id": message_id,
                "type": "message",
                "role": "assistant",
                "content": [block],
                "stop_reason": stop if self.modern or (last and self.since(2, 1, 59)) else None,
                "stop_sequence": None,
                "usage": counted,
            }
            body: Json = {"message": message, "requestId": request_id}
            if self.since(2, 1, 275):
                body["apiBlockIndex"] = index
            extra = {"effort": "high"} if self.since(2, 1, 220) and not self.sidechain else None
            line = self.thread("assistant", body, extra)
            if block["type"] == "tool_use":
                written.append((block, line))
            self.wait(1)
        for call, (block, line) in zip(calls, written, strict=True):
            if isinstance(call, AgentCall):
                self.world.run_agent(self, call, block["id"], line["uuid"])
            elif call.answered:
                self.answer(call, block["id"], line["uuid"])
        if stop == "end_turn":
            self.end_turn()

    def answer(
        self, call: Call, tool_id: str, assistant_uuid: str, extra: Json | None = None
    ) -> None:
        """Write the result of a call."""
        self.wait(call.seconds)
        block: Json = {"tool_use_id": tool_id, "type": "tool_result", "content": call.content}
        if call.is_error is not None:
            block["is_error"] = call.is_error
        body: Json = {"message": {"role": "user", "content": [block]}}
        if self.modern:
            body = {"promptId": self.prompt_id, **body}
        more: Json = {}
        # The files of most subagents have no toolUseResult.
        if call.result is not None and not (self.agent_id and self.since(2, 0, 0)):
            more["toolUseResult"] = call.result
        if call.denial and self.since(2, 1, 220):
            more["toolDenialKind"] = call.denial
        if self.since(2, 1, 1):
            more["sourceToolAssistantUUID"] = assistant_uuid
        self.parent = assistant_uuid
        self.thread("user", body, {**more, **(extra or {})})
        if call.name in {"Edit", "Write"} and not call.is_error and self.modern:
            hook(self, "PostToolUse", "make fmt", tool_id=tool_id)

    def end_turn(self) -> None:
        """Write the lines that the client writes at the end of a turn."""
        if self.sidechain:
            return
        seconds = (self.now - self.prompted_at).total_seconds()
        if self.since(2, 1, 1):
            self.system("turn_duration", durationMs=round(seconds * 1000), isMeta=False)
        if self.modern:
            if self.title:
                self.flat(type="ai-title", aiTitle=self.title, sessionId=self.session_id)
            self.flat(
                type="last-prompt",
                lastPrompt=self.last_prompt,
                leafUuid=self.parent,
                sessionId=self.session_id,
            )

    def full(self, name: str) -> str:
        """Return the absolute path of a file of the project."""
        return f"{self.cwd}/{name}"

    def back_up(self, name: str) -> None:
        """Remember that the client keeps a backup of this file."""
        version = self.backups.get(name, {}).get("version", 0) + 1
        self.backups[name] = {
            "backupFileName": f"{self.hex(16)}@v{version}",
            "version": version,
            "backupTime": self.timestamp,
        }


def stamp(when: datetime) -> str:
    """Return a time as transcripts write it."""
    return when.strftime("%Y-%m-%dT%H:%M:%S.") + f"{when.microsecond // 1000:03}Z"


def random_uuid(rng: Random) -> str:
    """Return a version 4 uuid made of `rng` and nothing else."""
    return str(UUID(int=rng.getrandbits(128), version=4))
