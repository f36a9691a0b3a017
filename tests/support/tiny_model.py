"""A tiny tokenizer, a tiny random model and an index in memory: decoding tests without trained weights."""

import copy
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

import pytest
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    LogitsProcessor,
    LogitsProcessorList,
    PreTrainedTokenizerFast,
)

from refactx.fact import Fact
from refactx.tokenizer import FactTokenizer
from refactx.tree.tree import Children, MemoryTree

FACTS = (
    "<Ann> <p> <b>",
    "<Ann> <p> <c>",
    "<Ann> <p> <bb>",
    "<Ann> <q> <b>",
    "<Bé> <p> <b>",
    "<Bé> <p> <in>",
    "<Bo> <p> <.>",
)
PROMPTS = ("Fact: <Ann> <p> <b> .\nso", "a Fact:", "Fact: <Ann> <p> <b> .\nFact: <B", "hello")
_MERGES = [
    "F a",
    "c t",
    "Fa ct",
    "Fact :",
    "Ġ Fact",
    "Ġ Fact:",
    ": Ċ",
    ": *",
    "i n",
    "Ġ <",
    "Ġ .",
    ". Ċ",
    "Ċ Ċ",
    "Ġ. Ċ",
    "Ġ. ĊĊ",
    ". ĊĊ",
    "Ġ Ġ",
    "A n",
    "An n",
    "Ann >",
    "p >",
    "b >",
    "Ċ Fact:",
]
SPECIAL = ("<s>", "</s>", "<pad>")
SURPLUS = 13
"""Rows of the model's vocabulary beyond the tokenizer's."""


@cache
def tiny_tokenizer() -> PreTrainedTokenizerFast:
    """Byte-level BPE: 256 bytes, some twenty merges (for many forms of trigger and terminator), 3 special tokens."""
    tokens = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *(merge.replace(" ", "") for merge in _MERGES)]
    pairs = [(merge.split(" ")[0], merge.split(" ")[1]) for merge in _MERGES]
    tokenizer = Tokenizer(models.BPE(vocab={token: number for number, token in enumerate(tokens)}, merges=pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in SPECIAL])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>", padding_side="left"
    )


def tiny_model(seed: int = 0) -> LlamaForCausalLM:
    """A Llama of 16 dimensions with random weights, which are larger than usual so that its choices differ."""
    torch.manual_seed(seed)
    tokenizer = tiny_tokenizer()
    config = LlamaConfig(
        vocab_size=len(tokenizer) + SURPLUS,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=512,
        initializer_range=0.5,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return LlamaForCausalLM(config).eval()


class MemoryIndex:
    """An index in memory (a `FactSource`). `facts`: texts such as `<a> <b> <c>`, without terminator."""

    def __init__(
        self, tokenizer: FactTokenizer, facts: Iterable[str], trigger: str = "Fact:", terminator: str = " ."
    ) -> None:
        self.tokenizer, self.trigger, self.terminator = tokenizer, trigger, terminator
        self.facts = frozenset(facts)
        self.sequences = frozenset(tuple(tokenizer.encode_after(trigger, " " + fact)) for fact in self.facts)
        self._tree = MemoryTree(self.sequences)

    def children(self, prefix: Sequence[int]) -> Children:
        return self._tree.children(prefix)


@cache
def tiny_fact_tokenizer() -> FactTokenizer:
    """The tiny tokenizer as an index needs it."""
    return FactTokenizer.from_transformers(tiny_tokenizer())


def tiny_index(facts: Iterable[str], **options: Any) -> MemoryIndex:
    """An index for the tiny tokenizer."""
    return MemoryIndex(tiny_fact_tokenizer(), facts, **options)


@cache
def token(text: str) -> int:
    """The id of the token with exactly this text."""
    return tiny_fact_tokenizer().token_bytes.index(text.encode())


def ids(*pieces: str) -> list[int]:
    """The id of each piece of text; those such as `<pad>` are special tokens."""
    tokenizer = tiny_tokenizer()
    return [tokenizer.convert_tokens_to_ids(piece) if piece in SPECIAL else token(piece) for piece in pieces]


def allowed_by_brute_force(index: MemoryIndex, written: Sequence[int], text: bytes = b"") -> set[int] | None:
    """The ids that may follow one generated sequence; None: any. Computed without a tree, a table or a state.

    `text`: the prompt's text, which must not end within a fact.
    """
    table, left = index.tokenizer.token_bytes, set(index.sequences)
    bytes_of = {number: piece for number, piece in enumerate(table) if piece}
    trigger, terminator = index.trigger.encode(), index.terminator.encode()
    fact, ending = None, b""

    def ends(done: bytes) -> set[int]:
        """The tokens that continue the terminator after its part `done`."""
        complete = {n for n, b in bytes_of.items() if (done + b).rstrip() == terminator}
        begin = {n for n, b in bytes_of.items() if terminator.startswith(done + b) and done + b != terminator}
        return complete | {n for n in begin if ends(done + bytes_of[n])}

    for number in written:
        if fact is None:
            piece = bytes_of.get(number, b"")
            text += piece
            head = text[: len(text) - len(piece) + len(piece.rstrip())]
            last = head[: -len(trigger)].decode("utf-8", "replace")[-1:]
            in_word = last.upper() != last.lower() or last.isdigit() or last == "_"
            if piece.strip() and head.endswith(trigger) and not in_word and left:
                fact, ending = (), b""
        elif not ending and any(f[: len(fact) + 1] == (*fact, number) for f in left):
            fact = (*fact, number)
        elif fact in left and number in ends(ending):
            ending += bytes_of[number]
            if ending.startswith(terminator):
                left.remove(fact)
                text, fact = ending[len(terminator) :], None
        else:
            return set()
    if fact is None:
        return None
    inside = {f[len(fact)] for f in left if len(f) > len(fact) and f[: len(fact)] == fact and not ending}
    chosen = ends(ending)
    if not ending and terminator in table:  # a part of what one token writes is accepted, but not chosen
        chosen = {n for n in chosen if bytes_of[n].startswith(terminator)}
    return inside | (chosen if fact in left else set())


def prompts(*texts: str, side: str = "left") -> dict[str, torch.Tensor]:
    tokenizer = copy.copy(tiny_tokenizer())
    tokenizer.padding_side = side
    batch = tokenizer(list(texts), return_tensors="pt", padding=True)
    return {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}


class Eager(LogitsProcessor):
    """Makes a model write triggers often, so that short runs have many facts.

    The scores are made nearly equal and normalised, so that a beam loses as much by a fact as by other text of that
    length. `pieces`: also make triggers in several tokens likely. `end`: added to the score of the end of sequence, by
    default so that it never comes.
    """

    def __init__(self, strength: float, pieces: bool, end: float = -math.inf) -> None:
        self.strength, self.pieces, self.end = strength, pieces, end

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        scores = 0.1 * scores
        scores[:, ids("Fact:", " Fact:", "\nFact:")] += self.strength
        if self.pieces:
            scores[:, ids("Fact", " Fact", ":", ":\n")] += self.strength
        scores[:, ids("</s>")] += self.end
        return scores.log_softmax(-1)  # type: ignore[return-value]


def eager(mode: str = "", strength: float = 8.0) -> LogitsProcessorList:
    """For beam search, only whole triggers are made likely: otherwise, repeated `Fact` would be the likeliest text."""
    return LogitsProcessorList([Eager(strength, pieces="beam" not in mode)])


def check_text(index: MemoryIndex, row: Sequence[int], prompt_length: int, facts: list[Fact]) -> None:
    """Check in the text that every trigger of the model's is followed by a new fact, until none is left."""
    decode = index.tokenizer.decode
    prompt, text = decode(row[:prompt_length]), decode(row)
    last = re.search(r"(?<!\w)Fact:\s*[^\n.]*\Z", prompt)  # an unfinished fact of the prompt counts as the model's
    begin, left, found = (last.start() if last else len(prompt) - 4), set(index.facts), []
    triggers = [match for match in re.finditer(r"(?<!\w)Fact:(?!\*)", text) if match.start() >= begin]
    for number, match in enumerate(triggers):
        end = triggers[number + 1].start() if number + 1 < len(triggers) else len(text)
        if not left:
            break
        body = text[match.end() : end].lstrip()
        whole = [fact for fact in left if body.startswith(fact + " .")]
        if whole:
            found.append(max(whole, key=len))
            left.remove(found[-1])
        else:  # cut off within the last fact
            assert any((fact + " .").startswith(body.rstrip("�").rstrip()) for fact in left), (body, text)
            assert end == len(text)
    assert [fact.text for fact in facts] == [fact + " ." for fact in found]
    for fact in facts:
        start, stop = fact.token_span
        assert decode(row[start:stop]).strip() == fact.text


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """A tiny model is slower with several threads, and far slower if other processes use the cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(params=["tree", "rows"])
def read_as(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Read with the engine for models that take any mask, which shares what paths of a tree have in common, or with the
    one for other models, which reads them as rows of a batch."""
    if request.param == "rows":
        monkeypatch.setattr("refactx.engines.transformers.rows.takes_masks", lambda model: False)
    return str(request.param)


class Passes:
    """Counts a model's forward passes and the ids that it reads, in a `with` block."""

    def __init__(self, model: Any) -> None:
        self.model, self.number, self.ids = model, 0, 0

    def __enter__(self) -> "Passes":
        self.hook = self.model.register_forward_pre_hook(self._count, with_kwargs=True)
        return self

    def __exit__(self, *_: object) -> None:
        self.hook.remove()

    def _count(self, _: Any, __: Any, kwargs: dict[str, Any]) -> None:
        self.number += 1
        self.ids += kwargs["input_ids"].numel()


def whole_facts(index: MemoryIndex) -> list[tuple[int, ...]]:
    """The ids of every fact of an index with every form of its terminator that may be chosen."""
    terminator = index.terminator.encode()
    pieces = [(number, piece) for number, piece in enumerate(index.tokenizer.token_bytes) if piece]
    is_one_token = terminator in index.tokenizer.token_bytes

    def endings(done: bytes) -> Iterator[tuple[int, ...]]:
        for number, piece in pieces:
            if (done + piece).rstrip() == terminator:
                yield (number,)
            elif terminator.startswith(done + piece) and (done or not is_one_token):
                yield from ((number, *rest) for rest in endings(done + piece))

    return [(*fact, *ending) for fact in sorted(index.sequences) for ending in endings(b"")]


@torch.no_grad()
def log_probabilities(model: Any, numbers: Sequence[int]) -> torch.Tensor:
    """The log-probabilities of the id after each of `numbers`, float32[len(numbers), vocabulary], by one plain pass."""
    logits: torch.Tensor = model(input_ids=torch.tensor([list(numbers)])).logits[0].float()
    return logits.log_softmax(-1)
