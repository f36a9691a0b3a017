"""A model of our engines that can write nothing but SPARQL of a pack."""

import json
import re
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field
from importlib.resources import files

from refactx.ask.chat_text import END, ChatModel
from refactx.ask.writer import BatchWriter
from refactx.decoding.matching import Matcher, new_matcher
from refactx.decoding.states import Constraint
from refactx.engines.engine import LanguageModel
from refactx.errors import ModelError
from refactx.lazy import require
from refactx.sparql.constrained.grammar import TRIGGER
from refactx.sparql.packs.pack import Pack
from refactx.sparql.syntax.parser import ParseError, parse
from refactx.sparql.syntax.tokens import tokens_of
from refactx.sparql.syntax.tree import triples_of
from refactx.tree.tree import NO_TOKENS, Tokens

_NAME = re.compile(r"[A-Za-z][\w-]*:[\w-]+(?:\.[\w-]+)*")
_WORD = re.compile(r'"([A-Z_0-9]+)"i')
_STANDARD = ("http://www.w3.org/1999/02/22-rdf", "http://www.w3.org/2000/01/rdf-schema", "http://www.w3.org/2001/XMLSchema",
    "http://www.w3.org/2002/07/owl", "http://www.w3.org/2004/02/skos", "http://purl.org/dc/")  # fmt: skip
"""The beginnings of vocabularies of which endpoints use few names: those of the schema and the examples."""
_NONE = "<urn:none>"
"""Stands for names of which a pack has none."""


def grammar_of(pack: Pack) -> str:
    """Return the grammar of a pack, in llguidance's dialect of Lark. Prefixes are declared as the pack has them, or not."""
    properties, terms = names_of(pack)
    open_names = [f"/{prefix}:[A-Za-z0-9_][A-Za-z0-9_-]{{0,60}}/" for prefix in open_prefixes(pack)]
    rules = (files("refactx.sparql.packs") / "sparql11.lark").read_text(encoding="utf-8")
    names = {
        "DECLARED": [f"{prefix}: <{iri}>" for prefix, iri in pack.prefixes.items()],
        "PROPERTY": properties,
        "TERM": terms,
        "GRAPH_IRI": [f"<{iri}>" for iri in pack.graphs.values()],
        "SERVICE_IRI": [f"<{iri}>" for iri in pack.services.values()],
    }
    rules = _WORD.sub(lambda match: _any_case(match[1]), rules)
    for name, some in names.items():
        alternatives = [_any(some or [_NONE]), *(open_names if name in ("PROPERTY", "TERM") else ())]
        rules += f"{name}: {' | '.join(alternatives)}\n"
    return rules


def open_prefixes(pack: Pack) -> list[str]:
    """Return the prefixes with which any name may be written: those of data, and of vocabularies that the schema does not
    have as a whole."""
    return [
        name for name, iri in pack.prefixes.items() if name not in pack.vocabularies and not iri.startswith(_STANDARD)
    ]


def names_of(pack: Pack) -> tuple[list[str], list[str]]:
    """Return the properties and the other names that a query may have, as a query would write them.

    They are those of the schema and of the examples' queries.
    """
    found: dict[bool, set[str]] = {True: set(), False: set()}  # by whether they are properties
    for term in pack.schema.values():
        found[term.kind == "property"].add(pack.shorten(term.iri))
    for example in pack.examples:
        tokens = tokens_of(example.sparql)
        try:
            parsed = parse(tokens)
        except ParseError:
            continue
        predicates = {at for triple in triples_of(parsed.query) for at in range(*triple.path.span)}
        for at in range(parsed.prologue.body, len(tokens)):
            if tokens[at].kind in ("name", "iri"):
                found[at in predicates].add(tokens[at].text)
    places = {f"<{iri}>" for iri in (*pack.graphs.values(), *pack.services.values())}

    def is_of_pack(name: str) -> bool:
        if name.startswith("<"):
            return name not in places
        return _NAME.fullmatch(name) is not None and name.partition(":")[0] in pack.prefixes

    properties, terms = (sorted(filter(is_of_pack, found[kind])) for kind in (True, False))
    return properties, terms


def _any(texts: Iterable[str]) -> str:
    """Return the alternatives of some texts.

    >>> _any(["ex:a", "ex:b"])
    '"ex:a" | "ex:b"'
    """
    return " | ".join(json.dumps(text, ensure_ascii=False) for text in texts)


def _any_case(word: str) -> str:
    """Return a keyword in any case, of ASCII letters alone: by Unicode's rules, a long s is a letter of `ASK` too.

    >>> _any_case("ASK")
    '/[Aa][Ss][Kk]/'
    """
    return "/" + "".join(f"[{one}{one.lower()}]" if one.isalpha() else one for one in word) + "/"


@dataclass(frozen=True, slots=True, kw_only=True)
class LineState:
    """After the ids of a query: the `matcher` there; None after the end of the line, or, if `is_wrong`, after an id that
    was not allowed."""

    matcher: Matcher | None = field(default=None, compare=False, repr=False)
    ids: tuple[int, ...] = ()
    is_wrong: bool = False


class PackGrammar(Constraint[LineState]):
    """The constraint of texts that are one query of a pack on one line. Threads may share it.

    Raises InputError if llguidance is not installed, ModelError if it refuses the grammar.
    """

    def __init__(self, pack: Pack, token_bytes: Sequence[bytes]) -> None:
        require("llguidance", "sparql")
        self.token_bytes = list(token_bytes)
        self._start = new_matcher(self.token_bytes, grammar_of(pack))

    def start(self, prompt: Sequence[int], padding: Container[int] | None = None) -> LineState:
        return LineState(matcher=self._start)

    def advance(self, state: LineState, token: int, position: int) -> LineState:
        if state.matcher is None:
            return state
        after = state.matcher.after(token)
        ids = (*state.ids, token)
        if after is None or END in self.token_bytes[token]:
            return LineState(ids=ids, is_wrong=after is None)
        return LineState(matcher=after, ids=ids)

    def allowed(self, state: LineState) -> Tokens | None:
        if state.is_wrong:
            return NO_TOKENS
        return None if state.matcher is None else state.matcher.allowed.tokens


def constrained_model(model: LanguageModel, pack: Pack, cancelled: Callable[[], bool] | None = None) -> ChatModel:
    """Return a model whose replies are one query each, constrained by a pack's grammar. Threads may share it.

    A query is cut if it has more tokens than it may have. `cancelled`: asked before each pass of the model, ends texts with
    a ModelError once it returns True. Raises ModelError for a model that our engines cannot run, InputError if llguidance
    is not installed.
    """
    if model.engine is None:
        raise ModelError(
            "SPARQL is constrained by its grammar for models whose attention takes masks of four dimensions, or GGUF files: "
            "give another model, or --no-grammar"
        )
    writer = BatchWriter(model, constraint=PackGrammar(pack, model.token_bytes))
    return ChatModel(model, writer, begins=TRIGGER, cancelled=cancelled)
