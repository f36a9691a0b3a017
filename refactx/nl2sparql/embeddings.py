"""Embeddings of many texts, kept in the cache folder: a pack's examples are the same from one command to the next."""

import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

import numpy as np
from numpy.typing import NDArray
from platformdirs import user_cache_path

from refactx.sparql.memory.entry import Encoder

FEWEST = 200
"""Fewer texts are encoded each time: MiniLM takes some two seconds for so many."""


def embeddings_of(encoder: Encoder, texts: Sequence[str], folder: Path | None = None) -> NDArray[np.float32]:
    """Return the embeddings of n texts, float32[n, width], from the cache if they are there.

    `folder`: of the cache, by default `refactx/embeddings` in the user's. A file that cannot be read is made anew, and one
    that cannot be written is not missed.
    """
    if len(texts) < FEWEST:
        return encoder.encode(texts)
    folder = user_cache_path("refactx") / "embeddings" if folder is None else folder
    digest = hashlib.sha256(encoder.fingerprint.encode())
    for text in texts:
        digest.update(b"%d\n" % len(data := text.encode("utf-8", "replace")) + data)
    path = folder / f"{digest.hexdigest()[:32]}.npy"
    with suppress(OSError, ValueError, EOFError):
        found = np.load(path, allow_pickle=False)
        if found.shape == (len(texts), encoder.width) and found.dtype == np.float32:
            return found  # type: ignore[no-any-return]
    made = np.asarray(encoder.encode(texts), np.float32)
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=folder, suffix=".part", delete=False) as file:
            np.save(file, made)
        os.replace(file.name, path)  # noqa: PTH105 # whole or not at all
    return made
