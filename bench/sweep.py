"""`python -m bench.sweep`: the effect of the size of pieces, the codec and the token codes on size and speed.

The data are the largest N-Triples of `REFACTX_BENCH_DATA`, or the sample, with the demo model's tokenizer. Sizes are of
keys and rows, without what PostgreSQL adds.
"""

import tempfile
import time
from pathlib import Path

import click
import numpy as np

from bench import data
from refactx.ingest.encoding import SortedFacts, encode_facts
from refactx.ingest.segment.builder import SegmentBuilder
from refactx.ingest.segment.cutting import DEFAULT_SHAPE, Packing, Shape, learn
from refactx.models.loading import load_tokenizer
from refactx.tree.codes import RowCodec, TokenCodes
from refactx.tree.piece import from_members


def main() -> None:
    """Print a line for each variant."""
    source = [path for path in data.sources() if ".nt" in path.name][-1]
    tokenizer, _ = load_tokenizer("demo")
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        knowledge = data.knowledge_of(source, work / "steps")
        facts = encode_facts(knowledge.folder, tokenizer, "Fact:", work)
        click.echo(f"{source.name}: {len(facts):,} facts")
        click.echo(f"{'variant':<44} {'rows':>8} {'bytes/fact':>10} {'µs/fact':>8} {'µs to read a piece of facts':>28}")
        codes, dictionary = learn(facts, 9)
        for shape in (128, 256, 512, 1024):
            report(f"{shape} facts a piece", facts, work, codes, dictionary, shape=Shape(facts=shape))
        for inner in (1024, 4096):
            report(f"{inner} entries a piece above", facts, work, codes, dictionary, shape=Shape(inner=inner))
        for level in (3, 15, 19):
            report(f"zstd level {level}", facts, work, codes, dictionary, level=level)
        report("no dictionary", facts, work, codes, b"")
        report("ids not by frequency", facts, work, TokenCodes(np.empty(0, np.int32)), b"")


def report(
    variant: str,
    facts: SortedFacts,
    work: Path,
    codes: TokenCodes,
    dictionary: bytes,
    *,
    shape: Shape = DEFAULT_SHAPE,
    level: int = 9,
) -> None:
    """Build the rows in memory, read those of level 0 back, and print the line of a variant."""
    codec = RowCodec(dictionary, level)
    start = time.perf_counter()
    rows = list(SegmentBuilder(facts, Packing(codes, codec), work=work, shape=shape).rows())
    built = time.perf_counter() - start
    leaves = [(key, row) for key, row in rows if key[0] == 0][:2000]
    start = time.perf_counter()
    for key, row in leaves:
        from_members(codec.unpack(key, row, "row"), 0)
    read = (time.perf_counter() - start) / len(leaves)
    size = sum(len(key) + len(row) for key, row in rows) + len(dictionary) + 4 * len(codes.frequent)
    click.echo(
        f"{variant:<44} {len(rows):>8,} {size / len(facts):>10.2f} {built / len(facts) * 1e6:>8.2f} {read * 1e6:>28.1f}"
    )


if __name__ == "__main__":
    main()
