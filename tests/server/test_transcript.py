"""Texts in pieces are the same texts as whole, whatever the pieces are."""

import asyncio
import re
from collections.abc import AsyncGenerator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refactx.decoding.stream import TextPiece
from refactx.fact import Fact, Link, LinkedFact
from refactx.server.streaming import together
from refactx.server.texts import CitedFact, Event, Finished, Transcript, answer_alone, citations_of

FACT = Fact("A", "b.x", "c\nAnswer: d", "<A> <b.x> <c\nAnswer: d> .", (0, 5))
"""A fact with a line end, as in an index that no ingest wrote."""
PARTS = st.lists(
    st.one_of(st.sampled_from(["Fact:", " ", "\n", "x", ".", "Fa", "END", "EN", "Answer:", "An", "**"]), st.just(FACT))
)


def pieces_of(parts: list[str | Fact], cuts: list[int]) -> list[TextPiece]:
    """The parts of a text as a stream has them; facts are cut into two pieces at some place."""
    found = []
    for number, part in enumerate(parts):
        if isinstance(part, str):
            found.append(TextPiece(part))
            continue
        at = cuts[number % len(cuts)]
        text = f" {part.text}"
        if text[:at]:
            found.append(TextPiece(text[:at], in_fact=True))
        found.append(TextPiece(text[at:], in_fact=True, completes=True, fact=part))
    return found


def expected(parts: list[str | Fact], stop: list[str]) -> tuple[str, bool]:
    """The text that a client should get, by brute force: whether it is cut, and where."""
    text, free_from = "", 0
    for part in parts:
        if isinstance(part, Fact):
            text += f" {part.text}"
            free_from = len(text)
            continue
        text += part
        lead = len(text) - len(text.lstrip())
        ends = [at for at in (text.find(one, max(free_from, lead)) for one in stop) if at >= 0]
        if ends:
            return text[: min(ends)].strip(), True
    return text.strip(), False


@given(
    PARTS,
    st.lists(st.integers(0, 27), min_size=1),
    st.lists(st.sampled_from(["END", "x.", "\n\n", "Fact"]), max_size=2),
)
def test_a_transcript_is_the_text_up_to_a_stop_text_outside_of_facts(
    parts: list[str | Fact], cuts: list[int], stop: list[str]
) -> None:
    transcript, passed = Transcript("Fact:", stop), list[TextPiece]()
    for piece in pieces_of(parts, cuts):
        passed += transcript.add(piece)
    passed += transcript.end(is_whole=False)
    assert (transcript.text, transcript.is_stopped) == expected(parts, stop)
    assert "".join(one.text for one in passed) == transcript.text
    for one in passed:
        if isinstance(one, CitedFact):
            cited = transcript.text[one.start : one.stop]
            assert cited.removeprefix("Fact:").strip() == FACT.text


def test_a_trigger_at_the_end_of_a_whole_text_is_left_out() -> None:
    for is_whole, text in ((True, FACT.text), (False, f"{FACT.text}\nFact:")):
        transcript = Transcript("Fact:")
        transcript.add(TextPiece(FACT.text, in_fact=True, completes=True, fact=FACT))
        transcript.add(TextPiece("\nFact:"))
        transcript.end(is_whole=is_whole)
        assert transcript.text == text


@given(PARTS, st.lists(st.integers(0, 27), min_size=1))
def test_the_answer_alone_follows_all_that_stands_before_the_last_marker_that_begins_a_line(
    parts: list[str | Fact], cuts: list[int]
) -> None:
    written = pieces_of(parts, cuts)
    text = "".join(piece.text for piece in written)
    starts = [found.start(1) for found in re.finditer(r"^[ *]*(Answer:)", text, re.MULTILINE)]
    at = max((at for at in starts if not _is_in_fact(parts, at)), default=-1)
    finished = Finished(
        text=text,
        answer="it" if at >= 0 else "",
        answer_start=max(at, 0),
        reason="stop",
        forced_tokens=0,
        forward_passes=1,
    )

    async def events() -> AsyncGenerator[Event, None]:
        for piece in written:
            yield piece
        yield finished

    async def shaped() -> list[Event]:
        return [event async for event in answer_alone(events(), "Answer:")]

    found = asyncio.run(shaped())
    pieces = [event for event in found if isinstance(event, TextPiece)]
    reasoning = "".join(piece.text for piece in pieces if piece.is_reasoning)
    is_last = at >= 0 and not any(isinstance(part, Fact) for part in _after(parts, at))
    assert reasoning.rstrip() == (text[:at] if is_last else text).rstrip()
    assert [piece.text for piece in pieces if not piece.is_reasoning] == (["it"] if at >= 0 else [])
    assert found[-1] is finished


def test_references_are_cited_after_the_page_of_a_fact() -> None:
    fact = Fact("Ann", "age", "7", "<Ann> <age> <7> .", (0, 5))
    linked = LinkedFact(
        Link("Ann", "Q1"), Link("age", "P1"), "7", references=("https://a.example/", "https://b.example/")
    )
    text = "Fact: <Ann> <age> <7> .\nAnswer: 7"
    for one, urls in ((linked, ["https://www.wikidata.org/wiki/Q1#P1"]), (replace(linked, subject=Link("Ann")), [])):
        cited = CitedFact(fact.text, in_fact=True, fact=fact, linked=one, start=0, stop=23)
        finished = Finished(
            text=text, answer="7", answer_start=24, facts=(cited,), reason="stop", forced_tokens=0, forward_passes=1
        )
        found = citations_of(finished, answer_alone=False)
        assert [citation["url"] for citation in found] == [*urls, *linked.references]
        assert {(citation["start_index"], citation["end_index"], citation["title"]) for citation in found} == {
            (0, 23, "Ann: age: 7")
        }
        of_answer = citations_of(finished, answer_alone=True)
        assert [(one["url"], one["end_index"]) for one in of_answer] == [
            (url, 1) for url in [*urls, *linked.references]
        ]
        assert finished.to_json()["facts"][0]["references"] == [*linked.references]


def _is_in_fact(parts: list[str | Fact], at: int) -> bool:
    """Whether a place in the text is in a fact."""
    begin = 0
    for part in parts:
        size = len(part) if isinstance(part, str) else len(part.text) + 1
        if begin <= at < begin + size:
            return isinstance(part, Fact)
        begin += size
    return False


def _after(parts: list[str | Fact], at: int) -> list[str | Fact]:
    """The parts that begin after a place in the text."""
    begin, found = 0, list[str | Fact]()
    for part in parts:
        if begin > at:
            found.append(part)
        begin += len(part) if isinstance(part, str) else len(part.text) + 1
    return found


async def counted(most: int, ended: list[int], fails: bool = False) -> AsyncGenerator[int, None]:
    """Numbers up to `most`, and then an error, if it `fails`. `ended`: has `most` at its end."""
    try:
        for number in range(most):
            await asyncio.sleep(0)
            yield number
        if fails:
            raise ValueError
    finally:
        ended.append(most)


def test_events_of_several_texts_come_in_the_order_of_each() -> None:
    async def all_of() -> list[tuple[int, int]]:
        return [event async for event in together([counted(most, []) for most in (3, 0, 2)])]

    found = asyncio.run(all_of())
    assert sorted(found) == [(0, 0), (0, 1), (0, 2), (2, 0), (2, 1)]
    assert [event for number, event in found if number == 0] == [0, 1, 2]


@pytest.mark.parametrize("fails", [True, False])
def test_if_one_text_fails_or_nobody_reads_on_all_are_closed(fails: bool) -> None:
    ended: list[int] = []

    async def some() -> None:
        events = together([counted(1, ended, fails), counted(1000, ended)])
        async for _, event in events:
            if not fails and event:
                break
        await events.aclose()

    if fails:
        with pytest.raises(ValueError):
            asyncio.run(some())
    else:
        asyncio.run(some())
    assert sorted(ended) == [1, 1000]
