"""The conversations that ask a model for the query of a question, and the query in its reply.

For an index of Wikidata they are a file of TOML in `refactx.prompts`: for each writer a table with `system` and `user`;
`[[example]]` tables; and `function`, words that name nothing by themselves. An example is written once, with ids and what
these are called, and is shown with ids or as PGMR text.
"""

import json
import re
import sys
import time
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, ParamSpec, TypeVar, get_args

from refactx.ask.chat_server import CancellableModel, TextModel
from refactx.ask.conversation import Message
from refactx.decoding.thoughts import without_thoughts
from refactx.entity_ids import is_wikidata_property
from refactx.errors import InputError, RefactxError
from refactx.fact import clean_part
from refactx.iris import ID, entity_term
from refactx.paths import read_toml
from refactx.sparql.engines.checking import check_query
from refactx.sparql.engines.engine import QueryRefusedError, SparqlSyntaxError
from refactx.sparql.labels import Ids, ids_of
from refactx.sparql.placeholders.entry import MemoryEntry, entry_of
from refactx.sparql.placeholders.text import Placeholder, to_pgmr
from refactx.sparql.syntax.prologue import Prologue
from refactx.sparql.syntax.tokens import joined, tokens_of
from refactx.walks.language import QueryError

if TYPE_CHECKING:
    from refactx.sparql.packs.pack import Pack
    from refactx.sparql.packs.retrieval import Retrieved
    from refactx.sparql.packs.translation import Attempt

WriterName = Literal["from-walk", "harvest", "constrained", "placeholders", "rag-placeholders", "ids", "rag"]
WRITERS: tuple[WriterName, ...] = get_args(WriterName)
STEERED: tuple[WriterName, ...] = ("from-walk", "harvest", "constrained")
"""The writers that choose among a model's continuations, which no server offers."""
AS_PGMR: tuple[WriterName, ...] = ("placeholders", "rag-placeholders", "harvest")
"""The writers whose model writes PGMR text."""
_OLD_WRITERS: dict[str, WriterName] = {"strict": "from-walk", "direct": "ids"}
Form = Literal["ids", "rag", "placeholders", "harvest", "constrained"]
"""The texts of a writer whose model writes them."""
_OLD = {"direct": "ids", "open": "placeholders", "names": "constrained"}
"""What tables of files were called before."""
_AS_PGMR = ("placeholders", "harvest")
_WITH_NAMES = ("rag", "harvest")
EXPECTED = (
    "expected tables ids, rag, placeholders, harvest and constrained, each with system and user, which has $question (in rag "
    "and harvest $names too), and [[example]] tables with question, sparql and names"
)
_FENCE = re.compile(r"^[ \t]*(?:`{3,}|~{3,})(?:[^`\n]*$|\w*)|`{3,}", re.MULTILINE)
_BEGIN = re.compile(
    r"\bPREFIX\s+[\w.-]*:\s*<|\bBASE\s*<|\bSELECT\s*(?:DISTINCT\b|REDUCED\b|[?$*(])|\bASK\s*(?:WHERE\b|FROM\b|\{)",
    re.IGNORECASE,
)
_COMMENT = re.compile(r"[ \t]*#.*")
_FORM = re.compile(r"(?<![?$:\w])(?:SELECT|ASK)\b", re.IGNORECASE)
_MODIFIER = re.compile(r"\s*(?:GROUP\s+BY|HAVING|ORDER\s+BY|LIMIT|OFFSET|VALUES)\b", re.IGNORECASE)
_HEAD = re.compile(r"(?<!\S)((?:entity|relation)\w+)\s*=\s*(?=\[)", re.IGNORECASE)
_PLACEHOLDER = re.compile(r"\b(?:entity|relation)\w+", re.IGNORECASE)
ADAPTED = 0.85
"""An example with at least this score is nearly the same question: its query is to be adapted."""
SHOWN_FAILURES = 3
"""The most attempts that are shown again, the last ones."""
_P = ParamSpec("_P")
_R = TypeVar("_R")
_PIECE = re.compile(r"\w{1,4}|[^\w\s]")


def writer_named(name: str, *, constrained: bool) -> WriterName:
    """Return the writer that a name means, also one of earlier releases. `constrained`: whether text is to be constrained;
    else names stand for placeholders.

    >>> writer_named("direct", constrained=True), writer_named("open", constrained=False)
    ('ids', 'placeholders')

    Raises InputError for a name that means none.
    """
    if name in ("open", "constrained") and not constrained:
        return "placeholders"
    found = {one: one for one in WRITERS} | _OLD_WRITERS | {"open": "constrained"}
    if name not in found:
        raise InputError(f"{name} is no policy: give some of {','.join(WRITERS)}")
    return found[name]


@dataclass(frozen=True, slots=True)
class WriterTexts:
    """The system message of a writer, and the user's message, with $question and maybe $names; `examples`: how many it
    shows, the first ones, None: all."""

    system: str
    user: str
    examples: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SparqlExample:
    """A question and its query with ids. `names`: those of the query's ids; `others`: more that a model may be given."""

    question: str
    sparql: str
    names: tuple[MemoryEntry, ...]
    others: tuple[MemoryEntry, ...] = ()

    def mentions(self, ids: Sequence[str]) -> dict[str, Placeholder]:
        """Return the mentions of ids (`refactx.sparql.placeholders.MentionNames`)."""
        named = {one.id: Placeholder(one.kind, one.label, one.description) for one in self.names}
        return {id_: named[id_] for id_ in ids if id_ in named}

    def text(self, form: Form) -> str:
        """Return the query as the model is to write it."""
        if form in _AS_PGMR:
            return to_pgmr(self.sparql, self)
        if form != "constrained":
            return self.sparql
        prologue, named = Prologue(tokens_of(self.sparql)), {one.id: one.text for one in self.names}
        texts = {term.start: f"<{named[term.id]}>" for term in prologue.uris() if term.id in named}
        return "SPARQL: " + joined(prologue.tokens, texts)


@dataclass(frozen=True, slots=True)
class SparqlPrompt:
    """The texts of each writer, and the examples that all of them show. `function`: words of questions, in lower case,
    that name nothing by themselves; `shots`: returns the examples of a question, which stand in the place of the others."""

    texts: Mapping[Form, WriterTexts]
    examples: tuple[SparqlExample, ...]
    function: frozenset[str] = frozenset()
    shots: Callable[[str], Sequence[SparqlExample]] | None = None

    def messages(self, form: Form, question: str, given: Sequence[MemoryEntry] = ()) -> list[Message]:
        """Return the conversation up to a question. `given`: entities and properties that are given to the model.

        Raises InputError for a question without visible text.

        >>> load_sparql_prompt().messages("ids", "Who?")[-2:]  # doctest: +ELLIPSIS
        [{'role': 'assistant', 'content': 'SELECT ...'}, {'role': 'user', 'content': 'Who?'}]
        """
        if not clean_part(question):
            raise InputError("the question is empty: ask something, in quotes")
        turns = [("system", self.texts[form].system.strip())]
        own = self.examples[: self.texts[form].examples] if self.shots is None else self.shots(question)
        for example in own:
            # The names of the example and the others are mixed, by label: where they stand says nothing.
            given_there = sorted((*example.names, *example.others), key=lambda one: (one.kind, one.label))
            turns.append(("user", self._user(form, example.question, given_there)))
            # A constrained query ends at the end of its line, and examples without it lead models to write on.
            turns.append(("assistant", example.text(form) + ("\n" if form == "constrained" else "")))
        turns.append(("user", self._user(form, clean_part(question), given)))
        return [{"role": role, "content": text} for role, text in turns]

    def _user(self, form: Form, question: str, given: Iterable[MemoryEntry]) -> str:
        lines = [
            str(Placeholder(one.kind, one.label, one.description))
            if form in _AS_PGMR
            else f"{one.id if ID.fullmatch(one.id) else entity_term(one.id)} = {one.label}"
            for one in given
        ]
        return Template(self.texts[form].user).substitute(question=question, names="\n".join(lines)).strip()


def load_sparql_prompt(name: str = "sparql") -> SparqlPrompt:
    """Return the built-in prompts of a name, or those in a file, given a path that ends in `.toml`.

    Raises InputError if there is no such file, or if it is not valid.
    """
    source = Path(name) if name.endswith(".toml") else files("refactx.prompts") / f"{name}.toml"
    try:
        fields = {_OLD.get(name, name): table for name, table in read_toml(source.read_text(encoding="utf-8")).items()}
    except OSError as error:
        raise InputError(f"there is no prompt {name} for SPARQL: give `sparql`, or the path of a .toml file") from error
    except ValueError as error:
        raise InputError(f"the prompt {name} is not TOML: {error}") from error
    try:
        examples = tuple(_example(number, table) for number, table in enumerate(fields.pop("example", ()), 1))
        texts = {form: _texts(form, fields.pop(form)) for form in get_args(Form)}
        function = frozenset(fields.pop("function", "").lower().split())
        if fields:
            raise ValueError(f"it has {', '.join(fields)}")
    except KeyError as error:
        raise InputError(f"the prompt {name} has no {error.args[0]}: {EXPECTED}") from error
    except (AttributeError, QueryError, QueryRefusedError, SparqlSyntaxError, TypeError, ValueError) as error:
        raise InputError(f"the prompt {name} is not valid ({error}): {EXPECTED}") from error
    return SparqlPrompt(texts, examples, function)


def _texts(form: Form, table: Mapping[str, Any]) -> WriterTexts:
    found = WriterTexts(**table)
    if not all(isinstance(text, str) for text in (found.system, found.user)):
        raise TypeError(f"a text of {form} is none")
    if not isinstance(found.examples, int | None) or (found.examples is not None and found.examples < 0):
        raise TypeError(f"examples of {form} is no number of examples")
    wanted = ("question", "names") if form in _WITH_NAMES else ("question",)
    template = Template(found.user)
    if not template.is_valid() or sorted(template.get_identifiers()) != sorted(wanted):
        raise ValueError(f"user of {form} has not just {' and '.join(f'${one}' for one in wanted)}")
    return found


def _example(number: int, table: Mapping[str, Any]) -> SparqlExample:
    fields = dict(table)
    tables = [fields.pop(key, {}) for key in ("names", "others")]
    ids = ids_of(fields["sparql"]) if isinstance(fields.get("sparql"), str) else Ids(frozenset(), frozenset())
    names, others = (_entries(number, table, ids.properties) for table in tables)
    found = SparqlExample(names=names, others=others, **fields)
    if not isinstance(found.question, str) or not clean_part(found.question):
        raise TypeError(f"example {number} has no question")
    check_query(found.sparql)
    named = {one.id for one in names}
    known = {one.id for one in Prologue(tokens_of(found.sparql)).uris()}
    if faults := sorted((ids.all - named) | (named - known)):
        raise ValueError(f"example {number} has {', '.join(faults)} not both in its query and in its names")
    return found


def _entries(number: int, table: Mapping[str, str], properties: Collection[str]) -> tuple[MemoryEntry, ...]:
    for id_, name in table.items():
        if not isinstance(name, str) or not clean_part(name):
            raise ValueError(f"example {number} names {id_}, which is no id with a name")
    return tuple(
        entry_of(clean_part(name), id_, "relation" if id_ in properties or is_wikidata_property(id_) else "entity")
        for id_, name in table.items()
    )


def query_in(text: str) -> str | None:
    """Return the query that a reply means, a SELECT or ASK as it is written there; None if there is none.

    It is the last whole query in a fence, or else the last whole one in prose: after a fence, words about a query may
    quote others. What the model thinks does not count. If no query is whole, it is the last that begins, so that an error
    can name what is missing.

    >>> query_in("Here it is:\\n```sparql\\nSELECT ?x { ?x ?p 1 }\\nLIMIT 5\\n```\\nIt selects ?x.")
    'SELECT ?x { ?x ?p 1 }\\nLIMIT 5'
    >>> query_in("A draft: ASK { ?x ?p 1 }\\nFinal: ASK { ?x ?p 2 }")
    'ASK { ?x ?p 2 }'
    """
    found = _meant(_FENCE.split(_reply(text)))
    return None if found is None else found[1].text


def pgmr_in(text: str) -> str | None:
    """Return the query that a reply means (`query_in`) with its mapping block, a mapping a line; None if there is none.

    Mappings that the query does not use are left out.

    >>> pgmr_in("ASK { wd:entity1 wdt:relation1 1 }\\nwhere relation1 = [REL] size [/REL]\\nentity1 = [ENT] Ann [/ENT] a girl")
    'ASK { wd:entity1 wdt:relation1 1 }\\nrelation1 = [REL] size [/REL]\\nentity1 = [ENT] Ann [/ENT] a girl'
    """
    parts = _FENCE.split(_reply(text))
    meant, text = _meant(parts), "".join(parts)
    if meant is None:
        return None
    begin, _ = meant
    heads = [head for head in _HEAD.finditer(text) if head.start() > begin]
    query = _query(text[begin : heads[0].start() if heads else len(text)]).text
    used = {name.lower() for name in _PLACEHOLDER.findall(query)}
    ends = [*(head.start() for head in heads[1:]), len(text)]
    mappings = [
        text[head.start() : end].strip().partition("\n")[0].rstrip()
        for head, end in zip(heads, ends, strict=False)  # without heads there is an end
        if head[1].lower() in used
    ]
    return "\n".join([query, *mappings])


def _reply(text: str) -> str:
    """Return a reply without what the model thinks; of a JSON object, such as `{"sparql": "SELECT ..."}`, its texts."""
    text = without_thoughts(text)
    try:
        document = json.loads(_FENCE.sub("", text))
    except (ValueError, RecursionError):
        return text
    return "\n".join(map(str, document.values())) if isinstance(document, dict) else text


class _Query(NamedTuple):
    """A query, the place where it ends, and whether its brackets are closed."""

    text: str
    end: int
    is_whole: bool


def _queries(text: str) -> Iterator[tuple[int, _Query]]:
    """Yield the queries of a text, with the places where they begin."""
    begin = _BEGIN.search(text)
    while begin is not None:
        query = _query(text[begin.start() :])
        if len(_FORM.findall(query.text.partition("{")[0])) < 2:  # else it begins in words before the query
            yield begin.start(), query
            comment = _COMMENT.match(text, begin.start() + query.end)
            after = comment.end() if comment else begin.start() + query.end
            begin = _BEGIN.search(text, after if query.is_whole else begin.end())
        else:
            begin = _BEGIN.search(text, begin.end())


def _meant(parts: Sequence[str]) -> tuple[int, _Query] | None:
    """Return the query that is meant, of texts that stand by turns outside and within fences, and where it begins.

    A whole query comes before one that is not, then one in a fence before one in prose, then a later one.
    """
    found, start = list[tuple[bool, bool, int, _Query]](), 0
    for number, part in enumerate(parts):
        found += [(query.is_whole, number % 2 == 1, start + begin, query) for begin, query in _queries(part)]
        start += len(part)
    if not found:
        return None
    *_, begin, query = max(found)  # no two begin at one place
    return begin, query


def _query(text: str) -> _Query:
    """Return the query with which a text begins: up to its last bracket, and modifiers after that."""
    depth, end, is_whole, signs = 0, len(text), False, ""
    for token in tokens_of(text):
        signs += token.text if token.kind == "other" else " "
        if token.kind == "other" and token.text in "{}":
            depth += 1 if token.text == "{" else -1
            if depth <= 0:
                end, is_whole = (
                    token.start + 1,
                    depth == 0 and "..." not in signs,
                )  # dots stand for what a form leaves out
                break
    query, rest = text[:end], text[end:].split("\n")
    for number, line in enumerate(rest):
        if line.strip() and not _MODIFIER.match(line):
            break
        query += f"{chr(10) if number else ''}{line}"
    return _Query(query.strip(), end, is_whole)


@cache
def translation_texts(of: str) -> Mapping[str, str]:
    """Return templates of the product: of `write` the system's message and the parts of the user's, and of a question to a
    model about a question (`plan`, `analyse`, `verify`) the system's message and the user's.

    >>> filled(translation_texts("plan")["user"], question="Which dogs bark?")
    'Which dogs bark?'
    """
    fields = tomllib.loads((files("refactx.prompts") / "translation.toml").read_text(encoding="utf-8"))
    found: Mapping[str, str] = fields[of]
    return found


def filled(template: str, **parts: str) -> str:
    """Return a template with its parts, without the empty lines that empty parts leave.

    >>> filled("$base\\n\\n$rules\\n\\nend", base="", rules="r")
    'r\\n\\nend'
    """
    text = Template(template.strip()).substitute({name: part.strip() for name, part in parts.items()})
    while "\n\n\n" in text:
        text = text.replace("\n\n\n", "\n\n")
    return text.strip()


def with_prefixes(sparql: str, prefixes: Mapping[str, str]) -> str:
    """Return a query with declarations of those of some prefixes (IRIs by prefix) that it uses and does not declare.

    >>> with_prefixes("ASK { ex:a a ?b }", {"ex": "http://e.org/", "no": "http://n.org/"})
    'PREFIX ex: <http://e.org/>\\nASK { ex:a a ?b }'
    """
    tokens = tokens_of(sparql)
    declared = Prologue(tokens).declared
    used = {token.text.partition(":")[0] for token in tokens if token.kind == "name"}
    missing = [name for name in prefixes if name in used and name not in declared]
    return "".join(f"PREFIX {name}: <{prefixes[name]}>\n" for name in missing) + sparql


def without_prefixes(sparql: str, prefixes: Mapping[str, str]) -> str:
    """Return a query on one line, without comments, and without the declarations that some prefixes have as well.

    >>> without_prefixes("PREFIX ex: <http://e.org/> # of examples\\nASK {\\n  ex:a a '1  2' }", {"ex": "http://e.org/"})
    "ASK { ex:a a '1  2' }"
    """
    return joined(Prologue(tokens_of(sparql)).without_known(prefixes), one_line=True)


class TokensSpentError(RefactxError):
    """A translation whose models have written as many tokens as they may."""


class Meter:
    """A count of the tokens that models write for one question, of at most `most`, and the `seconds` that they take.

    `cancelled`: ends the texts of models that can be cancelled once it returns True. A model that does not tell
    how many it wrote is taken to have written one for each four letters and each sign.
    """

    def __init__(self, most: int = sys.maxsize, cancelled: Callable[[], bool] | None = None) -> None:
        self.most, self.spent, self.seconds, self._cancelled = most, 0, 0.0, cancelled

    def generate(self, model: TextModel, messages: Sequence[Message], max_new_tokens: int) -> str:
        """Return a model's reply. Raises TokensSpentError if no token is left, and as the model does."""
        left = self.most - self.spent
        if left <= 0:
            raise TokensSpentError(f"the models have written {self.spent} tokens, as many as they may")
        if self._cancelled is not None and isinstance(model, CancellableModel):
            model = model.cancelled_by(self._cancelled)
        text = self.timed(model.generate, messages, min(max_new_tokens, left))
        self.spent += max(1, min(left, tokens_in(text)))
        return text

    def timed(self, function: Callable[_P, _R], *given: _P.args, **named: _P.kwargs) -> _R:
        """Return what a function of a model returns, whose time counts."""
        started = time.perf_counter()
        try:
            return function(*given, **named)
        finally:
            self.seconds += time.perf_counter() - started


def tokens_in(text: str) -> int:
    """Return about how many tokens a text has.

    >>> tokens_in("SELECT ?x { ?x a ex:Dog }")
    12
    """
    return len(_PIECE.findall(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class WritingTask:
    """What a query is to be written for.

    `patterns`: those of the question, with their scores; `examples`: those to follow, the best first; `plan`: steps
    towards the answer; `explored`: properties that the data has there, as prefixed names; `failed`: earlier attempts, in
    order; `meter`: by which models write.
    """

    question: str
    patterns: Mapping[str, float] = field(default_factory=dict)
    examples: "Sequence[Retrieved]" = ()
    plan: Sequence[str] = ()
    explored: Sequence[str] = ()
    failed: "Sequence[Attempt]" = ()
    meter: Meter = field(default_factory=Meter)


def conversation(pack: "Pack", task: WritingTask) -> list[Message]:
    """Return the messages: what the pack says, the examples as turns, the best one last, the question, and what was
    wrong with the queries before."""
    texts = translation_texts("write")
    system = filled(
        texts["system"],
        title=pack.title,
        base=pack.base,
        rules="\n".join(f"* {rule.text}" for rule in pack.rules if rule.applies_to(task.patterns)),
        prefixes=", ".join(f"{name}:" for name in pack.prefixes),
    )
    turns = [("system", system)]
    for one in reversed(task.examples):
        turns.append(("user", filled(texts["user"], question=one.question)))
        turns.append(("assistant", without_prefixes(one.example.sparql, pack.prefixes)))
    is_near = bool(task.examples) and task.examples[0].score >= ADAPTED
    parts = [filled(texts["adapt"] if is_near else texts["user"], question=clean_part(task.question))]
    if task.plan:
        parts.append(filled(texts["plan"], steps="\n".join(f"{n}. {step}" for n, step in enumerate(task.plan, 1))))
    if task.explored:
        parts.append(filled(texts["explored"], properties=" ".join(task.explored)))
    turns.append(("user", "\n\n".join(parts)))
    for attempt in task.failed[-SHOWN_FAILURES:]:
        said = attempt.text if attempt.sparql is None else without_prefixes(attempt.sparql, pack.prefixes)
        turns.append(("assistant", said.strip()[:4000] or "(nothing)"))
        problems = "\n".join(f"* {problem}" for problem in attempt.problems)
        turns.append(("user", filled(texts["repair"], problems=problems)))
    return [{"role": role, "content": text} for role, text in turns]
