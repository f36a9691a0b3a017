"""Embeddings of many texts are made once for each encoder, and a damaged cache costs time alone."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from support.nl2sparql.word_encoder import WordEncoder

from refactx.nl2sparql.embeddings import FEWEST, embeddings_of

TEXTS = [f"text {number}" for number in range(FEWEST)]


class CountingEncoder(WordEncoder):
    """Counts the texts that it encodes."""

    def __init__(self, fingerprint: str = "words") -> None:
        self.fingerprint, self.encoded = fingerprint, 0  # type: ignore[misc]

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.encoded += len(texts)
        return super().encode(texts)


def test_many_texts_are_encoded_once(tmp_path: Path) -> None:
    encoder = CountingEncoder()
    one, other = (embeddings_of(encoder, TEXTS, tmp_path) for _ in range(2))
    assert encoder.encoded == FEWEST
    assert np.array_equal(one, other) and np.array_equal(one, WordEncoder().encode(TEXTS))
    assert [path.suffix for path in tmp_path.iterdir()] == [".npy"]


def test_other_texts_and_other_encoders_have_their_own(tmp_path: Path) -> None:
    embeddings_of(CountingEncoder(), TEXTS, tmp_path)
    for encoder, texts in ((CountingEncoder("other"), TEXTS), (CountingEncoder(), [*TEXTS[:-1], "new"])):
        embeddings_of(encoder, texts, tmp_path)
        assert encoder.encoded == FEWEST


def test_few_texts_are_not_kept(tmp_path: Path) -> None:
    embeddings_of(WordEncoder(), TEXTS[1:], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_is_made_anew(tmp_path: Path) -> None:
    right = embeddings_of(WordEncoder(), TEXTS, tmp_path)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    for broken in (b"", whole[:40], whole[:-8], b"\x80\x04N."):
        path.write_bytes(broken)
        encoder = CountingEncoder()
        assert np.array_equal(embeddings_of(encoder, TEXTS, tmp_path), right)
        assert encoder.encoded == FEWEST
        assert path.read_bytes() == whole


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert len(embeddings_of(WordEncoder(), TEXTS, tmp_path / "file" / "folder")) == FEWEST
