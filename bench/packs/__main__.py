"""`python -m bench.packs [PACK]`: the F1 of a pack's patterns, and what its retrieval finds, each example left out in turn.

Examples have gold patterns with weights; those of at least 0.5 count. Cases (`cases.jsonl` of a pack) have theirs as a list.
"""

import json
from collections.abc import Callable, Iterator

import click

from bench.packs.figures import PatternScores, gold_of, pattern_scores, retrieval_scores
from bench.packs.remembering import RememberingEncoder
from refactx.ranking.encoders import Encoder, load_encoder
from refactx.sparql.packs.pack import Pack, PackExample, load_pack
from refactx.sparql.packs.retrieval import LearnedDetector, PatternDetector, RetrievalWeights, Retriever, without_quoted

RETRIEVERS = {
    "BM25": (RetrievalWeights(0, 1, 0), False),
    "patterns": (RetrievalWeights(0, 0, 1), False),
    "BM25 + patterns": (RetrievalWeights(), False),
    "embeddings": (RetrievalWeights(1, 0, 0), True),
    "embeddings + BM25 + patterns": (RetrievalWeights(), True),
}


@click.command()
@click.argument("pack", default="liita")
@click.option("--encoder", metavar="MODEL", help="Of sentence-transformers; default: none.")
@click.option("--each", is_flag=True, help="The F1 of each pattern as well.")
def main(pack: str, encoder: str | None, each: bool) -> None:
    """Print the figures of a pack."""
    loaded = load_pack(pack)
    remembering = None if encoder is None else RememberingEncoder(load_encoder(encoder))
    if remembering is not None:
        remembering.encode([without_quoted(text) for one in loaded.examples for text in one.questions])
    print_patterns(loaded, None, each)
    if remembering is not None:
        print_patterns(loaded, remembering, each)
    print_learned(loaded, remembering)
    print_retrieval(loaded, remembering)


def question_sets(pack: Pack) -> Iterator[tuple[str, list[tuple[str, frozenset[str]]]]]:
    """Yield sets of questions with their patterns: the pack's examples, by language, and its cases, by source."""
    for name, ask in questions_of(pack):
        yield f"{len(pack.examples)} examples, {name}", [(ask(one), gold_of(one)) for one in pack.examples]
    path = None if pack.folder is None else pack.folder / "cases.jsonl"
    sets = dict[str, list[tuple[str, frozenset[str]]]]()
    for line in [] if path is None or not path.is_file() else path.read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        for language, question in case["questions"].items():
            sets.setdefault(f"{case['source']}, {language}", []).append((question, frozenset(case["patterns"])))
    yield from ((f"{len(rows)} cases, {name}", rows) for name, rows in sets.items())


def questions_of(pack: Pack) -> Iterator[tuple[str, Callable[[PackExample], str]]]:
    """Yield ways to ask for an example: its question, and its first variant in each language that all have."""
    yield "as published", lambda one: one.question
    for language in pack.languages:
        if all(one.variants.get(language) for one in pack.examples):
            yield language, lambda one, language=language: one.variants[language][0]  # type: ignore[misc]


def print_patterns(pack: Pack, encoder: Encoder | None, each: bool) -> None:
    """Print the F1 of detection on each set of questions."""
    detector = PatternDetector(pack, encoder)
    click.echo(f"patterns by words{'' if encoder is None else f' and {encoder.name}'}: macro F1, micro F1")
    for name, rows in question_sets(pack):
        scores = pattern_scores((gold, detector.detect(question)) for question, gold in rows)
        click.echo(f"  {name:<32} {scores.macro:.3f}  {scores.micro:.3f}")
        if each:
            print_each(scores)


def print_learned(pack: Pack, encoder: Encoder | None) -> None:
    """Print the F1 of detection as it is learned from the examples: of each of these, from the others; and of cases."""
    detector = LearnedDetector(pack, encoder)
    click.echo(f"patterns as learned from examples, by words{'' if encoder is None else f' and {encoder.name}'}:")
    sets = {
        f"{len(pack.examples)} examples, each left out": list(
            zip(map(gold_of, pack.examples), detector.left_out(), strict=True)
        )
    }
    sets |= {
        name: [(gold, detector.detect(question)) for question, gold in rows]
        for name, rows in question_sets(pack)
        if "cases" in name
    }
    for name, pairs in sets.items():
        scores = pattern_scores(pairs)
        click.echo(f"  {name:<32} {scores.macro:.3f}  {scores.micro:.3f}")


def print_each(scores: PatternScores) -> None:
    """Print the F1 of each pattern."""
    for name, value in scores.each.items():
        click.echo(f"    {name:<28} {value:.3f}")


def print_retrieval(pack: Pack, encoder: Encoder | None) -> None:
    """Print what each retriever finds."""
    for name, ask in questions_of(pack):
        click.echo(f"retrieval, {name}: same patterns in the top 5, first, best overlap in the top 5")
        for retriever, (weights, encodes) in RETRIEVERS.items():
            if encodes and encoder is None:
                continue
            found = retrieval_scores(pack, Retriever(pack, encoder if encodes else None, weights), ask)
            click.echo(
                f"  {retriever:<32} {found.top:.3f}  {found.first:.3f}  {found.overlap:.3f}  ({found.questions})"
            )


if __name__ == "__main__":
    main()
