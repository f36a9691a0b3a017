"""`python -m bench.twins QUESTIONS INDEX OUT`: for each yes/no question that is true, one like it that is false.

QUESTIONS has lines of JSON as `refactx eval` reads them. OUT has twins in the same format, and beside each its walk
(`walk`), the words that were replaced, and what the new object shares with the old one. False means false in the index.
"""

import json
import random
from pathlib import Path

import click

import refactx
from bench.twins.named_facts import NamedFacts
from bench.twins.twin import NoTwin, twin_of


@click.command()
@click.argument("questions", type=click.Path(exists=True, path_type=Path))
@click.argument("index")
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--db", metavar="URL", help="PostgreSQL; default: $REFACTX_DB or embedded.")
@click.option("--seed", default=0, show_default=True, help="Another seed gives other twins.")
def main(questions: Path, index: str, out: Path, db: str | None, seed: int) -> None:
    """Write twins of the questions of kind `ask` with a gold query. Say of the others why they have none."""
    records = [json.loads(line) for line in questions.read_text(encoding="utf-8").splitlines() if line.strip()]
    asked = [one for one in records if one.get("kind") == "ask" and one.get("sparql") and one.get("answers") == ["yes"]]
    twins = []
    with refactx.open_index(index, db) as opened:
        facts = NamedFacts(opened)
        for record in asked:
            try:
                twins.append(twin_of(record, facts, random.Random(f"{seed}:{record['id']}")))
            except NoTwin as reason:
                click.echo(f"{record['id']}: {reason}: {record['question']}")
    out.write_text("".join(json.dumps(twin, ensure_ascii=False) + "\n" for twin in twins), encoding="utf-8")
    click.echo(f"{len(twins)} twins of {len(asked)} questions that are true, in {out}")


if __name__ == "__main__":
    main()
