"""Make of a message the passage that a person reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxdb.claude import names
from ctxdb.claude.shown_text import command_name, is_caveat, notification_text, output_text
from ctxdb.claude.stored_data import attached_file, attached_images, compaction, retry
from ctxdb.progress import human_bytes
from ctxdb.session.conversation import Passage

if TYPE_CHECKING:
    from ctxdb.claude.stored_data import Image
    from ctxdb.session.load import MessageRow

RETRY_LABEL = "API error"


def passage_of(row: MessageRow) -> Passage | None:
    """The passage of a message, or None if it has nothing to show, as most lines have."""
    text = row.text or ""
    make = _BY_KIND.get(row.kind)
    if make is None:
        return None
    found = make(text, row)
    if found is None:
        return None
    if row.kind != "tool_result":  # the call has the images of its result
        found.images = images_of(row)
    if not (found.text or found.thinking or found.images):
        return None
    found.uuid, found.timestamp = row.uuid, row.timestamp
    return found


def images_of(row: MessageRow) -> list[str]:
    """What is known of the images and documents in a message: image/png, 24 kB."""
    return [] if row.type in ("system", "assistant") else image_names(row.data)


def image_names(data: str | None) -> list[str]:
    """What messages.data says of images and documents."""
    if '"images"' not in (data or ""):
        return []
    return [_image_name(image) for image in attached_images(data)]


def _image_name(image: Image) -> str:
    size = human_bytes(image.size) if image.size is not None else ""
    return ", ".join(filter(None, (image.media_type or image.kind, size)))


def _reply(text: str, row: MessageRow) -> Passage:
    return Passage("reply", text.strip("\n"), thinking=(row.thinking or "").strip("\n"))


def _prompt(text: str, _: MessageRow) -> Passage:
    return Passage("prompt", text.strip("\n"))


def _output(text: str, _: MessageRow) -> Passage:
    return Passage("output", output_text(text))


def _failure(text: str, _: MessageRow) -> Passage:
    return Passage("note", text, label="client")


def _context(text: str, row: MessageRow) -> Passage | None:
    if is_caveat(text):
        return None
    label = "summary of what came before" if row.kind == "compact_summary" else "context"
    return Passage("context", text.strip("\n"), label=label)


def _notification(text: str, _: MessageRow) -> Passage:
    return Passage("note", notification_text(text), label="notification")


def _interruption(text: str, _: MessageRow) -> Passage:
    return Passage("note", text.strip("[] \n") or "interrupted", label="interrupted")


def _system(text: str, row: MessageRow) -> Passage | None:
    match row.subtype:
        case names.COMPACT_BOUNDARY:
            trigger, before = compaction(row.data)
            size = f", {before:,} tokens" if before is not None else ""
            why = f"the conversation so far was summed up ({trigger}{size})"
            return Passage("note", why, label="compacted")
        case names.API_ERROR:
            attempt, most = retry(row.data)
            return Passage("note", f"the API failed, try {attempt} of {most}", label=RETRY_LABEL)
        case names.LOCAL_COMMAND:
            command = command_name(text)
            return Passage("prompt", command) if command else Passage("output", output_text(text))
    if row.subtype in names.BOOKKEEPING_ENTRIES:
        return None
    return Passage("note", text, label=(row.subtype or "system").replace("_", " "))


def _attachment(text: str, row: MessageRow) -> Passage | None:
    if row.subtype in names.FILE_ATTACHMENTS:
        return Passage("context", text, label=f"file {attached_file(row.data) or 'a file'}")
    if row.subtype == names.QUEUED_COMMAND:
        return Passage("note", text, label="message")
    if row.subtype in names.FAILED_HOOKS:
        return Passage("note", text, label="hook")
    return None


_BY_KIND = {
    "assistant": _reply,
    "human": _prompt,
    "command": _prompt,
    "shell": _prompt,
    "agent_prompt": _prompt,
    "tool_result": _prompt,  # a person wrote the text beside a result
    "command_output": _output,
    "synthetic": _failure,
    "meta": _context,
    "compact_summary": _context,
    "notification": _notification,
    "interruption": _interruption,
    "system": _system,
    "attachment": _attachment,
}
