"""`python -m bench.passes MODEL`: the time of a forward pass by its number of ids, on one thread.

The ids follow a text of 310 ids. The least of four passes counts, once with the logits after the last id, and once with
those after all ids, which a scored question needs.
"""

import time

import click
import numpy as np
import torch

from refactx.engines.engine import Feed
from refactx.engines.transformers.rows import engine_of
from refactx.models.loading import load_model

TEXT = 310
WIDTHS = (1, 2, 4, 9, 16, 64, 256)


@click.command()
@click.argument("model")
def main(model: str) -> None:
    """Print the milliseconds of a pass."""
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    loaded, tokenizer = load_model(model)
    chance = np.random.default_rng(0)

    def ids(count: int) -> list[int]:
        numbers: list[int] = chance.integers(0, len(tokenizer) // 2, count).tolist()
        return numbers

    engine = engine_of(loaded)
    text = engine.prefill(ids(TEXT))

    def seconds(width: int, last: int) -> float:
        sequence, chunk = engine.fork(text), Feed(ids(width), last)
        started = time.process_time()
        engine.feed([(sequence, chunk)])
        took = time.process_time() - started
        engine.drop(sequence)
        return took

    click.echo("   ids   last    all  ms")
    for width in WIDTHS:
        of_last, of_all = (min(seconds(width, last) for _ in range(4)) * 1000 for last in (1, width))
        click.echo(f"{width:>6} {of_last:>6.0f} {of_all:>6.0f}")


if __name__ == "__main__":
    main()
