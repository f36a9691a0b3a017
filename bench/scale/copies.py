"""`python -m bench.scale.copies FACTS --times N >> LARGE`: facts several times over, each time about others.

Real facts end at some 20 million that a package has. In each copy, a word before its name makes an entity another one:
`<Felidae> <taxon rank> <family>` is also said of `<Amber Felidae>`. Objects that have no facts of their own, such as ranks
and numbers, stay, as in a graph that has grown. The copies share no prefix of a subject.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import click

WORDS = (
    "Amber", "Birch", "Coral", "Delta", "Ember", "Fjord", "Grove", "Heron", "Ivory", "Jade", "Karst", "Lotus", "Maple",
    "Noble", "Onyx", "Pearl", "Quartz", "Raven", "Slate", "Tundra",
)  # fmt: skip


def copy_of(facts: BinaryIO, word: bytes, subjects: frozenset[bytes]) -> Iterator[bytes]:
    """Yield the lines of facts about other entities.

    >>> from io import BytesIO
    >>> list(copy_of(BytesIO(b"<a b> <p> <c> .\\n<a b> <q> <1> .\\n"), b"Jade", frozenset([b"a b", b"c"])))
    [b'<Jade a b> <p> <Jade c> .\\n', b'<Jade a b> <q> <1> .\\n']
    """
    for line in facts:
        subject, predicate, value = line.split(b"> <", 2)
        if value[:-4] in subjects:
            value = word + b" " + value
        yield b"<%s %s> <%s> <%s" % (word, subject[1:], predicate, value)


@click.command()
@click.argument("facts", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--times", required=True, type=click.IntRange(1, len(WORDS)), help="The facts as they are, and N - 1 copies."
)
def main(facts: Path, times: int) -> None:
    """Write the facts of a file, one a line without leading spaces, and copies of them."""
    with facts.open("rb") as file:
        subjects = frozenset(line.split(b"> <", 1)[0][1:] for line in file)
    for word in ("", *WORDS[: times - 1]):
        with facts.open("rb") as file:
            sys.stdout.buffer.writelines(copy_of(file, word.encode(), subjects) if word else file)


if __name__ == "__main__":
    main()
