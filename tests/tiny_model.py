"""A tiny tokenizer, a tiny random model and an index in memory: decoding tests without trained weights."""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from refactx.tokenizer import FactTokenizer
from refactx.tree import Children, MemoryTree

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
    """Byte-level BPE: 256 bytes, some twenty merges (the trigger and the terminator come in many forms), 3 specials."""
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
    """A Llama of 16 dimensions with random weights, larger than usual so that its choices differ."""
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
    """The tiny tokenizer as an index sees it."""
    return FactTokenizer.from_transformers(tiny_tokenizer())


def tiny_index(facts: Iterable[str], **options: Any) -> MemoryIndex:
    """An index for the tiny tokenizer."""
    return MemoryIndex(tiny_fact_tokenizer(), facts, **options)


def token(text: str) -> int:
    """The id of the token whose text this is exactly."""
    return tiny_fact_tokenizer().token_bytes.index(text.encode())


def ids(*pieces: str) -> list[int]:
    """One id a piece of text; `<pad>` and its like are the special tokens."""
    tokenizer = tiny_tokenizer()
    return [tokenizer.convert_tokens_to_ids(piece) if piece in SPECIAL else token(piece) for piece in pieces]


def allowed_by_brute_force(index: MemoryIndex, written: Sequence[int], text: bytes = b"") -> set[int] | None:
    """What may follow the ids of one generated sequence; None: anything. No tree, no table, no state.

    `text`: the prompt's text, which must leave no fact unfinished.
    """
    table, left = index.tokenizer.token_bytes, set(index.sequences)
    bytes_of = {number: piece for number, piece in enumerate(table) if piece}
    trigger, terminator = index.trigger.encode(), index.terminator.encode()
    fact, ending = None, b""

    def ends(done: bytes) -> set[int]:
        """The tokens that go on with the terminator where `done` of it is written."""
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
    return inside | (ends(ending) if fact in left else set())
