"""Blocks of bytes as a file."""

import io
from collections.abc import Iterable
from typing import Any


class BlockReader(io.RawIOBase):
    """Blocks of bytes, one after the other, as a file that is read once."""

    def __init__(self, blocks: Iterable[bytes]) -> None:
        self._blocks = iter(blocks)
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def unread(self, data: bytes) -> None:
        """Let what was read last be read again."""
        self._rest = memoryview(data + self._rest)

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            if (block := next(self._blocks, None)) is None:
                return 0
            self._rest = memoryview(block)
        n = min(len(buffer), len(self._rest))
        buffer[:n] = self._rest[:n]
        self._rest = self._rest[n:]
        return n
