"""A search for names in a question by plain comparison of strings: the twin of mention spans, and tokenizers to try it with."""

import re
from collections.abc import Iterable, Iterator
from functools import cache

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from refactx.decoding.machine import Machine
from refactx.linking.names import unaccented
from refactx.selection.mentions import FoldedTokens, MentionSpan, find_mention_spans
from refactx.tokenizer import FactTokenizer
from support.channel_runs import joining_tokenizer
from support.tiny_model import MemoryIndex, tiny_fact_tokenizer

MOST_WORDS = 8
Named = tuple[int, int, str]
"""The place of a name in a question, and the name up to its parenthesis."""


@cache
def tokenizer_of(kind: str) -> FactTokenizer:
    """`tiny`: ` (` and letters with accents are several ids; `whole letters`: `é` is one id, and so are ` (`, ` ("`, and
    `O` with a part of the next letter;
    `byte level`, `sentence piece`: one id closes a part of a fact and opens the next."""
    if kind == "tiny":
        return tiny_fact_tokenizer()
    if kind != "whole letters":
        return FactTokenizer.from_transformers(joining_tokenizer(kind))
    pairs = [("Ã", "©"), ("Ġ", "("), ("Ġ(", '"'), ("B", "o"), ("Ġ", "<"), ("F", "act"), ("n", ">"), ("O", "Å")]
    pairs = [("a", "c"), ("ac", "t"), *pairs]
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {text: n for n, text in enumerate([*letters, *("".join(pair) for pair in pairs)])}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=pairs))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken("</s>", special=True)])
    return FactTokenizer.from_transformers(PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="</s>"))


TOKENIZERS = ("tiny", "whole letters", "byte level", "sentence piece")
WHOLE = {"whole letters": "é"}
"""The letters beyond ASCII that are one id."""


def index_of(names: Iterable[str], kind: str = "tiny") -> MemoryIndex:
    """An index with a fact of each name."""
    return MemoryIndex(tokenizer_of(kind), [f"<{name}> <p> <b>" for name in names])


def spans_of(index: MemoryIndex, question: str) -> list[MentionSpan]:
    machine = Machine(index)
    return find_mention_spans(machine, machine.begin(0), FoldedTokens(index.tokenizer.token_bytes), question)


def named_by(index: MemoryIndex, span: MentionSpan) -> Named:
    """The place and the name of a mention span."""
    text = index.tokenizer.decode(span.ids).strip().removeprefix("<")
    return span.start, span.stop, text.partition(">")[0].partition(" (")[0]


def search_names(names: Iterable[str], question: str, whole: str = "") -> set[Named]:
    """The names that stand in a question, the longest of each place."""
    heads = {head for name in names for head in (name, *(name[: m.start()] for m in re.finditer(r" \(", name)))}
    found = {
        (start, stop, head)
        for start, stop, text in set(_texts(question))
        for head in heads
        if any(_is_spelt(head, spelt, whole) for spelt in (unaccented(text), _low(text)))
    }
    places = {named[:2] for named in found}
    return {
        named for named in found if not any(a <= named[0] and named[1] <= b and (a, b) != named[:2] for a, b in places)
    }


def _low(text: str) -> str:
    return "".join(letter.lower() if letter.isascii() else letter for letter in text)


def _is_spelt(name: str, text: str, whole: str) -> bool:
    """Whether a name has the letters of a text, those that are one id up to their accents."""
    return len(name) == len(text) and all(
        one == _low(own) or (one == unaccented(own) and (own.isascii() or own in whole))
        for own, one in zip(name, text, strict=True)
    )


def _reordered(text: str) -> Iterator[str]:
    """A name as people say it, or as lists may have it."""
    if "," in text:
        yield re.sub(r"^ *(.*?) *, *(.*?) *$", r"\2 \1", text, count=1)
        return
    gaps = [*re.finditer(" +", text)]
    for gap in gaps if len(gaps) < 4 else gaps[:1]:
        yield f"{text[gap.end() :]}, {text[: gap.start()]}"


def _texts(question: str) -> Iterator[tuple[int, int, str]]:
    """Yield what may be a name: words as they stand, with full stops after initials and at the end, and in either number."""
    words = [match.span() for match in re.finditer(r"[^\W_]+", question)]
    for at, (start, _) in enumerate(words):
        for begin, stop in words[at : at + MOST_WORDS]:
            text, last = re.sub(r"\s+", " ", question[start:stop]), question[begin:stop]
            dotted = re.sub(r"\b(\w)\b(?![.'’])", r"\1.", text)
            yield start, stop, text
            yield start, stop, dotted
            for one in (text, dotted):
                yield from ((start, stop, other) for other in _reordered(one))
            if question[stop:].startswith("."):
                yield start, stop + 1, f"{text}."
                if not dotted.endswith("."):
                    yield start, stop + 1, f"{dotted}."
            if len(last) > 2 and not re.search("(?i)(?<!s)s$", last):  # a name in the plural
                ending = (
                    "ies"
                    if re.search("(?i)[^aeiou]y$", last)
                    else "es"
                    if re.search("(?i)(s|x|z|ch|sh)$", last)
                    else "s"
                )
                yield start, stop, (text[:-1] if ending == "ies" else text) + ending
            for ending, singular in (("ies", "y"), ("es", ""), ("s", "")):
                if last.lower().endswith(ending) and len(last) > len(ending) + 2:
                    yield start, stop, text[: -len(ending)] + singular
