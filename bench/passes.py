"""`python -m bench.passes MODEL`: the time of a forward pass by its number of ids, on one thread.

The ids follow a text of 310 ids. The least of four passes counts, once with the logits after the last id, and once with
those after all ids, which a scored question needs.
"""

import time

import click
import numpy as np
import torch

from refactx.engines.hf.chunked import ChunkedModel
from refactx.engines.hf.prefix import prefill
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

    prefix = prefill(loaded, [ids(TEXT)])

    def seconds(width: int, last: int) -> float:
        inputs = {
            "past_key_values": prefix.cache_for_one(),
            "position_ids": torch.arange(TEXT)[None],
            "logits_to_keep": 1,
        }
        chunked, chunk = ChunkedModel(loaded, inputs, (1, TEXT)), ids(width)
        started = time.process_time()
        chunked.feed([chunk], last)
        return time.process_time() - started

    click.echo("   ids   last    all  ms")
    for width in WIDTHS:
        of_last, of_all = (min(seconds(width, last) for _ in range(4)) * 1000 for last in (1, width))
        click.echo(f"{width:>6} {of_last:>6.0f} {of_all:>6.0f}")


if __name__ == "__main__":
    main()
