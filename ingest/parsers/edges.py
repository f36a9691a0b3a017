"""What the edges of graphs of properties say: rows of tables with two ends, and the edges of GraphML."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from refactx.entity_ids import other_number
from refactx.fact import clean_part, cut_part
from refactx.ingest.parsers.parsed import END, START, Parsed, clean_parts, null_as_empty, without_invalid
from refactx.ingest.parsers.records import EntityRows
from refactx.ingest.profile import local_name, name_of_id, predicate_label

Keeps = Callable[[str], bool]
"""The name of a property → whether facts have it as a qualifier."""
_OF_TIME = re.compile(r"date|time|year|season|since|start|when", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgePlan:
    """What the columns of a table of edges are.

    The places of the two ends, of the type and of the edge's id (None if there is none), the names of the properties in the
    others ("" for none), the prefixes of the ids of both ends, and the type of edges without one. `keeps`: says which
    properties are qualifiers of the edge's fact; None: edges with properties are things of their own. `scope`: the file, in
    which statements are numbered. `of_rows`: both ends are rows of tables, which have names there or none. `one_a_pair`:
    there is at most one edge between two ends, whose id does not depend on its properties.
    """

    ends: tuple[int, int]
    type: int | None
    id: int | None
    properties: tuple[str, ...]
    prefixes: tuple[str, str] = ("", "")
    lists: Mapping[int, str] = field(default_factory=dict)
    default_type: str = "edge"
    keeps: Keeps | None = None
    scope: str = ""
    of_rows: bool = False
    one_a_pair: bool = False


def edges_of_plan(plan: EdgePlan, texts: list[pa.Array], row_number: Callable[[int], int]) -> Parsed:
    """Return the rows of a table of edges as claims."""
    checked = Parsed(lines=0)
    columns = [null_as_empty(clean_parts(one)).to_pylist() for one in without_invalid(texts, row_number, checked)]
    statements = EntityRows(other_number(f"{plan.scope}\n{row_number(0)}") if len(texts[0]) else 0)
    statements.faults = checked.faults
    for number, row in enumerate(zip(*columns, strict=True)):
        one, other = (prefix + row[at] if row[at] else "" for prefix, at in zip(plan.prefixes, plan.ends, strict=True))
        if not (one and other):
            statements.dropped["edge without two ends"] += 1
            continue
        values = [
            (name, value)
            for at, (name, cell) in enumerate(zip(plan.properties, row, strict=True))
            if name and cell
            for value in (cell.split(plan.lists[at]) if at in plan.lists else (cell,))
        ]
        type_ = (row[plan.type] if plan.type is not None else "") or plan.default_type
        ends = zip((one, other), plan.ends, strict=True)
        numbers = [
            other_number(id_) if plan.of_rows else statements.entity(id_, name_of_id(row[at])) for id_, at in ends
        ]
        id_ = row[plan.id] if plan.id is not None else ""
        id_ = id_ or edge_id((one, other), type_, () if plan.one_a_pair else values)
        edge = GraphEdge(ends=(numbers[0], numbers[1]), type=type_, values=values, id=id_, row=number)
        add_edge(statements, edge, plan.keeps)
    return statements.parsed()


def edge_id(ends: tuple[str, str], type_: str, values: Sequence[tuple[str, str]]) -> str:
    """Return the id of an edge that has none.

    >>> edge_id(("1", "2"), "played", [("result", "2-0")])
    '1 played 2 (result 2-0)'
    """
    return f"{ends[0]} {type_} {ends[1]} ({', '.join(f'{name} {value}' for name, value in values)})"


def edge_label(type_: str) -> str:
    """Return what the type of an edge is read as.

    >>> [edge_label(type_) for type_ in ("ACTED_IN", "KNOWS", "worksFor", "played")]
    ['acted in', 'knows', 'works for', 'played']
    """
    label = predicate_label(type_) or local_name(type_)
    return label.lower() if type_.isupper() else label


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphEdge:
    """An edge: the numbers of its ends, its type, its properties with their values, its id, and the number of its row in its
    block. `both_ways`: it has no direction."""

    ends: tuple[int, int]
    type: str
    values: Sequence[tuple[str, str]]
    id: str
    row: int
    both_ways: bool = False


def add_edge(statements: EntityRows, edge: GraphEdge, keeps: Keeps | None) -> None:
    """Add an edge: a claim about its two ends, of which its properties are qualifiers: those that facts keep.

    Without qualifiers (`keeps` is None) an edge with properties is an entity of its own that has these. Its label is made of
    those of its ends (`refactx.ingest.knowledge.structure`) and of its type, with the first property that is a time, else
    the first one: `Arsenal – Chelsea (played, 29 Apr 2014)`.
    """
    label, row = edge_label(edge.type), None if keeps is None else edge.row
    one, other = edge.ends
    for subject, object_ in ((one, other), (other, one))[: 1 + edge.both_ways]:
        statements.claim(subject, statements.property(edge.type, label), entity=object_, row=row)
    values = [(name, clean) for name, value in edge.values if (clean := clean_part(value))]
    if keeps is not None:
        for name, value in values:
            if keeps(name):
                statements.claim(one, statements.property(name), text=value, row=row, qualifies=True)
            else:
                statements.dropped["other qualifier"] += 1
        return
    if not values:
        return
    marked = next((value for name, value in values if _OF_TIME.search(name)), values[0][1])
    thing = statements.entity(f"edge:{edge.id}", f"({label}, {cut_part(marked[:100])})")
    statements.claim(thing, statements.property(":TYPE", "edge type"), text=label)
    for end, number, name in zip(edge.ends, (START, END), ("from", "to"), strict=True):
        id_of_end = ":START_ID" if number == START else ":END_ID"
        statements.claim(thing, statements.property(id_of_end, name), entity=end)
    for name, value in values:
        statements.claim(thing, statements.property(name), text=value)
