"""`python -m bench.pgmr QUESTIONS... --index INDEX`: gold queries that are the same again after PGMR text, by dialect."""

from pathlib import Path

import click

from bench.pgmr.round_trip import round_trip
from refactx.cli.options import DB, INDEX
from refactx.errors import RefactxError
from refactx.eval.questions import read_queries
from refactx.index.open import open_index


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@INDEX
@DB
def main(files: tuple[Path, ...], index: str, db: str | None) -> None:
    """Print how many gold queries are the same query again after PGMR text, by dialect."""
    queries = [one.sparql for path in files for one in read_queries(path)]
    with open_index(index, db) as opened:
        for style, outcomes in round_trip(queries, opened):
            click.echo(f"{style}: {outcomes['same']} of {len(queries)} are the same query again")
            for outcome, count in outcomes.most_common():
                if outcome != "same":
                    click.echo(f"  {count}: {outcome}")


if __name__ == "__main__":
    try:
        main()
    except RefactxError as error:
        raise SystemExit(f"bench.pgmr: {error}") from error
