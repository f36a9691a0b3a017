"""The parts of facts with their ids: what is an entity, and what a literal."""

from collections.abc import Callable, Mapping, Sequence

from refactx.fact import ALIAS, ALIAS_OF, DESCRIPTIONS, Fact, Link, LinkedFact
from refactx.index.names import LITERAL_KINDS, Named

FindNames = Callable[[set[str]], Mapping[str, Named]]
"""A lookup of names, without those that the knowledge base does not have."""


def link_facts(facts: Sequence[Fact], find: FindNames, link: Callable[..., Link] = Link) -> list[LinkedFact]:
    """Return the facts with their ids, in the same order. `find` is called twice, for any number of facts.

    `link`: makes a link of a label and an id.

    The second call needs the results of the first: the predicate decides whether the object is a literal or an entity.
    """
    named = find({name for fact in facts for name in (fact.subject, fact.predicate, *dict(fact.qualifiers))})
    names = {fact.object for fact in facts if _has_named_object(fact, named.get(fact.predicate))}
    pairs = (pair for fact in facts for pair in fact.qualifiers)
    names |= {value for name, value in pairs if _leads_to_names(named.get(name))}
    objects = find(names)
    return [_linked(fact, named, objects, link) for fact in facts]


def _is_alias(fact: Fact, predicate: Named | None) -> bool:
    return predicate is None and fact.predicate == ALIAS_OF and fact.subject.endswith(ALIAS)


def _leads_to_names(predicate: Named | None) -> bool:
    return predicate is not None and predicate.object_kind in ("entity", "mixed", "inverse")


def _has_named_object(fact: Fact, predicate: Named | None) -> bool:
    return _leads_to_names(predicate) or _is_alias(fact, predicate)


def _linked(
    fact: Fact, named: Mapping[str, Named], objects: Mapping[str, Named], link: Callable[..., Link]
) -> LinkedFact:
    predicate = named.get(fact.predicate)
    kind = predicate.object_kind if predicate else None
    entity = objects.get(fact.object) if _has_named_object(fact, predicate) else None
    subject = entity if _is_alias(fact, predicate) else named.get(fact.subject)
    is_literal = kind in LITERAL_KINDS or fact.predicate in DESCRIPTIONS or (kind == "mixed" and entity is None)
    return LinkedFact(
        link(fact.subject, subject.id if subject else None),
        link(fact.predicate, predicate.id if predicate else None),
        fact.object if is_literal else link(fact.object, entity.id if entity else None),
        inverse=kind == "inverse",
        qualifiers=tuple(_qualifier(name, value, named, objects, link) for name, value in fact.qualifiers),
    )


def _qualifier(
    name: str, value: str, named: Mapping[str, Named], objects: Mapping[str, Named], link: Callable[..., Link]
) -> tuple[Link, Link | str]:
    predicate = named.get(name)
    entity = objects.get(value) if _leads_to_names(predicate) else None
    label = link(name, predicate.id if predicate else None)
    if predicate is not None and entity is None and predicate.object_kind != "entity":
        return label, value
    return label, link(value, entity.id if entity else None)
