"""`python -m bench.stores QUESTIONS CLAIMS INDEX`: the store of an index, beside its claims in pyoxigraph alone.

QUESTIONS has lines of JSON with `id`, `kind` and `sparql`; CLAIMS are the N-Triples that INDEX was ingested from. The
store of INDEX is built anew, unless --keep is given, and the claims are loaded into a database of their own, on disk.
"""

import gzip
import json
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import IO, cast

import click
from pyoxigraph import RdfFormat, Store

from bench.stores.comparison import OUTCOMES, Outcome, compare
from refactx.index import Index
from refactx.index.open import open_index
from refactx.sparql.store import build_store, open_store


@click.command()
@click.argument("questions", type=click.Path(exists=True, path_type=Path))
@click.argument("claims", type=click.Path(exists=True, path_type=Path))
@click.argument("index")
@click.option("--keep", is_flag=True, help="Take the store as it is, without building it anew.")
def main(questions: Path, claims: Path, index: str, keep: bool) -> None:
    """Print sizes and times, and by kind how many gold queries have the same answer, with each that differs."""
    asked = [json.loads(line) for line in questions.read_text(encoding="utf-8").splitlines()]
    with tempfile.TemporaryDirectory() as folder, open_index(index) as opened:
        alone = load(claims, Path(folder))
        if not keep:
            print_build(opened)
        with open_store(opened) as store:
            print_answers(asked, alone, store.oxigraph)


def load(claims: Path, folder: Path) -> Store:
    """Load a file of N-Triples, which may be compressed by gzip, into a database in a folder, and print its size."""
    begun, spent = time.perf_counter(), time.process_time()
    store = Store(str(folder / "claims"))
    with gzip.open(claims) if claims.suffix == ".gz" else claims.open("rb") as file:
        store.bulk_load(cast(IO[bytes], file), RdfFormat.N_TRIPLES)
    store.flush()
    size = sum(path.stat().st_size for path in (folder / "claims").iterdir())
    click.echo(
        f"the claims alone: {len(store):,} triples, {size:,} bytes ({size / len(store):.1f} a triple), "
        f"in {time.perf_counter() - begun:.1f} s, {time.process_time() - spent:.1f} s of a core"
    )
    return store


def print_build(index: Index) -> None:
    """Build the store of an index anew, and print what that takes."""
    begun = time.process_time()
    done = build_store(index)
    spent = time.process_time() - begun
    click.echo(
        f"store of {index.name}: {done.facts:,} facts, {done.triples:,} triples ({done.triples / done.facts:.2f} a fact), "
        f"{done.size:,} bytes ({done.size / done.facts:.1f} a fact, {done.size / done.triples:.1f} a triple), "
        f"in {done.seconds:.1f} s, {spent:.1f} s of a core ({1e6 * spent / done.facts:.0f} µs a fact)\n"
    )


def print_answers(asked: list[dict[str, str]], claims: Store, store: Store) -> None:
    """Print how many queries of each kind have which outcome, and those that have not the same rows."""
    found = defaultdict[str, Counter[Outcome]](Counter)
    for question in asked:
        outcome = compare(question["sparql"], claims, store)
        found[question["kind"]][outcome] += 1
        if outcome != "same":
            click.echo(f"{question['id']}: {OUTCOMES[outcome]}\n  {question['sparql'].rpartition('> ')[2]}")
    click.echo(f"\n{'':12}{'n':>6}" + "".join(f"{one:>8}" for one in OUTCOMES))
    for kind, counts in [*sorted(found.items()), ("all", sum(found.values(), Counter[Outcome]()))]:
        click.echo(f"{kind:12}{counts.total():>6}" + "".join(f"{counts[one]:>8}" for one in OUTCOMES))


if __name__ == "__main__":
    main()
