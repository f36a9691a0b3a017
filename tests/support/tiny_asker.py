"""An `Asker` of the tiny model, the model in a folder as commands load it, and answers to print."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerFast

from refactx.ask.answer import Answer
from refactx.ask.asker import Asker
from refactx.ask.prompt import Prompt
from refactx.fact import Fact, Link, LinkedFact
from support.tiny_model import MemoryIndex, tiny_fact_tokenizer, tiny_model, tiny_tokenizer

EVERY_MESSAGE = "{% for m in messages %}{{ m['content'] + ' ' }}{% endfor %}"
LAST_MESSAGE = "{{ messages[-1]['content'] + ' ' }}"
"""Chat templates that end with the question, so that a question that ends in `Fact:` begins a fact."""
FACTS = ("<Ann> <p> <b>", "<Ann> <p> <c>", "<Bé> <p> <in>")
YEAR = Fact("Switzerland", "inception", "1291", "<Switzerland> <inception> <1291> .", (12, 18))


class LinkedIndex(MemoryIndex):
    """An index in memory with ids: Q1 for every subject, P1 for every predicate; objects are literals."""

    def links(self, fact: Fact) -> LinkedFact:
        return LinkedFact(Link(fact.subject, "Q1"), Link(fact.predicate, "P1"), fact.object)


def chat_tokenizer(template: str = EVERY_MESSAGE) -> PreTrainedTokenizerFast:
    """The tiny tokenizer with a chat template."""
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=tiny_tokenizer().backend_tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )
    tokenizer.chat_template = template
    return tokenizer


def save_tiny(folder: Path, longest: int = 512) -> Path:
    """Save the tiny model, with room for texts of `longest` tokens."""
    chat_tokenizer(LAST_MESSAGE).save_pretrained(folder)
    model = tiny_model()
    model.config.max_position_embeddings = longest
    model.save_pretrained(folder)
    return folder


def tiny_asker(model: Any = None, facts: Iterable[str] | None = FACTS) -> Asker:
    """A random model whose conversations end with the question."""
    index = None if facts is None else LinkedIndex(tiny_fact_tokenizer(), facts)
    return Asker(model or tiny_model(), chat_tokenizer(), index, Prompt(system="Be true."))


BERN = Fact("Switzerland", "capital", "Bern", "<Switzerland> <capital> <Bern> .", (3, 9))


ANSWER = Answer(
    question="What\x1b[2J is it?",
    answer="Bern\x07",
    text="I look.\nFact: <Switzerland> <capital> <Bern> .\nFact: <Switzerland> <inception> <1291> .\nAnswer: Bern\x07",
    facts=(BERN, YEAR),
    links=(
        LinkedFact(Link("Switzerland", "Q39"), Link("capital", "P36"), Link("Bern", "Q70")),
        LinkedFact(Link("Switzerland", "Q39"), Link("inception"), "1291", inverse=True),
    ),
    tokens=30,
    forward_passes=20,
    seconds=1.23456,
)


WIKI = "https://www.wikidata.org/wiki/"
