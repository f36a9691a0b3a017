"""What the tools of assistants return: all of a fact's parts are entities, which a model reads with less to explain."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from refactx.ask.answer import statement_url
from refactx.ask.browse import Browsed
from refactx.ask.evidence import Evidence
from refactx.documents import (
    Completion,
    EntityDocument,
    PredicateOfSubject,
    QualifierDocument,
    QueryDocument,
    ResolvedName,
    fact_fields,
    named,
    predicates_of,
    query_document,
    resolved_name,
)
from refactx.fact import LinkedFact
from refactx.walks import AnsweredQuery


@dataclass(frozen=True, kw_only=True)
class StatedFact:
    """A fact. `text`: as it is written; `inverse`: whether it reads its property backwards; `url`: of its statement on
    Wikidata, null if it has none; `qualifiers`: of a statement; `indexes`: of several that are read as one, those that have
    it; `references`: the addresses of what Wikidata says it is from."""

    text: str
    subject: EntityDocument
    predicate: EntityDocument
    object: EntityDocument
    inverse: bool
    url: str | None
    qualifiers: Sequence[QualifierDocument] = ()
    indexes: Sequence[str] = ()
    references: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class StatedEvidence(StatedFact):
    """A fact of an answer. `proves`: whether the answer follows from it; else it was only tried."""

    proves: bool


def stated_fact(linked: LinkedFact, text: str) -> StatedFact:
    return StatedFact(**_stated(linked, text))


def _stated(linked: LinkedFact, text: str) -> dict[str, Any]:
    return {**fact_fields(linked, text), "object": named(linked.object), "url": statement_url(linked)}


@dataclass(frozen=True)
class CompletionList:
    """What begins with a prefix, those with most facts first. `truncated`: whether there is more."""

    completions: Sequence[Completion]
    truncated: bool


@dataclass(frozen=True)
class FoundEntity:
    """An entity that a name may mean. `name`: in the index, with its description; `by`: how it was found: its `name`, an
    `alias`, an `id`, a name that is `near` in its letters, or the `meaning` of the words; `facts`: how many it has."""

    name: str
    id: str | None
    url: str | None
    facts: int
    by: str


@dataclass(frozen=True)
class FoundEntities:
    """Entities that a name may mean: those called so, with most facts first, then those that are like it. `truncated`:
    whether there is more."""

    entities: Sequence[FoundEntity]
    truncated: bool


@dataclass(frozen=True, kw_only=True)
class Classes:
    """The classes of a thing or above a class, from the nearest one up, and those below it. `members`: how many things are
    instances of it, 0 if it is no class. `truncated`: whether there are more of one of them; `resolved`: the label or
    alias that was given."""

    name: str
    instance_of: Sequence[str]
    above: Sequence[str]
    below: Sequence[str]
    members: int
    truncated: bool
    resolved: ResolvedName | None


@dataclass(frozen=True, kw_only=True)
class WalkAnswer:
    """The answer of a query on the facts. `query`: with the names of the index; `answer`: in words; `rows`: the members of
    a list; `count`: of a count; `complete`: whether all was counted; `facts`: that prove it; `resolved`: what labels and
    aliases were taken for."""

    query: str
    answer: str
    rows: Sequence[EntityDocument]
    count: int | None
    complete: bool
    facts: Sequence[str]
    sparql: str | None
    resolved: Sequence[ResolvedName]


@dataclass(frozen=True)
class TextTable:
    """Rows of a SPARQL query: the columns, and a text for each, null for none. An ASK has the one column `answer`.
    `truncated`: whether there are more."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str | None]]
    truncated: bool


@dataclass(frozen=True)
class NotedTable(TextTable):
    """Rows of a SPARQL query: the columns, and a text for each, null for none; entities have their label and id. An ASK has
    the one column `answer`. `note`: what is to be known of the rows; `truncated`: whether there are more."""

    note: str


@dataclass(frozen=True, kw_only=True)
class SubjectFacts:
    """The facts of a subject. `properties`: all of its predicates, or the one that was asked for; `near`: names like
    one that is not there; `resolved`: the label or alias that was given; `truncated`: whether there is more."""

    subject: EntityDocument
    properties: Sequence[PredicateOfSubject]
    facts: Sequence[StatedFact]
    near: Sequence[str]
    resolved: ResolvedName | None
    truncated: bool


def subject_facts(found: Browsed) -> SubjectFacts:
    return SubjectFacts(
        subject=named(found.subject or ""),
        properties=predicates_of(found),
        facts=[stated_fact(linked, fact.text) for fact, linked in found.facts],
        near=[one.name for one in found.near],
        resolved=None if found.resolved is None else resolved_name(found.resolved),
        truncated=found.truncated,
    )


@dataclass(frozen=True)
class FactCheck:
    """Whether a fact exists. `nearest`: if it does not, facts like it that do, the most similar first."""

    exists: bool
    fact: StatedFact
    nearest: Sequence[StatedFact]


@dataclass(frozen=True, kw_only=True)
class AnswerForAssistants:
    """An answer with its facts, those that prove it first. `unknown`: whether it is that the facts do not tell; `text`: all
    that the model wrote; `queries`: the queries in it, with SPARQL and rows."""

    answer: str
    unknown: bool
    facts: Sequence[StatedEvidence]
    queries: Sequence[QueryDocument]
    text: str


def answer_for_assistants(
    answer: str, text: str, evidence: Sequence[Evidence], queries: Sequence[AnsweredQuery], *, unknown: bool
) -> AnswerForAssistants:
    return AnswerForAssistants(
        answer=answer,
        unknown=unknown,
        facts=[StatedEvidence(**_stated(one.fact, one.text), proves=one.proves) for one in evidence],
        queries=[query_document(one) for one in queries],
        text=text,
    )
