"""Messages from a forked process through shared memory, in order, without a copy on arrival.

A pipe holds a MiB at most, so two processes would wait for each other at every turn, and the kernel
copies each byte twice. Here the bytes are in a ring that both processes see; pipes only carry
where a message begins and how long it is, and back how much room is free again.
"""

from __future__ import annotations

import mmap
import os
import struct
from contextlib import suppress

_PLACE = struct.Struct("<qqq")  # where a message begins, its length, and the room it takes
_ROOM = struct.Struct("<q")  # bytes that are free again
_IN_PIPE = -1  # in place of a beginning: the message follows in the pipe


class Ring:
    """One direction, from a forked process to the one that forked it.

    Each says at once which end it holds, so that it notices when the other one is gone.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.memory = mmap.mmap(-1, size)
        self._places = os.pipe()
        self._rooms = os.pipe()
        self._head = 0  # where the next message begins
        self._free = size
        self._taken = 0  # room of the message that was last given out
        self._is_closed = False

    def hold_sending(self) -> None:
        """Be the process that sends."""
        os.close(self._places[0])
        os.close(self._rooms[1])

    def hold_receiving(self) -> None:
        """Be the process that receives."""
        os.close(self._places[1])
        os.close(self._rooms[0])

    def send(self, data: bytes) -> None:
        """Pass a message on; waits for room. BrokenPipeError if the receiver is gone."""
        length = len(data)
        if length > self.size // 2:
            self._write(_PLACE.pack(_IN_PIPE, length, 0))
            self._write(data)
            return
        room = length
        if self._head + length > self.size:  # a message is in one piece
            room += self.size - self._head
            self._head = 0
        while self._free < room:
            self._free += self._freed()
        self._free -= room
        self.memory[self._head : self._head + length] = data
        self._write(_PLACE.pack(self._head, length, room))
        self._head += length

    def _freed(self) -> int:
        freed = os.read(self._rooms[0], 64 * _ROOM.size)
        if not freed:
            raise BrokenPipeError
        return sum(room for (room,) in _ROOM.iter_unpack(freed))

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[os.write(self._places[1], left) :]

    def release(self) -> None:
        """Give back the room of the last message. It must not be read any more."""
        if self._taken:
            with suppress(BrokenPipeError):  # it has sent its last
                os.write(self._rooms[1], _ROOM.pack(self._taken))
            self._taken = 0

    def receive(self) -> memoryview | bytes:
        """The next message, good until release or the next call; EOFError: the sender is gone."""
        self.release()
        start, length, room = _PLACE.unpack(self._read(_PLACE.size))
        if start == _IN_PIPE:
            return self._read(length)
        self._taken = room
        return memoryview(self.memory)[start : start + length]

    def _read(self, length: int) -> bytes:
        parts: list[bytes] = []
        while length:
            data = os.read(self._places[0], min(length, 1 << 20))
            if not data:
                raise EOFError
            parts.append(data)
            length -= len(data)
        return b"".join(parts)

    def close(self) -> None:
        """Let go of the end that receives."""
        if not self._is_closed:
            self._is_closed = True
            os.close(self._places[0])
            os.close(self._rooms[1])
