"""Policies: the ways from a question to SPARQL, by name, on an open index.

Nothing keeps it from making ids up: those that the index does not have are reported.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol, TypeVar

from refactx.ask.chat import ChatServer, Message, ServerRole
from refactx.fact import Link, LinkedFact
from refactx.index import Index
from refactx.query import AnsweredQuery, QueryError, to_sparql, write_line
from refactx.query.facts import TreeFacts
from refactx.query.language import FactSet
from refactx.query.pgmr import IndexNames, Mention, read_pgmr
from refactx.query.pgmr import Names as PgmrNames
from refactx.query.pgmr.index_names import split_name
from refactx.query.pgmr.mentions import kind_of
from refactx.query.sparql.parser import read_sparql
from refactx.query.sparql.prologue import ID, NAMESPACES, split_uri
from refactx.query.sparql.tree import Query, Term, nodes
from refactx.selection.queries import Candidate
from refactx.sparql.engines.engine import QueryRefusedError, SparqlSyntaxError
from refactx.sparql.ids import ids_of
from refactx.sparql.labels import LabelError, Labelled, has_labels, with_iris
from refactx.sparql.memory import FactFeasibility, MemoryResolver, Refused, open_memory
from refactx.sparql.memory.entry import Choice, Entry, Memory, Near, Thresholds, entry_of, has_label, is_described
from refactx.sparql.memory.name_memory import NameMemory
from refactx.sparql.memory.resolver import Feasible
from refactx.sparql.names import Names
from refactx.sparql.policies.policy import (
    MAX_NEW_TOKENS,
    Policy,
    PolicyName,
    SparqlPrompt,
    TextModel,
    Written,
    load_sparql_prompt,
    pgmr_in,
    query_in,
)
from refactx.sparql.syntax import check_query

Known = Callable[[Sequence[str]], Collection[str]]
"""A function that returns those of some ids that exist, such as `index.names_of`."""
NEAREST = 10
"""The names that are given to the model, as in the paper."""
NO_QUERY = "the model wrote no SELECT or ASK query"


class DirectPolicy:
    """A `Policy`: SPARQL with ids, as the model writes it. `known`: returns the ids that exist."""

    name: Literal["direct", "rag"] = "direct"

    def __init__(self, model: TextModel, prompt: SparqlPrompt, known: Known) -> None:
        self._model, self._prompt, self._known = model, prompt, known

    def write(self, question: str) -> Written:
        """Return the query that the model writes; refused if it is not SPARQL."""
        return self._write(question, ())

    def _write(self, question: str, given: Sequence[Entry]) -> Written:
        text = self._model.generate(self._prompt.messages(self.name, question, given), MAX_NEW_TOKENS)
        query = query_in(text)
        reason = NO_QUERY if query is None else _fault(query)
        if query is None or reason:
            return Written(policy=self.name, question=question, text=text, reason=reason, given=tuple(given))
        ids = sorted(ids_of(query).all)
        existing = set(self._known(ids)) if ids else set()
        return Written(
            policy=self.name,
            question=question,
            text=text,
            sparql=query,
            made_up=tuple(id_ for id_ in ids if id_ not in existing),
            given=tuple(given),
        )


class RagPolicy(DirectPolicy):
    """A `Policy`: as `DirectPolicy`, with names in the prompt. `retrieve`: returns the nearest for a question, at most
    so many."""

    name: Literal["direct", "rag"] = "rag"

    def __init__(
        self, model: TextModel, prompt: SparqlPrompt, known: Known, retrieve: Callable[[str, int], Sequence[Entry]]
    ) -> None:
        super().__init__(model, prompt, known)
        self._retrieve = retrieve

    def write(self, question: str) -> Written:
        """Return the query that the model writes, given the nearest names; refused if it is not SPARQL."""
        return self._write(question, self._retrieve(question, NEAREST))


def _fault(query: str) -> str:
    """Return why a query cannot be run; empty if it can."""
    try:
        check_query(query)
    except (SparqlSyntaxError, QueryRefusedError) as error:
        return str(error)
    return "the model wrote labels in place of ids" if has_labels(query) else ""


def resolved(written: Written, resolver: MemoryResolver) -> Written:
    """Return what a model wrote with its query, or with the reason why it is refused.

    Refused is a text without a query, one that is no PGMR text or no SPARQL, a mention that the resolver refuses, and an
    id that came into the query in another way than by the resolver. Raises as the resolver's memory does.
    """
    text = pgmr_in(written.text)
    if text is None:
        return replace(written, reason=NO_QUERY)
    try:
        query = read_pgmr(text)
        found = resolver.resolve_query(query)
        if isinstance(found, Refused):
            return replace(written, reason=found.reason)
        sparql = query.with_ids(found.ids)
        check_query(sparql)
        strange = sorted(ids_within(sparql) - set(found.ids.values()))
    except (QueryError, QueryRefusedError, SparqlSyntaxError) as error:
        return replace(written, reason=str(error))
    if strange:
        return replace(written, reason=f"the query has {', '.join(strange)}, which stands for no name")
    return replace(written, sparql=sparql, choices=found.choices)


def ids_within(sparql: str) -> set[str]:
    """Return the ids of a query as a parser reads them: within URIs however these are spelt, and within strings.

    >>> sorted(ids_within("PREFIX q: <http://www.wikidata.org/entity/Q> ASK { q:5 wdt:P1 ?x FILTER(STR(?x) = 'entity/Q7') }"))
    ['P1', 'Q5', 'Q7']

    Raises QueryError if the query is not SPARQL.
    """
    return {id_ for id_ in _ids(read_sparql(sparql).query) if ID.fullmatch(id_)}


def _ids(query: Query) -> Iterator[str]:
    for node in nodes(query):
        if isinstance(node, Term) and node.kind == "iri":
            namespace, name = split_uri(node.value)
            if namespace in NAMESPACES:
                yield name
        elif isinstance(node, Term) and node.kind == "literal" and "/" in node.value:
            yield node.value.rpartition("/")[2]


class OpenPolicy:
    """A `Policy`: PGMR text of any model, whose names a resolver finds."""

    def __init__(self, model: TextModel, prompt: SparqlPrompt, resolver: MemoryResolver) -> None:
        self._model, self._prompt, self._resolver = model, prompt, resolver

    def write(self, question: str) -> Written:
        """Return the query of the text, with the ids that its names were resolved to."""
        text = self._model.generate(self._prompt.messages("open", question), MAX_NEW_TOKENS)
        return resolved(Written(policy="open", question=question, text=text), self._resolver)


NO_FACTS = "no fact was written for the question, so there are no names for a query"
_TAKEN = Thresholds(entity=1.0, relation=1.0, namesake=0.0)


class HarvestPolicy:
    """A `Policy`: PGMR text of a model that is given the names of facts, and a query of these names alone.

    `ask`: returns the facts that answer a question, as `refactx.Asker.ask` has them in `links`; `names`: those of the
    index; `feasible`: what is known of its facts.
    """

    def __init__(
        self,
        ask: Callable[[str], Sequence[LinkedFact]],
        model: TextModel,
        prompt: SparqlPrompt,
        names: PgmrNames,
        feasible: Feasible | None = None,
    ) -> None:
        self._ask, self._model, self._prompt, self._names = ask, model, prompt, names
        self._feasible = feasible

    def write(self, question: str) -> Written:
        """Return the query of the text; refused if the question has no facts, or the text a name that they do not have."""
        facts = tuple(self._ask(question))
        given = tuple(_entries(facts, self._names))
        if not given:
            return Written(policy="harvest", question=question, text="", reason=NO_FACTS, facts=facts)
        text = self._model.generate(self._prompt.messages("harvest", question, given), MAX_NEW_TOKENS)
        resolver = MemoryResolver(GivenNames(given), feasible=self._feasible)
        return resolved(Written(policy="harvest", question=question, text=text, given=given, facts=facts), resolver)


class GivenNames:
    """A `Memory` of some entries alone. A mention that has none of their labels has nothing near it."""

    thresholds = _TAKEN

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = tuple(entries)

    def exact(self, mentions: Sequence[Mention]) -> list[list[Entry]]:
        return [[one for one in self._entries if has_label(one, mention)] for mention in mentions]

    def nearest(self, mentions: Sequence[Mention], count: int) -> list[list[Near]]:
        return [[] for _ in mentions]

    def similarities(self, mention: Mention, entries: Sequence[Entry]) -> list[float]:
        return [float(is_described(one, mention)) for one in entries]


def _entries(facts: Sequence[LinkedFact], names: PgmrNames) -> list[Entry]:
    """Return the properties and entities of facts, each once: properties by the labels that they have forwards."""
    links = {
        part.id: part
        for fact in facts
        for part in (fact.predicate, fact.subject, fact.object)
        if isinstance(part, Link) and part.id is not None
    }
    known = names.mentions(list(links))
    entries = []
    for id_, link in links.items():
        label, description = split_name(link.label, id_)
        mention = known.get(id_) or Mention("entity", label, description)
        entries.append(Entry(id_, mention.label, (mention.description or "").removeprefix(id_)))
    return sorted(entries, key=lambda one: not one.id.startswith("P"))


HeldModel = Callable[[Sequence[Message], int], str]
"""A function that writes a query with names in angle brackets after a conversation, of at most so many tokens; empty if it
is not whole (`refactx.sparql.decoding.SparqlWriter.generate`)."""


class HeldPolicy:
    """A `Policy`: open text of a model that can write nothing but SPARQL with names of the index."""

    def __init__(self, model: HeldModel, prompt: SparqlPrompt, names: Names) -> None:
        self._model, self._prompt, self._names = model, prompt, names

    def write(self, question: str) -> Written:
        """Return the query with ids; refused if a name of it means nothing there, or if it is not whole. Of the entities
        of an alias, the likeliest is meant."""
        text = self._model(self._prompt.messages("names", question), MAX_NEW_TOKENS)
        written = Written(policy="open", question=question, text=text)
        if not text:
            return replace(written, reason=f"{NO_QUERY} of at most {MAX_NEW_TOKENS} tokens")
        try:
            labelled = with_iris(text, self._names, likeliest=True)
        except (LabelError, QueryRefusedError, SparqlSyntaxError) as error:
            return replace(written, reason=str(error))
        return replace(written, sparql=labelled.sparql, choices=self._choices(labelled))

    def _choices(self, labelled: Labelled) -> dict[str, Choice]:
        """Return what names became ids, by the names in their brackets."""
        ids = {
            labelled.tokens[at].label: iri.rpartition(":")[2]
            for at, iri in labelled.texts.items()
            if labelled.tokens[at].kind == "label" and iri.lstrip("^").startswith(("wd:", "wdt:"))
        }
        named = self._names.facts.names(list(ids.values()))
        return {
            f"<{label}>": Choice(Mention(kind_of(id_), label), entry_of(named.get(id_, label), id_), 1.0, "name")
            for label, id_ in ids.items()
        }


class ChosenQueries(Protocol):
    """The queries that a question may ask, the likeliest first, as `refactx.Asker.query` returns them."""

    @property
    def tells(self) -> float:
        """How much likelier than no query one has to make the question, in nats, to count as what it asks."""
        ...

    @property
    def candidates(self) -> Sequence[Candidate]:
        """The queries with their scores."""
        ...

    def told(self, candidate: Candidate) -> float:
        """Return how much likelier than no query a candidate makes the question, in nats."""
        ...

    def answer(self) -> AnsweredQuery | None:
        """Return the likeliest candidate that has an answer, with it; None if there is none."""
        ...


class StrictPolicy:
    """A `Policy`: the walk of the fact tree that makes the question likeliest.

    `choose`: returns the queries that a question may ask; `facts`: of the index.
    """

    def __init__(self, choose: Callable[[str], ChosenQueries], facts: FactSet) -> None:
        self._choose, self._facts = choose, facts

    def write(self, question: str) -> Written:
        """Return the likeliest query that has an answer, or else the likeliest one."""
        choice = self._choose(question)
        if not choice.candidates:
            reason = "the question names no entity of the index that a query can start from"
            return Written(policy="strict", question=question, text="", reason=reason)
        best, answered = choice.candidates[0], choice.answer()
        query, told = (best.query, choice.told(best)) if answered is None else (answered.query, answered.told)
        written = Written(policy="strict", question=question, text=write_line(query), told=told)
        try:
            return replace(written, sparql=to_sparql(query, self._facts))
        except QueryError as error:  # a name without an id, as in graphs that are not Wikidata's
            return replace(written, reason=str(error))

    def another(self, question: str, tried: Collection[str]) -> str | None:
        """Return the SPARQL of the likeliest query that is not in `tried`, of those that count as what the question asks;
        None if there is none."""
        choice = self._choose(question)
        for candidate in choice.candidates:
            if choice.told(candidate) < choice.tells:
                return None
            try:
                sparql = to_sparql(candidate.query, self._facts)
            except QueryError:
                continue
            if sparql not in tried:
                return sparql
        return None


WORDS = 6
"""The most words of a name that is looked for in a question."""
NAMESAKES = 3
"""The most entities of a name, those with most facts."""
_WORD = re.compile(r"[^\W_]+(?:[.'’-][^\W_]+)*")

Retrieve = Callable[[str, int], Sequence[Entry]]
"""A function that returns the entities and properties nearest to a question, at most so many."""


def retriever_of(memory: Memory, feasible: Feasible, function: Collection[str] = ()) -> Retrieve:
    """Return what finds the names that are nearest to a question.

    By embeddings, the whole question is compared with names, as in the paper. A memory without embeddings compares
    letters, and no name is like a whole question: then those are found that stand in it. Half of them are entities and
    half properties, unless one kind has fewer. `function`: words in lower case that name nothing by themselves.
    """
    if isinstance(memory, NameMemory):
        return lambda question, count: _halves(*_by_words(question, memory, feasible, function), count)
    return lambda question, count: _halves(*_by_embedding(question, memory, count), count)


def _halves(entities: Sequence[Entry], relations: Sequence[Entry], count: int) -> list[Entry]:
    """Return some entities and properties, the first ones of each, each once."""
    entities, relations = _once(entities), _once(relations)
    of_relations = min(len(relations), max(count // 2, count - len(entities)))
    return [*relations[:of_relations], *entities[: count - of_relations]]


def _once(entries: Sequence[Entry]) -> list[Entry]:
    """Return the first entry of each id.

    >>> [one.label for one in _once([Entry("Q1", "a"), Entry("Q2", "b"), Entry("Q1", "c")])]
    ['a', 'b']
    """
    found = dict[str, Entry]()
    for one in entries:
        found.setdefault(one.id, one)
    return list(found.values())


def _by_embedding(question: str, memory: Memory, count: int) -> tuple[list[Entry], list[Entry]]:
    near = memory.nearest([Mention("entity", question), Mention("relation", question)], count)
    entities, relations = ([one.entry for one in some] for some in near)
    return entities, relations


def _by_words(
    question: str, memory: Memory, feasible: Feasible, function: Collection[str]
) -> tuple[list[Entry], list[Entry]]:
    """Return the entities and the properties whose labels or aliases stand in a question, the longest first; then the
    properties that are like a word of it."""
    words = [match[0] for match in _WORD.finditer(question)]
    spans = [
        " ".join(words[at : at + length])
        for length in range(min(WORDS, len(words)), 0, -1)
        for at in range(len(words) - length + 1)
        if any(word.casefold() not in function for word in words[at : at + length])
    ]
    entities, relations = list[Entry](), list[Entry]()
    taken = list[str]()  # of names of several words, the words are not names besides
    mentions = [Mention("entity", span) for span in spans] + [Mention("relation", span) for span in spans]
    for mention, found in zip(mentions, memory.exact(mentions) if mentions else [], strict=True):
        if mention.kind == "relation":
            relations += found
        elif found and not any(f" {mention.label} " in f" {longer} " for longer in taken):
            taken.append(mention.label)
            entities += _most_facts(found, feasible)
    content = [Mention("relation", word) for word in words if word.casefold() not in function]
    near: list[Near] = [one for some in memory.nearest(content, NAMESAKES) for one in some] if content else []
    relations += [one.entry for one in sorted(near, key=lambda one: -one.similarity)]
    return entities, [one for one in relations if kind_of(one.id) == "relation"]


def _most_facts(entries: Sequence[Entry], feasible: Feasible) -> list[Entry]:
    readings = feasible.readings([one.id for one in entries])
    return sorted(entries, key=lambda one: -sum(readings[one.id].values()))[:NAMESAKES]


KEY_VARIABLE = "REFACTX_MODEL_KEY"
"""The environment variable with the key for a model's server."""
_SERVER = ServerRole(name="the model", option="--model-url", key=KEY_VARIABLE, extra="sparql")
_Part = TypeVar("_Part")


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyParts:
    """What policies are made of. Not all need all.

    `model`: writes text; `held`: writes text that is held to the grammar, for open in place of `model`; `ask`: returns the
    facts of an answer (harvest); `choose`: returns the queries that a question may ask (strict); `memory`: by default that
    of the index; `tau`: as of `MemoryResolver`; `prompt`: by default the built-in one.
    """

    model: TextModel | None = None
    held: HeldModel | None = None
    ask: Callable[[str], Sequence[LinkedFact]] | None = None
    choose: Callable[[str], ChosenQueries] | None = None
    memory: Memory | None = None
    tau: float | Thresholds | None = None
    prompt: SparqlPrompt | None = None


def make_policy(name: PolicyName, index: Index, parts: PolicyParts) -> Policy:
    """Return a policy on an open index.

        make_policy("direct", index, PolicyParts(model=EngineTextModel(load_language_model("demo"))))

    Raises ValueError if a part is missing that the policy needs; InputError if a package is not installed; and as
    `open_memory` does.
    """
    if name == "strict":
        return StrictPolicy(_needed(parts.choose, "choose"), TreeFacts(index))
    prompt = parts.prompt or load_sparql_prompt()
    if name == "open" and parts.held is not None:
        return HeldPolicy(parts.held, prompt, Names(index))
    model = _needed(parts.model, "model")
    if name == "direct":
        return DirectPolicy(model, prompt, index.names_of)
    feasible = FactFeasibility(index)
    if name == "harvest":
        return HarvestPolicy(_needed(parts.ask, "ask"), model, prompt, IndexNames(index), feasible)
    memory = open_memory(index) if parts.memory is None else parts.memory
    if name == "rag":
        return RagPolicy(model, prompt, index.names_of, retriever_of(memory, feasible, prompt.function))
    return OpenPolicy(model, prompt, MemoryResolver(memory, tau=parts.tau, feasible=feasible, must_match=True))


def model_at(name: str, url: str) -> TextModel:
    """Return a model on a server with an OpenAI-compatible API. Its key is $REFACTX_MODEL_KEY. Raises InputError for
    what is no URL."""
    return ChatServer(name, url, _SERVER)


def _needed(part: _Part | None, name: str) -> _Part:
    if part is None:
        raise ValueError(f"this policy needs {name}: give PolicyParts({name}=...)")
    return part
