"""Paths with a known end, written so that pyoxigraph follows them from there.

Its planner begins with the triples of a property that a sequence begins with: `?x wdt:P31/wdt:P279* wd:Q11424` reads all
instances of anything, 6.8 s for 800,000 facts. Where two beginnings look alike to it, it takes the one that is written
first. So such a path is written from its known end, `wd:Q11424 ^wdt:P279*/^wdt:P31 ?x`, before the triples that it stands
among; that is the same join. Triples with a known subject or object look better, and stay the beginning.
"""

from collections.abc import Iterator, Sequence

from refactx.sparql.syntax.parser import ParsedQuery, ParseError, parse
from refactx.sparql.syntax.tokens import text_of, tokens_of
from refactx.sparql.syntax.tree import Block, Element, Filter, Group, Path, Term, TriplePattern, nodes, path_text

_CLOSURES = ("*", "+")


def from_known_ends(query: str) -> str:
    """Return a query that means the same, with paths from known ends. What is no SPARQL 1.1 stays as it is.

    >>> from_known_ends("SELECT ?x { ?x rdfs:label ?l ; wdt:P31/wdt:P279* wd:Q5 }")
    'SELECT ?x { wd:Q5 ^wdt:P279*/^wdt:P31 ?x . ?x rdfs:label ?l }'
    """
    tokens = tokens_of(query)
    signs = {token.text for token in tokens if token.kind == "other"}
    if "/" not in signs or signs.isdisjoint(_CLOSURES):
        return query
    try:
        parsed = parse(tokens)
    except ParseError:
        return query
    texts = dict[int, str]()
    for group in nodes(parsed.query):
        for run in _runs(group.elements) if isinstance(group, Group) else ():
            texts |= _rewritten(parsed, run)
    return text_of(tokens, (0, len(tokens)), texts)


def _runs(elements: Sequence[Element]) -> Iterator[list[Block]]:
    """Yield the triples of a group that are joined with each other: a FILTER between them is one of the group."""
    run = list[Block]()
    for element in elements:
        if isinstance(element, Block):
            run.append(element)
        elif not isinstance(element, Filter):
            yield run
            run = []
    yield run


def _rewritten(parsed: ParsedQuery, run: Sequence[Block]) -> dict[int, str]:
    """Return other texts for tokens of a run of triples, with its paths from known ends at the beginning."""
    first, texts = list[str](), dict[int, str]()
    for block in run:
        found = {id(triple): text for triple in block.own if (text := _from_end(parsed, triple))}
        if not found or len(block.own) < len(block.triples):  # brackets and lists have triples of their own
            continue
        first += found.values()
        begin, end = block.span
        kept = [
            f"{parsed.text(triple.subject.span)} {path_text(triple.path, parsed.text)} {parsed.text(triple.object.span)}"
            for triple in block.own
            if id(triple) not in found
        ]
        following = next((at for at in range(end, len(parsed.tokens)) if not parsed.tokens[at].is_space), end)
        end = following + 1 if not kept and parsed.tokens[following].text == "." else end
        texts |= dict.fromkeys(range(begin, end), "") | {begin: " . ".join(kept)}
    if first:
        begin = run[0].span[0]
        texts[begin] = f"{' . '.join(first)} . {texts.get(begin, parsed.tokens[begin].text)}"
    return texts


def _from_end(parsed: ParsedQuery, triple: TriplePattern) -> str:
    """Return a triple as one that begins with its known end, if one end is known, and its path a sequence with `*` or `+`;
    otherwise nothing."""
    known = [term.kind in ("iri", "literal") for term in (triple.subject, triple.object)]
    steps = list(_steps(triple.path, backwards=known[1]))
    if (
        known[0] == known[1]
        or len(steps) < 2
        or not any(isinstance(step, Path) and step.sign in _CLOSURES for step, _ in steps)
    ):
        return ""
    start, end = (triple.object, triple.subject) if known[1] else (triple.subject, triple.object)
    path = Path("/", tuple(Path("^", (step,)) if backwards else step for step, backwards in steps))
    return f"{parsed.text(start.span)} {path_text(path, parsed.text)} {parsed.text(end.span)}"


def _steps(path: Path | Term, *, backwards: bool) -> Iterator[tuple[Path | Term, bool]]:
    """Yield the steps of a path in the order in which it is followed, and whether each is followed backwards."""
    if isinstance(path, Path) and path.sign == "/":
        for part in reversed(path.parts) if backwards else path.parts:
            yield from _steps(part, backwards=backwards)
    elif isinstance(path, Path) and path.sign == "^":
        yield from _steps(path.parts[0], backwards=not backwards)
    else:
        yield path, backwards
