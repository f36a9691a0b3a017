"""Inverse facts: `<Danny Boyle> <director of> <Slumdog Millionaire>` for the claim that Danny Boyle directs it.

The inverse of a property is named by the first of these that there is (docs/names.md, with examples):

1. the name that the user gives. If it is the label of a property, inverse facts are that property's.
2. the inverse property (P1696) in the dump, in either direction, if there is exactly one: `father` and `mother` both have
   `child` for their inverse, so that of `child` is neither. Inverse facts are facts of that property, as if the dump had
   them, and are often there already.
3. the label of the inverse label item (P7087).
4. a template (`ingest.inverse_names`).

| table | rows |
|---|---|
| `inverses` | `property, predicate, label_item BIGINT`; see below |
| `inverse_claims` | `subject, predicate, object BIGINT` |
| `ready_inverse` | `subject, predicate, object VARCHAR`, of ready-made facts |

An index that is changed goes on as before, whatever the change's own sources or given names say: the inverse facts of a
property are that property's whose they were (`Report.inverse_properties`), else they have the name that they had.

The `predicate` of an inverse is another property, or has a name of its own: then it is the property's number with a minus
sign, and `label_item` is the item whose label it was called by, if it was.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from refactx.fact import MAX_PART_CHARACTERS, written_part

from ..knowledge.inverse_labels import inverse_of
from ..selection import INVERSE_LABEL, INVERSE_PROPERTY, Selection
from ..work_database import Work, number

_INVERSES = "CREATE TABLE inverses (property BIGINT, predicate BIGINT, label_item BIGINT)"
_PARTNERS = """
SELECT subject, object FROM claims
WHERE property = entity_number('{property}') AND subject & 1 = 1 AND object & 1 = 1
"""
_LABEL_ITEMS = """
SELECT DISTINCT c.subject, l.label, l.entity FROM claims c JOIN chosen l ON c.object = l.entity
WHERE c.property = entity_number('{property}') AND c.subject & 1 = 1 AND l.entity & 1 = 0 AND l.label IS NOT NULL
"""
_CLAIMS = (
    """
CREATE TABLE pairs AS
SELECT DISTINCT subject, property, object FROM judged WHERE reason IS NULL AND object IS NOT NULL
""",
    """
CREATE TABLE hubs AS
SELECT property, object, count(*) AS subjects FROM pairs GROUP BY ALL HAVING count(*) > {limit}
""",
    """
CREATE TABLE inverse_claims AS
SELECT p.object AS subject, i.predicate, p.subject AS object
FROM pairs p JOIN inverses i USING (property) ANTI JOIN hubs h USING (property, object)
""",
)
_READY = (
    """
CREATE TABLE ready_pairs AS
SELECT DISTINCT r.subject, r.predicate, r.object, g.name FROM ready r JOIN given g ON r.predicate = g.property
""",
    """
CREATE TABLE ready_hubs AS
SELECT predicate, object, count(*) AS subjects FROM ready_pairs GROUP BY ALL HAVING count(*) > {limit}
""",
    """
CREATE TABLE ready_inverse AS
SELECT object AS subject, name AS predicate, subject AS object
FROM ready_pairs ANTI JOIN ready_hubs USING (predicate, object)
""",
)
STEPS = len(_CLAIMS)


@dataclass(frozen=True, slots=True)
class Inverted:
    """The claims about entities that could have an inverse fact: `pairs`, of which `hubs` are beyond the limit."""

    pairs: int
    hubs: int


def name_inverses(connection: Work, selection: Selection, rule: int, before: Mapping[int, int]) -> tuple[str, ...]:
    """From `named`, as long as names are natural, and `claims`: the table `inverses`, and in `named` a row by `rule` for each
    inverse that is no property, under minus the property's number. `before`: the inverse properties that are known already;
    the other inverses that are known are in `known`. Gives what to tell of given names that are not used."""
    known = dict(connection.execute("SELECT entity, name FROM known WHERE entity < 0 OR entity & 1 = 1").fetchall())
    properties = dict(connection.execute("SELECT entity, name FROM named WHERE entity & 1 = 1").fetchall())
    count = Counter(properties.values())
    labelled = {name: entity for entity, name in properties.items() if count[name] == 1}
    labelled |= {name: entity for entity, name in known.items() if entity > 0}  # a new one of that name gets its id
    given = dict(selection.inverse_names)
    partners, items = _partners(connection), _label_items(connection)
    english = selection.wikipedia in ("en", "mul")
    inverses: list[tuple[int, int, int | None]] = []
    names: list[tuple[int, str, bool]] = []
    passed_over: list[str] = []
    for property_, label in properties.items():
        item = kept = None
        name = given.get(f"P{property_ >> 1}") or given.get(label)
        partner = before.get(property_)
        if partner in properties:  # this index's own; the name may be that of another one of its knowledge base
            kept = properties[partner]
        elif -property_ in known:
            partner, kept = None, known[-property_]
        elif name:
            partner = labelled.get(written_part(name))
        else:
            partner = _only(partners.get(property_, set()), properties)
            if partner is None:
                name, item = items.get(property_, (inverse_of(label, english=english), None))
        if kept is not None:
            its_id = f" (inverse of P{property_ >> 1})" if partner is None else f" (P{partner >> 1})"
            if name and written_part(name) != kept.removesuffix(its_id):
                passed_over.append(f"P{property_ >> 1} stays {kept!r:.100}, not {name!r:.100}")
            name = kept
        inverses.append((property_, -property_ if partner is None else partner, item))
        if partner is None and name:
            names.append((-property_, written_part(name), len(name) > MAX_PART_CHARACTERS))
    connection.execute(_INVERSES)
    if properties:
        _insert(connection, "inverses", ("property", "predicate", "label_item"), inverses)
    if names:
        columns = ("entity", "name", "is_cut")
        _insert(connection, f"named SELECT entity, name, {rule}, is_cut, false FROM rows", columns, names)
    return _note(passed_over)


def _note(passed_over: list[str]) -> tuple[str, ...]:
    """One line for the user on some `P22 stays 'child', not 'begot'`, or none."""
    if not passed_over:
        return ()
    more = f"; and so {len(passed_over) - 3:,} more" if len(passed_over) > 3 else ""
    return (f"--inverse-names: the inverse of {'; of '.join(passed_over[:3])}{more}, as the index has it",)


def invert_claims(connection: Work, selection: Selection, step: Callable[[], object] = lambda: None) -> Inverted:
    """From `judged` and `ready`: the tables `inverse_claims` and `ready_inverse`, both empty without `selection.inverse`.

    A ready-made fact has an inverse if its predicate is given a name for one: whether its object is an entity, nobody knows
    otherwise. Calls `step` after each of `STEPS`.
    """
    if not selection.inverse:
        connection.execute("CREATE TABLE inverse_claims (subject BIGINT, predicate BIGINT, object BIGINT)")
        connection.execute("CREATE TABLE ready_inverse (subject VARCHAR, predicate VARCHAR, object VARCHAR)")
        return Inverted(0, 0)
    connection.execute("CREATE TABLE given (property VARCHAR, name VARCHAR)")
    if selection.inverse_names:
        _insert(connection, "given", ("property", "name"), [(p, written_part(n)) for p, n in selection.inverse_names])
    for query in _CLAIMS:
        connection.execute(query.format(limit=selection.inverse_limit))
        step()
    for query in _READY:
        connection.execute(query.format(limit=selection.inverse_limit))
    pairs = number(connection, "SELECT count(*) FROM pairs") + number(connection, "SELECT count(*) FROM ready_pairs")
    hubs = number(connection, "SELECT sum(subjects) FROM hubs") + number(
        connection, "SELECT sum(subjects) FROM ready_hubs"
    )
    for table in ("pairs", "ready_pairs", "given"):
        connection.execute(f"DROP TABLE {table}")
    return Inverted(pairs, hubs)


def _partners(connection: Work) -> dict[int, set[int]]:
    """The inverse properties that the claims give, in either direction."""
    partners: defaultdict[int, set[int]] = defaultdict(set)
    for one, other in connection.execute(_PARTNERS.format(property=INVERSE_PROPERTY)).fetchall():
        partners[one].add(other)
        partners[other].add(one)
    return partners


def _label_items(connection: Work) -> dict[int, tuple[str, int]]:
    """The inverse label items of properties, each with its label, and of several the first."""
    items: dict[int, tuple[str, int]] = {}
    for property_, label, item in connection.execute(_LABEL_ITEMS.format(property=INVERSE_LABEL)).fetchall():
        items[property_] = min((label, item), items.get(property_, (label, item)))
    return items


def _only(partners: set[int], properties: dict[int, str]) -> int | None:
    """The one partner of a property, if it has a name."""
    if len(partners) != 1:
        return None
    (partner,) = partners
    return partner if partner in properties else None


def _insert(connection: Work, target: str, columns: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> None:
    table = pa.table(dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True)))
    connection.register("rows", table)
    connection.execute(f"INSERT INTO {target}" if " " in target else f"INSERT INTO {target} SELECT * FROM rows")
    connection.unregister("rows")
