"""`python -m bench.scale.copies FACTS --times N > LARGE`: facts several times over, each time about others.

Real facts end at some 20 million that a package has. In each copy, a word in its name makes an entity another one, after
the first word, as names are that share a first one, or (`--before`) before it: `<Homo sapiens>` becomes `<Homo Amber
sapiens>` or `<Amber Homo sapiens>`. A word before all of them is a token with more followers than any of a real graph.
Objects that have no facts of their own, such as ranks and numbers, stay, as in a graph that has grown.

With `--namesakes 0.3` the word is in the description, `<Paris (Amber capital of France)>`: things have the same name as the
real ones, and 0.3 of their facts.
"""

import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import BinaryIO
from zlib import crc32

import click

WORDS = (
    "Amber", "Birch", "Coral", "Delta", "Ember", "Fjord", "Grove", "Heron", "Ivory", "Jade", "Karst", "Lotus", "Maple",
    "Noble", "Onyx", "Pearl", "Quartz", "Raven", "Slate", "Tundra",
)  # fmt: skip

NAMES = (*WORDS, *(f"{one} {other}" for one, other in product(WORDS, WORDS) if one != other))


def copy_of(
    facts: BinaryIO, word: bytes, subjects: frozenset[bytes], before: bool, namesakes: float | None = None
) -> Iterator[bytes]:
    """Yield the lines of facts about other entities. `namesakes`: of those of the same name, which have a share of the facts.

    >>> from io import BytesIO
    >>> facts = b"<a b> <p> <c> .\\n<a b> <q> <1> .\\n"
    >>> list(copy_of(BytesIO(facts), b"Jade", frozenset([b"a b", b"c"]), before=False))
    [b'<a Jade b> <p> <c Jade> .\\n', b'<a Jade b> <q> <1> .\\n']
    >>> next(copy_of(BytesIO(facts), b"Jade", frozenset([b"a b", b"c"]), before=True))
    b'<Jade a b> <p> <Jade c> .\\n'
    >>> next(copy_of(BytesIO(b"<a b (c)> <p> <1> .\\n"), b"Jade", frozenset(), before=False, namesakes=1))
    b'<a b (Jade c)> <p> <1> .\\n'
    """

    def renamed(name: bytes) -> bytes:
        if namesakes is not None and name.endswith(b" (alias)"):  # which may be one of several things
            return name
        if namesakes is not None:
            label, bracket, description = name.partition(b" (")
            return label + b" (" + word + (b" " + description if bracket else b")")
        if before:
            return word + b" " + name
        first, space, rest = name.partition(b" ")
        return first + b" " + word + space + rest

    for line in facts:
        if namesakes is not None and crc32(word + line) >= namesakes * (1 << 32):
            continue
        subject, predicate, value = line.split(b"> <", 2)
        if value[:-4] in subjects:
            value = renamed(value[:-4]) + b"> .\n"
        yield b"<%s> <%s> <%s" % (renamed(subject[1:]), predicate, value)


@click.command()
@click.argument("facts", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--times", required=True, type=click.IntRange(1, len(NAMES)), help="The facts as they are, and N - 1 copies."
)
@click.option("--before", is_flag=True, help="The word comes before the whole name.")
@click.option("--namesakes", type=click.FloatRange(0, 1), help="Things of the same name, with a share of the facts.")
def main(facts: Path, times: int, before: bool, namesakes: float | None) -> None:
    """Write the facts of a file, one a line without leading spaces, and copies of them."""
    with facts.open("rb") as file:
        subjects = frozenset(line.split(b"> <", 1)[0][1:] for line in file)
    for word in ("", *NAMES[: times - 1]):
        with facts.open("rb") as file:
            copied = copy_of(file, word.encode(), subjects, before, namesakes) if word else file
            sys.stdout.buffer.writelines(copied)


if __name__ == "__main__":
    main()
