"""`python -m bench.queries.as_claims FACTS CLAIMS`: ready-made facts as claims of N-Triples, with ids that are made up.

Facts of names alone get no inverse facts and no hubs. As claims they do, so a large graph without ids can stand for
Wikidata. Each name of a subject or an object is an item, each predicate a property, numbered as they appear.
"""

from collections.abc import Iterator
from pathlib import Path

import click

from refactx.ingest.parsers.formats import split_line
from refactx.ingest.sources import Source

_ENTITY = "http://www.wikidata.org/entity/"
_DIRECT = "http://www.wikidata.org/prop/direct/"
_LABEL = "http://www.w3.org/2000/01/rdf-schema#label"


@click.command()
@click.argument("facts", type=click.Path(exists=True, path_type=Path))
@click.argument("claims", type=click.Path(path_type=Path))
def main(facts: Path, claims: Path) -> None:
    """Write the facts of one file as claims to another."""
    with claims.open("w", encoding="utf-8") as file:
        file.writelines(claims_of(facts))


def claims_of(facts: Path) -> Iterator[str]:
    """Yield a line for each fact, and one for the label of each name before the first line that has its id."""
    ids: dict[tuple[str, str], str] = {}
    counts = {"P": 0, "Q": 0}
    for block in Source(facts).blocks():
        for line in block.decode().splitlines():
            parts = split_line(line)
            if parts is None:
                raise click.ClickException(f"{facts} has a line that is no fact: {line!r}")
            found = list[str]()
            for letter, name in zip("QPQ", parts, strict=True):
                key = (letter, name)
                if key not in ids:
                    counts[letter] += 1
                    ids[key] = f"{letter}{counts[letter]}"
                    label = name.replace("\\", "\\\\").replace('"', '\\"')
                    yield f'<{_ENTITY}{ids[key]}> <{_LABEL}> "{label}"@en .\n'
                found.append(ids[key])
            subject, predicate, object_ = found
            yield f"<{_ENTITY}{subject}> <{_DIRECT}{predicate}> <{_ENTITY}{object_}> .\n"


if __name__ == "__main__":
    main()
