"""Decoding with a real small model (SmolLM2) and an index in memory of realistic facts."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from support.tiny_model import MemoryIndex
from transformers import AutoModelForCausalLM, AutoTokenizer

from refactx.ask.grounded import GroundedModel, ground
from refactx.decoding.machine import Machine
from refactx.tokenizer import FactTokenizer

PEOPLE = ("Danny Boyle", "Marie Curie", "Édith Piaf", "Ada Lovelace (mathematician)", "Akira Kurosawa (黒澤明)")
VALUES = {
    "date of birth": ("1956-10-20", "1867-11-07", "1915-12-19", "1815-12-10", "1910-03-23"),
    "place of birth": ("Radcliffe", "Warsaw", "Paris", "London", "Tokyo"),
    "occupation": ("film director", "physicist", "singer", "mathematician", "screenwriter"),
    "occupation or role": ("film director", "chemist", "actor", "poet", "editor"),
    "award received": ("Academy Award for Best Director", "Nobel Prize", "Légion d'honneur", "–", "Praemium Imperiale"),
}
FACTS = [f"<{who}> <{what}> <{VALUES[what][n]}>" for (n, who), what in product(enumerate(PEOPLE), VALUES)] + [
    f"<{who}> <occupation> <{VALUES['occupation'][n - 1]}>" for n, who in enumerate(PEOPLE)
]
PROMPTS = (
    "When was Danny Boyle born?\nFact: <Danny Boyle> <date of birth> <1956-10-20> .\n\nAnd Marie Curie?\nFact:",
    "Tell me about Édith Piaf.\nFact:",
    "Where was Akira Kurosawa born? Fact: <Akira",
)


@pytest.fixture(scope="module")
def tokenizer(smollm2_folder: Path) -> Any:
    return AutoTokenizer.from_pretrained(smollm2_folder, padding_side="left")


@pytest.fixture(scope="module")
def index(tokenizer: Any) -> MemoryIndex:
    return MemoryIndex(FactTokenizer.from_transformers(tokenizer), FACTS)


@pytest.fixture(scope="module")
def grounded(smollm2_folder: Path, tokenizer: Any, index: MemoryIndex) -> GroundedModel:
    model = AutoModelForCausalLM.from_pretrained(smollm2_folder, dtype=torch.float32).eval()
    return ground(model, tokenizer, index)


@pytest.mark.long
@pytest.mark.parametrize(
    "mode",
    [
        {"do_sample": False},
        {"num_beams": 3, "do_sample": False},
        {"do_sample": True, "temperature": 1.3},
        {"fact_beams": 3, "do_sample": False},
    ],
    ids=["greedy", "beams", "sampling", "fact beams"],
)
def test_it_writes_only_facts_of_the_index(
    mode: dict[str, Any], tokenizer: Any, index: MemoryIndex, grounded: GroundedModel
) -> None:
    torch.manual_seed(0)
    inputs = tokenizer(list(PROMPTS), return_tensors="pt", padding=True)
    out = grounded.generate(**inputs, max_new_tokens=48, **mode)
    for prompt, row, facts in zip(
        PROMPTS, tokenizer.batch_decode(out, skip_special_tokens=True), grounded.facts(out), strict=True
    ):
        assert facts
        texts = [fact.text for fact in facts]
        assert len(set(texts)) == len(texts)
        assert {text.removesuffix(" .") for text in texts} <= index.facts
        begun = row[prompt.rindex("Fact:") + len("Fact:") :]
        assert begun.startswith(" " + texts[0])


def test_a_fact_in_the_models_own_tokenization_is_allowed(tokenizer: Any, index: MemoryIndex) -> None:
    """Every fact of the index, tokenised in one go with its trigger and terminator, is allowed token by token."""
    machine = Machine(index)
    for fact in FACTS:
        written = tokenizer(f"So. Fact: {fact} .\n\nIt is", add_special_tokens=False)["input_ids"]
        state = machine.start([])
        for position, number in enumerate(written):
            tokens = machine.allowed(state)
            assert tokens is None or number in tokens
            state = machine.advance(state, number, position)
        assert [found.text for found in machine.facts(written, 0)] == [f"{fact} ."]


def test_a_fact_ends_in_one_token_as_the_tokenizer_encodes_it(index: MemoryIndex) -> None:
    machine = Machine(index)
    state: Any = machine.begin(0)
    for number in min(index.sequences):
        state = machine.advance(state, number, 0)
    tokens = machine.allowed(state)
    assert tokens is not None
    pieces = {index.tokenizer.decode([number]) for number in tokens.tolist()}
    assert " ." in pieces
    assert all(piece.rstrip() == " ." for piece in pieces)
