"""Keyed digests: what a line and its blocks are known by, without telling what they say.

They are of the bytes as the transcript has them, secrets and all, so that two different secrets are
not taken for one, and a copy is recognized whatever rules were on when each was read.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple


class Digest(NamedTuple):
    """A function of bytes, with the key of one database."""

    key: bytes = b""

    def __call__(self, data: bytes) -> int:
        """63 bits of the data."""
        hashed = blake2b(data, digest_size=8, key=self.key).digest()
        return int.from_bytes(hashed, "big") >> 1


UNKEYED = Digest()
