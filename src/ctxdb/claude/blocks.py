"""Content blocks: short keys to know them again by, and the images among them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctxdb.claude.values import base64_size, dict_of, dump, text_of

if TYPE_CHECKING:
    from ctxdb.privacy.digests import Digest


def _text_key(text: str, digest: Digest, sort: str = "t") -> str:
    return f"{sort}{digest(text.encode('utf-8', 'replace')):x}"


def block_key(block: Any, digest: Digest) -> str:
    """A short key of a content block: by id for calls and results, by value for the rest."""
    if type(block) is str:
        return _text_key(block, digest)
    if type(block) is not dict:
        return f"x{digest(dump(block).encode()):x}"
    what = block.get("type")
    if what == "tool_use":
        return f"u{block.get('id')}"
    if what == "tool_result":
        return f"r{block.get('tool_use_id')}"
    if what == "text" and type(block.get("text")) is str:
        return _text_key(block["text"], digest)
    if what == "thinking":
        thought = block.get("thinking") or block.get("signature")
        if type(thought) is str:
            return _text_key(thought, digest, "h")
    return f"x{digest(dump(block).encode()):x}"


def block_keys(content: Any, digest: Digest) -> str | None:
    """The keys of all blocks, in an order of their own."""
    if type(content) is str:
        return block_key(content, digest) if content else None
    if type(content) is not list or not content:
        return None
    if len(content) == 1:
        return block_key(content[0], digest)
    return " ".join(sorted({block_key(block, digest) for block in content}))


def images_in(content: Any) -> list[dict[str, Any]]:
    """Kinds and sizes of the images and documents among blocks, and in results among these."""
    found: list[dict[str, Any]] = []
    if type(content) is not list:
        return found
    for block in content:
        if type(block) is dict and block.get("type") in ("image", "document"):
            source = dict_of(block.get("source"))
            found.append(
                {
                    "kind": block["type"],
                    "media_type": text_of(source.get("media_type")),
                    "bytes": base64_size(source.get("data")),
                }
            )
        elif type(block) is dict and block.get("type") == "tool_result":
            found += images_in(block.get("content"))
    return found


def images_beside(images: Any) -> list[dict[str, Any]]:
    """Kinds and sizes of the images that an entry has beside its message."""
    found: list[dict[str, Any]] = []
    for image in images if type(images) is list else ():
        fields = dict_of(image)
        source = dict_of(fields.get("source")) or fields
        media_type = text_of(source.get("media_type")) or text_of(source.get("mediaType"))
        data = image if type(image) is str else source.get("data")
        found.append({"kind": "image", "media_type": media_type, "bytes": base64_size(data)})
    return found
