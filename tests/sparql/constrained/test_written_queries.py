"""SPARQL that models write: by `generate` in every mode, and by a writer with the demo model."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from support.query.memory_index import RowsIndex
from support.tiny_model import one_thread, prompts, tiny_model, tiny_tokenizer  # noqa: F401
from transformers import LogitsProcessor, LogitsProcessorList

from refactx import GroundedModel, Index, ground, open_index
from refactx.errors import InputError
from refactx.sparql import SparqlGrammar, SparqlWriter
from refactx.sparql.engines.checking import check_query
from refactx.sparql.syntax.tokens import tokens_of
from refactx.walks import TreeFacts

GRAPH = frozenset({("A", "p", "B"), ("A", "t", "1990"), ("B", "q", "A"), ("B", "x", "b")})
MODES = {
    "greedy": {"do_sample": False},
    "sampled": {"do_sample": True},
    "beams": {"num_beams": 2, "num_return_sequences": 2, "do_sample": False},
}


class Closing(LogitsProcessor):
    """Makes brackets and line ends likely, so that short runs have whole queries."""

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        scores = 0.1 * scores
        for text, more in (("}", 3.0), ("\n", 9.0), (")", 3.0), ('"', 3.0), ("{", 3.0)):
            scores[:, tiny_tokenizer().encode(text)] += more
        scores[:, tiny_tokenizer().convert_tokens_to_ids("</s>")] = -torch.inf
        return scores.log_softmax(-1)  # type: ignore[return-value]


@pytest.fixture(scope="module")
def grounded() -> GroundedModel:
    index = RowsIndex([(1, GRAPH)])
    return ground(tiny_model(), tiny_tokenizer(), index, queries=SparqlGrammar(index))  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_writes_only_sparql(mode: str, grounded: GroundedModel) -> None:
    torch.manual_seed(1)
    inputs = prompts("SPARQL:", "SPARQL: ASK { <A> <p>", "SPARQL: SELECT ?x {")
    out = grounded.generate(
        **inputs, logits_processor=LogitsProcessorList([Closing()]), max_new_tokens=120, **MODES[mode]
    )
    written = [query for row in grounded.queries(out) for query in row]
    assert written
    for query in written:
        check_query(query)


@pytest.fixture(scope="module")
def sample_index(sample_url: str) -> Iterator[Index]:
    with open_index(db=sample_url) as index:
        yield index


@pytest.fixture(scope="module")
def writer(sample_index: Index, smollm2_folder: Path) -> SparqlWriter:
    from refactx import load_language_model

    return SparqlWriter(load_language_model(str(smollm2_folder), sample_index), sample_index)


@pytest.mark.long
def test_the_demo_model_writes_a_query_of_names_that_exist(writer: SparqlWriter, sample_index: Index) -> None:
    prompt = "Question: Who wrote Hamlet?\nSPARQL: SELECT ?x { <Hamlet> <author> ?x }\nQuestion: What is the capital of Alaska?"
    query = writer.generate(prompt, 40)
    assert query == writer.generate(f"{prompt}\nSPARQL:", 40)
    check_query(query)
    facts = TreeFacts(sample_index)
    labels = [token.label for token in tokens_of(query) if token.kind == "label"]
    assert all(facts.predicates(label) or facts.describe([label]) for label in labels)


def test_a_prompt_that_is_too_long_is_refused(writer: SparqlWriter) -> None:
    with pytest.raises(InputError, match="the model takes at most"):
        writer.generate([{"role": "system", "content": ""}, {"role": "user", "content": "why? " * 9000}])
