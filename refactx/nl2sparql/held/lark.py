"""The grammar of SPARQL over a pack's endpoint: names of its schema and examples, its graphs and services, and no others."""

import json
import re
from collections.abc import Iterable
from importlib.resources import files

from refactx.nl2sparql.pack import Pack
from refactx.sparql.syntax import ShapeError, shape_of, tokens_of

_NAME = re.compile(r"[A-Za-z][\w-]*:[\w-]+(?:\.[\w-]+)*")
_WORD = re.compile(r'"([A-Z_0-9]+)"i')
_STANDARD = ("http://www.w3.org/1999/02/22-rdf", "http://www.w3.org/2000/01/rdf-schema", "http://www.w3.org/2001/XMLSchema",
    "http://www.w3.org/2002/07/owl", "http://www.w3.org/2004/02/skos", "http://purl.org/dc/")  # fmt: skip
"""The beginnings of vocabularies of which endpoints use few names: those of the schema and the examples."""
_NONE = "<urn:none>"
"""Stands for names of which a pack has none."""


def grammar_of(pack: Pack) -> str:
    """Return the grammar of a pack, in llguidance's dialect of Lark. Prefixes are declared as the pack has them, or not."""
    properties, terms = names_of(pack)
    open_names = [f"/{prefix}:[A-Za-z0-9_][A-Za-z0-9_-]{{0,60}}/" for prefix in open_prefixes(pack)]
    rules = (files("refactx.nl2sparql.held") / "sparql11.lark").read_text(encoding="utf-8")
    names = {
        "DECLARED": [f"{prefix}: <{iri}>" for prefix, iri in pack.prefixes.items()],
        "PROPERTY": properties,
        "TERM": terms,
        "GRAPH_IRI": [f"<{iri}>" for iri in pack.graphs.values()],
        "SERVICE_IRI": [f"<{iri}>" for iri in pack.services.values()],
    }
    rules = _WORD.sub(lambda match: _any_case(match[1]), rules)
    for name, some in names.items():
        alternatives = [_any(some or [_NONE]), *(open_names if name in ("PROPERTY", "TERM") else ())]
        rules += f"{name}: {' | '.join(alternatives)}\n"
    return rules


def open_prefixes(pack: Pack) -> list[str]:
    """Return the prefixes with which any name may be written: those of data, and of vocabularies that the schema does not
    have as a whole."""
    return [
        name for name, iri in pack.prefixes.items() if name not in pack.vocabularies and not iri.startswith(_STANDARD)
    ]


def names_of(pack: Pack) -> tuple[list[str], list[str]]:
    """Return the properties and the other names that a query may have, as a query would write them.

    They are those of the schema and of the examples' queries.
    """
    found: dict[bool, set[str]] = {True: set(), False: set()}  # by whether they are properties
    for term in pack.schema.values():
        found[term.kind == "property"].add(pack.shorten(term.iri))
    for example in pack.examples:
        tokens = tokens_of(example.sparql)
        try:
            shape = shape_of(tokens)
        except ShapeError:
            continue
        predicates = {at for triple in shape.triples for at in range(*triple.path)}
        for at in range(shape.prologue[1], len(tokens)):
            if tokens[at].kind in ("name", "iri"):
                found[at in predicates].add(tokens[at].text)
    properties, terms = (sorted(name for name in found[kind] if _is_of(pack, name)) for kind in (True, False))
    return properties, terms


def _is_of(pack: Pack, name: str) -> bool:
    if name.startswith("<"):
        return name not in {f"<{iri}>" for iri in (*pack.graphs.values(), *pack.services.values())}
    return _NAME.fullmatch(name) is not None and name.partition(":")[0] in pack.prefixes


def _any(texts: Iterable[str]) -> str:
    """Return the alternatives of some texts.

    >>> _any(["ex:a", "ex:b"])
    '"ex:a" | "ex:b"'
    """
    return " | ".join(json.dumps(text, ensure_ascii=False) for text in texts)


def _any_case(word: str) -> str:
    """Return a keyword in any case, of ASCII letters alone: by Unicode's rules, a long s is a letter of `ASK` too.

    >>> _any_case("ASK")
    '/[Aa][Ss][Kk]/'
    """
    return "/" + "".join(f"[{one}{one.lower()}]" if one.isalpha() else one for one in word) + "/"
