"""Facts chosen by the question: the choice is what plain forward passes over whole texts would make."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from support.channel_runs import (
    ALWAYS,
    EVERY,
    EXAMPLES,
    GRAPH,
    NAMESAKES,
    QUESTIONS,
    channel,
    llama,
    parts,
    until_closed,
    write,
)
from support.tiny_model import (
    MemoryIndex,
    check_text,
    log_probabilities,
    one_thread,  # noqa: F401
    prompts,
    read_as,  # noqa: F401
    tiny_index,
    tiny_model,
    tiny_tokenizer,
)

from refactx.ask.grounded import ground
from refactx.decoding.machine import Machine
from refactx.decoding.states import InFact
from refactx.ranking import Ranker
from refactx.selection.answer_lines import AnswerLines
from refactx.selection.candidates import SubjectCandidate
from refactx.selection.chooser import FactChoice, ScoredSubject
from refactx.selection.weights import Weights


def texts_of_properties(
    index: MemoryIndex, left: Iterable[Sequence[int]], prefix: Sequence[int]
) -> set[tuple[int, ...]]:
    """The ids of each property of a subject, by brute force over the facts that are left."""
    brackets = index.tokenizer.decode_bytes(prefix).count(b">") + 1
    begin = tuple(prefix)
    return {until_closed(index, fact, brackets)[len(begin) :] for fact in left if tuple(fact[: len(begin)]) == begin}


def an_object(index: MemoryIndex, left: Iterable[Sequence[int]], begin: Sequence[int]) -> list[int]:
    """An object after a property, up to the end of its name: each id is that with most facts, then the lowest."""
    path: list[int] = []
    while not any(end in index.tokenizer.decode_bytes(path) for end in (b">", b" (")):
        depth = len(begin) + len(path)
        counts = Counter(fact[depth] for fact in left if tuple(fact[:depth]) == (*begin, *path))
        path.append(min(counts, key=lambda number: (-counts[number], number)))
    return path


class TestTheChoice:
    def expected(
        self, index: MemoryIndex, seed: int, row: Sequence[int], at: int, question: str, weights: Weights
    ) -> dict[tuple[tuple[int, ...], tuple[int, ...]], float]:
        """The score of each subject with each of its properties, by plain passes over whole texts. `row[:at]`: the text
        before the fact.
        """
        encode, model = index.tokenizer.encode, llama(seed)
        written = ground(model, tiny_tokenizer(), index).facts([list(row[:at])], self.length)[0]
        done = {tuple(row[f.token_span[0] : f.token_span[1]]) for f in written}
        left = [fact for fact in index.sequences if not any(fact == ids[: len(fact)] for ids in done)]
        lead, asked = encode(" Question:"), encode(f" {question}")
        scores, before = {}, {}
        begun = Counter(until_closed(index, row[f.token_span[0] :], 2) for f in written)
        fresh = {full for fact in left if begun[full := until_closed(index, fact, 2)] < weights.facts_of_property}
        fresh = fresh or {until_closed(index, fact, 2) for fact in left}
        for subject in {until_closed(index, begin, 1) for begin in fresh}:
            names, share = self.names_of(index, left, subject)
            ways = list[float]()
            for name in names:
                steps = log_probabilities(model, [*row[:at], *name])[at - 1 :]
                ways.append(
                    sum(
                        float(steps[depth, number])
                        for depth, number in enumerate(name)
                        if len({fact[depth] for fact in left if fact[:depth] == name[:depth]}) > 1
                    )
                )
            own_name = float(np.logaddexp.reduce(ways))
            before[subject] = weights.name_weight * own_name + weights.share_weight * math.log(share)
            every = {path for path in texts_of_properties(index, left, subject) if (*subject, *path) in fresh}
            paths = {path for path in every if index.tokenizer.decode(path) != " <description>"} or every
            reasons = [fact for fact in written if f"<{fact.object}>" == index.tokenizer.decode(subject).strip()]
            reason = encode("Fact:") + encode(" " + reasons[-1].text) + encode("\n") if reasons else []
            self.reasons += len(reasons)

            def likely(
                path: Sequence[int], begin: Sequence[int] = (*encode(EXAMPLES), *reason, *encode("Fact:"), *subject)
            ) -> float:
                of_asked = log_probabilities(model, [*begin, *path, *lead, *asked])[-len(asked) - 1 : -1]
                return float(of_asked.gather(1, torch.tensor(asked)[:, None]).sum())

            for path in paths:
                score = likely(path)
                if weights.tie_gap:  # all of them are within the tie
                    score = (score + likely((*path, *an_object(index, left, (*subject, *path))))) / 2
                steps = log_probabilities(model, [*row[:at], *subject, *path])[at + len(subject) - 1 :]
                for depth, number in enumerate(path):
                    others = {other[depth] for other in every if other[:depth] == path[:depth]}
                    score += weights.property_weight * float(
                        steps[depth, number] - steps[depth, sorted(others)].logsumexp(0)
                    )
                scores[subject, path] = score + before[subject]
        least = max(before.values()) - weights.subject_gap
        self.doubtful += sum(score < least for score in before.values())
        near = {subject for subject, score in before.items() if score >= least}
        hidden = {one for one in near if any(self.hides(index, left, other, one, question) for other in near)}
        self.hidden += len(hidden)
        return {(one, path): score for (one, path), score in scores.items() if one in near - hidden}

    def hides(
        self,
        index: MemoryIndex,
        left: Sequence[tuple[int, ...]],
        other: tuple[int, ...],
        one: tuple[int, ...],
        question: str,
    ) -> bool:
        """Whether a namesake has more facts, all properties, and all words of the question that the name of `one` has."""

        def of(subject: tuple[int, ...]) -> tuple[str, int, set[tuple[int, ...]], set[str]]:
            name = index.tokenizer.decode(subject).strip(" <>")
            words = set(re.findall(r"\w+", name.lower())) & set(re.findall(r"\w+", question.lower()))
            facts = sum(fact[: len(subject)] == subject for fact in left)
            return name.partition(" (")[0], facts, texts_of_properties(index, left, subject), words

        (bare, facts, paths, words), (other_bare, more, other_paths, other_words) = of(one), of(other)
        return bare == other_bare and more > facts and other_paths >= paths and other_words >= words

    def names_of(
        self, index: MemoryIndex, left: Sequence[tuple[int, ...]], subject: tuple[int, ...]
    ) -> tuple[set[tuple[int, ...]], float]:
        """The ids of a subject's name, with and without a description after it, and its share of the facts of all of that
        name."""

        def name(of: tuple[int, ...]) -> tuple[int, ...]:
            texts = (index.tokenizer.decode_bytes(of[:length]) for length in range(len(of) + 1))
            return of[: next(length for length, text in enumerate(texts) if b" (" in text or b">" in text)]

        def bare(of: tuple[int, ...]) -> str:
            return index.tokenizer.decode(of).strip(" <").partition(">")[0].partition(" (")[0].lower()

        own = [fact for fact in left if fact[: len(subject)] == subject]
        of_name = [fact for fact in left if bare(until_closed(index, fact, 1)) == bare(subject)]
        return {name(until_closed(index, fact, 1)) for fact in of_name}, len(own) / len(of_name)

    @pytest.mark.long
    @pytest.mark.usefixtures("read_as")
    @pytest.mark.parametrize(
        ("question", "options", "sizes"),
        [
            (QUESTIONS[0], {}, (256, 16)),
            (QUESTIONS[3], {"name_weight": 1.0}, (256, 16)),
            (QUESTIONS[0], {"property_weight": 2.0}, (1, 1)),
            (QUESTIONS[0], {"tie_gap": math.inf}, (256, 16)),
            (QUESTIONS[3], {"tie_gap": math.inf}, (256, 16)),
            (QUESTIONS[1], {"property_weight": 0.0, "share_weight": 3.0}, (40, 3)),
        ],
    )
    @pytest.mark.parametrize("graph", [GRAPH, NAMESAKES])
    def test_equals_that_of_plain_passes_over_whole_texts(
        self,
        graph: Sequence[str],
        question: str,
        options: dict[str, float],
        sizes: tuple[int, int],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        for module in ("engine", "rows"):
            monkeypatch.setattr(f"refactx.engines.transformers.{module}.IDS_A_PASS", sizes[0])
        monkeypatch.setattr("refactx.engines.transformers.rows.ROWS_A_PASS", sizes[1])
        assert self.compared(graph, "a Fact:", range(2), question, options) > 2

    def test_scores_both_steps_if_a_fact_led_to_the_subject(self) -> None:
        chain = ("<Bé> <r> <Ann>", "<Ann> <p> <b>", "<Ann> <q> <c>", "<Ann> <pin> <Bo>", "<Bo> <q> <b>", "<Bo> <p> <c>")
        assert self.compared(chain, "a Fact: <Bé", range(3), QUESTIONS[0], {}) > 2
        assert self.reasons > 2

    def test_scores_no_subject_with_the_question_that_is_far_below_the_best_without_it(self) -> None:
        assert self.compared(NAMESAKES, "a Fact:", range(2), QUESTIONS[0], {"subject_gap": 2.0}) > 2
        assert self.doubtful > 2

    @pytest.mark.parametrize(("question", "is_hidden"), [("who is it?", True), ("who is b?", False)])
    def test_leaves_out_a_namesake_all_of_whose_properties_another_has_unless_the_question_tells_it(
        self, question: str, is_hidden: bool
    ) -> None:
        assert self.compared(NAMESAKES, "a Fact:", range(2), question, {}) > 1
        assert (self.hidden > 0) == is_hidden

    reasons = doubtful = hidden = 0

    def compared(
        self, graph: Sequence[str], text: str, seeds: Iterable[int], question: str, weights: dict[str, float]
    ) -> int:
        """How many choices were made, each of which has to be the brute-force twin's."""
        index, chosen = tiny_index(graph), 0
        every = Weights(**(EVERY | weights), facts_of_property=1, another_fact_gain=ALWAYS)  # type: ignore[arg-type]
        for seed in seeds:
            row, self.length, facts = write(
                index,
                text,
                seed,
                question=question,
                **asdict(every),
            )
            for fact in facts:
                start, stop = fact.token_span
                tokens = row[start:stop]
                if start < self.length:  # begun by the prompt
                    continue
                subject = until_closed(index, tokens, 1)
                path = until_closed(index, tokens, 2)[len(subject) :]
                scores = self.expected(index, seed, row, start, question, every)
                assert scores[subject, path] >= max(scores.values()) - 1e-3
                chosen += len(scores) > 1
        return chosen

    @pytest.mark.parametrize(("prior", "subject"), [(0.5, "Bo (n)"), (-0.5, "Bo (b)")])
    def test_is_the_namesake_with_more_facts_if_the_model_is_indifferent(self, prior: float, subject: str) -> None:
        model = tiny_model()
        model.get_output_embeddings().weight.data.zero_()
        index = tiny_index(NAMESAKES)
        chosen = channel(index, "who is b?", share_weight=prior, another_fact_gain=math.inf)  # hides none of them
        grounded = ground(model, tiny_tokenizer(), index)
        out = grounded.generate(**prompts("a Fact: <Bo ("), channel=chosen, max_new_tokens=40, do_sample=False)
        assert parts(grounded.facts(out)[0][0].text)[0] == subject

    @pytest.mark.parametrize(
        "limit",
        [
            {"names": 1, "subjects_of_name": 1},
            {"drop_names_below": 0.0},
            {"compared_subjects": 1},
            {"keep_within": 0.0},
            {"nearest_properties": 1, "likely_properties": 0},
        ],
    )
    def test_is_a_fact_also_with_fewer_candidates(self, limit: dict[str, Any]) -> None:
        index = tiny_index(NAMESAKES)
        row, length, facts = write(index, budget=250, another_fact_gain=ALWAYS, **limit)
        check_text(index, row, length, facts)
        assert len(facts) == len(NAMESAKES)


def fact_choice(index: MemoryIndex, queries: Any = None) -> FactChoice:
    machine, of_text = Machine(index), channel(index)
    return FactChoice(machine, of_text, AnswerLines(machine, of_text), queries)


def some_meant(index: MemoryIndex, scores: Sequence[float], named: Sequence[int]) -> list[ScoredSubject]:
    """Subjects with these scores without the question, of which it names some."""
    state = Machine(index).begin(0)
    assert isinstance(state, InFact)
    return [
        ScoredSubject(SubjectCandidate(ids=(n,), state=state, is_named=n in named), float(score))
        for n, score in enumerate(scores)
    ]


@pytest.mark.parametrize(
    ("likely", "own", "named", "compared"),
    [
        ((-10, -11, -11.5, -13), (0, 0, 0, 0), (), [0, 1]),
        ((-10, -13, -14, -15), (0, 0, 0, 0), (2, 3), [0, 2]),
        ((-10, -13, -14, -18.5), (0, 0, 0, 0), (3,), [0, 3]),
        ((-12, -10, -11, -13), (0, 0, 0, 0), (0, 2), [1, 2]),
        ((-6, -8, -10, -30), (-4, -4, -3, -1), (), [0, 1]),
        ((-6, -8, -10, -30), (-4, -4, -3, -1), (2, 3), [0, 1, 2, 3]),
        ((-6, -8, -10, -30), (-4, -4, -3, -1), (0, 2), [0, 1, 2]),
    ],
)
def test_the_best_subjects_that_the_question_names_are_compared_too(
    likely: Sequence[float], own: Sequence[float], named: Sequence[int], compared: list[int]
) -> None:
    index = tiny_index(GRAPH)
    assert fact_choice(index)._nearest(some_meant(index, own, named), np.array(likely)) == compared


@pytest.mark.parametrize(
    ("scores", "named", "kept"),
    [
        ((-1, -3, -5, -5.5), (), [0, 1, 2]),
        ((-1, -3, -5, -5.5), (1, 2), [0, 1, 2]),
        ((-1, -2.5, -3.5, -5), (0, 3), [0, 1, 3]),
        ((-4, -1, -5.5, -3), (0, 2), [0, 1, 3]),
    ],
)
def test_a_subject_that_the_question_does_not_name_has_to_be_nearer(
    scores: Sequence[float], named: Sequence[int], kept: list[int]
) -> None:
    index = tiny_index(GRAPH)
    meant = some_meant(index, scores, named)
    assert [meant.index(one) for one in fact_choice(index)._likely(meant, is_first=True)] == kept
    later = fact_choice(index)._likely(meant, is_first=False)
    assert later == [one for one in meant if one.score >= max(scores) - Weights().subject_gap]


class PinEncoder:
    """An encoder for which all texts but names of properties other than `pin` have the same meaning."""

    name, width, fingerprint = "pin", 2, "pin"

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.array([(text not in ("p", "q"), text in ("p", "q")) for text in texts], np.float32)


@pytest.mark.parametrize("seed", range(3))
def test_a_property_that_is_near_to_the_question_in_meaning_is_likelier(seed: int) -> None:
    index = tiny_index(["<Bé> <p> <b>", "<Bé> <q> <b>", "<Bé> <pin> <b>"])
    grounded = ground(llama(seed), tiny_tokenizer(), index)
    chosen = channel(index, unknown="no", ranker=Ranker(PinEncoder()), meaning=99.0)
    out = grounded.generate(**prompts("a Fact:"), channel=chosen, max_new_tokens=40, do_sample=False)
    [fact, *_] = grounded.facts(out)[0]
    assert parts(fact.text)[1] == "pin"
    assert max(chosen.evidence.values()) > 90


@pytest.mark.parametrize("seed", range(3))
def test_the_nearest_properties_are_read_and_those_that_the_model_finds_likely(seed: int) -> None:
    index = tiny_index(["<Bé> <p> <b>", "<Bé> <q> <b>", "<Bé> <pin> <b>"])
    grounded = ground(llama(seed), tiny_tokenizer(), index)
    limits = {"nearest_properties": 1, "likely_properties": 0, "meaning": 1e-9}
    chosen = channel(index, ranker=Ranker(PinEncoder()), **limits)
    out = grounded.generate(**prompts("a Fact:"), channel=chosen, max_new_tokens=40, do_sample=False)
    assert parts(grounded.facts(out)[0][0].text)[1] == "pin"


class TestAPropertyThatSaysTheSubjectsOwnName:
    """`<Bo (n)> <pin> <Bo>` mostly answers no question about Bo."""

    OTHERS = ("<Bo (n)> <p> <b>", "<Bo (n)> <q> <c>")

    def property_of(self, facts: Sequence[str], seed: int) -> str:
        grounded = ground(llama(seed), tiny_tokenizer(), index := tiny_index(facts))
        chosen = channel(index, self_reference_penalty=999.0, ranker=Ranker(PinEncoder()), meaning=99.0)
        out = grounded.generate(**prompts("a Fact:"), channel=chosen, max_new_tokens=40, do_sample=False)
        return parts(grounded.facts(out)[0][0].text)[1]

    @pytest.mark.parametrize("seed", range(3))
    def test_is_chosen_less(self, seed: int) -> None:
        for same in ("<Bo (n)> <pin> <Bo>", "<Bo (n)> <pin> <Bo (n)>"):
            assert self.property_of([*self.OTHERS, same], seed) in ("p", "q")

    @pytest.mark.parametrize("seed", range(3))
    def test_is_chosen_if_it_says_more(self, seed: int) -> None:
        for other in ("<Bo (n)> <pin> <Bo (b)>", "<Bo (n)> <pin> <Bo b>", "<Bo (n)> <pin> <B>"):
            assert self.property_of([*self.OTHERS, other], seed) == "pin"
        assert self.property_of([*self.OTHERS, "<Bo (n)> <pin> <Bo>", "<Bo (n)> <pin> <b>"], seed) == "pin"

    def test_is_chosen_if_there_are_no_others(self) -> None:
        assert self.property_of(["<Bo (n)> <pin> <Bo>"], 0) == "pin"


def test_a_namesake_that_the_question_has_by_its_id_is_not_left_out() -> None:
    index = tiny_index(NAMESAKES)
    machine = Machine(index)
    paths = sorted({until_closed(index, fact, 1) for fact in index.sequences})
    some = [ScoredSubject(SubjectCandidate(ids=ids, state=machine.follow(machine.begin(0), ids))) for ids in paths]  # type: ignore[arg-type]
    [hidden] = [ids for ids in paths if index.tokenizer.decode(ids).strip() == "<Bo (b)>"]
    left = [one.subject.ids for one in fact_choice(index)._told_apart(some, ())]
    assert left == [ids for ids in paths if ids != hidden]
    assert fact_choice(index)._told_apart(some, [hidden]) == some
