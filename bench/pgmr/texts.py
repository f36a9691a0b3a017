"""What a model reads and writes: a question, and PGMR text, in the model's own chat format if it has one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

INSTRUCTION = "Write the SPARQL query that answers the question, with names in place of URIs.\nQuestion: "
IGNORED = -100
"""The label of ids that have no loss."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """The ids of a question and of its query, the end of the text included."""

    prompt: list[int]
    query: list[int]

    def __len__(self) -> int:
        return len(self.prompt) + len(self.query)


def prompt_ids(tokenizer: Any, question: str) -> list[int]:
    """Return the ids of what a model reads before it writes a query."""
    text = INSTRUCTION + question
    if tokenizer.chat_template:
        message = [{"role": "user", "content": text}]
        text = tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True)
        return list(tokenizer(text, add_special_tokens=False)["input_ids"])
    return list(tokenizer(f"{text}\nQuery:\n")["input_ids"])


def encoded(tokenizer: Any, question: str, query: str) -> Encoded:
    """Return the ids of a question and its query."""
    ids = tokenizer(query, add_special_tokens=False)["input_ids"]
    return Encoded(prompt_ids(tokenizer, question), [*ids, tokenizer.eos_token_id])


def padded(rows: Sequence[Encoded], pad: int) -> dict[str, torch.Tensor]:
    """Return rows as a batch, padded on the right: int64 tensors of rows x ids, with labels for the queries alone."""
    width = max(map(len, rows))
    filled = [[*row.prompt, *row.query] + [pad] * (width - len(row)) for row in rows]
    labels = [[IGNORED] * len(row.prompt) + row.query + [IGNORED] * (width - len(row)) for row in rows]
    mask = [[1] * len(row) + [0] * (width - len(row)) for row in rows]
    return {
        "input_ids": torch.tensor(filled),
        "labels": torch.tensor(labels),
        "attention_mask": torch.tensor(mask),
    }
