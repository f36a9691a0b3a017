"""What is said in JSON of facts, names, queries and answers: by commands, over HTTP, to assistants, and in evaluations.

A document is a frozen class, which FastAPI and the SDK of MCP take as it is; `to_json` makes JSON of any of them.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from typing import TYPE_CHECKING, Any

from refactx.ask.answer import Answer, statement_url
from refactx.ask.browse import Browsed, Checked
from refactx.ask.claims import TextClaims
from refactx.ask.evidence import Evidence, text_of
from refactx.ask.examples import ExampleQuestion as FactQuestion
from refactx.ask.queries import QueryChoice, QueryReply
from refactx.fact import Fact, Link, LinkedFact
from refactx.walks import AnsweredQuery
from refactx.walks.language import write_line

if TYPE_CHECKING:
    from refactx.index.index import Index
    from refactx.linking import LinkedName


def to_json(document: object) -> Any:
    """Return what JSON has for a document: an object with its fields; for lists and mappings with documents, the same.

    >>> to_json({"facts": [EntityDocument("Alaska", "Q797", None)]})
    {'facts': [{'label': 'Alaska', 'id': 'Q797', 'url': None}]}
    """
    if is_dataclass(document):
        document = vars(document)
    if isinstance(document, Mapping):
        return {name: to_json(value) for name, value in document.items()}
    return [to_json(one) for one in document] if isinstance(document, list | tuple) else document


@dataclass(frozen=True)
class EntityDocument:
    """A subject, predicate or object. `id`, `url`: those in its graph, null if it has none there."""

    label: str
    id: str | None
    url: str | None


@dataclass(frozen=True)
class LiteralValue:
    """An object that is no entity."""

    literal: str


@dataclass(frozen=True)
class QualifierDocument:
    """What a statement says of its fact: when, as what, for what."""

    predicate: EntityDocument
    value: EntityDocument | LiteralValue


@dataclass(frozen=True, kw_only=True)
class FactDocument:
    """A fact. `text`: as it is written; `inverse`: whether it reads its property backwards; `qualifiers`: of a statement."""

    text: str
    subject: EntityDocument
    predicate: EntityDocument
    object: EntityDocument | LiteralValue
    inverse: bool
    qualifiers: Sequence[QualifierDocument] = ()


@dataclass(frozen=True, kw_only=True)
class EvidenceDocument(FactDocument):
    """A fact of an answer. `proves`: whether the answer follows from it; else it was only tried."""

    proves: bool


@dataclass(frozen=True, kw_only=True)
class PlacedFact(FactDocument):
    """A fact in a text. `span`: where it stands in the text, or `in_thought`, in code points; `statement_url`: the page that
    says it, null if there is none."""

    span: tuple[int, int]
    in_thought: bool
    statement_url: str | None


@dataclass(frozen=True, kw_only=True)
class PlacedEvidence(PlacedFact):
    """A fact of an answer, in the text that has it. `proves`: as in `EvidenceDocument`."""

    proves: bool


def rounded(nats: float | None) -> float | None:
    return None if nats is None else round(nats, 3)


def named(part: Link | str) -> EntityDocument:
    """Return a part of a fact as an entity, which has no id if it is a literal."""
    return EntityDocument(part, None, None) if isinstance(part, str) else EntityDocument(part.label, part.id, part.url)


def fact_fields(linked: LinkedFact, text: str) -> dict[str, Any]:
    """Return the fields that all documents of a fact have. `text`: as it is written."""
    return {
        "text": text,
        "subject": named(linked.subject),
        "predicate": named(linked.predicate),
        "object": _value(linked.object),
        "inverse": linked.inverse,
        "qualifiers": [QualifierDocument(named(name), _value(value)) for name, value in linked.qualifiers],
    }


def _value(part: Link | str) -> EntityDocument | LiteralValue:
    return LiteralValue(part) if isinstance(part, str) else named(part)


def fact_document(linked: LinkedFact, text: str) -> FactDocument:
    return FactDocument(**fact_fields(linked, text))


def evidence_document(found: Evidence) -> EvidenceDocument:
    return EvidenceDocument(**fact_fields(found.fact, found.text), proves=found.proves)


@dataclass(frozen=True, kw_only=True)
class QueryDocument:
    """A query on the facts, with its answer. `rows`: the members of a list; `sorted_by`: the value of each, if they have an
    order; `count`: of a list or count; `truth`: of a question for yes or no; `reason`: why it is not complete; `facts`:
    that prove the answer; `confidence`: how much likelier than no query it makes the question, in nats."""

    query: str
    sparql: str | None
    answer: str
    head: str
    rows: Sequence[EntityDocument | LiteralValue]
    sorted_by: Sequence[str]
    count: int | None
    truth: bool | None
    is_complete: bool
    reason: str | None
    facts: Sequence[FactDocument]
    confidence: float | None


def query_document(found: AnsweredQuery, limit: int | None = None) -> QueryDocument:
    """Return a query with its answer, with at most `limit` rows and facts; None: all."""
    result = found.result
    return QueryDocument(
        query=found.line,
        sparql=found.sparql,
        answer=found.answer,
        head=found.query.head,
        rows=[LiteralValue(row) if isinstance(row, str) else named(row) for row in found.rows[:limit]],
        sorted_by=result.sorted_by[:limit],
        count=result.count,
        truth=result.truth,
        is_complete=result.is_complete,
        reason=result.reason or None,
        facts=[fact_document(one, text_of(one)) for one in found.facts[:limit]],
        confidence=rounded(found.confidence),
    )


@dataclass(frozen=True, kw_only=True)
class AnswerDocument:
    """The answer to a question: see `refactx.Answer`. `confidence`: in nats, null if nothing was chosen by the question."""

    question: str
    answer: str
    unknown: bool
    text: str
    thought: str
    confidence: float | None
    queries: Sequence[QueryDocument]
    facts: Sequence[EvidenceDocument]
    tokens: int
    forward_passes: int
    seconds: float
    finish_reason: str
    turns_left_out: int


def answer_document(found: Answer) -> AnswerDocument:
    return AnswerDocument(
        question=found.question,
        answer=found.answer,
        unknown=found.unknown,
        text=found.text,
        thought=found.thought,
        confidence=rounded(found.confidence),
        queries=[query_document(one) for one in found.queries],
        facts=[evidence_document(one) for one in found.evidence],
        tokens=found.tokens,
        forward_passes=found.forward_passes,
        seconds=round(found.seconds, 3),
        finish_reason=found.finish_reason,
        turns_left_out=found.turns_left_out,
    )


@dataclass(frozen=True, kw_only=True)
class TextDocument:
    """What a text of a server says beside its words. `turns_left_out`: how many earlier turns the model had no room for."""

    answer: str
    unknown: bool
    confidence: float | None
    facts: Sequence[EvidenceDocument | PlacedEvidence]
    queries: Sequence[QueryDocument]
    forward_passes: int
    turns_left_out: int


@dataclass(frozen=True)
class ResolvedName:
    """What a name that people write is in the index; `among`: how many entities have that label or alias; `others`: names of
    some of the others."""

    label: str
    name: str
    among: int
    others: Sequence[str]


def resolved_name(found: "LinkedName") -> ResolvedName:
    return ResolvedName(found.label, found.name, found.among, found.others)


def reply_json(reply: QueryReply, limit: int | None, *, explains: bool) -> dict[str, Any]:
    """Return the JSON of the query of a text, with at most `limit` rows and facts (None: all), and what it was chosen from."""
    document: dict[str, Any] = {
        "query": reply.line,
        "sparql": reply.sparql,
        "head": reply.query.head,
        "confidence": rounded(reply.confidence),
    }
    if reply.answered is not None:
        document = to_json(query_document(reply.answered, limit))
    document["resolved"] = [to_json(resolved_name(one)) for one in reply.resolved]
    if explains:
        document |= to_json(ExplainedChoice() if reply.choice is None else explained(reply.choice))
    return {"question": reply.question, **document}


@dataclass(frozen=True)
class NamedWords:
    """Words of a question and the entity that they name. `called`: its label or alias; `share`: of the words' meanings."""

    words: str
    name: str
    called: str
    share: float


@dataclass(frozen=True)
class ChoiceNames:
    """What the words of a question name."""

    entities: Sequence[NamedWords]
    predicates: Sequence[str]
    numbers: Sequence[Any]


@dataclass(frozen=True)
class ScoredQuery:
    """A query that a question may ask. `score`: in nats; `confidence`: as in `QueryDocument`."""

    query: str
    score: float
    confidence: float


@dataclass(frozen=True)
class ExplainedChoice:
    """What a query was chosen from. `heads`: what the words ask for; nothing, if no model has chosen."""

    heads: Sequence[str] | None = None
    names: ChoiceNames | None = None
    candidates: Sequence[ScoredQuery] | None = None


def explained(choice: QueryChoice) -> ExplainedChoice:
    """Return what a query was chosen from, the likeliest first."""
    mentions = choice.mentions
    entities = [
        NamedWords(choice.question[one.start : one.stop], one.name, one.called, round(one.share, 3))
        for one in mentions.entities
    ]
    candidates = [
        ScoredQuery(write_line(one.query), round(one.score, 3), round(choice.confidence(one), 3))
        for one in choice.candidates
    ]
    return ExplainedChoice(
        choice.heads, ChoiceNames(entities, sorted(mentions.predicates), mentions.numbers), candidates
    )


@dataclass(frozen=True)
class ExampleList:
    """Questions that facts of an index answer. `size`: how many facts it has."""

    index: str
    size: int
    examples: Sequence[FactQuestion]


@dataclass(frozen=True)
class Completion:
    """A text that continues a prefix up to its next part, and the number of facts that begin with it."""

    text: str
    facts: int


@dataclass(frozen=True)
class PredicateOfSubject(EntityDocument):
    """A predicate of a subject, and its number of facts. `inverse`: whether it reads its property backwards."""

    inverse: bool
    facts: int


@dataclass(frozen=True, kw_only=True)
class BrowsedDocument:
    """What an index has: how a prefix continues, or the predicates and facts of a subject. `near`: names like a subject or
    predicate that is not there; `resolved`: the label or alias that was given; `truncated`: whether there is more."""

    index: str
    subject: EntityDocument | None
    completions: Sequence[Completion]
    properties: Sequence[PredicateOfSubject]
    facts: Sequence[FactDocument]
    near: Sequence[str]
    resolved: ResolvedName | None
    truncated: bool


def browsed_document(index: str, found: Browsed) -> BrowsedDocument:
    return BrowsedDocument(
        index=index,
        subject=None if found.subject is None else named(found.subject),
        completions=[Completion(*one) for one in found.completions],
        properties=predicates_of(found),
        facts=[fact_document(linked, fact.text) for fact, linked in found.facts],
        near=[one.name for one in found.near],
        resolved=None if found.resolved is None else resolved_name(found.resolved),
        truncated=found.truncated,
    )


def predicates_of(found: Browsed) -> list[PredicateOfSubject]:
    """Return the predicates of a subject."""
    links = ((one.predicate, one) for one in found.properties)
    return [PredicateOfSubject(link.label, link.id, link.url, one.inverse, one.facts) for link, one in links]


@dataclass(frozen=True, kw_only=True)
class CheckedFact:
    """A fact in a text. `span`: where it stands, in code points; `nearest`: if it does not exist, facts like it that do."""

    fact: FactDocument
    span: tuple[int, int]
    exists: bool
    nearest: Sequence[FactDocument]


@dataclass(frozen=True)
class FactChecks:
    """The facts in a text."""

    index: str
    facts: Sequence[CheckedFact]


def checked_text(index: str, found: Sequence[Checked]) -> FactChecks:
    facts = [
        CheckedFact(
            fact=fact_document(one.linked, one.fact.text),
            span=(one.start, one.stop),
            exists=one.exists,
            nearest=[fact_document(linked, fact.text) for fact, linked in one.nearest],
        )
        for one in found
    ]
    return FactChecks(index, facts)


@dataclass(frozen=True, kw_only=True)
class ClaimDocument:
    """A claim of a text. `start`, `end`: of its sentence, `text`, in code points; `verdict`: holds, differs, or not in the
    index; `fact`: that says the same; `instead`: if it differs, the fact that stands there; `confidence`: in nats."""

    text: str
    start: int
    end: int
    verdict: str
    fact: FactDocument | None
    instead: FactDocument | None
    confidence: float | None


@dataclass(frozen=True)
class TextClaimsDocument:
    """The claims of a text. `sentences`: how many it has; `without_claim`: how many of these make none."""

    claims: Sequence[ClaimDocument]
    sentences: int
    without_claim: int


def claims_document(index: "Index", found: TextClaims) -> TextClaimsDocument:
    linked = {fact: fact_document(link, fact.text) for fact, link in linked_claims(index, found).items()}
    claims = [
        ClaimDocument(
            text=one.text,
            start=one.start,
            end=one.stop,
            verdict=one.verdict,
            fact=None if one.fact is None else linked[one.fact],
            instead=None if one.instead is None else linked[one.instead],
            confidence=rounded(one.confidence),
        )
        for one in found.claims
    ]
    return TextClaimsDocument(claims, found.sentences, found.without_claim)


def linked_claims(index: "Index", found: TextClaims) -> dict[Fact, LinkedFact]:
    """Return the facts of the claims of a text with their ids, in the order of the claims."""
    facts = list(dict.fromkeys(one.fact or one.instead for one in found.claims))
    known = [fact for fact in facts if fact is not None]
    return dict(zip(known, index.links_of(known), strict=True))


def cited(index: "Index", text: str, found: TextClaims) -> str:
    """Return a text with a footnote after each claim that holds or differs, and below it their facts, with links. The numbers
    follow those of footnotes that the text has."""
    linked = linked_claims(index, found)
    first = max((int(number) for number in re.findall(r"\[\^(\d{1,6})\]", text)), default=0) + 1
    notes, pieces, at = dict[tuple[str, Fact], int](), list[str](), 0
    for one in found.claims:
        if (fact := one.fact or one.instead) is not None:
            number = notes.setdefault((one.verdict, fact), first + len(notes))
            pieces += [text[at : one.stop], f"[^{number}]"]
            at = one.stop
    said = {"holds": "", "differs": "The index has: "}
    lines = [
        f"[^{number}]: {said[verdict]}`{fact.text}` {statement_url(linked[fact]) or ''}".rstrip()
        for (verdict, fact), number in notes.items()
    ]
    return "\n".join(["".join([*pieces, text[at:]]).rstrip("\n"), "", *lines]).rstrip("\n")


# What the tools of assistants return: all of a fact's parts are entities, which a model reads with less to explain.


@dataclass(frozen=True, kw_only=True)
class StatedFact:
    """A fact. `text`: as it is written; `inverse`: whether it reads its property backwards; `url`: of its statement on
    Wikidata, null if it has none; `qualifiers`: of a statement."""

    text: str
    subject: EntityDocument
    predicate: EntityDocument
    object: EntityDocument
    inverse: bool
    url: str | None
    qualifiers: Sequence[QualifierDocument] = ()


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
