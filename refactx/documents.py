"""What is said in JSON of facts, names, queries and answers: by commands, over HTTP, to assistants, and in evaluations.

A document is a frozen class, which FastAPI and the SDK of MCP take as it is; `to_json` makes JSON of any of them.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from typing import TYPE_CHECKING, Any

from refactx.ask.answer import Answer, statement_url
from refactx.ask.browse import Browsed, Checked
from refactx.ask.claims import TextClaims
from refactx.ask.evidence import Evidence, text_of
from refactx.ask.examples import ExampleQuestion as FactQuestion
from refactx.ask.extraction import ExtractedFacts
from refactx.ask.queries import QueryChoice, QueryReply
from refactx.fact import Fact, Link, LinkedFact
from refactx.walks import AnsweredQuery
from refactx.walks.language import write_line

if TYPE_CHECKING:
    from refactx.index.index import Index
    from refactx.ingest import FactChange
    from refactx.linking import LinkedName
    from refactx.sparql.engines import Result
    from refactx.sparql.packs.translation import Translation
    from refactx.sparql.packs.translator import Event


def to_json(document: object) -> Any:
    """Return what JSON has for a document: an object with its fields, without `references` if there are none; for lists and
    mappings with documents, the same.

    >>> to_json({"facts": [EntityDocument("Alaska", "Q797", None)]})
    {'facts': [{'label': 'Alaska', 'id': 'Q797', 'url': None}]}
    """
    if is_dataclass(document):
        document = {name: value for name, value in vars(document).items() if value or name != "references"}
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
    """A fact. `text`: as it is written; `inverse`: whether it reads its property backwards; `qualifiers`: of a statement;
    `indexes`: of several that are read as one, those that have it; empty if one is read; `references`: the addresses of what
    Wikidata says it is from."""

    text: str
    subject: EntityDocument
    predicate: EntityDocument
    object: EntityDocument | LiteralValue
    inverse: bool
    qualifiers: Sequence[QualifierDocument] = ()
    indexes: Sequence[str] = ()
    references: Sequence[str] = ()


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
        "indexes": linked.indexes,
        "references": linked.references,
    }


def _value(part: Link | str) -> EntityDocument | LiteralValue:
    return LiteralValue(part) if isinstance(part, str) else named(part)


def fact_document(linked: LinkedFact, text: str) -> FactDocument:
    return FactDocument(**fact_fields(linked, text))


def evidence_document(found: Evidence) -> EvidenceDocument:
    return EvidenceDocument(**fact_fields(found.fact, found.text), proves=found.proves)


@dataclass(frozen=True, kw_only=True)
class QueryDocument:
    """A query on the facts, with its answer. `rows`: the members of a list, or groups; `sorted_by`: the value of each, if they
    have an order, or the number of each group; `columns`, `cells`: the further columns of a table, with all values in each;
    `count`: of a list or count; `truth`: of a question for yes or no; `reason`: why it is not complete; `facts`:
    that prove the answer; `confidence`: how much likelier than no query it makes the question, in nats."""

    query: str
    sparql: str | None
    answer: str
    head: str
    rows: Sequence[EntityDocument | LiteralValue]
    sorted_by: Sequence[str]
    columns: Sequence[str]
    cells: Sequence[Sequence[Sequence[EntityDocument | LiteralValue]]]
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
        rows=[_value(row) for row in found.rows[:limit]],
        sorted_by=result.sorted_by[:limit],
        columns=result.columns,
        cells=[[[*map(_value, cell)] for cell in row] for row in found.cells[:limit]],
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


@dataclass(frozen=True, kw_only=True)
class QuestionDocument:
    """A question, or the line of a query, as it was given."""

    question: str


@dataclass(frozen=True, kw_only=True)
class ChosenQuery(QuestionDocument):
    """The query of a question, which was not run. `head`: what it asks for, as its line begins; `resolved`: what labels and
    aliases of a line were taken for."""

    query: str
    sparql: str | None
    head: str
    confidence: float | None
    resolved: Sequence[ResolvedName]


@dataclass(frozen=True, kw_only=True)
class AnsweredQuestion(QueryDocument, QuestionDocument):
    """The query of a question, with its answer. `resolved`: what labels and aliases of a line were taken for."""

    resolved: Sequence[ResolvedName]


@dataclass(frozen=True, kw_only=True)
class ExplainedQuery(ExplainedChoice, ChosenQuery):
    """The query of a question, which was not run, and what it was chosen from."""


@dataclass(frozen=True, kw_only=True)
class ExplainedAnswer(ExplainedChoice, AnsweredQuestion):
    """The query of a question, with its answer and what it was chosen from."""


QueryReplyDocument = AnsweredQuestion | ChosenQuery | ExplainedAnswer | ExplainedQuery


def reply_document(reply: QueryReply, limit: int | None, *, explains: bool) -> QueryReplyDocument:
    """Return the query of a text, with at most `limit` rows and facts (None: all). `explains`: with what it was chosen from."""
    fields: dict[str, Any] = {"question": reply.question, "resolved": [resolved_name(one) for one in reply.resolved]}
    own = {
        "query": reply.line,
        "sparql": reply.sparql,
        "head": reply.query.head,
        "confidence": rounded(reply.confidence),
    }
    fields |= own if reply.answered is None else vars(query_document(reply.answered, limit))
    if explains:
        fields |= vars(ExplainedChoice() if reply.choice is None else explained(reply.choice))
        return ExplainedQuery(**fields) if reply.answered is None else ExplainedAnswer(**fields)
    return ChosenQuery(**fields) if reply.answered is None else AnsweredQuestion(**fields)


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


@dataclass(frozen=True)
class ExtractedFactDocument:
    """A fact that a text states. `start`, `end`: of its sentence, `text`, in code points; `known`: whether the index has it;
    `new_names`: those in it that the index does not have; `confidence`: in nats."""

    fact: FactDocument
    text: str
    start: int
    end: int
    confidence: float | None
    known: bool
    new_names: Sequence[str]


@dataclass(frozen=True)
class ExtractedFactsDocument:
    """The facts that a text states. `sentences`: how many it has; `without_fact`: how many of these state none that was found;
    `doubted`: how many facts the second look left out."""

    facts: Sequence[ExtractedFactDocument]
    sentences: int
    without_fact: int
    doubted: int


def extracted_document(index: "Index", found: ExtractedFacts) -> ExtractedFactsDocument:
    linked = index.links_of([one.fact for one in found.facts])
    facts = [
        ExtractedFactDocument(
            fact=fact_document(link, one.fact.text),
            text=one.text,
            start=one.start,
            end=one.stop,
            confidence=rounded(one.confidence),
            known=one.is_known,
            new_names=one.new_names,
        )
        for one, link in zip(found.facts, linked, strict=True)
    ]
    return ExtractedFactsDocument(facts, found.sentences, found.without_fact, found.doubted)


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


@dataclass(frozen=True)
class SparqlRows:
    """The result of a SELECT in the JSON of the W3C. `head`: `vars`, the names of its variables; `results`: `bindings`, for
    each row the terms by variable (`type`, `value`, maybe `datatype` or `xml:lang`); `note`: what names were taken for, and
    what is to be known of the rows; `labels`: the names of IRIs in the rows; `truncated`: whether there are more rows."""

    head: Mapping[str, Sequence[str]]
    results: Mapping[str, Sequence[Mapping[str, Mapping[str, Any]]]]
    note: str
    labels: Mapping[str, str]
    truncated: bool


@dataclass(frozen=True)
class SparqlTruth:
    """The result of an ASK in the JSON of the W3C, whose `head` is empty. `note`: what names were taken for."""

    head: Mapping[str, Any]
    boolean: bool
    note: str


def sparql_document(result: "Result", note: str, names: Callable[..., Mapping[str, str]]) -> SparqlRows | SparqlTruth:
    """Return the result of a query. `names`: returns the names of ids, without those that have none."""
    from refactx.sparql.results import bindings, labels  # the library of the store

    if isinstance(result, bool):
        return SparqlTruth({}, result, note)
    rows, called = {"bindings": list(bindings(result))}, labels(result.rows, names)
    return SparqlRows({"vars": result.variables}, rows, note, called, result.truncated)


@dataclass(frozen=True)
class ScoredExample:
    """An example of a pack that a query was written after. `id`: in the pack; `score`: how like the question it is, 0 to 1."""

    id: str
    score: float


@dataclass(frozen=True)
class AttemptDocument:
    """A query that a model wrote. `rows`: how many it had, null if it was not run; `problems`: what was wrong with it."""

    sparql: str | None
    valid: bool
    rows: int | None
    problems: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class TranslationDocument(QuestionDocument):
    """The SPARQL of a question. `rows`: how many the query had, null if it was not run; `confidence`: how likely it is right,
    0 to 1, null without a calibration; `patterns`: those of the question, with their scores; `reason`: why there is no query,
    or why no more attempts were made."""

    sparql: str | None
    valid: bool
    rows: int | None
    confidence: float | None
    patterns: Mapping[str, float]
    examples: Sequence[ScoredExample]
    attempts: Sequence[AttemptDocument]
    reason: str


def translation_document(found: "Translation") -> TranslationDocument:
    return TranslationDocument(
        question=found.question,
        sparql=found.sparql,
        valid=found.valid,
        rows=found.rows,
        confidence=rounded(found.confidence),
        patterns={name: round(score, 3) for name, score in found.patterns.items()},
        examples=[ScoredExample(one.example.id, round(one.score, 3)) for one in found.evidence],
        attempts=[AttemptDocument(one.sparql, one.is_valid, one.rows, one.problems) for one in found.attempts],
        reason=found.reason,
    )


def step_json(event: "Event") -> dict[str, Any]:
    """Return the JSON of a step of a translation, with what it found; the last one has the `translation`."""
    step = {"step": event.number, "node": event.node, "seconds": round(event.seconds, 3), "tokens": event.tokens}
    found = {} if event.translation is None else {"translation": to_json(translation_document(event.translation))}
    return step | dict(event.detail) | found


@dataclass(frozen=True, kw_only=True)
class PackName:
    """The name of a pack, empty if there is none."""

    pack: str


@dataclass(frozen=True, kw_only=True)
class TranslationReply(TranslationDocument, PackName):
    """The SPARQL of a question by the pack of a server. `steps`: each with its number `step`, its `node`, the `seconds` and
    `tokens` up to its end, and what it found."""

    steps: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class FactChangeDocument:
    """What became of a fact in `index`. `fact`: as the index has it; `added`, `removed`: all facts that were written or taken
    away, inverse ones too; `contradicts`: other values, because of which nothing was written; `notes`: what names were taken
    as; `is_written`: whether the index has changed."""

    index: str
    change: str
    fact: str
    added: Sequence[str]
    removed: Sequence[str]
    contradicts: Sequence[str]
    notes: Sequence[str]
    seconds: float
    is_written: bool


def fact_change_document(done: "FactChange") -> FactChangeDocument:
    return FactChangeDocument(**asdict(done), is_written=done.is_written)
