"""Links of facts: which parts of a fact name an item or a property, and with which id."""

from collections.abc import Callable, Mapping, Sequence

from refactx.fact import ALIAS, ALIAS_OF, DESCRIPTIONS, Fact, Link, LinkedFact
from refactx.index.names import LITERAL_KINDS, Named

FACTS_AT_ONCE = 1024
"""Facts whose names one query looks up: a round trip takes as long as some ten blocks of names."""

FindNames = Callable[[set[str]], Mapping[str, Named]]
"""A lookup of names, without those that the knowledge base does not have."""


def link_facts(facts: Sequence[Fact], find: FindNames) -> list[LinkedFact]:
    """Return the facts with their ids, in the same order. `find` is called twice, for any number of facts.

    The second call needs the results of the first: the predicate decides whether the object is a literal or an entity.
    """
    named = find({name for fact in facts for name in (fact.subject, fact.predicate)})
    objects = find({fact.object for fact in facts if _has_named_object(fact, named.get(fact.predicate))})
    return [_linked(fact, named, objects) for fact in facts]


def _is_alias(fact: Fact, predicate: Named | None) -> bool:
    return predicate is None and fact.predicate == ALIAS_OF and fact.subject.endswith(ALIAS)


def _has_named_object(fact: Fact, predicate: Named | None) -> bool:
    kind = predicate.object_kind if predicate else None
    return kind in ("entity", "mixed", "inverse") or _is_alias(fact, predicate)


def _linked(fact: Fact, named: Mapping[str, Named], objects: Mapping[str, Named]) -> LinkedFact:
    predicate = named.get(fact.predicate)
    kind = predicate.object_kind if predicate else None
    entity = objects.get(fact.object) if _has_named_object(fact, predicate) else None
    subject = entity if _is_alias(fact, predicate) else named.get(fact.subject)
    is_literal = kind in LITERAL_KINDS or fact.predicate in DESCRIPTIONS or (kind == "mixed" and entity is None)
    return LinkedFact(
        Link(fact.subject, subject.id if subject else None),
        Link(fact.predicate, predicate.id if predicate else None),
        fact.object if is_literal else Link(fact.object, entity.id if entity else None),
        inverse=kind == "inverse",
    )
