"""The queue of prompts that a person typed while the agent worked: where a queued turn begins.

Such prompts are in queue operations and, in newer versions, in queued_command attachments as well.
`PromptQueue` follows the queue of one file in byte order.
"""

from __future__ import annotations

from typing import Any

from ctxdb.claude.human_text import content_text, queued_turn
from ctxdb.claude.names import DEQUEUE, ENQUEUE, POP_ALL, REMOVE

TurnStart = tuple[str, str]  # kind, prompt


class PromptQueue:
    """The prompt queue of one file. What it answers depends on earlier lines only."""

    def __init__(self) -> None:
        self.waiting: list[str] = []
        # Texts that began a turn at a `remove` and may come again as an attachment; the reverse.
        self.removed: list[str] = []
        self.attached: list[str] = []
        self.told: set[tuple[str | None, str | None, str]] = set()

    def operation(self, name: str | None, content: Any, at: str | None) -> TurnStart | None:
        """The turn that a queue operation begins, if any."""
        text = content_text(content)
        if text:
            # The same words at the same time are a line written twice. Without words two equal
            # lines are two operations of one moment.
            if (name, at, text) in self.told:
                return None
            self.told.add((name, at, text))
        if name == ENQUEUE:
            self.waiting.append(text)
        elif name == DEQUEUE:
            if text and text in self.waiting:
                self.waiting.remove(text)
            elif self.waiting and not text:
                self.waiting.pop(0)
        elif name == POP_ALL:
            if text in self.waiting:
                self.waiting.remove(text)
            else:  # nothing, or all of it in one text
                self.waiting.clear()
        elif name == REMOVE:
            if text:
                if text in self.waiting:
                    self.waiting.remove(text)
            elif self.waiting:
                text = self.waiting.pop(0)
            turn = queued_turn(text)
            if turn is not None:
                words = _words(turn)
                if words in self.attached:
                    self.attached.remove(words)
                    return None
                self.removed.append(words)
            return turn
        return None

    def attachment(self, text: str) -> TurnStart | None:
        """The turn that a queued_command begins; None when its `remove` has begun it already."""
        turn = queued_turn(text)
        if turn is not None:
            words = _words(turn)
            if words in self.removed:
                self.removed.remove(words)
                return None
            self.attached.append(words)
        return turn


def _words(turn: TurnStart) -> str:
    """The typed words without pictures: the attachment has these, the queue has [Image #1]."""
    parts = turn[1].split("\n\n")
    return "\n\n".join(part for part in parts if part not in ("[image]", "[document]"))
