"""Queries that a model writes, greedily, one for each question."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from bench.pgmr.texts import prompt_ids


@torch.inference_mode()
def write_queries(
    model: Any, tokenizer: Any, questions: Sequence[str], *, batch_size: int, max_new_tokens: int
) -> Iterator[str]:
    """Yield what a model writes for each question, without special tokens."""
    pad = tokenizer.pad_token_id
    for start in range(0, len(questions), batch_size):
        rows = [prompt_ids(tokenizer, question) for question in questions[start : start + batch_size]]
        width = max(map(len, rows))
        ids = torch.tensor([[pad] * (width - len(row)) + row for row in rows], device=model.device)
        mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows], device=model.device)
        out = model.generate(
            input_ids=ids,
            attention_mask=mask,
            max_new_tokens=max_new_tokens,
            do_sample=False,
            pad_token_id=pad,
            eos_token_id=tokenizer.eos_token_id,
        )
        yield from (tokenizer.decode(row[width:], skip_special_tokens=True).strip() for row in out)
