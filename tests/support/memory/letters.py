"""An encoder without a model: texts that have the same letters in a row are near each other."""

import hashlib
import os
import time
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray


class LetterEncoder:
    """An `Encoder` of `width` numbers: each triple of letters, without regard to case, has a direction of its own.

    `seed`: another one gives another encoder.
    """

    def __init__(self, width: int = 32, seed: int = 0, name: str = "letters") -> None:
        self.name, self.width, self._seed = name, width, seed
        self.fingerprint = f"letters {width} {seed}"
        self.texts: list[str] = []
        """All texts that were encoded."""

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.texts += texts
        found = np.array([self._vector(text) for text in texts], np.float32).reshape(len(texts), self.width)
        lengths: NDArray[np.float32] = np.linalg.norm(found, axis=1, keepdims=True).astype(np.float32)
        return found / lengths

    def _vector(self, text: str) -> NDArray[np.float64]:
        padded = f"  {text.casefold()} "
        return sum((self._direction(padded[at : at + 3]) for at in range(len(padded) - 2)), np.zeros(self.width))

    def _direction(self, letters: str) -> NDArray[np.float64]:
        return _direction(letters, self._seed, self.width)


@lru_cache(maxsize=100_000)
def _direction(letters: str, seed: int, width: int) -> NDArray[np.float64]:
    digest = hashlib.blake2b(f"{seed} {letters}".encode("utf-8", "replace"), digest_size=8).digest()
    return np.random.default_rng(int.from_bytes(digest, "big")).normal(size=width)


class _Slow(LetterEncoder):
    """Waits after each batch, so that a test has time to kill the process."""

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        found = super().encode(texts)
        time.sleep(float(os.environ.get("LETTERS_PAUSE", "0")))
        return found


def letters() -> LetterEncoder:
    """`--encoder support.memory.letters:letters`."""
    return _Slow(name="support.memory.letters:letters")


def wide() -> LetterEncoder:
    """The same with 48 numbers."""
    return LetterEncoder(width=48, name="support.memory.letters:wide")


def others() -> LetterEncoder:
    """Another one with as many numbers."""
    return LetterEncoder(seed=1, name="support.memory.letters:others")
