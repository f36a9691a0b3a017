"""L2: whether the names of a query are those of the pack: prefixes, classes, properties, graphs and services."""

from collections.abc import Iterator
from difflib import get_close_matches

from refactx.nl2sparql.pack import Pack
from refactx.nl2sparql.parsed import ParsedQuery, iri_of
from refactx.nl2sparql.validation.report import Problem

_TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
_STANDARD = (
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#", "http://www.w3.org/2000/01/rdf-schema#",
    "http://www.w3.org/2002/07/owl#", "http://www.w3.org/2004/02/skos/core#",
)  # fmt: skip
"""Vocabularies that any endpoint may have, whether or not its pack names them."""
_NEAREST = 3


def naming_problems(query: ParsedQuery, pack: Pack) -> Iterator[Problem]:
    """Yield what is wrong with names."""
    yield from _prefixes(query, pack)
    yield from _terms(query, pack)
    yield from _places(query, pack)


def _prefixes(query: ParsedQuery, pack: Pack) -> Iterator[Problem]:
    used = {prefix for prefix, _ in query.names}
    known = set(pack.prefixes.values())
    for prefix, namespace in query.prefixes.items():
        expected = pack.prefixes.get(prefix)
        if prefix in used and expected is not None and namespace not in known:
            yield Problem(
                "L2",
                "prefix",
                f"the prefix {prefix}: is declared as <{namespace}>, and is <{expected}> in {pack.name}",
                f"write PREFIX {prefix}: <{expected}>",
            )


def _terms(query: ParsedQuery, pack: Pack) -> Iterator[Problem]:
    closed = tuple(pack.prefixes[prefix] for prefix in pack.vocabularies)
    known = (*pack.prefixes.values(), *closed, *_STANDARD)
    properties = {iri for one in query.patterns if (iri := iri_of(one.predicate))}
    classes = {iri for one in query.patterns if one.predicate == _TYPE and (iri := iri_of(one.object))}
    described = tuple(base for base in pack.prefixes.values() if any(iri.startswith(base) for iri in pack.schema))
    others = {_local(iri) for iri, one in pack.schema.items() if one.kind != "property"}
    elsewhere = {_local(iri) for iri, one in pack.schema.items() if one.kind == "property"}
    for iri in query.iris:
        term = pack.schema.get(iri)
        if term is None and iri.startswith(closed) and iri not in closed:
            yield _unknown(iri, pack, "has no such name")
        elif term is None and pack.schema and iri in properties | classes and not iri.startswith(known):
            yield _unknown(iri, pack, f"has no such {'property' if iri in properties else 'class'}")
        elif term is None and iri.startswith(described) and _local(iri) in (elsewhere if iri in properties else others):
            yield _unknown(iri, pack, "has this name with another prefix")
        elif term is not None and term.kind == "individual" and iri in properties | classes:
            what = "property" if iri in properties else "class"
            yield Problem(
                "L2", "name", f"{pack.shorten(iri)} is an individual, and stands as a {what}", _near(iri, pack)
            )
        elif term is not None and term.kind == "property" and iri in classes:
            yield Problem(
                "L2",
                "name",
                f"{pack.shorten(iri)} is a property, and stands as a class",
                f"write ?x {pack.shorten(iri)} ?y",
            )


def _unknown(iri: str, pack: Pack, why: str) -> Problem:
    return Problem("L2", "name", f"{pack.shorten(iri)} is unknown: {pack.name} {why}", _near(iri, pack))


def _near(iri: str, pack: Pack) -> str:
    """Return a hint with the names of the schema that are like one: the same name elsewhere first, then by letters."""
    local = _local(iri)
    names = {one: _local(one) for one in pack.schema if one != iri}
    near = [one for one, name in names.items() if name.lower() == local.lower()]
    beside = {name: one for one, name in names.items() if one.removesuffix(name) == iri.removesuffix(local)}
    near += [beside[name] for name in get_close_matches(local, beside, _NEAREST)]
    shown = list(dict.fromkeys(map(pack.shorten, near)))[:_NEAREST]
    return f"use {' or '.join(shown)}" if shown else "use a name of the examples or of the schema"


def _local(iri: str) -> str:
    return iri[max(iri.rfind("#"), iri.rfind("/")) + 1 :]


def _places(query: ParsedQuery, pack: Pack) -> Iterator[Problem]:
    seen: set[str] = set()
    for group in query.groups:
        kind, term = ("GRAPH", group.graph) if group.kind == "graph" else ("SERVICE", group.service)
        known = pack.graphs if kind == "GRAPH" else pack.services
        iri = iri_of(term or "")
        if group.kind not in ("graph", "service") or iri is None or iri in seen or iri in known.values():
            continue
        if kind == "GRAPH" and (not known or group.service is not None):
            continue
        seen.add(iri)
        there = [f"<{one}>" for one in known.values()]
        yield Problem(
            "L2",
            kind.lower(),
            f"{kind} <{iri}> is unknown: {pack.name} has {', '.join(there) or 'none'}",
            f"write {kind} {' or '.join(there)}, if the data is there" if there else f"leave {kind} out",
        )
