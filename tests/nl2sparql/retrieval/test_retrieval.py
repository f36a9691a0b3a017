"""Retrieval of examples: scores are the sums that they say they are, and all parts together find more than one alone."""

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.nl2sparql.word_encoder import WordEncoder

from bench.packs.figures import retrieval_scores
from refactx.errors import InputError
from refactx.nl2sparql.pack import Example, Pack, Pattern, load_pack
from refactx.nl2sparql.retrieval import QuestionIndex, Retriever, Weights, pattern_similarity

WORDS = ["red", "green", "blue", "round", "flat"]
TEXT = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
K1, B = 1.5, 0.75


def bm25_by_hand(question: str, other: str, questions: list[str]) -> float:
    """BM25 as Lucene has it, of a question's different words, as a share of that of a text with each of its words once."""
    texts = [one.split() for one in questions]
    mean = sum(map(len, texts)) / len(texts)
    idf = {
        word: math.log(1 + (len(texts) - n + 0.5) / (n + 0.5))
        for word in WORDS
        for n in [sum(word in t for t in texts)]
    }

    def score(counts: Counter[str], length: int) -> float:
        norm = K1 * (1 - B + B * length / mean)
        return sum(idf[word] * counts[word] / (counts[word] + norm) for word in set(question.split()))

    whole = score(Counter(set(question.split())), len(question.split()))
    return min(score(Counter(other.split()), len(other.split())) / whole, 1.0)


@given(TEXT, st.lists(TEXT, min_size=1, max_size=6))
def test_similarities_by_words_are_those_of_the_formula(question: str, questions: list[str]) -> None:
    expected = [bm25_by_hand(question, other, questions) for other in questions]
    assert QuestionIndex(questions).similarities(question).tolist() == pytest.approx(expected, abs=1e-5)


def pack_of(*questions: str) -> Pack:
    examples = [
        Example(
            id=str(n), question=text, sparql="ASK {}", patterns={"ROUND": 1.0} if "round" in text else {"FLAT": 0.5}
        )
        for n, text in enumerate(questions)
    ]
    patterns = {name: Pattern(name=name, words={"en": (name.lower(),)}) for name in ("ROUND", "FLAT")}
    return Pack(name="x", title="x", version=1, languages=("en",), base="", patterns=patterns, examples=tuple(examples))


@given(TEXT, st.lists(TEXT, min_size=1, max_size=6), st.booleans(), st.integers(1, 7))
def test_scores_are_weighted_sums_in_order(question: str, questions: list[str], encodes: bool, k: int) -> None:
    retriever = Retriever(pack_of(*questions), WordEncoder() if encodes else None)
    found = retriever.retrieve(question, k)
    shares = Weights(0.4, 0.3, 0.3) if encodes else Weights(0.0, 0.5, 0.5)
    assert retriever.shares == shares
    assert len(found) == min(k, len(questions)) and len({one.example.id for one in found}) == len(found)
    for one in found:
        assert (one.dense is not None) == encodes
        parts = shares.dense * (one.dense or 0) + shares.bm25 * one.bm25 + shares.pattern * one.pattern
        assert one.score == pytest.approx(parts, abs=1e-5)
        assert 0 <= one.score <= 1 + 1e-6
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    if k < len(questions):
        rest = retriever.retrieve(question, len(questions), without=[one.example.id for one in found])
        assert len(rest) == len(questions) - k
        assert max(one.score for one in rest) <= found[-1].score + 1e-6


@given(TEXT, st.lists(TEXT, min_size=1, max_size=4))
def test_the_same_question_is_as_near_as_can_be(question: str, questions: list[str]) -> None:
    found = Retriever(pack_of(*questions, question), WordEncoder()).retrieve(question, len(questions) + 1)
    own = next(one for one in found if one.question == question)
    assert (own.bm25, own.dense) == (pytest.approx(1, abs=1e-5), pytest.approx(1, abs=1e-5))


def test_all_questions_of_an_example_count_and_the_nearest_is_told() -> None:
    example = Example(id="1", question="How many lemmas?", sparql="ASK {}", variants={"it": ("Quanti lemmi ci sono?",)})
    pack = Pack(name="x", title="x", version=1, languages=("en", "it"), base="", examples=(example,))
    assert [Retriever(pack).retrieve(text)[0].question for text in ("quanti lemmi", "many lemmas")] == [
        "Quanti lemmi ci sono?",
        "How many lemmas?",
    ]


def test_terms_in_quotes_change_nothing() -> None:
    retriever = Retriever(load_pack("liita"))
    one, other = (retriever.retrieve(f"Find hyponyms of {term}") for term in ("'animale' (animal)", '"casa"'))
    assert one == other
    assert one[0].example.id == "118"


def test_patterns_may_be_given() -> None:
    retriever = Retriever(pack_of("red round", "red flat"))
    assert [retriever.retrieve("red", patterns={name: 1.0})[0].example.id for name in ("ROUND", "FLAT")] == ["0", "1"]


@given(*[st.dictionaries(st.sampled_from("abc"), st.floats(0.1, 1)) for _ in range(2)])
def test_the_similarity_of_patterns_is_a_cosine(one: dict[str, float], other: dict[str, float]) -> None:
    assert pattern_similarity(one, other) == pattern_similarity(other, one)
    assert 0 <= pattern_similarity(one, other) <= 1 + 1e-5
    assert pattern_similarity(one, one) == pytest.approx(1 if one else 0)
    assert (pattern_similarity(one, other) == 0) == (not one.keys() & other.keys())


def test_a_pack_without_examples_has_none_to_retrieve() -> None:
    assert Retriever(pack_of(), WordEncoder()).retrieve("red") == ()


@pytest.mark.parametrize("text", ["1,2", "a,b,c", "0,0,0", "-1,1,1", "nan,1,1", "inf,1,1"])
def test_weights_that_are_none(text: str) -> None:
    with pytest.raises(InputError, match="expected three numbers"):
        Weights.read(text)


def test_both_parts_find_more_than_one_alone() -> None:
    """Of the examples that share their patterns with another one, how many find such a one among five."""
    pack = load_pack("liita")
    top = {
        name: retrieval_scores(pack, Retriever(pack, weights=weights), lambda one: one.question).top
        for name, weights in {"words": Weights(0, 1, 0), "patterns": Weights(0, 0, 1), "both": Weights()}.items()
    }
    assert top["both"] > max(top["words"], top["patterns"]) + 0.1
