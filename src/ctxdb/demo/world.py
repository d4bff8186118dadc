"""The imaginary machine of the demo: its disk, its projects and its transcripts."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from random import Random
from typing import NamedTuple

from ctxdb.demo.project_files import FILES
from ctxdb.demo.tool_calls import AgentCall, Call, Json
from ctxdb.demo.transcript import Transcript, random_uuid

HOME = "/home/mira"
SONNET_4 = "claude-sonnet-4-20250514"
HAIKU_4_5 = "claude-haiku-4-5-20251001"
OPUS_4_6 = "claude-opus-4-6"
SONNET_5 = "claude-sonnet-5"
OPUS_5 = "claude-opus-5"


class Start(NamedTuple):
    """When a session begins: this many days before `today`, at this hour and minute (UTC)."""

    days_ago: int
    hour: int
    minute: int


class World:
    """Collects the transcripts of the demo. Days count back from `today`."""

    def __init__(self, seed: int, today: date) -> None:
        self.seed = seed
        self.today = today
        self.files = {f"{HOME}/{name}": text for name, text in FILES.items()}
        self.transcripts: dict[str, list[Json]] = {}
        self.metadata: dict[str, Json] = {}  # the agent-*.meta.json files

    def lines_of(self, path: str) -> list[Json]:
        """Return the lines of a transcript, for the caller to append to."""
        return self.transcripts.setdefault(path, [])

    def session(  # noqa: PLR0913
        self,
        name: str,
        project: str,
        start: Start,
        *,
        version: str,
        model: str,
        branch: str = "main",
        entrypoint: str = "cli",
        slug: str | None = None,
        process_of: Transcript | None = None,
    ) -> Transcript:
        """Begin a session. Its name seeds its ids, so a change of one story changes no other."""
        rng = Random(f"{self.seed} {name}")
        day = self.today - timedelta(days=start.days_ago)
        now = datetime.combine(day, time(start.hour, start.minute, rng.getrandbits(5)), tzinfo=UTC)
        session_id = random_uuid(rng)
        cwd = f"{HOME}/{project}"
        return Transcript(
            self,
            rng,
            path=f"{folder_of(cwd)}/{session_id}.jsonl",
            session_id=session_id,
            cwd=cwd,
            version=version,
            model=model,
            now=now,
            branch=branch,
            entrypoint=entrypoint,
            slug=slug,
            process_id=process_of.session_id if process_of else session_id,
        )

    def run_agent(
        self, parent: Transcript, call: AgentCall, tool_id: str, assistant_uuid: str
    ) -> None:
        """Run a subagent in the file that its version uses, and write its result."""
        agent = self._agent_of(parent, call, tool_id)
        before = len(agent.lines)
        began = agent.now
        agent.user(call.prompt)
        call.work(agent)
        agent.reply(call.answer)
        written = agent.lines[before:]
        if parent.since(2, 1, 12) and not parent.since(2, 1, 64):
            self._copy_progress(parent, call, agent, tool_id, written)
        parent.now = agent.now
        uses = sum(
            block["type"] == "tool_use"
            for line in written
            if line["type"] == "assistant"
            for block in line["message"]["content"]
        )
        usage = written[-1]["message"]["usage"]
        content = [{"type": "text", "text": call.answer}]
        result: Json = {"status": "completed", "prompt": call.prompt} if agent.agent_id else {}
        if agent.agent_id:
            result["agentId"] = agent.agent_id
        result |= {
            "content": content,
            "totalDurationMs": round((agent.now - began).total_seconds() * 1000),
            "totalTokens": agent.context + usage["output_tokens"],
            "totalToolUseCount": uses,
            "usage": usage,
        }
        if parent.modern:
            result |= {"agentType": call.agent_type, "resolvedModel": call.model}
        parent.answer(Call("Agent", {}, content, result, seconds=0.1), tool_id, assistant_uuid)

    def _agent_of(self, parent: Transcript, call: AgentCall, tool_id: str) -> Transcript:
        if not parent.since(2, 0, 0):
            agent_id, path = None, parent.path
        elif not parent.since(2, 1, 2):
            agent_id = parent.hex(8)
            path = f"{folder_of(parent.cwd)}/agent-{agent_id}.jsonl"
        else:
            agent_id = "a" + parent.hex(16 if parent.since(2, 1, 40) else 6)
            folder = f"{folder_of(parent.cwd)}/{parent.session_id}/subagents"
            path = f"{folder}/agent-{agent_id}.jsonl"
            if parent.since(2, 1, 104):
                self.metadata[f"{folder}/agent-{agent_id}.meta.json"] = {
                    "agentType": call.agent_type,
                    "description": call.description,
                    "toolUseId": tool_id,
                    "spawnDepth": 1 if parent.agent_id is None else 2,
                    **({"parentAgentId": parent.agent_id} if parent.agent_id else {}),
                    "model": call.model,
                }
        agent = Transcript(
            self,
            parent.rng,
            path=path,
            session_id=parent.session_id,
            cwd=parent.cwd,
            version=parent.version,
            model=call.model,
            now=parent.now,
            branch=parent.branch,
            entrypoint=parent.entrypoint,
            agent_id=agent_id,
            slug=parent.slug,
            process_id=parent.process_id,
        )
        agent.sidechain = True
        return agent

    def _copy_progress(
        self,
        parent: Transcript,
        call: AgentCall,
        agent: Transcript,
        tool_id: str,
        written: list[Json],
    ) -> None:
        # Claude Code does not copy the last answer.
        for line in written[:-1]:
            message = {
                key: line[key]
                for key in ("type", "message", "requestId", "uuid", "timestamp")
                if key in line
            }
            data: Json = {
                "message": message,
                "normalizedMessages": [],
                "type": "agent_progress",
                "prompt": call.prompt,
                "agentId": agent.agent_id,
            }
            parent.thread(
                "progress",
                {"data": data, "toolUseID": f"agent_{tool_id}", "parentToolUseID": tool_id},
                {"timestamp": line["timestamp"]},
            )


def folder_of(cwd: str) -> str:
    """Return the folder below projects/ that Claude Code uses for a working directory."""
    return re.sub("[^a-zA-Z0-9]", "-", cwd)
