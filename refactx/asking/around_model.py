"""What is done around a model's run and undone behind it: its passes counted, random numbers of its own."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from refactx.asking.options import Generation


@dataclass
class Counter:
    """So many `calls` so far."""

    calls: int = 0


@contextmanager
def forward_passes(model: Any) -> Iterator[Counter]:
    """Count the model's forward passes for as long as the block lasts."""
    counter = Counter()

    def count(*_: Any) -> None:
        counter.calls += 1

    hook = model.register_forward_pre_hook(count)
    try:
        yield counter
    finally:
        hook.remove()


@contextmanager
def chance_of(options: Generation, device: Any) -> Iterator[None]:
    """Random numbers of the block's own: by the seed, or new ones. The caller's generators are left as they were."""
    import torch

    if not options.samples:
        yield
        return
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        if options.seed is None:
            torch.seed()
        else:
            torch.manual_seed(options.seed)
        yield
