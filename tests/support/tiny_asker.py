"""An `Asker` of the tiny model, and answers to print."""

from collections.abc import Iterable
from typing import Any

from transformers import PreTrainedTokenizerFast

from refactx.asking.answer import Answer
from refactx.asking.asker import Asker
from refactx.asking.prompt import Prompt
from refactx.fact import Fact, Link, LinkedFact
from support.tiny_model import MemoryIndex, tiny_fact_tokenizer, tiny_model, tiny_tokenizer

FACTS = ("<Ann> <p> <b>", "<Ann> <p> <c>", "<Bé> <p> <in>")
YEAR = Fact("Switzerland", "inception", "1291", "<Switzerland> <inception> <1291> .", (12, 18))


class LinkedIndex(MemoryIndex):
    """An index in memory with ids: Q1 for every subject, P1 for every predicate; objects are literals."""

    def links(self, fact: Fact) -> LinkedFact:
        return LinkedFact(Link(fact.subject, "Q1"), Link(fact.predicate, "P1"), fact.object)


def tiny_asker(model: Any = None, facts: Iterable[str] | None = FACTS) -> Asker:
    """A random model whose chat template ends with the question, so that a question that ends in `Fact:` begins a fact."""
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=tiny_tokenizer().backend_tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] + ' ' }}{% endfor %}"
    index = None if facts is None else LinkedIndex(tiny_fact_tokenizer(), facts)
    return Asker(model or tiny_model(), tokenizer, index, Prompt(system="Be true."))


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
