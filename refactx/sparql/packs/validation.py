"""The levels of validation, one after the other."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from refactx.fact import counted
from refactx.iris import id_of_property
from refactx.linking.names import alike, fold, unaccented
from refactx.sparql.engines import (
    EngineError,
    EngineTimeoutError,
    QueryRefusedError,
    Rows,
    SparqlEngine,
    SparqlSyntaxError,
    Term,
    UnavailableError,
    UnknownFunctionError,
)
from refactx.sparql.engines.checking import check_query, read_query, view_query
from refactx.sparql.engines.engine import within
from refactx.sparql.packs.pack import Pack, PackExample
from refactx.sparql.packs.retrieval import PatternDetector
from refactx.sparql.packs.rules import PackNames, Types
from refactx.sparql.packs.survey import words_of
from refactx.sparql.results import LABELS, OTHER_NAMES, names_at, things_called
from refactx.sparql.results import SECONDS as NAME_SECONDS
from refactx.sparql.syntax.prologue import undeclared
from refactx.sparql.syntax.tokens import Token, line_and_column, tokens_of
from refactx.sparql.syntax.view import CallView, Expression, QueryView, iri_of, is_variable

Level = Literal["L1", "L2", "L3"]
_FUNCTIONS = (
    "COUNT",
    "SUM",
    "AVG",
    "MIN",
    "MAX",
    "SAMPLE",
    "GROUP_CONCAT",
    "STR",
    "STRLEN",
    "CONCAT",
    "LCASE",
    "UCASE",
)
_UNBOUND = "The SELECT contains a variable that is unbound"
_SHOWN = 60
_EXAMPLE = re.compile(r": expected (as in|one such as) .*")
"""The end of messages that show a query of Wikidata."""
_TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
_STANDARD = (
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#", "http://www.w3.org/2000/01/rdf-schema#",
    "http://www.w3.org/2002/07/owl#", "http://www.w3.org/2004/02/skos/core#",
)  # fmt: skip
"""Vocabularies that any endpoint may have, whether or not its pack names them."""
_NEAREST, _ALIKE = 3, 0.6
"""The most names that a hint has, and the least share of letters that they have in common with one."""
_MAY_BE_UNBOUND = ("BOUND", "COALESCE")
_WHAT = {
    "filter": "FILTER",
    "bind": "BIND",
    "having": "HAVING",
    "order": "ORDER BY",
    "group": "GROUP BY",
    "select": "SELECT",
}
_MOST_WORDS, _FEWEST_LETTERS, _STEM = 6, 3, 4
"""The most words of a name that is looked for; the fewest letters of a text that may be one, and of the beginning that two
words for one thing share, such as `Italy` and `Italian`."""
_JOINT = re.compile(r"[\s'’‐\-–.,&/]{1,3}")
"""What may stand between the words of a name."""
_ENDS = ("", ".", "?", "!", ":")
"""What comes before the first word of a sentence."""
_QUOTED = re.compile(r"(?<!\w)['\"‘“«]([^'\"‘’“”«»]+)['\"’”»](?!\w)")
_USE = "use the names of the question"
ROWS, SECONDS = 10, 30.0


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a query.

    `level`: L1 syntax, L2 rules and names, L3 running; `code`: what kind of problem it is (`prefix`, `name`, `variable`,
    `rule.senses`, `time`); `text`: what was found and what was expected; `hint`: what to do.
    """

    level: Level
    code: str
    text: str
    hint: str

    def to_json(self) -> dict[str, str]:
        return {"level": self.level, "code": self.code, "text": self.text, "hint": self.hint}


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationReport:
    """What was found in a query.

    `problems`: in the order of their levels; `count`: how many rows were read, None if the query was not run or failed;
    `truncated`: whether there are more; `variables`, `rows`: of the result, as `refactx.sparql.engines.Rows` has them;
    `answer`: that of an ASK; `failure`: why an engine could not run it now, which is no fault of the query;
    `is_available`: false if the engine would run no other query either.
    """

    problems: tuple[Problem, ...] = ()
    count: int | None = None
    truncated: bool = False
    variables: tuple[str, ...] = ()
    rows: Sequence[tuple[Term | None, ...]] = ()
    answer: bool | None = None
    failure: str = ""
    is_available: bool = True

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong.

        >>> ValidationReport().ok, ValidationReport(problems=(Problem("L1", "syntax", "...", "..."),)).ok
        (True, False)
        """
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        """Return the report as `refactx validate --json` prints it; terms as N-Triples has them."""
        return {
            "valid": self.ok,
            "problems": [problem.to_json() for problem in self.problems],
            "count": self.count,
            "truncated": self.truncated,
            "answer": self.answer,
            "variables": list(self.variables),
            "rows": [[None if term is None else str(term) for term in row] for row in self.rows],
            "failure": self.failure or None,
        }


def syntax_problems(sparql: str, pack: Pack) -> tuple[list[Problem], str]:
    """Return what is wrong, and the query with declarations of the pack's prefixes that it lacks."""
    try:
        sparql = read_query(sparql)
    except SparqlSyntaxError as error:
        return [Problem("L1", "syntax", str(error), "write the query again")], sparql
    except QueryRefusedError as error:
        text, _, hint = str(error).partition(": ")
        return [Problem("L1", "size", text, hint)], sparql
    tokens = tokens_of(sparql)
    found = [*_labels(sparql, tokens)]
    lines = []
    for prefix, token in undeclared(tokens).items():
        line, column = line_and_column(sparql, token.start)
        text = f"the prefix {prefix}: is not declared (line {line}, column {column}, at {token.text})"
        if prefix in pack.prefixes:
            declaration = f"PREFIX {prefix}: <{pack.prefixes[prefix]}>"
            found.append(Problem("L1", "prefix", text, f"begin the query with {declaration}"))
            lines.append(declaration)
        else:
            known = ", ".join(f"{one}:" for one in pack.prefixes) or "none"
            found.append(Problem("L1", "prefix", text, f"use a prefix of {pack.name}: {known}"))
            lines.append(f"PREFIX {prefix}: <urn:refactx:{prefix}#>")
    whole = " ".join([*lines, sparql])
    if any(problem.code == "iri" for problem in found):
        return found, whole
    try:
        check_query(whole)
    except SparqlSyntaxError as error:
        shift = len(whole) - len(sparql)  # by the declarations before it
        text = re.sub(r"line 1, column (\d+)", lambda at: f"line 1, column {max(1, int(at[1]) - shift)}", str(error))
        text = _EXAMPLE.sub("", text)
        found.append(Problem("L1", "syntax", text, _hint(str(error), tokens)))
    except UnknownFunctionError as error:
        text, _, hint = str(error).partition(": ")
        found.append(Problem("L1", "function", text, hint))
    except QueryRefusedError as error:
        found.append(Problem("L1", "form", str(error), "write one SELECT or ASK query, which reads alone"))
    return found, whole


def _labels(sparql: str, tokens: list[Token]) -> Iterator[Problem]:
    """Yield a problem for the first name in angle brackets that is no IRI."""
    for token in tokens:
        if token.kind == "label":
            line, column = line_and_column(sparql, token.start)
            yield Problem(
                "L1",
                "iri",
                f"{token.text[:_SHOWN]} is no IRI (line {line}, column {column}): in angle brackets stands a whole IRI",
                "write a name with a prefix, or the whole IRI",
            )
            return


def _hint(message: str, tokens: list[Token]) -> str:
    if (bare := _bare_call(tokens)) is not None:
        return f"write brackets around it and its name: SELECT ({bare}(?x) AS ?name)"
    if " has U+" in message:
        return message.rpartition(": ")[2]
    if _UNBOUND in message:
        return "add each selected variable to GROUP BY, or select SAMPLE of it: (SAMPLE(?x) AS ?name)"
    return "write the query again, as one whole SELECT or ASK with all brackets closed"


def _bare_call(tokens: list[Token]) -> str | None:
    """Return the function that a SELECT calls outside of round brackets, which SPARQL does not have."""
    depth, selecting = 0, False
    written = [token for token in tokens if not token.is_space]
    for one, two in pairwise(written):
        if one.upper == "SELECT":
            selecting = True
        elif one.text == "{" or one.upper == "WHERE":
            selecting = False
        depth += (one.text == "(") - (one.text == ")")
        if selecting and depth == 0 and one.upper in _FUNCTIONS and two.text == "(":
            return one.upper
    return None


def _prefixes(query: QueryView, pack: Pack) -> Iterator[Problem]:
    used = {prefix for prefix, _ in query.names}
    known = set(pack.prefixes.values())
    for prefix, namespace in query.prefixes.items():
        expected = pack.prefixes.get(prefix)
        if prefix in used and expected is not None and namespace not in known:
            text = f"the prefix {prefix}: is declared as <{namespace}>, and is <{expected}> in {pack.name}"
            yield Problem("L2", "prefix", text, f"write PREFIX {prefix}: <{expected}>")


def _terms(query: QueryView, pack: Pack) -> Iterator[Problem]:
    closed = tuple(pack.prefixes[prefix] for prefix in pack.vocabularies)
    known = (*pack.prefixes.values(), *closed, *_STANDARD)
    properties = {iri for one in query.patterns if (iri := iri_of(one.predicate))}
    classes = {iri for one in query.patterns if one.predicate == _TYPE and (iri := iri_of(one.object))}
    described = tuple(base for base in pack.prefixes.values() if any(iri.startswith(base) for iri in pack.schema))
    others = {_local(iri) for iri, one in pack.schema.items() if one.kind != "property"}
    elsewhere = {_local(iri) for iri, one in pack.schema.items() if one.kind == "property"}
    for iri in query.iris:
        term = pack.schema.get(iri)
        if term is None and iri.startswith(closed) and iri not in closed:
            yield _unknown(iri, pack, "has no such name")
        elif term is None and pack.schema and iri in properties | classes and not iri.startswith(known):
            yield _unknown(iri, pack, f"has no such {'property' if iri in properties else 'class'}")
        elif term is None and iri.startswith(described) and _local(iri) in (elsewhere if iri in properties else others):
            yield _unknown(iri, pack, "has this name with another prefix")
        elif term is not None and term.kind == "individual" and iri in properties | classes:
            what = "property" if iri in properties else "class"
            yield Problem(
                "L2", "name", f"{pack.shorten(iri)} is an individual, and stands as a {what}", _near(iri, pack)
            )
        elif term is not None and term.kind == "property" and iri in classes:
            text = f"{pack.shorten(iri)} is a property, and stands as a class"
            yield Problem("L2", "name", text, f"write ?x {pack.shorten(iri)} ?y")


def _unknown(iri: str, pack: Pack, why: str) -> Problem:
    return Problem("L2", "name", f"{pack.shorten(iri)} is unknown: {pack.name} {why}", _near(iri, pack))


def _near(iri: str, pack: Pack) -> str:
    """Return a hint with the names of the schema that are like one: the same name elsewhere first, then by letters."""
    local = _local(iri)
    names = {one: _local(one) for one in pack.schema if one != iri}
    near = [one for one, name in names.items() if fold(name) == fold(local)]
    beside = {name: one for one, name in names.items() if one.removesuffix(name) == iri.removesuffix(local)}
    near += [beside[name] for name in alike(local, beside, _NEAREST, _ALIKE)]
    shown = list(dict.fromkeys(map(pack.shorten, near)))[:_NEAREST]
    return f"use {' or '.join(shown)}" if shown else "use a name of the examples or of the schema"


def _local(iri: str) -> str:
    return iri[max(iri.rfind("#"), iri.rfind("/")) + 1 :]


def _places(query: QueryView, pack: Pack) -> Iterator[Problem]:
    seen: set[str] = set()
    for group in query.groups:
        kind, term = ("GRAPH", group.graph) if group.kind == "graph" else ("SERVICE", group.service)
        known = pack.graphs if kind == "GRAPH" else pack.services
        iri = iri_of(term or "")
        if group.kind not in ("graph", "service") or iri is None or iri in seen or iri in known.values():
            continue
        if kind == "GRAPH" and (not known or group.service is not None):
            continue
        seen.add(iri)
        there = [f"<{one}>" for one in known.values()]
        text = f"{kind} <{iri}> is unknown: {pack.name} has {', '.join(there) or 'none'}"
        hint = f"write {kind} {' or '.join(there)}, if the data is there" if there else f"leave {kind} out"
        yield Problem("L2", kind.lower(), text, hint)


def scoping_problems(query: QueryView, gives: Mapping[str, Sequence[str]]) -> Iterator[Problem]:
    """Yield a problem for each variable without a value: selected, or used in an expression, and bound nowhere there.

    `gives`: services that give values to variables by their names, with the endings of these: `?xLabel` for `?x`.
    """
    endings = {end for group in query.groups if group.service is not None for end in gives.get(group.service, ())}
    everywhere = frozenset[str]().union(*(query.in_scope(group.number) for group in query.groups))
    for group in query.groups:
        if group.kind != "select":
            continue
        bound = query.in_scope(group.number)
        for name in group.selected or ():
            if name not in bound and not _is_given(name, bound, endings):
                text = f"{name} is selected, and no pattern gives it a value"
                yield Problem("L2", "variable", text, f"use {name} in a pattern, or select one of {_listed(bound)}")
    for condition in query.conditions:
        seen = query.in_scope(condition.group)
        for name in dict.fromkeys(_needed(condition.expression)):
            if name in seen or _is_given(name, everywhere, endings):
                continue
            what = _WHAT[condition.kind]
            if name in everywhere:
                text = f"{name} has no value in this {what}, which sees the variables of its own group alone: {_listed(seen)}"
                hint = f"move the {what} into the group that has {name}, or use {name} in a pattern of this group"
            else:
                text = f"{name} is used in {what}, and no pattern gives it a value"
                hint = f"use {name} in a pattern, or one of {_listed(seen)} in {what}"
            yield Problem("L2", "variable", text, hint)


def _is_given(name: str, bound: Collection[str], endings: Collection[str]) -> bool:
    """Return whether a service gives a value to a variable, by the one that its name begins with."""
    return any(name.endswith(end) and name.removesuffix(end) in bound for end in endings)


def _needed(expression: Expression) -> Iterator[str]:
    """Yield the variables of an expression that have to have a value."""
    if isinstance(expression, str):
        if is_variable(expression):
            yield expression
    elif isinstance(expression, CallView) and expression.name not in _MAY_BE_UNBOUND:
        for argument in expression.arguments:
            yield from _needed(argument)


def _listed(names: frozenset[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def run(sparql: str, engine: SparqlEngine, rows: int, seconds: float) -> ValidationReport:
    """Return the report of a query that is run: its rows, at most `rows`, or the problem that it has.

    An engine that is down or fails is no problem of the query: then the report has a `failure`.
    """
    try:
        result = engine.run(sparql, limit=rows, seconds=seconds)
    except EngineTimeoutError as error:
        text = f"the query takes more than {seconds:g} seconds: {error}"
        hint = "bind more: begin with the pattern that fits least, and give a SERVICE a FILTER of its own"
        return ValidationReport(problems=(Problem("L3", "time", text, hint),))
    except SparqlSyntaxError as error:
        text, hint = f"{engine.name} refused the query: {error}", "write it in the SPARQL 1.1 of the examples"
        return ValidationReport(problems=(Problem("L3", "refused", text, hint),))
    except QueryRefusedError as error:
        return ValidationReport(problems=(Problem("L3", "refused", str(error), "leave out what it says"),))
    except EngineError as error:
        return ValidationReport(failure=str(error), is_available=not isinstance(error, UnavailableError))
    if isinstance(result, Rows):
        rows_ = result.rows
        return ValidationReport(count=len(rows_), truncated=result.truncated, variables=result.variables, rows=rows_)
    return ValidationReport(count=1, answer=result)


class _Name(NamedTuple):
    """A name in a question. `iri`: what it is the name of, None for several things; `is_sure`: it is written as a name,
    with a capital letter, and not as words are that may be one."""

    text: str
    iri: str | None
    is_sure: bool


class QuestionCheck:
    """The question that queries are for, with the names that the data has in it, which are looked for once."""

    def __init__(
        self,
        text: str,
        pack: Pack,
        engine: SparqlEngine | None = None,
        examples: Sequence[PackExample] = (),
        seconds: float = NAME_SECONDS,
    ) -> None:
        """`examples`: those that the writer of the queries saw; `seconds`: the most time of each look-up of names."""
        self._text, self._pack, self._engine, self._seconds = text, pack, engine, seconds
        self._examples = examples

    def problems(self, sparql: str) -> Iterator[Problem]:
        """Yield a problem for each name of the question that a query does not have, and for each name that it has from an
        example. Names that may be words are missed only by a query that has other names. Raises as `view_query`."""
        query = view_query(sparql)
        texts = [token.text.strip("\"'") for token in tokens_of(sparql) if token.kind == "string"]
        called = self._called(query)
        names = {f'"{text}"': [text] for text in texts if len(text) >= _FEWEST_LETTERS}
        things = {iri: some for iri, some in called.items() if some and not self._is_term(iri, query)}
        names |= {self._pack.shorten(iri): [*some, words_of(iri)] for iri, some in things.items()}
        others = [name for name, some in names.items() if not _mentions(self._text, some)]
        for other in others:
            if any(all(_names(text, names[other]) for text in one.questions) for one in self._examples):
                text = f"{other} is a name of an example, and the question does not have it"
                yield Problem("L2", "question", text, _USE)
        written = (*texts, *map(words_of, called), *(one for some in called.values() for one in some))
        known = [_words(text) for text in written]
        for name in self._names:
            if (name.is_sure or others) and not self._is_there(name, known):
                hint = "" if name.iri is None else f"{self._pack.shorten(name.iri)}, or "
                text = f'the question names "{name.text}", and the query does not have it'
                yield Problem("L2", "question", text, f"write {hint}what it is called")

    def _is_there(self, name: _Name, known: Sequence[Sequence[str]]) -> bool:
        """Return whether a name, or another one of the same thing, is among the texts and names of a query."""
        if any(_is_same(_words(name.text), words) for words in known):
            return True
        if self._engine is None or name.iri is None:
            return False
        others = names_at(self._engine, [id_of_property(name.iri)], self._seconds, self._pack.languages)
        return any(_is_same(_words(text), words) for some in others.values() for text in some for words in known)

    def _is_term(self, iri: str, query: QueryView) -> bool:
        """Return whether an IRI is one of the schema, or stands where those stand: then it need not be named."""
        term, written = self._pack.schema.get(iri), f"<{iri}>"
        if (term is not None and term.kind != "individual") or iri.startswith(_STANDARD):
            return True
        places = {place for group in query.groups for place in (group.graph, group.service)}
        return written in places or any(
            written == one.predicate or (written == one.object and one.predicate == _TYPE) for one in query.patterns
        )

    def _called(self, query: QueryView) -> dict[str, list[str]]:
        """Return what the things of a query are called in the schema or where it is run, by IRI."""
        schema, languages, properties = self._pack.schema, self._pack.languages, (*LABELS, *OTHER_NAMES)
        found = {iri: list(schema[iri].labels.values()) if iri in schema else [] for iri in query.iris}
        others = {id_of_property(iri): iri for iri, some in found.items() if not some and not iri.startswith(_STANDARD)}
        if self._engine is not None and others:
            called = names_at(self._engine, list(others), self._seconds, languages, properties)
            found |= {others[id_]: some for id_, some in called.items()}
        return found

    @cached_property
    def _names(self) -> list[_Name]:
        """The longest names of the question, without those of classes and properties."""
        spans = sorted(self._spans(), key=lambda span: span[0] - span[1])
        schema, found = dict[str, str](), list[tuple[int, int, _Name]]()
        for iri, term in self._pack.schema.items():
            schema |= {fold(label): iri if term.kind == "individual" else "" for label in term.labels.values()}
        written, is_lower = dict[str, tuple[int, int, bool]](), self._text == self._text.lower()
        for span in spans:  # as in the question, or with capital letters
            text = self._text[span[0] : span[1]]
            written[text] = span
            if span[2]:
                written[text[:1].upper() + text[1:]] = span
            elif is_lower and len(text.split()[0]) > _FEWEST_LETTERS:  # none of `the ...`
                written[text.title()] = span
        things: dict[str, str | None] = {text: one for text in written if (one := schema.get(fold(text)))}
        if self._engine is not None:
            things |= things_called(self._engine, sorted(written, key=len), self._pack.languages, self._seconds)
        for text, (start, end, is_sure) in written.items():  # the longest ones first
            inside = any(one <= start and end <= two for one, two, _ in found)
            if text in things and not inside and schema.get(fold(text)) != "":
                found.append((start, end, _Name(self._text[start:end], things[text], is_sure)))
        return [name for _, _, name in found]

    def _spans(self) -> Iterator[tuple[int, int, bool]]:
        """Yield where a name may be, with whether it is written as one: with a capital letter that does not begin a
        sentence, and no such word beside it. Other words are two at least, or in quotes."""
        for quoted in _QUOTED.finditer(self._text):
            yield *quoted.span(1), not quoted[1].islower()
        words = [match.span() for match in re.finditer(r"\w+", self._text)]
        capitals = [self._text[at].isupper() and self._text[:at].rstrip()[-1:] not in _ENDS for at, _ in words]
        joined = [_JOINT.fullmatch(self._text[end:at]) is not None for (_, end), (at, _) in pairwise(words)]
        for first, (start, _) in enumerate(words):
            for last in range(first, min(first + _MOST_WORDS, len(words))):
                if not all(joined[first:last]):
                    break
                is_part = first > 0 and capitals[first - 1] and self._text[words[first - 1][1] : start] == " "
                is_part |= capitals[last + 1 : last + 2] == [True] and self._text[words[last][1]] == " "
                if any(capitals[first : last + 1]) or last > first:
                    yield start, words[last][1], any(capitals[first : last + 1]) and not is_part


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", unaccented(text))


def _has(text: Sequence[str], words: Sequence[str]) -> bool:
    """Return whether a text has some words, one after the other."""
    return f" {' '.join(words)} " in f" {' '.join(text)} "


def _share(one: str, two: str) -> bool:
    """Return whether two words may be of one thing: they begin alike, and end with other letters."""
    least = max(_STEM, len(one) - 3, len(two) - 3)
    return len(one) >= least and one[:least] == two[:least]


def _is_same(name: Sequence[str], text: Sequence[str]) -> bool:
    """Return whether a text of a query is a name or a part of it, or has it."""
    is_part = _has(name, text) and len("".join(text)) >= _FEWEST_LETTERS
    return _has(text, name) or is_part or (len(name) == 1 and any(_share(name[0], word) for word in text))


def _names(question: str, names: Sequence[str]) -> bool:
    """Return whether a question has one of some names, as it is written."""
    return any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", question, re.IGNORECASE) for name in names)


def _mentions(question: str, names: Iterable[str]) -> bool:
    """Return whether a question has a word of any of some names."""
    asked = _words(question)
    return any(
        _has(asked, words) or any(len(word) >= _STEM and any(_share(word, one) for one in asked) for word in words)
        for words in map(_words, names)
    )


def validate(
    sparql: str,
    pack: Pack,
    engine: SparqlEngine | None = None,
    *,
    question: QuestionCheck | None = None,
    rows: int = ROWS,
    seconds: float = SECONDS,
) -> ValidationReport:
    """Return what is wrong with a query for the endpoint of a pack, and its first rows if nothing is.

    L1: pyoxigraph's parser, and prefixes that are not declared. L2: the rules of the pack, whether its names, graphs and
    services exist, whether variables have values, and texts where resources are expected. L3, if L1 and L2 find nothing
    and there is an engine: at most `rows` rows. L1 and L2 take at most `seconds` together, and so does L3. With a
    `question`, whether the query has its names, and none of an example, if nothing else is wrong.

    >>> from refactx.sparql.packs.pack import load_pack
    >>> query = "PREFIX elita: <http://w3id.org/elita/> SELECT ?e { ?e elita:HasEmotion elita:Joy }"
    >>> report = validate(query, load_pack("liita"))
    >>> report.ok, report.problems[0].text
    (False, 'elita:Joy is unknown: liita has no such name')
    """
    try:
        problems = within(seconds, lambda: _first_levels(sparql, pack))
    except TimeoutError:
        text = f"the check of the query takes more than {seconds:g} s"
        return ValidationReport(problems=(Problem("L1", "time", text, "write it with fewer patterns and values"),))
    if problems:
        return ValidationReport(problems=tuple(dict.fromkeys(problems)))
    found = ValidationReport() if engine is None else run(sparql, engine, rows, seconds)
    is_asked = question is not None and found.ok and not found.failure
    return replace(found, problems=tuple(question.problems(sparql))) if question is not None and is_asked else found


def _first_levels(sparql: str, pack: Pack) -> list[Problem]:
    problems, whole = syntax_problems(sparql, pack)
    if any(problem.code != "prefix" for problem in problems):
        return problems
    try:
        query = view_query(whole)
    except (SparqlSyntaxError, QueryRefusedError) as error:  # syntax beyond SPARQL 1.1, which pyoxigraph knows
        text = f"the rules cannot read this query: {error}".partition(": expected a query")[0]
        return [*problems, Problem("L2", "form", text, "write it in SPARQL 1.1, as the examples are")]
    gives = {f"<{pack.services[name]}>": endings for name, endings in pack.gives.items()}
    for check in (_prefixes, _terms, _places):
        problems += check(query, pack)
    return [*problems, *scoping_problems(query, gives), *_rule_problems(query, pack)]


def _rule_problems(query: QueryView, pack: Pack) -> Iterator[Problem]:
    texts: set[str] = set()
    for rule in pack.rules:
        for one in rule.findings(query, pack.schema):
            texts.add(one.text)
            yield Problem("L2", f"rule.{rule.id}", one.text, one.hint)
    if not texts:
        names = PackNames(pack.prefixes)
        yield from (Problem("L2", "type", one.text, one.hint) for one in Types(()).findings(query, names, pack.schema))


@dataclass(frozen=True, slots=True, kw_only=True)
class PackCheck:
    """What is wrong with a pack. `problems`: what has to be repaired; `notes`: what may be as it should; one line each.
    `ran`: how many examples were run, and had rows."""

    problems: tuple[str, ...]
    notes: tuple[str, ...]
    ran: int


def check_pack(pack: Pack, engine: SparqlEngine | None = None, *, seconds: float = 20.0) -> PackCheck:
    """Return what is wrong with a pack: examples that validation refuses, or, with an engine, that fail or have no rows;
    patterns that no example has; examples in whose question no word of their patterns is found. An engine that would run
    no other example either is not asked again.

    >>> from refactx.sparql.packs.pack import load_pack
    >>> check_pack(load_pack("wikidata")).problems
    ()
    """
    problems, ran = list[str](), 0
    for number, example in enumerate(pack.examples, 1):
        report = validate(example.sparql, pack, engine, rows=1, seconds=seconds)
        problems += [f"example {example.id}: {one.text}: {one.hint}" for one in report.problems]
        if engine is None or not report.ok:
            continue
        ran += bool(report.count)
        if report.failure:
            problems.append(f"example {example.id}: {report.failure}")
        elif not report.count:
            problems.append(f"example {example.id}: its query has no rows at {engine.name}")
        left = len(pack.examples) - number
        if not report.is_available and left:
            problems.append(f"{engine.name} was not asked for the last {counted(left, 'example')}")
            engine = None
    used = {name for example in pack.examples for name in example.patterns}
    notes = [f"no example has the pattern {name}" for name in pack.patterns if name not in used]
    detector = PatternDetector(pack)
    for example in pack.examples:
        strong = {name for name, weight in example.patterns.items() if weight >= 0.5}
        if strong and not strong & detector.detect(example.question).keys():
            named = ", ".join(sorted(strong))
            notes.append(f"example {example.id}: none of its patterns ({named}) is found in its question")
    if not pack.examples:
        problems.append("there are no examples: write some into examples.jsonl, each with a question and its query")
    return PackCheck(problems=tuple(problems), notes=tuple(notes), ran=ran)
