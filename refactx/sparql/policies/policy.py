"""The protocols of policies, by which a question becomes SPARQL, and of models that write text; and what was written.

A file is TOML in `refactx.prompts`: for each policy a table with `system` and `user`; `[[example]]` tables; and `function`,
words that name nothing by themselves. An example is written once, with ids and what these are called, and is shown with
ids or as PGMR text.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any, Literal, NamedTuple, Protocol, get_args, runtime_checkable

from refactx.ask.chat import Message, without_thoughts
from refactx.errors import InputError
from refactx.fact import LinkedFact, clean_part
from refactx.paths import read_toml
from refactx.query.language import QueryError
from refactx.query.pgmr import Mention, to_pgmr
from refactx.query.pgmr.mentions import kind_of
from refactx.query.sparql.prologue import ID, Prologue
from refactx.query.sparql.tokens import joined, tokens_of
from refactx.query.sparql.tokens import tokens_of as inline_tokens
from refactx.sparql.engines.engine import QueryRefusedError, SparqlSyntaxError
from refactx.sparql.ids import ids_of
from refactx.sparql.memory.entry import Choice, Entry, entry_of
from refactx.sparql.syntax import check_query

PolicyName = Literal["strict", "harvest", "open", "direct", "rag"]
POLICIES: tuple[PolicyName, ...] = get_args(PolicyName)
MAX_NEW_TOKENS = 300
"""The most tokens of a text: three times those of the longest gold query of most sets of questions."""


class TextModel(Protocol):
    """A language model that replies to a conversation, whatever runs it."""

    def generate(self, messages: Sequence[Message], max_new_tokens: int) -> str:
        """Return the reply, greedily, of at most `max_new_tokens` tokens. The first message is the system's.

        Raises ModelError if the model cannot be used, InputError if the conversation is too long for it.
        """
        ...


@runtime_checkable
class CancellableModel(TextModel, Protocol):
    """A model whose texts can be ended while they are written."""

    def cancelled_by(self, cancelled: Callable[[], bool]) -> TextModel:
        """Return the same model for texts that end, with a ModelError, once `cancelled` returns True as well.

        It is asked before each pass of the model, in any thread.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a policy made of a question.

    `text`: what the model wrote, or the walk that it chose; `sparql`: the query with ids, None if it was refused, and
    then `reason` says why; `choices`: what names of the text were resolved to, by placeholder; `made_up`: ids of the
    query that the index does not have; `given`: the entities and properties that the model was given; `facts`: those that
    it wrote before; `told`: how much likelier than no query the query makes the question, in nats, None if nobody asked.
    """

    policy: PolicyName
    question: str
    text: str
    sparql: str | None = None
    reason: str = ""
    choices: Mapping[str, Choice] = field(default_factory=dict)
    made_up: tuple[str, ...] = ()
    given: tuple[Entry, ...] = ()
    facts: tuple[LinkedFact, ...] = ()
    told: float | None = None


class Policy(Protocol):
    """A way from a question to SPARQL."""

    def write(self, question: str) -> Written:
        """Return the query of a question, or why there is none.

        Raises InputError for a question without visible text, and as the policy's model and index do.
        """
        ...


Form = Literal["direct", "rag", "open", "harvest", "names"]
"""The texts of a policy, or `names`: of open text that is held to the grammar, with names in angle brackets."""
_AS_PGMR = ("open", "harvest")
_WITH_NAMES = ("rag", "harvest")
_END: dict[Form, str] = {"direct": "", "rag": "", "open": "", "harvest": "", "names": "\n"}
"""The end of an answer in an example: a query that is held to the grammar ends at the end of its line, and examples without
it lead models to write on."""
EXPECTED = (
    "expected tables direct, rag, open, harvest and names, each with system and user, which has $question (in rag and harvest "
    "$names too), and [[example]] tables with question, sparql and names"
)


@dataclass(frozen=True, slots=True)
class Texts:
    """The system message of a policy, and the user's message, with $question and maybe $names; `examples`: how many it
    shows, the first ones, None: all."""

    system: str
    user: str
    examples: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SparqlExample:
    """A question and its query with ids. `names`: those of the query's ids; `others`: more that a model may be given."""

    question: str
    sparql: str
    names: tuple[Entry, ...]
    others: tuple[Entry, ...] = ()

    def mentions(self, ids: Sequence[str]) -> dict[str, Mention]:
        """Return the mentions of ids (`refactx.query.pgmr.Names`)."""
        named = {one.id: Mention(kind_of(one.id), one.label, one.description) for one in self.names}
        return {id_: named[id_] for id_ in ids if id_ in named}

    def text(self, form: Form) -> str:
        """Return the query as the model is to write it."""
        if form in _AS_PGMR:
            return to_pgmr(self.sparql, self)
        if form != "names":
            return self.sparql
        prologue, named = Prologue(inline_tokens(self.sparql)), {one.id: one.text for one in self.names}
        texts = {term.start: f"<{named[term.id]}>" for term in prologue.uris() if term.id is not None}
        return "SPARQL: " + joined(prologue.tokens, texts)


@dataclass(frozen=True, slots=True)
class SparqlPrompt:
    """The texts of each policy, and the examples that all of them show. `function`: words of questions, in lower case,
    that name nothing by themselves."""

    texts: Mapping[Form, Texts]
    examples: tuple[SparqlExample, ...]
    function: frozenset[str] = frozenset()

    def messages(self, form: Form, question: str, given: Sequence[Entry] = ()) -> list[Message]:
        """Return the conversation up to a question. `given`: entities and properties that are given to the model.

        Raises InputError for a question without visible text.

        >>> load_sparql_prompt().messages("direct", "Who?")[-2:]  # doctest: +ELLIPSIS
        [{'role': 'assistant', 'content': 'SELECT ...'}, {'role': 'user', 'content': 'Who?'}]
        """
        if not clean_part(question):
            raise InputError("the question is empty: ask something, in quotes")
        turns = [("system", self.texts[form].system.strip())]
        for example in self.examples[: self.texts[form].examples]:
            turns.append(("user", self._user(form, example.question, _mixed(example))))
            turns.append(("assistant", example.text(form) + _END[form]))
        turns.append(("user", self._user(form, clean_part(question), given)))
        return [{"role": role, "content": text} for role, text in turns]

    def _user(self, form: Form, question: str, given: Iterable[Entry]) -> str:
        lines = [_as_pgmr(one) if form in _AS_PGMR else f"{one.id} = {one.label}" for one in given]
        return Template(self.texts[form].user).substitute(question=question, names="\n".join(lines)).strip()


def load_sparql_prompt(name: str = "sparql") -> SparqlPrompt:
    """Return the built-in prompts of a name, or those in a file, given a path that ends in `.toml`.

    Raises InputError if there is no such file, or if it is not valid.
    """
    source = Path(name) if name.endswith(".toml") else files("refactx.prompts") / f"{name}.toml"
    try:
        fields = read_toml(source.read_text(encoding="utf-8"))
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


def _texts(form: Form, table: Mapping[str, Any]) -> Texts:
    found = Texts(**table)
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
    names, others = (_entries(number, fields.pop(key, {})) for key in ("names", "others"))
    found = SparqlExample(names=names, others=others, **fields)
    if not isinstance(found.question, str) or not clean_part(found.question):
        raise TypeError(f"example {number} has no question")
    check_query(found.sparql)
    ids, named = ids_of(found.sparql).all, {one.id for one in names}
    if ids != named:
        raise ValueError(
            f"example {number} has {', '.join(sorted(ids ^ named))} not both in its query and in its names"
        )
    return found


def _entries(number: int, table: Mapping[str, str]) -> tuple[Entry, ...]:
    for id_, name in table.items():
        if not ID.fullmatch(id_) or not isinstance(name, str) or not clean_part(name):
            raise ValueError(f"example {number} names {id_}, which is no id with a name")
    return tuple(entry_of(clean_part(name), id_) for id_, name in table.items())


def _as_pgmr(entry: Entry) -> str:
    return str(Mention(kind_of(entry.id), entry.label, entry.description))


def _mixed(example: SparqlExample) -> list[Entry]:
    """Return the names of an example and the others among them, by label: where they stand says nothing."""
    return sorted((*example.names, *example.others), key=lambda one: (kind_of(one.id), one.label))


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
