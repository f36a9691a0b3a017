"""LoRA with peft: training an adapter, and merging it into the model. The defaults are those of arXiv:2502.13369."""

import json
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from bench.pgmr.texts import Encoded, encoded, padded
from refactx.errors import InputError

LOG = "losses.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How an adapter is trained.

    `alpha`: the factor of the adapter is alpha / rank; `minutes`: stop after so many, at the end of a step.
    """

    rank: int = 64
    alpha: int = 128
    dropout: float = 0.05
    learning_rate: float = 1e-4
    epochs: int = 10
    batch_size: int = 8
    max_length: int = 512
    seed: int = 42
    minutes: float | None = None


def load(model: str, device: str) -> tuple[Any, Any]:
    """Return a model of Transformers and its tokenizer: in bfloat16 on a GPU, in float32 on a CPU."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    dtype = torch.bfloat16 if device.startswith("cuda") else torch.float32
    tokenizer: Any = AutoTokenizer.from_pretrained(model)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    loaded: Any = AutoModelForCausalLM.from_pretrained(model, dtype=dtype)
    return loaded.to(device), tokenizer


def train(
    model: Any, tokenizer: Any, rows: Sequence[dict[str, Any]], settings: Settings, folder: Path
) -> list[dict[str, Any]]:
    """Train an adapter on rows with `question` and `pgmr`, save it in a folder, and return the loss of each step.

    The loss is that of the query's tokens, with AdamW, no weight decay and a constant learning rate. Rows that are
    longer than `max_length` are left out. The folder gets the losses as JSON lines too. Raises InputError if none is left.
    """
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(settings.seed)
    examples = [encoded(tokenizer, row["question"], row["pgmr"]) for row in rows]
    short = [example for example in examples if len(example) <= settings.max_length]
    if not short:
        raise InputError(f"all {len(examples)} rows are longer than {settings.max_length} tokens: give --max-length")
    config = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        lora_dropout=settings.dropout,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
    )
    adapted: Any = get_peft_model(model, config)
    adapted.train()
    weights = [weight for weight in adapted.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=settings.learning_rate, weight_decay=0.0)
    folder.mkdir(parents=True, exist_ok=True)
    log, begin = list[dict[str, Any]](), time.monotonic()
    with (folder / LOG).open("w", encoding="utf-8") as file:
        batches = list(_batches(short, settings))
        for epoch, batch in tqdm(batches, unit=" steps", disable=None):
            inputs = {name: part.to(model.device) for name, part in padded(batch, tokenizer.pad_token_id).items()}
            loss = adapted(**inputs).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            seconds = time.monotonic() - begin
            log.append(
                {"step": len(log) + 1, "epoch": epoch, "loss": round(loss.item(), 4), "seconds": round(seconds, 1)}
            )
            file.write(json.dumps(log[-1]) + "\n")
            if settings.minutes is not None and seconds > 60 * settings.minutes:
                break
    adapted.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    counts = {"rows": len(short), "too_long": len(examples) - len(short)}
    (folder / "settings.json").write_text(json.dumps(asdict(settings) | counts, indent=1) + "\n")
    return log


def _batches(examples: Sequence[Encoded], settings: Settings) -> Iterator[tuple[int, list[Encoded]]]:
    """Yield the batches of all epochs: of examples of similar length, in random order."""
    chance = random.Random(settings.seed)
    for epoch in range(1, settings.epochs + 1):
        ordered = sorted(chance.sample(examples, len(examples)), key=len)
        size = settings.batch_size
        batches = [ordered[at : at + size] for at in range(0, len(ordered), size)]
        yield from ((epoch, batch) for batch in chance.sample(batches, len(batches)))


def merge(adapter: Path, folder: Path) -> None:
    """Save a model with its adapter merged into the weights, as a folder that any engine loads."""
    from peft import AutoPeftModelForCausalLM
    from transformers import AutoTokenizer

    model: Any = AutoPeftModelForCausalLM.from_pretrained(adapter, dtype="auto")
    model.merge_and_unload().save_pretrained(folder)
    tokenizer: Any = AutoTokenizer.from_pretrained(adapter)
    tokenizer.save_pretrained(folder)
