"""Names that are near to a question in meaning."""

import logging
import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from refactx.ask.prompt import load_prompt
from refactx.errors import InputError
from refactx.ranking import Ranker, load_encoder, open_ranker
from refactx.ranking import ranker as module

PREDICATES = ("place of birth", "cause of death", "spouse", "population", "shares border with", "located in time zone")
QUESTIONS = {
    "where was born?": "place of birth",
    "what did die of?": "cause of death",
    "who is married to?": "spouse",
    "how many people live in?": "population",
    "which countries border it?": "shares border with",
}


def nearest(ranker: Ranker, question: str) -> str:
    return PREDICATES[int(ranker.nearness(question, PREDICATES).argmax())]


@pytest.mark.parametrize("question", QUESTIONS)
def test_static_vectors_find_the_predicate_that_a_question_means_in_other_words(question: str) -> None:
    assert nearest(open_ranker("static"), question) == QUESTIONS[question]


def test_other_names_of_a_predicate_are_its_own() -> None:
    ranker = open_ranker("words", {"population": ["inhabitants"]})
    assert nearest(ranker, "How many inhabitants has Peru?") == "population"


@pytest.mark.parametrize("name", ["static", "words"])
def test_vectors_have_length_1_or_0_whatever_the_text(name: str) -> None:
    encoder = load_encoder(name)
    texts = ["Ann", "", "  ", "日本", "\ud800 lone", "a" * 100_000, "\0", "🙂"]
    found = encoder.encode(texts)
    assert found.shape == (len(texts), encoder.width)
    assert found.dtype == np.float32
    lengths = np.linalg.norm(found, axis=1)
    assert np.all(np.isclose(lengths, 1, atol=1e-5) | (lengths == 0))
    assert lengths[0] > 0
    assert lengths[1] == 0
    assert encoder.encode([]).shape == (0, encoder.width)


def test_no_names_and_an_empty_question_have_no_nearness() -> None:
    ranker = open_ranker("static")
    assert ranker.nearness("who?", []).tolist() == []
    assert ranker.nearness(" ", PREDICATES).tolist() == [0.0] * len(PREDICATES)


class Counting:
    """An encoder that counts the texts that it gets."""

    name, width, fingerprint = "counting", 2, "counting"

    def __init__(self) -> None:
        self.texts = list[str]()

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.texts += texts
        return np.ones((len(texts), 2), np.float32)


def test_each_name_and_question_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = Counting()
    ranker = Ranker(encoder, {"spouse": ["wife"]})
    for _ in range(3):
        ranker.nearness("who?", [*PREDICATES, *PREDICATES])
    assert sorted(encoder.texts) == sorted([*PREDICATES, "wife", "who?"])
    monkeypatch.setattr(module, "MOST_KEPT", 3)  # then the memory is bounded
    ranker.nearness("who?", ["other"])
    assert len(ranker._vectors) == 1


@pytest.mark.parametrize("name", ["nope", "no/such", "os:nothing", "/no/folder"])
def test_an_unknown_ranker_is_one_line(name: str) -> None:
    with pytest.raises(InputError, match="encoder") as error:
        load_prompt().weighted(None, name)
    assert "\n" not in str(error.value)


def test_without_the_package_of_vectors_words_are_compared_and_a_line_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    module._encoder_of.cache_clear()
    monkeypatch.setattr("refactx.ranking.encoders.find_spec", lambda module: None)
    with caplog.at_level(logging.WARNING):
        ranker = open_ranker()
    module._encoder_of.cache_clear()
    assert ranker.encoder.name == "words"
    [line] = caplog.messages
    assert "words alone" in line
    assert nearest(ranker, "What is the population of Peru?") == "population"


def test_the_package_of_vectors_does_not_change_the_log_of_a_process() -> None:
    code = (
        "import logging; from refactx.ranking import open_ranker; open_ranker('static').nearness('who?', ['spouse']);"
        "root = logging.getLogger(); print(root.handlers, root.level)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("[] 30\n", "")
