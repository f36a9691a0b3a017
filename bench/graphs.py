"""`python -m bench.graphs [TRIPLES]`: a graph of other IRIs than Wikidata's, ingested, over pyoxigraph's bare parse.

Each thing has a label, a class, six links to others, a number and a date, as N-Triples. `make bench` takes 300,000 triples;
20 million take some 3 GB of disk.
"""

import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import click
import pyoxigraph

from bench import data
from bench.ingest import run_ingest
from refactx.index.open import database

TRIPLES, EACH, CLASSES, LINKS = 300_000, 10, 50, 6
_BASE = "https://kb.example.org"
_XSD = "http://www.w3.org/2001/XMLSchema#"


def write(path: Path, triples: int) -> None:
    """Write a graph. The same number of triples gives the same file."""
    chance, things = random.Random(0), triples // EACH

    def lines(number: int) -> Iterator[str]:
        thing = f"<{_BASE}/resource/Thing_{number}>"
        yield f'{thing} <http://www.w3.org/2000/01/rdf-schema#label> "Thing number {number}"@en .\n'
        kind = f"<{_BASE}/ontology/Kind{number % CLASSES}>"
        yield f"{thing} <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> {kind} .\n"
        for link in range(LINKS):
            other = f"<{_BASE}/resource/Thing_{chance.randrange(things)}>"
            yield f"{thing} <{_BASE}/ontology/relatedTo{link}> {other} .\n"
        yield f'{thing} <{_BASE}/ontology/height> "{100 * chance.random():.2f}"^^<{_XSD}decimal> .\n'
        yield f'{thing} <{_BASE}/ontology/born> "19{chance.randrange(10, 99)}-01-02"^^<{_XSD}date> .\n'

    with path.open("w", encoding="utf-8") as file:
        for number in range(things):
            file.writelines(lines(number))


def figures(triples: int, tokenizer: Path, url: str, folder: Path) -> Iterator[tuple[str, float]]:
    """Yield figures of an ingest: triples/s, also of its reading alone, over those of a bare parse of the same file."""
    source = folder / "graph.nt"
    write(source, triples)
    bare = [_parse(source)]
    seconds, peak, report = run_ingest(source, tokenizer, "bench", url)
    bare.append(_parse(source))
    yield "triples/s", triples / seconds
    yield "triples/s over pyoxigraph's bare parse", min(bare) / seconds
    yield "triples/s of reading alone, over the bare parse", min(bare) / report["seconds_by_step"]["read"]
    yield "bytes per fact, tree", report["bytes_per_fact"]
    yield "bytes per fact, names", report["names_bytes"] / report["facts"]
    yield "peak memory, GB", peak / 1e9


def _parse(source: Path) -> float:
    """Return the seconds of a bare parse."""
    start = time.perf_counter()
    for _ in pyoxigraph.parse(path=str(source)):
        pass
    return time.perf_counter() - start


@click.command()
@click.argument("triples", type=click.IntRange(100), default=TRIPLES)
def main(triples: int) -> None:
    """Print the figures of a graph with so many triples."""
    with tempfile.TemporaryDirectory() as work, database() as opened:
        tokenizer = next(iter(data.tokenizers(Path(work)).values()))
        for figure, value in figures(triples, tokenizer, opened.url, Path(work)):
            click.echo(f"  {figure:<52} {value:>12,.3f}")


if __name__ == "__main__":
    main()
