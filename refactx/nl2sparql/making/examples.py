"""Example questions with their queries, made of what a survey found; only those that have rows are kept."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from pyoxigraph import Literal

from refactx.fact import clean_part
from refactx.nl2sparql.making.bounded import BoundedQueries
from refactx.nl2sparql.making.names import form_of, plural, words_of
from refactx.nl2sparql.making.survey import DEFAULT, SCHEMA, FoundTerm, Survey
from refactx.nl2sparql.pack import Example
from refactx.nl2sparql.patterns.wording import fold

MOST = 60
"""Examples of a pack at most."""
_CLASSES, _PROPERTIES, _OF_CLASS = 9, 6, 15
_LONGEST = 60
_NUMBERS = ("integer", "decimal", "double", "float", "int", "long", "nonNegativeInteger", "gYear")
_DATES = ("date", "dateTime", "gYearMonth")
_TEXTS = {
    "count": ("How many {many} are there?", "Quante istanze di «{one}» ci sono?"),
    "list": ("List all {many}.", "Elenca tutte le istanze di «{one}»."),
    "value": ("What is the {property} of '{name}'?", "Qual è «{property}» di '{name}'?"),
    "value participle": ("What is '{name}' {property}?", "Qual è «{property}» di '{name}'?"),
    "with": ("Which {many} have '{name}' as {property}?", "Quali istanze di «{one}» hanno '{name}' come «{property}»?"),
    "with participle": (
        "Which {many} are {property} '{name}'?",
        "Quali istanze di «{one}» hanno '{name}' come «{property}»?",
    ),
    "with verb": ("Which {one} {property} '{name}'?", "Quali istanze di «{one}» hanno '{name}' come «{property}»?"),
    "most": ("Which {one} has the highest {property}?", "Quale istanza di «{one}» ha «{property}» più alto?"),
    "latest": ("Which {one} has the latest {property}?", "Quale istanza di «{one}» ha «{property}» più recente?"),
    "hops": (
        "What is the {second} of the {property} of '{name}'?",
        "Qual è «{second}» di «{property}» di '{name}'?",
    ),
}
"""Questions by kind and by what the property's label is, in English and Italian."""


def make_examples(
    queries: BoundedQueries, survey: Survey, prefixes: Mapping[str, str], languages: Sequence[str]
) -> tuple[Example, ...]:
    """Return examples for the most frequent classes. A query that has no rows, or fails, is left out."""
    found, maker = dict[str, Example](), _Maker(queries, survey, prefixes, languages)
    for one in survey.classes[:_CLASSES]:
        for example in islice(maker.of_class(one), _OF_CLASS):
            found.setdefault(example.question, example)
    if not survey.classes:
        found = {example.question: example for example in islice(maker.of_things(), MOST)}
    return tuple(replace(one, id=str(number)) for number, one in enumerate(islice(found.values(), MOST), 1))


def label_of(term: FoundTerm, language: str) -> str:
    """Return what a term is called in a language, in another one, or by its IRI."""
    return term.labels.get(language) or next(iter(term.labels.values()), None) or words_of(term.iri)


def class_pattern(one: FoundTerm) -> str:
    """Return the name of the pattern of questions about instances of a class."""
    return "ABOUT_" + "".join(c if c.isalnum() else "_" for c in fold(label_of(one, "en"))).upper()


class _Maker:
    def __init__(
        self, queries: BoundedQueries, survey: Survey, prefixes: Mapping[str, str], languages: Sequence[str]
    ) -> None:
        self._queries, self._survey, self._prefixes, self._languages = queries, survey, prefixes, languages
        self._used = [one for one in survey.properties if one.iri != survey.label and not one.iri.startswith(SCHEMA)]

    def of_class(self, one: FoundTerm) -> Iterator[Example]:
        """Yield examples about instances of a class."""
        body = self._in(one, f"?x a {self._name(one.iri)}")
        yield from self._example("count", one, f"SELECT (COUNT(DISTINCT ?x) AS ?n) {{ {body} }}", ("COUNT",))
        yield from self._example("list", one, f"SELECT DISTINCT ?x {{ {body} }}", ("LIST",))
        properties = [two for two in self._used if one.iri in two.domain][:_PROPERTIES]
        for two in properties:
            yield from self._values(one, body, two)
        for two in properties:
            yield from self._order(one, body, two)
        for number, two in enumerate(properties):
            yield from self._two_hops(one, body, two, number)

    def of_things(self) -> Iterator[Example]:
        """Yield examples about things without a class."""
        thing = FoundTerm(iri="", count=0, places=(DEFAULT,), labels={"en": "thing", "it": "cosa"})
        for two in self._used:
            yield from self._values(thing, self._step(two), two)

    def _values(self, one: FoundTerm, body: str, two: FoundTerm) -> Iterator[Example]:
        """Yield a question for the values of a property, and one for what has such a value."""
        step = self._step(two)
        name = self._entity(f"{body} . {step}", "?x")
        if name is not None:
            query = f"SELECT DISTINCT ?y {{ {self._named('?x', name)} . {step} }}"
            yield from self._example("value", one, query, ("LIST",), two, name)
        name = self._entity(f"{body} . {step}", "?y")
        if name is not None:
            query = f"SELECT DISTINCT ?x {{ {body} . {step} . {self._named('?y', name)} }}"
            yield from self._example("with", one, query, ("LIST",), two, name)

    def _order(self, one: FoundTerm, body: str, two: FoundTerm) -> Iterator[Example]:
        """Yield a question for the highest number or the latest date of a property."""
        datatype = two.range[0].rpartition("#")[2] if len(two.range) == 1 else ""
        if datatype in _NUMBERS or datatype in _DATES:
            query = f"SELECT DISTINCT ?x {{ {body} . {self._step(two)} }} ORDER BY DESC(?y) LIMIT 1"
            yield from self._example("most" if datatype in _NUMBERS else "latest", one, query, ("MOST",), two)

    def _two_hops(self, one: FoundTerm, body: str, two: FoundTerm, number: int) -> Iterator[Example]:
        """Yield a question for a property of a property's value."""
        threes = [three for three in self._used if set(three.domain) & set(two.range)]
        name = self._entity(f"{body} . {self._step(two)}", "?x") if threes else None
        if name is not None:
            three = threes[number % len(threes)]
            last = self._in(three, f"?y {self._name(three.iri)} ?z")
            query = f"SELECT DISTINCT ?z {{ {self._named('?x', name)} . {self._step(two)} . {last} }}"
            yield from self._example("hops", one, query, ("LIST", "TWO_HOPS"), two, name, three)

    def _step(self, two: FoundTerm) -> str:
        return self._in(two, f"?x {self._name(two.iri)} ?y")

    def _example(
        self,
        kind: str,
        one: FoundTerm,
        query: str,
        patterns: Sequence[str],
        two: FoundTerm | None = None,
        name: str = "",
        three: FoundTerm | None = None,
    ) -> Iterator[Example]:
        used = [prefix for prefix in self._prefixes if f"{prefix}:" in query]
        query = "".join(f"PREFIX {prefix}: <{self._prefixes[prefix]}>\n" for prefix in used) + query
        if not self._queries.rows(query, 1):
            return
        form = "" if two is None else form_of(label_of(two, "en"))
        templates = _TEXTS.get(f"{kind} {form}", _TEXTS[kind])
        texts = list[str]()
        for template, language in zip(templates, ("en", "it"), strict=True):
            noun, property_ = label_of(one, language), "" if two is None else label_of(two, language)
            second = "" if three is None else label_of(three, language)
            texts.append(template.format(one=noun, many=plural(noun), property=property_, name=name, second=second))
        about = {} if kind in ("value", "hops") or not one.iri else {class_pattern(one): 0.8}
        yield Example(
            id=texts[0],
            question=texts[0],
            variants={"it": (texts[1],)} if "it" in self._languages else {},
            sparql=query,
            patterns=dict.fromkeys(patterns, 1.0) | about,
        )

    def _entity(self, body: str, variable: str) -> str | None:
        """Return what an instance that fits is called, if its name fits into quotes."""
        label = self._survey.label
        if label is None:
            return None
        query = f"SELECT ?l {{ {body} . {self._named(variable, None)} }}"
        used = "".join(f"PREFIX {prefix}: <{iri}>\n" for prefix, iri in self._prefixes.items() if f"{prefix}:" in query)
        for row in self._queries.rows(used + query, 20) or ():
            if row and isinstance(row[0], Literal):
                text = row[0].value
                if text and text == clean_part(text) and len(text) <= _LONGEST and not set(text) & set("'\"\\"):
                    return text
        return None

    def _named(self, variable: str, name: str | None) -> str:
        """Return the pattern of what is called a name (`?l` without one), whatever its language."""
        label = next(one for one in self._survey.properties if one.iri == self._survey.label)
        value = "?l" if name is None else "?name"
        test = "" if name is None else f" FILTER(STR(?name) = {json.dumps(name, ensure_ascii=False)})"
        return self._in(label, f"{variable} {self._name(label.iri)} {value}{test}")

    def _in(self, term: FoundTerm, pattern: str) -> str:
        place = DEFAULT if DEFAULT in term.places else term.places[0]
        return pattern if place == DEFAULT else f"GRAPH <{place}> {{ {pattern} }}"

    def _name(self, iri: str) -> str:
        for prefix, base in sorted(self._prefixes.items(), key=lambda one: -len(one[1])):
            local = iri.removeprefix(base)
            if local != iri and local.replace("_", "").isalnum() and local.isascii():
                return f"{prefix}:{local}"
        return f"<{iri}>"
