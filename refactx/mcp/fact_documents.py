"""What the tools of facts return: the fields that clients see in the schema of each tool."""

from collections.abc import Sequence
from typing import Any

from typing_extensions import TypedDict  # pydantic takes no other one before Python 3.12

from refactx.asking.answer import fact_json, statement_url
from refactx.asking.lookup import Browsed, Checked
from refactx.fact import Fact, LinkedFact


class Entity(TypedDict):
    """A subject or an object. `id`, `url`: of Wikidata, null if it has none there, and for literals."""

    label: str
    id: str | None
    url: str | None


class Statement(TypedDict):
    """A fact. `text`: as it is written; `inverse`: whether it reads its property backwards; `url`: of its statement on
    Wikidata, null if it has none."""

    text: str
    subject: Entity
    predicate: Entity
    object: Entity
    inverse: bool
    url: str | None


class Completion(TypedDict):
    """A text that continues a prefix up to its next part, and the number of facts that begin with it."""

    text: str
    facts: int


class Completions(TypedDict):
    """What begins with a prefix, those with most facts first. `truncated`: whether there is more."""

    completions: list[Completion]
    truncated: bool


class Property(TypedDict):
    """A predicate of a subject, and its number of facts. `inverse`: whether it reads its property backwards."""

    label: str
    id: str | None
    url: str | None
    inverse: bool
    facts: int


class Statements(TypedDict):
    """The facts of a subject. `properties`: all of its predicates, or the one that was asked for; `near`: if there is no
    such subject, names like it; `truncated`: whether there is more."""

    subject: Entity
    properties: list[Property]
    facts: list[Statement]
    near: list[str]
    truncated: bool


class FactCheck(TypedDict):
    """Whether a fact exists. `nearest`: if it does not, facts like it that do, the most similar first."""

    exists: bool
    fact: Statement
    nearest: list[Statement]


class Answered(TypedDict):
    """An answer with its proof. `unknown`: whether it is that the facts do not tell; `text`: all that the model wrote;
    `queries`: the queries in it, with SPARQL and rows."""

    answer: str
    unknown: bool
    facts: list[Statement]
    queries: list[dict[str, Any]]
    text: str


def statement(fact: Fact, linked: LinkedFact) -> Statement:
    """Return a fact as tools do."""
    found = fact_json(fact, linked)
    value = found["object"]
    return {
        "text": found["text"],
        "subject": found["subject"],
        "predicate": found["predicate"],
        "object": {"label": value["literal"], "id": None, "url": None} if "literal" in value else value,
        "inverse": found["inverse"],
        "url": statement_url(linked),
    }


def completions(found: Browsed) -> Completions:
    """Return what begins with a prefix."""
    return {
        "completions": [{"text": text, "facts": count} for text, count in found.completions],
        "truncated": found.truncated,
    }


def statements(found: Browsed) -> Statements:
    """Return the facts of a subject."""
    document = found.to_json()
    return {
        "subject": document["subject"],
        "properties": document["properties"],
        "facts": [statement(*pair) for pair in found.facts],
        "near": document["near"],
        "truncated": found.truncated,
    }


def fact_check(found: Checked) -> FactCheck:
    """Return whether a fact exists."""
    nearest = [statement(*pair) for pair in found.nearest]
    return {"exists": found.exists, "fact": statement(found.fact, found.linked), "nearest": nearest}


def answered(
    answer: str,
    text: str,
    facts: Sequence[tuple[Fact, LinkedFact]],
    queries: Sequence[dict[str, Any]],
    *,
    unknown: bool,
) -> Answered:
    """Return an answer. `facts`: those in its text, each once."""
    known = {fact.text: statement(fact, linked) for fact, linked in facts}
    return {
        "answer": answer, "unknown": unknown, "facts": list(known.values()), "queries": list(queries), "text": text,
    }  # fmt: skip
