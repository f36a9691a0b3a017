"""Blocks of bytes as a binary file object, for libraries that read such."""

import io
from collections.abc import Generator


class BlockStream(io.RawIOBase):
    """The blocks of a source (`Source.blocks`) one after another, read once, without the byte-order mark that they may
    begin with.

    What goes wrong on the way (a truncated archive, say) is raised by `read`, and kept in `error`, as a library in between
    may put its own in place of it.
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
        """Up to `size` bytes, fewer only at the end of a block; all that is left without a size; none at the end."""
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
