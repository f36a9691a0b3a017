"""`python -m bench.packs.mutations [PACK]`: how many wrong queries validation catches (L1 and L2), and how many right ones
pass.

The wrong ones are the gold queries of the pack's cases, each changed in one place: another graph, a relation the other way
round, a prefix that is missing or wrong, a SERVICE that is missing or wrong, a variable that is bound nowhere. One that
returns the same rows as gold on the invented data is not wrong, and is left out.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from random import Random

import click

from bench.packs.inventing import gold_queries
from refactx.sparql.engines import EngineError, QueryRefusedError, Rows, SparqlEngine, SparqlSyntaxError
from refactx.sparql.packs.invented import invented_engine
from refactx.sparql.packs.pack import Pack, load_pack
from refactx.sparql.packs.validation import validate
from refactx.sparql.syntax.parser import parse
from refactx.sparql.syntax.tokens import Token, line_and_column, tokens_of
from refactx.sparql.syntax.tree import triples_of

SEED = 27
SECONDS = 20.0
Mutants = Iterator[tuple[str, str]]
"""What was done, and the query."""


def graph_mutants(sparql: str, pack: Pack) -> Mutants:
    """Yield a query with other graphs: another of the pack, one that is not there, one around all, one for a SERVICE."""
    tokens, graphs = tokens_of(sparql), list(pack.graphs.values())
    where = parse(tokens).query.where
    for at, token in words(tokens, "GRAPH"):
        name = following(tokens, at)
        for other in [*graphs, "http://example.org/graph"]:
            if tokens[name].kind == "iri" and tokens[name].text != f"<{other}>":
                yield f"graph {token.start} as {other}", replaced(tokens, {name: f"<{other}>"})
    for at, token in words(tokens, "SERVICE"):
        for graph in graphs[:1]:
            name = following(tokens, at)
            yield f"service as graph {token.start}", replaced(tokens, {at: "GRAPH", name: f"<{graph}>"})
    if (
        not any(True for _ in words(tokens, "GRAPH"))
        and not any(True for _ in words(tokens, "SERVICE"))
        and where is not None
    ):
        start, end = where.span
        for graph in graphs:
            last = next(at for at in reversed(range(start, end)) if tokens[at].text == "}")
            yield f"graph around all {graph}", replaced(tokens, {start: f"{{ GRAPH <{graph}> {{", last: "} }"})


def direction_mutants(sparql: str, pack: Pack) -> Mutants:
    """Yield a query with one triple the other way round."""
    tokens = tokens_of(sparql)
    for triple in triples_of(parse(tokens).query):
        start, end = triple.path.span
        text = "".join(token.text for token in tokens[start:end]).strip()
        if text not in ("a", "rdf:type") and not text.startswith("?"):
            gone = dict.fromkeys(range(start + 1, end), "")
            yield f"direction of {text}", replaced(tokens, {**gone, start: f" ^({text}) "})


def prefix_mutants(sparql: str, pack: Pack) -> Mutants:
    """Yield a query without a declaration that it needs, with another IRI in it, or with another prefix on a name."""
    tokens = tokens_of(sparql)
    declared = [
        (at, following(tokens, at), following(tokens, following(tokens, at))) for at, _ in words(tokens, "PREFIX")
    ]
    first = max((iri for _, _, iri in declared), default=-1) + 1
    names = [at for at in range(first, len(tokens)) if tokens[at].kind == "name"]
    used = {tokens[at].text.partition(":")[0] for at in names}
    for at, name, iri in declared:
        prefix = tokens[name].text.rstrip(":")
        if prefix in used:
            yield f"no prefix {prefix}", replaced(tokens, {at: "", name: "", iri: ""})
            wrong = tokens[iri].text[:-2] + ("/>" if tokens[iri].text.endswith("#>") else "#>")
            yield f"wrong prefix {prefix}", replaced(tokens, {iri: wrong})
    for at in names:
        prefix, _, local = tokens[at].text.partition(":")
        for other in sorted(used - {prefix})[:2]:
            yield f"{tokens[at].text} as {other}:", replaced(tokens, {at: f"{other}:{local}"})


def service_mutants(sparql: str, pack: Pack) -> Mutants:
    """Yield a query without a SERVICE around its patterns, or with another IRI for it."""
    tokens = tokens_of(sparql)
    for at, token in words(tokens, "SERVICE"):
        name = following(tokens, at)
        yield f"no service {token.start}", replaced(tokens, {at: "", name: ""})
        for other in ("https://example.org/sparql", tokens[name].text[1:-2]):
            yield f"service {other}", replaced(tokens, {name: f"<{other}>"})


def variable_mutants(sparql: str, pack: Pack) -> Mutants:
    """Yield a query with one variable renamed in one place: in SELECT, in a FILTER or the like, or in one triple."""
    tokens = tokens_of(sparql)
    count = Counter(token.text for token in tokens if token.kind == "variable")
    for at, token in enumerate(tokens):
        if token.kind == "variable" and count[token.text] > 1 and not is_alias(tokens, at):
            yield (
                f"{token.text} at {line_and_column(sparql, token.start)}",
                replaced(tokens, {at: f"{token.text}Other"}),
            )


KINDS: dict[str, Callable[[str, Pack], Mutants]] = {
    "graph": graph_mutants,
    "direction": direction_mutants,
    "prefix": prefix_mutants,
    "service": service_mutants,
    "variable": variable_mutants,
}


def words(tokens: list[Token], word: str) -> Iterator[tuple[int, Token]]:
    return ((at, token) for at, token in enumerate(tokens) if token.upper == word)


def following(tokens: list[Token], at: int) -> int:
    """Return the number of the next token that is no space."""
    return next(one for one in range(at + 1, len(tokens)) if not tokens[one].is_space)


def replaced(tokens: list[Token], texts: dict[int, str]) -> str:
    return "".join(texts.get(at, token.text) for at, token in enumerate(tokens))


def is_alias(tokens: list[Token], at: int) -> bool:
    """Return whether a variable follows AS."""
    before = next((one for one in reversed(range(at)) if not tokens[one].is_space), at)
    return tokens[before].upper == "AS"


def outcome(sparql: str, gold: Rows | bool, engine: SparqlEngine) -> str:
    """Return what a mutant returns: `same` rows as gold, `none`, `other` ones, or an `error`."""
    try:
        found = engine.run(sparql, seconds=SECONDS)
    except (EngineError, QueryRefusedError, SparqlSyntaxError):
        return "error"
    if isinstance(found, bool) or isinstance(gold, bool):
        return "same" if found == gold else "other"
    key = [Counter(map(str, rows.rows)) for rows in (found, gold)]
    return "same" if key[0] == key[1] else "other" if found.rows else "none"


@click.command()
@click.argument("pack", default="liita")
@click.option("--number", default=100, show_default=True, help="How many wrong queries.")
@click.option("--seed", default=SEED, show_default=True)
@click.option("--missed", is_flag=True, help="Print those that are not caught.")
def main(pack: str, number: int, seed: int, missed: bool) -> None:
    """Print the share of wrong queries that are caught, and of right ones that pass."""
    loaded = load_pack(pack)
    queries, engine = gold_queries(loaded), invented_engine(loaded)
    for source in ("example", "case"):
        gold = [sparql for key, sparql in queries.items() if key.startswith(source)]
        click.echo(f"right queries, {source}s: {sum(validate(one, loaded).ok for one in gold)} of {len(gold)} pass")
    cases = {key: sparql for key, sparql in queries.items() if key.startswith("case")}
    caught, same, outcomes = defaultdict[str, list[bool]](list), Counter[str](), Counter[str]()
    for kind, mutants in KINDS.items():
        found = [(key, did, one) for key, sparql in cases.items() for did, one in mutants(sparql, loaded)]
        Random(seed).shuffle(found)
        for key, did, mutant in spread(found):
            if len(caught[kind]) == number // len(KINDS):
                break
            result = outcome(mutant, engine.run(cases[key]), engine)
            same[kind] += result == "same"
            if result == "same":
                continue
            outcomes[result] += 1
            caught[kind].append(not validate(mutant, loaded).ok)
            if missed and not caught[kind][-1]:
                click.echo(f"missed: {kind}, {key}, {did}, rows: {result}")
    for kind, those in caught.items():
        click.echo(
            f"wrong queries, {kind}: {sum(those)} of {len(those)} caught ({same[kind]} left out, with gold's rows)"
        )
    total = [one for those in caught.values() for one in those]
    click.echo(f"wrong queries: {sum(total)} of {len(total)} caught, {sum(total) / max(1, len(total)):.3f}")
    click.echo(f"their rows on the invented data: {', '.join(f'{name} {n}' for name, n in sorted(outcomes.items()))}")


def spread(found: list[tuple[str, str, str]]) -> Iterator[tuple[str, str, str]]:
    """Yield mutants with those of one query far from each other: first one of each, then another of each."""
    seen: Counter[str] = Counter()
    rounds = list[tuple[int, int]]()
    for at, (key, _, _) in enumerate(found):
        rounds.append((seen[key], at))
        seen[key] += 1
    yield from (found[at] for _, at in sorted(rounds))


if __name__ == "__main__":
    main()
