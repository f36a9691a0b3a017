"""What was found at an endpoint: its graphs, classes and properties, with samples."""

from collections.abc import Mapping
from dataclasses import dataclass, field

DEFAULT = ""
"""The place of data that is in no named graph."""
SCHEMA = (
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "http://www.w3.org/2000/01/rdf-schema#",
    "http://www.w3.org/2002/07/owl#",
    "http://rdfs.org/ns/void#",
)
"""Namespaces of terms that describe a schema and not the domain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTerm:
    """A class or a property. `count`: of instances or triples, as far as was counted; `labels`: by language;
    `places`: the named graphs that have it, `DEFAULT` for none; `parents`, `domain`, `range`: IRIs."""

    iri: str
    count: int
    places: tuple[str, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    comment: str = ""
    parents: tuple[str, ...] = ()
    domain: tuple[str, ...] = ()
    range: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What an endpoint has.

    `graphs`: named graphs with data that is nowhere else; `classes`, `properties`: the most frequent first; `whole`:
    whether these are all; `by`: how they were found, `VoID` or `sampling`; `namespaces`: of instances, the most frequent
    first; `label`: the property by which instances are called; `notes`: what failed.
    """

    graphs: tuple[str, ...]
    classes: tuple[FoundTerm, ...]
    properties: tuple[FoundTerm, ...]
    whole: bool
    by: str
    namespaces: tuple[str, ...]
    label: str | None
    notes: tuple[str, ...]
