"""Few ids of a long text are read with others, in a slot of their own that nobody sees."""

from collections.abc import Iterator

import numpy as np
import pytest
from support.llamacpp.twins import plain_logits, tiny_llamacpp

pytest.importorskip("llama_cpp")

from refactx.engines.llamacpp import Context
from refactx.engines.llamacpp.library import FAST_IDS, FEW_IDS, NO_ROOM, Entry

TEXT = [5 + n % 90 for n in range(256)]
FAR, BEGIN = 40, 120


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many ids each call of llama.cpp has read."""
    import refactx.engines.llamacpp.library as own

    lib, sizes = own.library(), list[int]()

    class Library:
        def __getattr__(self, name: str) -> object:
            return getattr(lib, name)

        def llama_decode(self, pointer: object, batch: object) -> int:
            sizes.append(batch.n_tokens)  # type: ignore[attr-defined]
            return lib.llama_decode(pointer, batch)  # type: ignore[no-any-return]

    monkeypatch.setattr(own, "library", Library)
    monkeypatch.setattr(own, "FAR", FAR)
    yield sizes


def context_of(cells: int) -> Context:
    return Context(*tiny_llamacpp().weights, cells=cells, threads=1, slots=8, ids=256, fills=True)


def entries(start: int, stop: int) -> list[Entry]:
    return [Entry(TEXT[at], at, (0,), wanted=at == stop - 1) for at in range(start, stop)]


@pytest.mark.parametrize(
    ("count", "filled"), [(1, False), (FEW_IDS - 1, False), (FEW_IDS, True), (FAST_IDS - 1, True), (FAST_IDS, False)]
)
def test_few_ids_far_in_a_text_are_read_with_others_and_nobody_sees_those(
    read: list[int], count: int, filled: bool
) -> None:
    context = context_of(512)
    assert context.slots == 7
    assert context.decode(entries(0, BEGIN)) == 0
    for _ in range(2):
        assert context.decode(entries(BEGIN, BEGIN + count)) == 0
        assert read[-1] == (FAST_IDS if filled else count)
        expected = plain_logits(TEXT[: BEGIN + count])[-1]
        np.testing.assert_allclose(context.logits(1)[0], expected, rtol=0, atol=0.02)
        context.remove(0, BEGIN)


def test_near_the_beginning_they_are_not(read: list[int]) -> None:
    context = context_of(256)
    assert context.decode(entries(0, FAR // 2)) == 0
    assert read == [FAR // 2]


def test_without_room_for_others_they_are_read_alone(read: list[int]) -> None:
    context = context_of(256)
    last = context.cells - FAST_IDS // 2
    assert context.decode(entries(0, last)) == 0
    assert context.decode(entries(last, context.cells)) == 0
    assert read[1:] == [FAST_IDS, FAST_IDS // 2]
    assert context.decode([Entry(5, context.cells, (0,), wanted=True)]) == NO_ROOM
