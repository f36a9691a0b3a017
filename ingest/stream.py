"""The decompressed bytes of a source as a binary file object, for libraries that read such."""

import io
from collections.abc import Callable
from pathlib import Path

from .sources import blocks


class SourceStream(io.RawIOBase):
    """A source read once from start to end, without the byte-order mark that it may begin with.

    `end`, if any, is given as one more line behind its last. What goes wrong on the way (a truncated archive, say) is
    raised by `read`, and kept in `error`, as a library in between may put its own in place of it.
    """

    def __init__(self, path: Path, advance: Callable[[int], object] = lambda _: None, end: bytes = b"") -> None:
        super().__init__()
        self._blocks = blocks(path, advance)
        self._end, self._last = end, b""
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
                block = next(self._blocks, b"") or self._ending()
                self._held = memoryview(block if self._begun else block.removeprefix(b"\xef\xbb\xbf"))
                self._begun = True
            except Exception as error:
                self.error = error
                raise
        piece = bytes(self._held[:size])
        self._last = piece[-1:]
        self._held = self._held[size:]
        return piece

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        piece = self.read(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)

    def _ending(self) -> bytes:
        line = self._end if self._last in (b"", b"\n") or not self._end else b"\n" + self._end
        self._end = b""
        return line

    def close(self) -> None:
        self._blocks.close()
        super().close()
