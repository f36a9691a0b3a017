"""The reader of GraphML: nodes and edges with properties, which are read as the rows of tables are."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from xml.parsers import expat

from refactx.entity_ids import other_number
from refactx.errors import InputError
from refactx.fact import clean_part, written_part
from refactx.ingest.parsers.columns import NODE_NAMES
from refactx.ingest.parsers.edges import GraphEdge, add_edge, edge_id
from refactx.ingest.parsers.nesting import within_bounds
from refactx.ingest.parsers.parsed import DESCRIPTION, LABEL, OTHER_NAME, Parsed, utf8_blocks
from refactx.ingest.parsers.records import EntityRows
from refactx.ingest.profile import TYPE, name_of_id
from refactx.ingest.source_options import Selection
from refactx.ingest.sources import Source

_BATCH = 50_000
_LABEL_KEYS = ("labelv", "labels", "labele", "label", "type", "relation", "relationship")


def parse_graphml(source: Source, selection: Selection, advance: Callable[[int], object]) -> Iterator[Parsed]:
    """Yield the nodes and edges of a file of GraphML.

    Raises InputError for text that is not UTF-8 or not XML, and for a document type, whose entities could be of any size.
    """
    reader = _GraphReader(selection, source.name)
    parser = expat.ParserCreate("utf-8")  # whatever it declares: its text is in UTF-8 here
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = reader.start, reader.end
    parser.CharacterDataHandler = reader.texts.append
    parser.StartDoctypeDeclHandler = partial(_refuse_document_type, source.name)
    for block in within_bounds(utf8_blocks(source, advance), "GraphML", source.name):
        parser.Parse(block)
        if len(reader.statements) >= _BATCH:
            yield reader.take()
    yield reader.take()


def _refuse_document_type(source: str, *_: object) -> None:
    raise InputError(f"{source} has a document type (<!DOCTYPE ...>), which is not read: leave it out")


class _GraphReader:
    """What the elements of GraphML say, as they are read."""

    def __init__(self, selection: Selection, scope: str) -> None:
        self._scope, self._edges = scope, 0
        self._keeps = None if selection.qualifiers == () else selection.keeps_qualifier
        self._options = selection.tables
        self._keeps_aliases = bool(selection.aliases)
        self._names: dict[str, str] = {}
        self._defaults: dict[tuple[str, str], str] = {}
        self._directed = True
        self._element: dict[str, str] = {}
        self._data: dict[str, str] = {}
        self._key = ""
        self.texts: list[str] = []
        self.statements = EntityRows(other_number(f"{scope}\n0"))

    def take(self) -> Parsed:
        """Return what was read since the last call."""
        taken = self.statements.parsed()
        self.statements = EntityRows(other_number(f"{self._scope}\n{self._edges}"))
        return taken

    def start(self, name: str, attributes: dict[str, str]) -> None:
        name = name.rpartition(":")[2]
        self.texts.clear()
        if name == "key":
            self._key, self._element = attributes.get("id", ""), attributes
            self._names[self._key] = written_part(attributes.get("attr.name") or self._key)
        elif name == "graph":
            self._directed = attributes.get("edgedefault") != "undirected"
        elif name in ("node", "edge"):
            self._element, self._data = attributes, {}
        elif name == "data":
            self._key = attributes.get("key", "")

    def end(self, name: str) -> None:
        name = name.rpartition(":")[2]
        if name == "data":
            self._data[self._names.get(self._key, written_part(self._key))] = "".join(self.texts)
        elif name == "default":
            self._defaults[self._element.get("for", "all"), self._names[self._key]] = "".join(self.texts)
        elif name in ("node", "edge"):
            of_kind = ("all", name)
            defaults = {key: text for (kind, key), text in self._defaults.items() if kind in of_kind}
            (self._add_node if name == "node" else self._add_edge)(self._element, {**defaults, **self._data})
        self.texts.clear()

    def _type(self, element: Mapping[str, str], data: dict[str, str], keys: Sequence[str]) -> str:
        """Return the label of a node or an edge, which is taken out of its properties if it is one of a graph's own."""
        found = element.get("labels") or element.get("label") or ""
        for key in keys:
            name = next((name for name in data if name.casefold() == key), None)
            if name is not None:
                text = data[name] if key == "type" else data.pop(name)
                found = found or text
        return clean_part(found.strip(":"))

    def _add_node(self, element: Mapping[str, str], data: dict[str, str]) -> None:
        statements, options = self.statements, self._options
        id_ = clean_part(element.get("id", ""))
        if not id_:
            statements.dropped["no subject"] += 1
            return
        entity = statements.entity(id_, name_of_id(id_))
        folded = {name.casefold(): name for name in data}
        names = (*options.subjects, *NODE_NAMES)
        subject = next((folded[name.casefold()] for name in names if name.casefold() in folded), None)
        type_ = self._type(element, {name: text for name, text in data.items() if name != subject}, _LABEL_KEYS[:2])
        if subject is not None:
            statements.term(entity, LABEL, data[subject])
        for one in filter(None, re.split("[:;]+", type_)):
            statements.claim(entity, statements.property(TYPE), entity=statements.entity(f":{one}", one))
        for name, text in data.items():
            if name == subject or not name or name.casefold() in _LABEL_KEYS[:2]:
                continue
            if name in options.descriptions:
                statements.term(entity, DESCRIPTION, text)
            elif name in options.aliases and not self._keeps_aliases:
                statements.dropped["alias"] += 1
            elif name in options.aliases:
                statements.term(entity, OTHER_NAME, text)
            else:
                statements.claim(entity, statements.property(name), text=text)

    def _add_edge(self, element: Mapping[str, str], data: dict[str, str]) -> None:
        statements = self.statements
        ends = [clean_part(element.get(name, "")) for name in ("source", "target")]
        if not all(ends):
            statements.dropped["edge without two ends"] += 1
            return
        type_ = self._type(element, data, _LABEL_KEYS[2:]) or "edge"
        one, other = (statements.entity(id_, name_of_id(id_)) for id_ in ends)
        values = [(name, text) for name, text in data.items() if name]
        self._edges += 1
        edge = GraphEdge(
            ends=(one, other),
            type=type_,
            values=values,
            id=element.get("id") or edge_id((ends[0], ends[1]), type_, values),
            row=self._edges,
            both_ways=element.get("directed", str(self._directed).lower()) == "false",
        )
        add_edge(statements, edge, self._keeps)
