"""The writers of queries: the ways from a question to SPARQL, of which a model writes more or less itself.

| writer | what the model writes | where ids come from |
|---|---|---|
| `from-walk` | nothing: it scores walks of the fact tree | the index |
| `harvest` | PGMR text, given the names of facts that it wrote before | these facts |
| `constrained` | SPARQL with names of the index, and nothing else | the index |
| `placeholders` | PGMR text | the memory of the index, or the query is refused |
| `rag-placeholders` | PGMR text, given the 10 nearest names | the same |
| `rag` | SPARQL with ids, given the 10 nearest names | the model |
| `ids` | SPARQL with ids | the model |

These are on an index (`make_writer`, `open_writers`); `PackWriter` is for the endpoint of a domain pack. Nothing
keeps `rag` and `ids` from making ids up: those that the index does not have are reported.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

from refactx.ask.answer import Answer
from refactx.ask.chat_server import ChatServer, ServerRole, TextModel
from refactx.ask.chat_text import ChatModel
from refactx.ask.evidence import SEPARATOR
from refactx.ask.queries import QueryChoice
from refactx.fact import Link, LinkedFact
from refactx.index import Index
from refactx.iris import ID, entity_iri, id_of_term, id_within
from refactx.linking.names import bare_name
from refactx.sparql.engines.checking import check_query
from refactx.sparql.engines.engine import QueryRefusedError, SparqlSyntaxError
from refactx.sparql.labels import LabelError, Labelled, has_labels, unknown_ids, with_iris
from refactx.sparql.packs.pack import Pack
from refactx.sparql.packs.prompt import (
    STEERED,
    SparqlPrompt,
    WriterName,
    WritingTask,
    conversation,
    load_sparql_prompt,
    pgmr_in,
    query_in,
)
from refactx.sparql.packs.translation import Attempt
from refactx.sparql.placeholders.entry import (
    Match,
    Memory,
    MemoryEntry,
    MentionChoice,
    Near,
    Refused,
    Thresholds,
    entry_of,
    has_label,
    is_described,
)
from refactx.sparql.placeholders.index_names import IndexNames, split_name
from refactx.sparql.placeholders.name_memory import NameMemory
from refactx.sparql.placeholders.opening import open_memory
from refactx.sparql.placeholders.resolver import FactFeasibility, Feasible, MemoryResolver
from refactx.sparql.placeholders.text import Kind, MentionNames, Placeholder, read_pgmr
from refactx.sparql.syntax import tree
from refactx.sparql.syntax.parser import read_sparql
from refactx.walks import Hop, Query, QueryError, to_sparql, write_line
from refactx.walks.facts import TreeFacts
from refactx.walks.language import FactSet

if TYPE_CHECKING:
    from refactx.ask.prompt import Prompt
    from refactx.models.options import EngineOptions

_Value = TypeVar("_Value")
MAX_NEW_TOKENS = 300
"""The most tokens of a text: three times those of the longest gold query of most sets of questions."""
Retrieve = Callable[[str, int], Sequence[MemoryEntry]]
"""A function that returns the entities and properties nearest to a question, at most so many."""
Known = Callable[[Sequence[str]], Collection[str]]
"""A function that returns those of some ids that exist, such as `index.names_of`."""
NEAREST = 10
"""The names that are given to the model, as in the paper."""
NO_QUERY = "the model wrote no SELECT or ASK query"
NO_FACTS = "no fact was written for the question, so there are no names for a query"
_TAKEN: Mapping[Match, float] = {"entity": 1.0, "relation": 1.0, "namesake": 0.0}
_KEPT = 16
"""For how many questions the scores are kept, so that a third attempt needs no model."""
WORDS = 6
"""The most words of a name that is looked for in a question."""
NAMESAKES = 3
"""The most entities of a name, those with most facts."""
_WORD = re.compile(r"[^\W_]+(?:[.'’-][^\W_]+)*")
KEY_VARIABLE = "REFACTX_MODEL_KEY"
"""The environment variable with the key for a model's server."""
_SERVER = ServerRole(name="the model", option="--model-url", key=KEY_VARIABLE, extra="sparql")


class PolicyWriter(Protocol):
    """A way from a question to SPARQL."""

    def write(self, task: WritingTask) -> Attempt:
        """Return the query of a task, or why there is none.

        Raises InputError for a question without visible text, and as its model and index do.
        """
        ...


class IdsWriter:
    """SPARQL with ids, as the model writes it. `known`: returns the ids that exist; `retrieve`: returns the nearest names
    for a question, at most so many, which the model is given (`rag`)."""

    def __init__(self, model: TextModel, prompt: SparqlPrompt, known: Known, retrieve: Retrieve | None = None) -> None:
        self._model, self._prompt, self._known, self._retrieve = model, prompt, known, retrieve

    def write(self, task: WritingTask) -> Attempt:
        """Return the query that the model writes; refused if it is not SPARQL."""
        name: Literal["ids", "rag"] = "ids" if self._retrieve is None else "rag"
        given = () if self._retrieve is None else tuple(self._retrieve(task.question, NEAREST))
        messages = self._prompt.messages(name, task.question, given)
        text = task.meter.generate(self._model, messages, MAX_NEW_TOKENS)
        query, reason = query_in(text), NO_QUERY
        if query is not None:
            try:
                check_query(query)
                reason = "the model wrote labels in place of ids" if has_labels(query) else ""
            except (SparqlSyntaxError, QueryRefusedError) as error:
                reason = str(error)
        written = Attempt(writer=name, text=text, reason=reason, given=given)
        if query is None or reason:
            return written
        return replace(written, sparql=query, made_up=tuple(sorted(*unknown_ids([query], self._known))))


def resolved(written: Attempt, resolver: MemoryResolver) -> Attempt:
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
        resolved_to = set(map(entity_iri, found.ids.values()))
        strange = sorted(id_ for id_ in ids_within(sparql) if entity_iri(id_) not in resolved_to)
    except (QueryError, QueryRefusedError, SparqlSyntaxError) as error:
        return replace(written, reason=str(error))
    if strange:
        return replace(written, reason=f"the query has {', '.join(strange)}, which stands for no name")
    return replace(written, sparql=sparql, choices=found.choices)


def ids_within(sparql: str) -> set[str]:
    """Return the ids of a query as a parser reads them: within URIs however these are spelt, and Wikidata's within strings.

    >>> sorted(ids_within("PREFIX q: <http://www.wikidata.org/entity/Q> ASK { q:5 wdt:P1 ?x FILTER(STR(?x) = 'entity/Q7') }"))
    ['P1', 'Q5', 'Q7']

    Raises QueryError if the query is not SPARQL.
    """
    terms = [node for node in tree.nodes(read_sparql(sparql).query) if isinstance(node, tree.Term)]
    ends = [one.value.rpartition("/")[2] for one in terms if one.kind == "literal" and "/" in one.value]
    found = {id_within(one.value) for one in terms if one.kind == "iri"}
    return {id_ for id_ in found if id_ is not None} | {id_ for id_ in ends if ID.fullmatch(id_)}


class PlaceholderWriter:
    """PGMR text of any model, whose names a resolver finds. `retrieve`: as of `IdsWriter`; the prompt is then that of
    `harvest`, and names that were not given are resolved too (`rag-placeholders`)."""

    def __init__(
        self, model: TextModel, prompt: SparqlPrompt, resolver: MemoryResolver, retrieve: Retrieve | None = None
    ) -> None:
        self._model, self._prompt, self._resolver, self._retrieve = model, prompt, resolver, retrieve

    def write(self, task: WritingTask) -> Attempt:
        """Return the query of the text, with the ids that its names were resolved to."""
        given = () if self._retrieve is None else tuple(self._retrieve(task.question, NEAREST))
        messages = self._prompt.messages("harvest" if given else "placeholders", task.question, given)
        text = task.meter.generate(self._model, messages, MAX_NEW_TOKENS)
        name: WriterName = "placeholders" if self._retrieve is None else "rag-placeholders"
        return resolved(Attempt(writer=name, text=text, given=given), self._resolver)


class HarvestWriter:
    """PGMR text of a model that is given the names of facts, and a query of these names alone.

    `ask`: returns the facts that answer a question, as `refactx.Asker.ask` has them in `links`; `names`: those of the
    index; `feasible`: what is known of its facts.
    """

    def __init__(
        self,
        ask: Callable[[str], Sequence[LinkedFact]],
        model: TextModel,
        prompt: SparqlPrompt,
        names: MentionNames,
        feasible: Feasible | None = None,
    ) -> None:
        self._ask, self._model, self._prompt, self._names = ask, model, prompt, names
        self._feasible = feasible

    def write(self, task: WritingTask) -> Attempt:
        """Return the query of the text; refused if the question has no facts, or the text a name that they do not have."""
        facts = tuple(task.meter.timed(self._ask, task.question))
        given = tuple(_entries(facts, self._names))
        written = Attempt(writer="harvest", text="", given=given, facts=facts)
        if not given:
            return replace(written, reason=NO_FACTS)
        messages = self._prompt.messages("harvest", task.question, given)
        text = task.meter.generate(self._model, messages, MAX_NEW_TOKENS)
        return resolved(replace(written, text=text), MemoryResolver(GivenNames(given), feasible=self._feasible))


class GivenNames:
    """A `Memory` of some entries alone. A mention that has none of their labels has nothing near it."""

    thresholds = _TAKEN

    def __init__(self, entries: Sequence[MemoryEntry]) -> None:
        self._entries = tuple(entries)

    def exact(self, mentions: Sequence[Placeholder]) -> list[list[MemoryEntry]]:
        return [[one for one in self._entries if has_label(one, mention)] for mention in mentions]

    def nearest(self, mentions: Sequence[Placeholder], count: int) -> list[list[Near]]:
        return [[] for _ in mentions]

    def similarities(self, mention: Placeholder, entries: Sequence[MemoryEntry]) -> list[float]:
        return [float(is_described(one, mention)) for one in entries]


def _entries(facts: Sequence[LinkedFact], names: MentionNames) -> list[MemoryEntry]:
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
        mention = known.get(id_) or Placeholder("entity", *split_name(link.label))
        entries.append(
            MemoryEntry(id_, mention.label, (mention.description or "").removeprefix(id_), kind=mention.kind)
        )
    return sorted(entries, key=lambda one: one.kind == "entity")


class ConstrainedWriter:
    """SPARQL with names of the index in angle brackets, by a model that can write nothing else, such as
    `refactx.sparql.SparqlWriter`."""

    def __init__(self, model: TextModel, prompt: SparqlPrompt, facts: TreeFacts) -> None:
        self._model, self._prompt, self._facts = model, prompt, facts

    def write(self, task: WritingTask) -> Attempt:
        """Return the query with ids; refused if a name of it means nothing there, or if it is not whole. Of the entities
        of an alias, the likeliest is meant."""
        messages = self._prompt.messages("constrained", task.question)
        text = task.meter.generate(self._model, messages, MAX_NEW_TOKENS)
        written = Attempt(writer="constrained", text=text)
        if not text:
            return replace(written, reason=f"{NO_QUERY} of at most {MAX_NEW_TOKENS} tokens")
        try:
            labelled = with_iris(text, self._facts)
        except (LabelError, QueryRefusedError, SparqlSyntaxError) as error:
            return replace(written, reason=str(error))
        return replace(written, sparql=labelled.sparql, choices=self._choices(labelled))

    def _choices(self, labelled: Labelled) -> dict[str, MentionChoice]:
        """Return what names became ids, by the names in their brackets."""
        ids = {
            labelled.tokens[at].label: id_of_term(term.strip("(^)"))
            for at, term in labelled.texts.items()
            if labelled.tokens[at].kind == "label"
        }
        named = self._facts.names(list(ids.values()))
        properties = self._facts.describe(list(named.values()))
        choices = {}
        for label, id_ in ids.items():
            if id_ in named:
                kind: Kind = "relation" if named[id_] in properties else "entity"
                choices[f"<{label}>"] = MentionChoice(
                    Placeholder(kind, label), entry_of(named[id_], id_, kind), 1.0, "name"
                )
        return choices


class WalkWriter:
    """Walks of the fact tree as SPARQL: the one that makes the question likeliest, of those that have an answer.

    After failed attempts it is the likeliest other one. One with rows stays, even if it is doubted: those after it are
    less likely, and do not learn from the doubt.

    `choose`: returns the queries that a question may ask, such as `refactx.Asker.query`; `facts`: of the index; `ask`:
    answers a question with facts and queries, such as `refactx.Asker.ask`: then the first query is the one that an answer
    comes from. Threads may share it if they may share these.
    """

    def __init__(
        self, choose: Callable[[str], QueryChoice], facts: FactSet, ask: Callable[[str], Answer] | None = None
    ) -> None:
        self._choose = choose if ask is None else lru_cache(_KEPT)(choose)
        self._facts, self._ask = facts, ask

    def write(self, task: WritingTask) -> Attempt:
        """Return the next walk that is not among the failed attempts, without a text if there is none."""
        if task.failed:
            return self._another(task)
        if self._ask is not None:
            query = query_behind(task.meter.timed(self._ask, task.question), self._facts)
            if query is not None and (written := self._written(query)).sparql is not None:
                return written
        choice = task.meter.timed(self._choose, task.question)
        if not choice.candidates:
            reason = "the question names no entity of the index that a query can start from"
            return Attempt(writer="from-walk", text="", reason=reason)
        best, answered = choice.candidates[0], choice.answer()
        if answered is None:
            return replace(self._written(best.query), confidence=choice.confidence(best))
        return replace(self._written(answered.query), confidence=answered.confidence)

    def _written(self, query: Query) -> Attempt:
        written = Attempt(writer="from-walk", text=write_line(query))
        try:
            return replace(written, sparql=to_sparql(query, self._facts))
        except QueryError as error:  # a name without an id, as those of ready-made facts
            return replace(written, reason=str(error))

    def _another(self, task: WritingTask) -> Attempt:
        """Return the likeliest query that was not tried, of those that count as what the question asks."""
        tried = {one.sparql for one in task.failed}
        choice = None if any(one.rows for one in task.failed) else task.meter.timed(self._choose, task.question)
        for candidate in () if choice is None else choice.candidates:
            if choice is None or choice.confidence(candidate) < choice.min_confidence:
                break
            written = self._written(candidate.query)
            if written.sparql is not None and written.sparql not in tried:
                return written
        return Attempt(writer="from-walk", text="")


def query_behind(answer: Answer, facts: FactSet) -> Query | None:
    """Return the query that has an answer's items as rows: its own, or the walk along its last fact that has one of them.

    None if there is neither. With the answer `Bern` after `<Switzerland> <capital> <Bern (city)>`, it is
    `list <Switzerland> <capital>`; with the answer `Switzerland`, `list <Bern (city)> <capital of>`.
    """
    if answer.queries:
        return answer.queries[-1].query
    items = {item.strip().casefold() for item in answer.answer.split(SEPARATOR)}
    for fact in reversed(answer.facts):
        if bare_name(fact.object).casefold() in items:
            return Query("list", fact.subject, (Hop(fact.predicate),))
        if bare_name(fact.subject).casefold() in items:
            inverse = facts.inverse_of(fact.predicate)
            if inverse is not None:
                return Query("list", fact.object, (Hop(inverse),))
    return None


class PackWriter:
    """SPARQL for the endpoint of a pack, by a model that is shown its texts and examples, and what was wrong before.

    `max_new_tokens`: the most tokens of a query.
    """

    def __init__(self, pack: Pack, model: TextModel, max_new_tokens: int) -> None:
        self._pack, self._model, self._most = pack, model, max_new_tokens

    def write(self, task: WritingTask) -> Attempt:
        """Return the query in the model's reply."""
        text = task.meter.generate(self._model, conversation(self._pack, task), self._most)
        return Attempt(text=text, sparql=query_in(text))


def retriever_of(memory: Memory, feasible: Feasible, function: Collection[str] = ()) -> Retrieve:
    """Return what finds the names that are nearest to a question.

    By embeddings, the whole question is compared with names, as in the paper. A memory without embeddings compares
    letters, and no name is like a whole question: then those are found that stand in it. Half of them are entities and
    half properties, unless one kind has fewer. `function`: words in lower case that name nothing by themselves.
    """
    by_words = isinstance(memory, NameMemory)

    def retrieve(question: str, count: int) -> list[MemoryEntry]:
        if by_words:
            entities, relations = _by_words(question, memory, feasible, function)
        else:
            near = memory.nearest([Placeholder("entity", question), Placeholder("relation", question)], count)
            entities, relations = ([one.entry for one in some] for some in near)
        entities, relations = _once(entities), _once(relations)
        of_relations = min(len(relations), max(count // 2, count - len(entities)))
        return [*relations[:of_relations], *entities[: count - of_relations]]

    return retrieve


def _once(entries: Sequence[MemoryEntry]) -> list[MemoryEntry]:
    """Return the first entry of each id."""
    found = dict[str, MemoryEntry]()
    for one in entries:
        found.setdefault(one.id, one)
    return list(found.values())


def _by_words(
    question: str, memory: Memory, feasible: Feasible, function: Collection[str]
) -> tuple[list[MemoryEntry], list[MemoryEntry]]:
    """Return the entities and the properties whose labels or aliases stand in a question, the longest first; then the
    properties that are like a word of it."""
    words = [match[0] for match in _WORD.finditer(question)]
    spans = [
        " ".join(words[at : at + length])
        for length in range(min(WORDS, len(words)), 0, -1)
        for at in range(len(words) - length + 1)
        if any(word.casefold() not in function for word in words[at : at + length])
    ]
    entities, relations = list[MemoryEntry](), list[MemoryEntry]()
    taken = list[str]()  # of names of several words, the words are not names besides
    mentions = [Placeholder("entity", span) for span in spans] + [Placeholder("relation", span) for span in spans]
    for mention, found in zip(mentions, memory.exact(mentions) if mentions else [], strict=True):
        if mention.kind == "relation":
            relations += found
        elif found and not any(f" {mention.label} " in f" {longer} " for longer in taken):
            taken.append(mention.label)
            readings = feasible.readings([one.id for one in found])
            entities += sorted(found, key=lambda one: -sum(readings[one.id].values()))[:NAMESAKES]
    content = [Placeholder("relation", word) for word in words if word.casefold() not in function]
    near: list[Near] = [one for some in memory.nearest(content, NAMESAKES) for one in some] if content else []
    relations += [one.entry for one in sorted(near, key=lambda one: -one.similarity)]
    return entities, relations


def make_writer(
    name: WriterName,
    index: Index,
    *,
    model: TextModel | None = None,
    ask: Callable[[str], Sequence[LinkedFact]] | None = None,
    choose: Callable[[str], QueryChoice] | None = None,
    memory: Memory | None = None,
    tau: Thresholds | None = None,
    prompt: SparqlPrompt | None = None,
) -> PolicyWriter:
    """Return a writer on an open index.

        make_writer("ids", index, model=ChatModel(load_language_model("demo")))

    `model`: writes text, for `constrained` as `refactx.sparql.SparqlWriter` does; `ask`: returns the facts of an answer
    (harvest); `choose`: returns the queries that a question may ask (from-walk); `memory`: by default that of the index;
    `tau`: as of `MemoryResolver`; `prompt`: by default the built-in one.

    Raises ValueError if an argument is missing that the writer needs; InputError if a package is not installed; and as
    `open_memory` does.
    """
    if name == "from-walk":
        return WalkWriter(_needed(name, "choose", choose), TreeFacts(index))
    model, prompt = _needed(name, "model", model), prompt or load_sparql_prompt()
    if name == "constrained":
        return ConstrainedWriter(model, prompt, TreeFacts(index))
    if name == "ids":
        return IdsWriter(model, prompt, index.names_of)
    feasible = FactFeasibility(index)
    if name == "harvest":
        return HarvestWriter(_needed(name, "ask", ask), model, prompt, IndexNames(index), feasible)
    memory = open_memory(index) if memory is None else memory
    retrieve = None if name == "placeholders" else retriever_of(memory, feasible, prompt.function)
    if name == "rag":
        return IdsWriter(model, prompt, index.names_of, retrieve)
    resolver = MemoryResolver(memory, tau=tau, feasible=feasible, must_match=True)
    return PlaceholderWriter(model, prompt, resolver, retrieve)


def _needed(name: WriterName, key: str, value: _Value | None) -> _Value:
    if value is None:
        raise ValueError(f"the writer {name} needs {key}: give make_writer({name!r}, ..., {key}=...)")
    return value


def open_writers(
    names: Collection[WriterName],
    index: Index,
    model: str,
    *,
    url: str | None = None,
    machine: "EngineOptions | None" = None,
    answers: "Prompt | None" = None,
    prompt: SparqlPrompt | None = None,
    tau: Thresholds | None = None,
) -> dict[WriterName, PolicyWriter]:
    """Return some writers on an open index, over one model, which is loaded by name.

    `url`: of the model's server, None to run it here by `machine`; `answers`: the prompt of answers, for from-walk and
    harvest; `prompt`, `tau`: as of `make_writer`, which this raises as.
    """
    if url is not None:
        server = model_at(model, url)
        return {name: make_writer(name, index, model=server, prompt=prompt, tau=tau) for name in names}
    from refactx.engines.language_models import load_language_model

    loaded = load_language_model(model, index if set(names) & set(STEERED) else None, machine)
    free: TextModel | None = ChatModel(loaded) if set(names) - {"from-walk", "constrained"} else None
    asker, constrained = None, None
    if "constrained" in names:
        from refactx.sparql.constrained import SparqlWriter  # needs llguidance

        constrained = SparqlWriter(loaded, index)
    if {"from-walk", "harvest"} & set(names):
        from refactx.ask.asker import Asker

        asker = Asker(loaded, loaded.tokenizer, index, answers)
    found = dict[WriterName, PolicyWriter]()
    for name in names:
        found[name] = make_writer(
            name,
            index,
            model=constrained if name == "constrained" else free,
            ask=None if asker is None else lambda text: asker.ask(text).links,
            choose=None if asker is None else asker.query,
            prompt=prompt,
            tau=tau,
        )
    return found


def model_at(name: str, url: str) -> TextModel:
    """Return a model on a server with an OpenAI-compatible API. Its key is $REFACTX_MODEL_KEY. Raises InputError for
    what is no URL."""
    return ChatServer(name, url, _SERVER)
