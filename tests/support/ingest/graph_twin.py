"""A brute-force twin of the first half of an ingest: small graphs as tuples, and the facts that they stand for.

A line is `(kind, ...)`:

| kind | the rest |
|---|---|
| `label`, `description`, `alias` | entity, text, language |
| `title` | entity, title of the page, language of the Wikipedia |
| `claim` | subject, property, object: an entity |
| `literal` | subject, property, text, language or None, or `^^` and a datatype of XSD |
| `redirect` | entity, target |
| `external id` | property |
| `ready` | subject, predicate, object of a ready-made fact, and pairs of qualifiers and values |
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from refactx.english import inverse_of
from refactx.fact import ALIAS_OF, DESCRIPTIONS, written_part
from refactx.ingest.knowledge.knowledge_base import KnowledgeBase
from refactx.ingest.source_options import Selection
from support.ingest.knowledge_runs import build_knowledge_base
from support.ingest.quiet import QUIET

Line = tuple[str | None, ...]
Fact = tuple[str, str, str]
ENTITY = "http://www.wikidata.org/entity/"
DIRECT = "http://www.wikidata.org/prop/direct/"


def written(line: Line) -> str:
    """Return a line as text."""
    kind, *rest = line
    if kind == "ready":
        return "".join(f"<{part}> " for part in rest) + "."
    if kind == "title":
        title = str(rest[1]).replace(" ", "_")  # as in addresses
        return f"<https://{rest[2]}.wikipedia.org/wiki/{title}> <http://schema.org/about> <{ENTITY}{rest[0]}> ."
    if kind == "external id":
        return f"<{ENTITY}{rest[0]}> <http://wikiba.se/ontology#propertyType> <http://wikiba.se/ontology#ExternalId> ."
    predicate = {
        "label": "http://www.w3.org/2000/01/rdf-schema#label",
        "description": "http://schema.org/description",
        "alias": "http://www.w3.org/2004/02/skos/core#altLabel",
        "redirect": "http://www.w3.org/2002/07/owl#sameAs",
    }.get(str(kind), f"{DIRECT}{rest[1]}")
    if kind in ("claim", "redirect"):
        object_ = f"<{ENTITY}{rest[-1]}>"
    else:
        object_ = f'"{rest[-2]}"' + _suffix(rest[-1])
    return f"<{ENTITY}{rest[0]}> <{predicate}> {object_} ."


def _suffix(language: str | None) -> str:
    """Return what follows a literal."""
    if language is None:
        return ""
    if language.startswith("^^"):
        return f"^^<http://www.w3.org/2001/XMLSchema#{language[2:]}>"
    return f"@{language}"


def build(folder: Path, lines: Sequence[Line], selection: Selection) -> KnowledgeBase:
    """Write the lines to a file of N-Triples and one of ready-made facts, and build a knowledge base of them."""
    sources = []
    for name, is_ready in (("graph.nt", False), ("facts.txt", True)):
        content = [written(line) for line in lines if (line[0] == "ready") is is_ready]
        if content:
            (folder / name).write_text("\n".join(content) + "\n")
            sources.append(folder / name)
    return build_knowledge_base(sources, folder / "kb", selection=selection, resources=QUIET)


def facts_of(built: KnowledgeBase) -> list[Fact]:
    """Return the facts of a knowledge base as texts."""
    texts = pq.read_table(built.folder / "units.parquet")["text"].to_pylist()
    triples = zip(*pq.read_table(built.folder / "facts.parquet").to_pydict().values(), strict=True)
    return [(texts[s], texts[p], texts[o]) for s, p, o in triples]


def hubs_of(built: KnowledgeBase) -> dict[Fact, int]:
    """Return the hubs of a knowledge base, by object, predicate and inverse predicate."""
    rows = pq.read_table(built.folder / "hubs.parquet").to_pylist()
    hubs = {(row["object"], row["predicate"], row["inverse"]): row["subjects"] for row in rows}
    assert len(hubs) == len(rows) == built.report.hubs
    return hubs


def names_of(built: KnowledgeBase) -> dict[str, tuple[str, str | None]]:
    """Return each name of a knowledge base with its id and kind of objects."""
    rows = pq.read_table(built.folder / "names.parquet").to_pylist()
    names = {row["name"]: (row["id"], row["object_kind"]) for row in rows}
    assert len(names) == len(rows), "one name, one entity"
    return names


@dataclass(frozen=True)
class Expected:
    """What a knowledge base should have. `kinds`: of the objects of each predicate. `hubs`: the number of subjects by
    object, predicate and inverse predicate. `pairs`: how many distinct claims could have an inverse fact. `used`: the
    entities and inverses that occur as such in facts; a ready-made fact may have the same text without being one."""

    facts: set[Fact]
    names: dict[str, str]
    kinds: dict[str, str]
    hubs: dict[Fact, int]
    pairs: int
    used: set[str]


def ready_inverses(ready: set[Fact], *, english: bool) -> dict[str, str]:
    """The names of inverses of predicates of ready-made facts, at least half of whose objects are subjects."""
    objects = {(p, o) for _, p, o in ready}
    count, subjects = Counter(p for p, _ in objects), {s for s, _, _ in ready}
    entities = Counter(p for p, o in objects if o in subjects)
    predicates = [p for p in count if 2 * entities[p] >= count[p] and p not in (*DESCRIPTIONS, ALIAS_OF)]
    return {predicate: written_part(inverse_of(predicate, english=english)) for predicate in predicates}


def expected(lines: Sequence[Line], selection: Selection) -> Expected:
    """Return the facts of a graph, and the names of its entities; `-P57` is the inverse of P57."""
    of_kind: defaultdict[str | None, list[list[str]]] = defaultdict(list)
    for kind, *rest in lines:
        of_kind[kind].append(rest)  # type: ignore[arg-type]
    label, description = (_best(of_kind[kind], selection.languages) for kind in ("label", "description"))
    wiki = next(code for code in (*selection.languages, "en") if code != "mul")[:2]
    title = _best([row for row in of_kind["title"] if row[2] == wiki], [wiki])
    names = {e: label[e] if e[0] == "P" or e not in description else f"{label[e]} ({description[e]})" for e in label}
    names |= {e: title[e] for e in title if e[0] == "Q"}
    inverse = _inverses(of_kind["claim"], names, label, selection, wiki) if selection.inverse else {}
    predicate_of = {p: own if own in names else f"-{p}" for p, own in inverse.items()}
    names |= {f"-{p}": own for p, own in inverse.items() if own not in names}
    names = _unique(names)

    external = {row[0] for row in of_kind["external id"]} if not selection.keep_external_ids else set()
    redirects = {row[0]: row[1] for row in sorted(of_kind["redirect"], reverse=True)}
    claims = _claims(of_kind, redirects, names, external, selection)
    described = {e: text for e, text in description.items() if e in names} if selection.descriptions else {}
    ready = {(row[0], row[1], row[2]) for row in of_kind["ready"]}
    if selection.limit is not None:
        subjects = sorted({claim[0] for claim in claims} | set(described), key=lambda e: (e[0] == "P", int(e[1:])))
        within = set(subjects[: selection.limit])
        ready_within = sorted({fact[0] for fact in ready})[: selection.limit - len(within)]
        claims = {claim for claim in claims if claim[0] in within}
        described = {e: text for e, text in described.items() if e in within}
        ready = {fact for fact in ready if fact[0] in ready_within}

    facts = {(names[s], names[p], names[o] if kind == "entity" else o) for s, p, o, kind in claims} | ready
    facts |= {(names[e], "description", text) for e, text in described.items()}
    pairs = [(o, p, s) for s, p, o, kind in claims if kind == "entity"] if selection.inverse else []
    of_claims = Counter((o, p) for o, p, _ in pairs)
    inverted = {(o, predicate_of[p], s) for o, p, s in pairs if of_claims[o, p] <= selection.inverse_limit}
    facts |= {(names[o], names[p], names[s]) for o, p, s in inverted}
    kinds = _kinds([(p, kind) for _, p, _, kind in claims], {predicate for _, predicate, _ in inverted})
    given = ready_inverses(ready, english=selection.wikipedia in ("en", "mul")) | dict(selection.inverse_names)
    ready_pairs = [(o, p, s) for s, p, o in ready if p in given and selection.inverse]
    subjects_of = Counter((o, p) for o, p, _ in ready_pairs)
    facts |= {(o, given[p], s) for o, p, s in ready_pairs if subjects_of[o, p] <= selection.inverse_limit}
    subjects = {claim[0] for claim in claims} | set(described) | {o for o, _, _ in inverted}
    aliases = [(e, text) for e, text, tag in of_kind["alias"] if _rank(tag, selection.languages) is not None]
    aliases += [(e, label[e]) for e in title if e in label]
    labels = [(e, text, tag) for e, text, tag in of_kind["label"] if _rank(tag, selection.languages) is not None]
    aliases += [(e, text) for e, text, _ in labels if text != label[e]]
    facts |= {
        (f"{text} (alias)", "alias of", names[e])
        for e, text in (aliases if selection.aliases else ())
        if e[0] == "Q" and e in subjects and names[e] != text and not names[e].startswith(f"{text} (")
    }
    hubs = {
        *((names[o], names[p], names[predicate_of[p]]) for o, p in _beyond(of_claims, selection)),
        *((o, p, given[p]) for o, p in _beyond(subjects_of, selection)),
    }
    in_claims = {e for s, p, o, kind in claims for e in ((s, p, o) if kind == "entity" else (s, p))}
    used = in_claims | set(described) | {predicate for _, predicate, _ in inverted}
    return Expected(facts, names, kinds, _with_counts(hubs, facts), len(pairs) + len(ready_pairs), used)


def _claims(
    of_kind: Mapping[str | None, Sequence[Sequence[str]]],
    redirects: dict[str, str],
    names: dict[str, str],
    external: set[str],
    selection: Selection,
) -> set[tuple[str, str, str, str]]:
    """Return subject, property, object and the kind of the object of the claims that a selection takes."""
    claims = set()
    for kind in ("claim", "literal"):
        for subject, property_, meant, *language in of_kind[kind]:
            object_ = _follow(meant, redirects, names) if kind == "claim" else meant
            if kind == "claim":
                if object_ not in names:
                    continue
            elif _kind_of_text(language[0]) == "text" and language[0] and not _rank(language[0], selection.languages):
                continue
            wanted = selection.properties is None or property_ in selection.properties
            if wanted and property_ not in external and subject in names and property_ in names:
                claims.add((subject, property_, object_, "entity" if kind == "claim" else _kind_of_text(language[0])))
    return claims


def _beyond(counts: Counter[tuple[str, str]], selection: Selection) -> list[tuple[str, str]]:
    """Return the pairs of object and predicate that have more subjects than the limit."""
    return [pair for pair, count in counts.items() if count > selection.inverse_limit]


def _with_counts(hubs: set[Fact], facts: set[Fact]) -> dict[Fact, int]:
    """Return hubs with the number of facts with their object and predicate."""
    ends = Counter((o, p) for _, p, o in facts)
    return {hub: ends[hub[:2]] for hub in hubs}


def _kinds(of_claims: Sequence[tuple[str, str]], of_inverse: set[str]) -> dict[str, str]:
    """Return the kind of the objects of each predicate, given those of claims, and the predicates of inverse facts."""
    kinds: defaultdict[str, set[str]] = defaultdict(set)
    for predicate, kind in (*of_claims, *((one, "entity" if one[0] == "P" else "inverse") for one in of_inverse)):
        kinds[predicate].add(kind)
    return {predicate: kind_of_all(every) for predicate, every in kinds.items()}


def _kind_of_text(language: str | None) -> str:
    """Return the kind of a literal with a language, a datatype or neither."""
    if language is None or not language.startswith("^^"):
        return "text"
    return {"gYear": "time", "dateTime": "time", "decimal": "quantity", "double": "quantity"}.get(
        language[2:], "literal"
    )


def kind_of_all(kinds: set[str]) -> str:
    """Return the kind of a property's objects, given the kinds of each.

    >>> kind_of_all({"time"}), kind_of_all({"time", "text"}), kind_of_all({"time", "entity"})
    ('time', 'literal', 'mixed')
    """
    if len(kinds) == 1:
        (kind,) = kinds
        return kind
    return "mixed" if "entity" in kinds else "literal"


def _follow(entity: str, redirects: dict[str, str], names: dict[str, str], hops: int = 8) -> str:
    if entity in names or entity not in redirects or not hops:
        return entity
    return _follow(redirects[entity], redirects, names, hops - 1)


def _rank(tag: str, languages: Sequence[str]) -> tuple[bool, int] | None:
    order = [*languages, "mul"]
    return min(
        ((tag != one, at) for at, one in enumerate(order) if tag == one or tag.startswith(one + "-")), default=None
    )


def _best(rows: Sequence[Sequence[str]], languages: Sequence[str]) -> dict[str, str]:
    found: defaultdict[str, list[tuple[tuple[int, bool], str]]] = defaultdict(list)
    for entity, text, language in rows:
        rank = _rank(language, languages)
        if rank is not None:
            found[entity].append((rank, text))
    return {entity: min(terms)[1] for entity, terms in found.items()}


def _inverses(
    claims: Sequence[Sequence[str]], names: dict[str, str], label: dict[str, str], selection: Selection, wiki: str
) -> dict[str, str]:
    """Return for each property the property that is its inverse, or the own name of its inverse."""
    properties = {e: name for e, name in names.items() if e[0] == "P"}
    given = dict(selection.inverse_names)
    inverse = {}
    for p, name in properties.items():
        partners = {(s, o)[s == p] for s, q, o in claims if q == "P1696" and p in (s, o) and s[0] == o[0] == "P"}
        items = [(label[o], o) for s, q, o in claims if q == "P7087" and s == p and o[0] == "Q" and o in label]
        own = given.get(p) or given.get(name)
        twins = [e for e, other in properties.items() if other == own]
        if own:
            inverse[p] = twins[0] if len(twins) == 1 else own
        elif len(partners) == 1 and partners <= set(properties):
            (inverse[p],) = partners
        else:
            inverse[p] = min(items)[0] if items else inverse_of(name, english=wiki == "en")
    return inverse


def _unique(names: dict[str, str]) -> dict[str, str]:
    """Add ids to names that collide, until none do: items give way to inverses, and these to properties.

    Names that read like a part of a description or of an alias collide with it.
    """
    result = dict(names)
    order = "PQ-"
    while True:
        groups: defaultdict[str, list[str]] = defaultdict(list)
        for e, name in result.items():
            groups[name].append(e)
        collide = []
        for name, group in groups.items():
            free = [e for e in group if result[e] == names[e]]
            kinds = [min((order.index(e[0]) * 2) % 3, 3) for e in free]  # property 0, inverse 1, item 2
            first = [e for e, kind in zip(free, kinds, strict=True) if kind == min(kinds, default=0)]
            keeps = len(first) == 1 and len(free) == len(group) and first[0][0] != "Q"
            if name in ("description", "short description", "alias of") or name.endswith(" (alias)"):
                collide += free
            elif len(group) > 1:
                collide += [e for e in free if not (keeps and e == first[0])]
        if not collide:
            return result
        result |= {e: f"{names[e]} ({e})" if e[0] != "-" else f"{names[e]} (inverse of {e[1:]})" for e in collide}
