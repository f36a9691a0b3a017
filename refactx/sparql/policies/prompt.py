"""The prompts by which a model writes SPARQL: a file of texts and examples, shown to it in the form of each policy.

A file is TOML in `refactx.prompts`: for each policy a table with `system` and `user`; `[[example]]` tables; and `function`,
words that name nothing by themselves. An example is written once, with ids and what these are called, and is shown with
ids or as PGMR text.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any, Literal, get_args

from refactx.errors import InputError
from refactx.fact import clean_part
from refactx.paths import read_toml
from refactx.query.pgmr import Mention, to_pgmr
from refactx.query.pgmr.inline import tokens_of
from refactx.query.pgmr.mentions import kind_of
from refactx.query.pgmr.prologue import Prologue
from refactx.query.pgmr.uris import ID
from refactx.query.sparql.tokens import joined
from refactx.query.walk import QueryError
from refactx.sparql.engines.engine import QueryRefusedError, SparqlSyntaxError
from refactx.sparql.ids import ids_of
from refactx.sparql.memory.entry import Entry
from refactx.sparql.memory.names import entry_of
from refactx.sparql.syntax import check_query
from refactx.writing.conversation import Message

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
        """Return the query as the model is to write it. Raises InputError if rdflib is needed and not installed."""
        if form in _AS_PGMR:
            return to_pgmr(self.sparql, self)
        if form != "names":
            return self.sparql
        prologue, named = Prologue(tokens_of(self.sparql)), {one.id: one.text for one in self.names}
        texts = {term.start: f"<{named[term.id]}>" for term in prologue.terms() if term.id is not None}
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

        Raises InputError for a question without visible text, and if rdflib is needed and not installed.

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
