"""The candidates for subjects and properties are in the tree, the likeliest first, and complete within their limits."""

import math
from collections.abc import Sequence
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from support.channel_runs import EVERY_NAME, after_text, found, shown
from support.tiny_model import (
    MemoryIndex,
    log_probabilities,
    one_thread,  # noqa: F401
    read_as,  # noqa: F401
    tiny_index,
    tiny_model,
)

from refactx.decoding.machine import Machine
from refactx.decoding.states import InFact
from refactx.engines.engine import IdPath
from refactx.selection.candidates import CandidateSearch, PropertyCandidate, SubjectCandidate
from refactx.selection.scores import ScoredContinuations
from refactx.selection.weights import Weights

GRAPH = (
    *(f"<Bo (n)> <p> <{letter}>" for letter in "bcde"),
    "<Bo (b)> <p> <b>",
    "<Bo (bb)> <p> <b>",
    "<Bo (bb)> <q> <b>",
    "<Bo> <in> <b>",
    "<Ann (n)> <p> <b>",
    "<Annin> <p> <b>",
    "<Bé> <p> <c>",
    "<in (n) in> <p> <c>",
)


@cache
def llama(seed: int) -> Any:
    return tiny_model(seed)


@pytest.mark.usefixtures("read_as")
@pytest.mark.parametrize(
    "text", ["a Fact:", "a Fact: <", "Fact: <B", "Fact: <Bo (", "Fact: <Bo (n)> <p> <b> .\nFact: <Bo"]
)
@pytest.mark.parametrize("seed", range(3))
def test_with_room_for_all_every_subject_with_facts_left_is_found_once(text: str, seed: int) -> None:
    index = tiny_index(GRAPH)
    some, ids, state = found(index, text, seed, EVERY_NAME)
    begun = index.tokenizer.decode(state.prefix).strip()
    expected = {fact.split("> <")[0] + ">" for fact in GRAPH if fact.startswith(begun)}
    assert sorted(shown(index, state, some)) == sorted(expected)
    assert [one.own for one in some] == sorted((one.own for one in some), reverse=True)
    written = text.count(" .")
    for one, name in zip(some, shown(index, state, some), strict=True):
        facts = [fact for fact in GRAPH[written:] if fact.startswith(name)]
        assert one.state.children.total == len(facts)
        namesakes = [fact for fact in GRAPH[written:] if fact.startswith(begun) and bare(fact) == bare(name)]
        assert one.share == pytest.approx(len(facts) / len(namesakes))
        ways = {  # a name is written with or without a description
            " (" in other: own(index, seed, ids, state, each)
            for each, other in zip(some, shown(index, state, some), strict=True)
            if bare(other) == bare(name)
        }
        assert one.own == pytest.approx(np.logaddexp.reduce(list(ways.values())), abs=1e-3)


def bare(text: str) -> str:
    """The name with which a text begins, without its description, in lower case."""
    return text.partition(">")[0].partition(" (")[0].lower()


def own(index: MemoryIndex, seed: int, ids: list[int], state: InFact, one: SubjectCandidate) -> float:
    """The log-probability of a name by one plain pass, of the ids that have an alternative."""
    if b"(" in index.tokenizer.decode_bytes(state.prefix):
        return 0.0  # the text had the name
    steps = log_probabilities(llama(seed), [*ids, *one.ids])[len(ids) - 1 :]
    total, path = 0.0, list(state.prefix)
    done = {fact.tokens for fact in state.facts}
    for depth, token in enumerate(one.ids):
        text = index.tokenizer.decode_bytes(path)
        if b">" in text or b" (" in text:
            break
        left = [fact for fact in index.sequences if fact[: len(path)] == tuple(path) and fact not in done]
        total += float(steps[depth, token]) * (len({fact[len(path)] for fact in left}) > 1)
        path.append(token)
    return total


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("limits", "most"),
    [
        (Weights(names=1, subjects_of_name=1), 1),
        (Weights(names=2, subjects_of_name=1), 2),
        (Weights(names=1, subjects_of_name=2), 2),
        (Weights(names=99, subjects_of_name=2), 8),
        (Weights(names=99, subjects_of_name=99, drop_names_below=0.0), 3),
    ],
)
def test_limits_keep_the_best(limits: Weights, most: int, seed: int) -> None:
    index = tiny_index(GRAPH)
    some, _, state = found(index, "a Fact:", seed, limits)
    every, _, _ = found(index, "a Fact:", seed, EVERY_NAME)
    assert 1 <= len(some) <= most
    assert set(shown(index, state, some)) <= set(shown(index, state, every))
    if limits.drop_names_below == 0:
        assert {one.own for one in some} == {max(one.own for one in every)}
    if limits.names == 99 and limits.subjects_of_name == 2:
        assert "<Bo (b)>" not in shown(index, state, some), "the one with the fewest facts"


@pytest.mark.parametrize("seed", range(3))
def test_no_limit_on_names_holds_for_those_that_the_question_names(seed: int) -> None:
    index, strict = tiny_index(GRAPH), Weights(names=1, subjects_of_name=99, drop_names_below=0.0)
    every, _, state = found(index, "a Fact:", seed, EVERY_NAME)
    for name in ("<Annin>", "<Bé>", "<in (n) in>"):
        [path] = [one.ids for one, text in zip(every, shown(index, state, every), strict=True) if text == name]
        some, _, _ = found(index, "a Fact:", seed, strict, [path])
        own = {text: one.own for one, text in zip(every, shown(index, state, every), strict=True)}
        names = shown(index, state, some)
        assert name in names and len(names) <= 2
        assert [one.own for one in some] == pytest.approx([own[text] for text in names])


@pytest.mark.parametrize("count", [1, 2, 3])
def test_of_a_name_those_that_the_question_names_with_their_descriptions_are_meant(count: int) -> None:
    index, limits = tiny_index(GRAPH), Weights(names=1, subjects_of_name=2)
    every, _, state = found(index, "a Fact:", 0, EVERY_NAME)
    paths = dict(zip(shown(index, state, every), (one.ids for one in every), strict=True))
    facts = {"<Bo (b)>": 1, "<Bo (bb)>": 2, "<Bo (n)>": 4}
    for wanted in combinations(facts, count):
        some, _, _ = found(index, "a Fact:", 0, limits, [paths[name] for name in wanted])
        shares = {text: one.share for text, one in zip(shown(index, state, some), some, strict=True) if one.is_named}
        total = sum(facts[name] for name in wanted) + shares.get("<Bo>", 0)
        best = sorted(wanted, key=lambda name: -facts[name])[:2]
        assert shares == pytest.approx({name: facts[name] / total for name in best})


PROPERTIES = (
    "<Ann> <p> <b>",
    "<Ann> <p> <c>",
    "<Ann> <p> <bb>",
    "<Ann> <q> <b>",
    "<Ann> <pin> <Bo>",
    "<Ann> <pin pin> <Bo>",
    "<Ann> <description> <x>",
    "<Bo> <p> <.>",
    "<Bo> <‹p›> <b>",
    "<Bé> <p> <in>",
)


def properties_after(
    index: MemoryIndex, text: str, of: Sequence[str], most: int, unlikely: float, nearest: Sequence[IdPath] = ()
) -> tuple[list[PropertyCandidate], list[int], list[SubjectCandidate]]:
    """The properties of some subjects (None: of the text's own) after a text, and the ids of the text."""
    ids, machine = index.tokenizer.encode(text), Machine(index)
    state = machine.run(ids, 0)
    assert isinstance(state, InFact)
    wanted = []
    for name in of:
        path, at = tuple(index.tokenizer.encode(f" <{name}>")), state
        for token in path:
            at = machine.advance(at, token, 0)  # type: ignore[assignment]
        wanted.append(SubjectCandidate(ids=path, state=at))
    wanted = wanted or [SubjectCandidate(ids=(), state=state)]
    found = after_text(
        llama(0),
        index,
        ids,
        lambda reading: CandidateSearch(
            machine=machine,
            position=len(ids),
            continuations=ScoredContinuations.of(reading),
            weights=Weights(likely_properties=most, drop_properties_below=unlikely),
        ).properties(wanted, [nearest for _ in wanted]),
    )
    return found, ids, wanted


@pytest.mark.usefixtures("read_as")
@pytest.mark.parametrize(
    "written", [(), PROPERTIES[:1], PROPERTIES[:3], PROPERTIES[3:6], PROPERTIES[:6], PROPERTIES[7:9]]
)
@pytest.mark.parametrize("subject", [" <Ann>", " <Ann> <", " <Bo>", " <Bé> <", ("Ann", "Bo", "Bé"), ("Bo",)])
def test_with_room_for_all_every_property_with_facts_left_is_found_with_the_models_own_choice(
    written: Sequence[str], subject: str | tuple[str, ...]
) -> None:
    index = tiny_index(PROPERTIES)
    left = [fact for fact in PROPERTIES if fact not in written]
    names = subject if isinstance(subject, tuple) else (subject.strip(" <>"),)
    if not all(any(fact.startswith(f"<{name}>") for fact in left) for name in names):
        return  # there is no state after such a subject
    text = "".join(f"Fact: {fact} .\n" for fact in written) + "Fact:" + (subject if isinstance(subject, str) else "")
    found, ids, of = properties_after(index, text, names if isinstance(subject, tuple) else (), 99, math.inf)
    decode = index.tokenizer.decode
    for number, name in enumerate(names):
        mine = [one for one in found if one.subject == number]
        begin = decode(of[number].state.prefix).strip()
        assert sorted(f"{begin}{decode(one.ids)}".replace("><", "> <") for one in mine) == sorted(
            {
                " ".join(fact.split("> <")[:1]) + "> <" + fact.split("> <")[1] + ">"
                for fact in left
                if fact.startswith(f"<{name}>")
            }
        )
        assert [one.own for one in mine] == sorted((one.own for one in mine), reverse=True)
        for one in mine:
            steps = log_probabilities(llama(0), [*ids, *of[number].ids, *one.ids])[len(ids) + len(of[number].ids) - 1 :]
            expected = 0.0
            for depth, token in enumerate(one.ids):
                others = {other.ids[depth] for other in mine if other.ids[:depth] == one.ids[:depth]}
                expected += float(steps[depth, token] - steps[depth, sorted(others)].logsumexp(0))
            assert one.own == pytest.approx(expected, abs=1e-3)
        assert sum(math.exp(one.own) for one in mine) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize(("most", "unlikely"), [(1, math.inf), (2, math.inf), (99, 0.0), (99, 1.0)])
def test_limits_keep_likely_properties(most: int, unlikely: float) -> None:
    index = tiny_index(PROPERTIES)
    some, _, _ = properties_after(index, "a Fact:", ("Ann", "Bo"), most, unlikely)
    every, _, _ = properties_after(index, "a Fact:", ("Ann", "Bo"), 99, math.inf)
    for number in range(2):
        mine = [one for one in some if one.subject == number]
        assert 1 <= len(mine) <= most
        assert {one.ids for one in mine} <= {one.ids for one in every if one.subject == number}
        assert all(one.own >= mine[0].own - unlikely for one in mine)
