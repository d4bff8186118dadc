"""Compressing bytes with zstd, getting exactly as many back, and the checksums of both."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from hashlib import blake2b

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

FRAME_LEVEL = 3  # of lines as they come in: 18.3 % of real transcripts, at 250 MB a second
BLOCK_LEVEL = 9  # when idle: 12 % with a long window
BLOCK_WINDOW_LOG = 27  # 128 MiB, the largest window that every zstd program accepts

CHECKSUM_BYTES = 16
PIECE_BYTES = 1 << 20  # of a block, decompressed at a time to compare it

_BLOCK_OPTIONS: dict[int, int] = {
    zstd.CompressionParameter.compression_level: BLOCK_LEVEL,
    zstd.CompressionParameter.window_log: BLOCK_WINDOW_LOG,
    zstd.CompressionParameter.enable_long_distance_matching: 1,
}


class NotDecompressed(Exception):
    """The compressed bytes are damaged."""


def checksum(data: bytes | bytearray | memoryview) -> bytes:
    """The checksum of bytes: of files before compression, of blocks also after it."""
    return blake2b(data, digest_size=CHECKSUM_BYTES).digest()


def compress_frame(data: bytes) -> bytes:
    """Compress quickly."""
    return zstd.compress(data, level=FRAME_LEVEL)


def compress_block(data: bytes | bytearray) -> bytes:
    """Compress well, and check that the same bytes come out again."""
    packed = zstd.compress(data, options=_BLOCK_OPTIONS)
    at = 0
    wanted = memoryview(data)
    for piece in _pieces(packed):
        if wanted[at : at + len(piece)] != piece:
            raise AssertionError("zstd does not give back what it was given")
        at += len(piece)
    if at != len(data):
        raise AssertionError("zstd does not give back all that it was given")
    return packed


def _pieces(packed: bytes) -> Iterator[bytes]:
    decompressor = zstd.ZstdDecompressor()
    piece = decompressor.decompress(packed, max_length=PIECE_BYTES)
    while piece:
        yield piece
        if decompressor.eof:
            return
        piece = decompressor.decompress(b"", max_length=PIECE_BYTES)


def decompress(data: bytes, length: int) -> bytes:
    """Return the `length` bytes that were compressed. Raises NotDecompressed for anything else.

    No more than `length` bytes are made, so a damaged frame cannot fill the memory.
    """
    try:
        found = zstd.ZstdDecompressor().decompress(data, max_length=length + 1)
    except (zstd.ZstdError, EOFError, MemoryError) as e:
        raise NotDecompressed(str(e)) from e
    if len(found) != length:
        raise NotDecompressed(f"{len(found)} bytes instead of {length}")
    return found
