"""`python -m bench.firsts QUESTIONS NT OUT`: the first gold answer of questions whose gold query sorts its answers.

LC-QuAD's questions for the highest have queries with LIMIT 5, and data sets list their answers in any order. The gold
query is run on the claims in NT. OUT has the same lines of JSON, with `first` where the label of the first row is one of
the answers.
"""

import json
from pathlib import Path
from typing import Any

import click
from pyoxigraph import NamedNode, QuerySolutions, Store

from bench.gold_walks.__main__ import load
from bench.gold_walks.store_facts import LABEL
from refactx.eval.answers import same
from refactx.iris import OWN_PREFIXES as PREFIXES


@click.command()
@click.argument("questions", type=click.Path(exists=True, path_type=Path))
@click.argument("claims", type=click.Path(exists=True, path_type=Path))
@click.argument("out", type=click.Path(path_type=Path))
def main(questions: Path, claims: Path, out: Path) -> None:
    """Write the questions with their first answers."""
    store = load(claims)
    records = [json.loads(line) for line in questions.read_text(encoding="utf-8").splitlines() if line.strip()]
    sorted_ = [record for record in records if "order by" in record.get("sparql", "").lower()]
    for record in sorted_:
        first = first_answer(record, store)
        if first is None:
            click.echo(f"{record['id']}: the first row is none of the answers: {record['question']}")
        else:
            record["first"] = first
    out.write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in records), encoding="utf-8")
    click.echo(f"{sum('first' in one for one in records)} of {len(sorted_)} sorted questions with `first`, in {out}")


def first_answer(record: dict[str, Any], store: Store) -> str | None:
    """Return the gold answer that is the label of the first row's first entity; None if there is none."""
    rows = store.query(record["sparql"], prefixes=PREFIXES)
    row = next(iter(rows), None) if isinstance(rows, QuerySolutions) else None
    node = next((value for value in row or () if isinstance(value, NamedNode)), None)
    if node is None:
        return None
    labels = [quad.object.value for quad in store.quads_for_pattern(node, LABEL, None) if quad.object.language == "en"]
    found = (answer for answer in record["answers"] if any(same(answer, label) for label in labels))
    return next(found, None)


if __name__ == "__main__":
    main()
