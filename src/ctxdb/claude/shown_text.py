"""The text of an entry as a person reads it: without the tags and phrases that Claude Code adds."""

from __future__ import annotations

import re

from ctxdb.claude.human_text import CAVEATS

_TAGS = re.compile(
    r"</?(?:local-command-(?:stdout|stderr)|bash-(?:input|stdout|stderr)|command-(?:name|message"
    r"|args|contents))>"
)
_COMMAND_NAME = re.compile(r"<command-name>(?P<name>.*?)</command-name>", re.DOTALL)
_SUMMARY = re.compile(r"<summary>(?P<text>.*?)</summary>", re.DOTALL)


def output_text(text: str) -> str:
    """What a command that a person ran has printed."""
    plain = _TAGS.sub("", text).strip("\n")
    if "<bash-std" in text:  # the client writes it as XML
        plain = plain.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    return plain


def command_name(text: str) -> str | None:
    """The name in the tags of a slash command, or None."""
    found = _COMMAND_NAME.search(text)
    return found["name"].strip() if found else None


def notification_text(text: str) -> str:
    """The summary of a notification; without one, all of it."""
    found = _SUMMARY.search(text)
    return found["text"] if found else text


def is_caveat(text: str) -> bool:
    """Whether a text only tells the model not to answer what follows."""
    return text.lstrip().startswith(CAVEATS)


def answer_text(result: str) -> str:
    """What a person answered to the model's questions."""
    result = result.removeprefix("User has answered your questions: ")
    result = result.removeprefix("Your questions have been answered: ")
    answered, _, _ = result.partition(" You can now continue with the user's answers in mind")
    return answered


def refusal_text(result: str) -> str:
    """What a person wrote to refuse a call; "" if they wrote nothing."""
    _, found, reason = result.partition("the user said:")
    reason, _, _ = reason.partition("\n\nNote: The user's next message")
    return reason.strip() if found else ""
