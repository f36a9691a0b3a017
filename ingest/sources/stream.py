"""A binary file object over blocks of bytes, for libraries that read from file objects."""

import io
from collections.abc import Generator


class BlockStream(io.RawIOBase):
    """A file object that reads the blocks of a source (`Source.blocks`) once, without a leading byte-order mark.

    `error`: the exception that the blocks raised (for a truncated archive, say). `read` raises it too, but the library
    that calls `read` may raise its own instead.
    """

    def __init__(self, blocks: Generator[bytes, None, None]) -> None:
        super().__init__()
        self._blocks = blocks
        self._held = memoryview(b"")
        self._begun = False
        self.error: Exception | None = None

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        """Return up to `size` bytes, fewer only at the end of a block; without a size all that is left."""
        if size is None or size < 0:
            return b"".join(iter(lambda: self.read(1 << 20), b""))
        if not self._held:
            try:
                block = next(self._blocks, b"")
            except Exception as error:
                self.error = error
                raise
            self._held = memoryview(block if self._begun else block.removeprefix(b"\xef\xbb\xbf"))
            self._begun = True
        piece = bytes(self._held[:size])
        self._held = self._held[size:]
        return piece

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        piece = self.read(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        self._blocks.close()
        super().close()
