"""Scores of written SPARQL against gold queries: the same query, the same ids, BLEU, and all of them over a set."""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Literal

from refactx.iris import PREFIXES
from refactx.lazy import require
from refactx.sparql.labels import ids_of, unknown_ids
from refactx.sparql.packs.prompt import without_prefixes
from refactx.sparql.syntax.parser import read_sparql
from refactx.sparql.syntax.tree import shape_of
from refactx.walks.language import QueryError

Mode = Literal["paper", "strict"]
"""`strict`: the patterns are isomorphic graphs; `paper`: the terms of a triple may be in any order too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryScores:
    """Scores of `questions` queries: shares from 0 to 1, and BLEU from 0 to 100.

    `written`: a query was written, and not refused; `parses`: it is SPARQL; `sqm_strict`, `sqm_paper`: it is the gold
    query (`same_query`); `qid_em`, `pid_em`: it has gold's entities, and gold's properties; `hallucinated`: it has an id
    that the knowledge base does not have; None if that is not known.
    """

    questions: int
    written: float
    parses: float
    sqm_strict: float
    sqm_paper: float
    qid_em: float
    pid_em: float
    bleu: float
    bleu_signature: str
    hallucinated: float | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def score_queries(
    predictions: Sequence[str | None],
    golds: Sequence[str],
    known: Callable[[Collection[str]], Collection[str]] | None = None,
) -> QueryScores:
    """Return the scores of queries against gold queries. None: no query was written. `known`: as for `unknown_ids`.

    >>> scores = score_queries(["ASK { ?y wdt:P2 wd:Q1 }", None], ["ASK { ?x wdt:P2 wd:Q1 }", "ASK {}"])
    >>> scores.sqm_strict, scores.qid_em, scores.parses
    (0.5, 0.5, 0.5)

    Raises QueryError if a gold query is not SPARQL, and as `bleu` does.
    """
    texts = [text or "" for text in predictions]
    measured = bleu(texts, golds)
    for gold in golds:
        same_query(gold, gold)
    pairs = list(zip(predictions, golds, strict=True))
    written = [text for text in predictions if text is not None]
    unknown = None if known is None else unknown_ids(written, known)

    def share(hits: Collection[object]) -> float:
        return sum(map(bool, hits)) / len(golds)

    def matches(mode: Mode) -> float:
        return share([text is not None and is_same(text, gold, mode) for text, gold in pairs])

    return QueryScores(
        questions=len(golds),
        written=share(written),
        parses=share([text is not None and is_same(text, text) for text in predictions]),
        sqm_strict=matches("strict"),
        sqm_paper=matches("paper"),
        qid_em=share([text is not None and ids_of(text).entities == ids_of(gold).entities for text, gold in pairs]),
        pid_em=share([text is not None and ids_of(text).properties == ids_of(gold).properties for text, gold in pairs]),
        bleu=measured.score,
        bleu_signature=measured.signature,
        hallucinated=None if unknown is None else share(unknown),
    )


def is_same(text: str, gold: str, mode: Mode = "strict") -> bool:
    """Return whether a query is the gold query (`same_query`); a text that is not SPARQL is not."""
    try:
        return same_query(text, gold, mode)
    except QueryError:
        return False


# --- BLEU


@dataclass(frozen=True, slots=True)
class Bleu:
    """BLEU of a corpus, from 0 to 100, and sacrebleu's signature."""

    score: float
    signature: str


def bleu(predictions: Sequence[str], golds: Sequence[str]) -> Bleu:
    """Return the BLEU of queries, each against one gold query, with sacrebleu's defaults: on one line, without declarations of
    Wikidata's prefixes, which some gold queries have and none needs.

    >>> bleu(["ASK { wd:Q1 wdt:P2 ?x }"], ["ASK { wd:Q1 wdt:P2 ?x }"]).score
    100.0

    Raises ValueError if there are none, or if the lengths differ; InputError if sacrebleu is not installed.
    """
    require("sacrebleu", "eval")
    from sacrebleu.metrics.bleu import BLEU

    if not golds or len(predictions) != len(golds):
        raise ValueError(
            f"{len(predictions)} queries for {len(golds)} gold queries: expected as many, and at least one"
        )
    metric = BLEU()
    score = metric.corpus_score(list(map(_undeclared, predictions)), [list(map(_undeclared, golds))])
    return Bleu(round(score.score, 2), str(metric.get_signature()))


def _undeclared(text: str) -> str:
    try:
        return " ".join(without_prefixes(text, PREFIXES).split())
    except QueryError:  # a text that is not SPARQL
        return " ".join(text.split())


# --- Semantic query match


def same_query(one: str, other: str, mode: Mode = "strict") -> bool:
    """Return whether two queries are the same: one up to names of variables and the order of triples.

    Prefixes, keywords' case, white space, and `;` and `,` make no difference, since syntax trees are compared. Triples are
    a set within a basic graph pattern, which ends where SPARQL ends it: at OPTIONAL, UNION or VALUES, but not at FILTER. All
    else has its order: variables after SELECT, conditions of ORDER BY, the patterns of a group. Raises QueryError if one is
    not SPARQL.

    >>> same_query("SELECT ?x { ?x wdt:P31 wd:Q5 ; wdt:P40 ?y }", "select ?a where { ?a wdt:P40 ?b . ?a wdt:P31 wd:Q5 }")
    True
    >>> same_query("ASK { wd:Q1 wdt:P2 wd:Q3 }", "ASK { wd:Q3 wdt:P2 wd:Q1 }", "paper")
    True
    """
    left, right = (_patterns(_shape_of(text), mode) for text in (one, other))
    return _without_names(left) == _without_names(right) and _solve(((left, right), None), {}, {})


@lru_cache(maxsize=4096)
def _shape_of(text: str) -> Any:
    """Return the shape of a query; a gold query is compared many times."""
    return shape_of(read_sparql(text).query)


@dataclass(frozen=True, slots=True)
class _FreeName:
    """A variable or a blank node, whose name is free."""

    kind: str
    name: Any


@dataclass(frozen=True, slots=True)
class _Set:
    """Parts in any order, each with what it is but for names. Those that are like few others come first."""

    parts: tuple[tuple[str, Any], ...]


def _set_of(parts: Iterable[Any]) -> _Set:
    """Return a set of parts, each once."""
    found = [(_without_names(part), part) for part in dict.fromkeys(parts)]
    counts = Counter(text for text, _ in found)
    return _Set(tuple(sorted(found, key=lambda item: (counts[item[0]], item[0]))))


def _without_names(node: Any) -> str:
    """Return a text that parts have in common if they differ in names alone."""
    if isinstance(node, _FreeName):
        return f"?{node.kind}"
    if isinstance(node, _Set):
        return "{" + " ".join(sorted(text for text, _ in node.parts)) + "}"
    return "(" + " ".join(map(_without_names, node)) + ")" if isinstance(node, tuple) else repr(node)


def _patterns(node: Any, mode: Mode) -> Any:
    """Return a shape with its names, and with its triples and filters as sets."""
    match node:
        case ("variable" | "blank" as kind, name, *_):
            return _FreeName(kind, name)
        case ("iri" | "literal", *_):
            return node
        case ("Group", elements):
            return ("Group", *_group(elements, mode))
        case (("TriplePattern", *_), *_):  # the template of CONSTRUCT
            return _set_of(_triples(node, mode))
        case tuple():
            return tuple(_patterns(part, mode) for part in node)
    return node


def _group(elements: Iterable[Any], mode: Mode) -> Iterator[Any]:
    """Yield the filters of a group as a set, and its other parts in their order, with basic graph patterns as sets."""
    filters, found, triples = list[Any](), list[Any](), list[Any]()
    for element in elements:
        if element[0] == "Block":
            triples += _triples(element[1], mode)
        elif element[0] == "Filter":
            filters.append(_patterns(element, mode))
        else:
            found += [_set_of(triples), _patterns(element, mode)]
            triples = []
    yield _set_of(filters)
    yield from [*found, _set_of(triples)]


def _triples(triples: Iterable[Any], mode: Mode) -> Iterator[Any]:
    for triple in triples:
        terms = tuple(_patterns(term, mode) for term in triple[1:])
        if mode == "strict":
            yield terms
        else:  # equal terms stay, and triples of the same terms are equal
            alike = sorted(((_without_names(term), term) for term in terms), key=lambda item: (item[0], repr(item[1])))
            yield _Set(tuple(alike))


def _solve(pairs: Any, there: dict[_FreeName, _FreeName], back: dict[_FreeName, _FreeName]) -> bool:
    """Return whether all pairs are the same under one renaming. `pairs`: a linked list; `there`, `back`: the names so far."""
    while pairs is not None:
        (one, other), pairs = pairs
        if isinstance(one, _FreeName) and isinstance(other, _FreeName):
            if there.setdefault(one, other) != other or back.setdefault(other, one) != one or one.kind != other.kind:
                return False
        elif isinstance(one, _Set) and isinstance(other, _Set):
            if len(one.parts) != len(other.parts):
                return False
            if not one.parts:
                continue
            (text, part), *rest = one.parts
            choices = [
                ((part, candidate), ((_Set(tuple(rest)), _Set((*other.parts[:at], *other.parts[at + 1 :]))), pairs))
                for at, (candidate_text, candidate) in enumerate(other.parts)
                if candidate_text == text
            ]
            if len(choices) != 1:
                return any(_solve(choice, dict(there), dict(back)) for choice in choices)
            pairs = choices[0]
        elif isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
            for pair in zip(one, other, strict=True):
                pairs = (pair, pairs)
        elif one != other:
            return False
    return True


def split_unknown(iris: Sequence[Collection[str]], share: float, seed: int) -> list[bool]:
    """Return which questions, given the IRIs of each, are for a test with IRIs that no other question has.

    As in arXiv:2502.13369, IRIs are drawn by chance, and all questions with one of them are test questions, until these
    are `share` of all. An IRI of more questions than are wanted is not taken.

    >>> split_unknown([{"Q1", "P1"}, {"Q2", "P1"}, {"Q3", "P1"}], 0.34, 0).count(True)
    1
    """
    having, wanted, chosen = defaultdict[str, set[int]](set), round(share * len(iris)), set[int]()
    for at, some in enumerate(iris):
        for iri in some:
            having[iri].add(at)
    for iri in random.Random(seed).sample(sorted(having), len(having)):  # noqa: S311 - it hides nothing
        if len(chosen | having[iri]) <= wanted:
            chosen |= having[iri]
    return [at in chosen for at in range(len(iris))]
