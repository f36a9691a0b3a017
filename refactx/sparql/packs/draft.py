"""A first pack of an endpoint or a file of RDF, for a person to edit."""

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import islice
from os.path import relpath
from pathlib import Path

from pyoxigraph import Literal

from refactx.english import plural
from refactx.errors import InputError
from refactx.fact import clean_part
from refactx.linking.names import unaccented
from refactx.sparql.engines import SparqlEngine
from refactx.sparql.packs.pack import Pack, PackExample, load_pack
from refactx.sparql.packs.prompt import with_prefixes
from refactx.sparql.packs.rules import shorten
from refactx.sparql.packs.survey import (
    DEFAULT,
    SCHEMA,
    BoundedQueries,
    FoundTerm,
    Survey,
    inside,
    namespace_of,
    part_of_speech,
    prefixes_for,
    survey,
    words_of,
)

MOST = 60
"""Examples of a pack at most."""
_CLASSES, _PROPERTIES, _OF_CLASS = 9, 6, 15
_LONGEST = 60
_NUMBERS = ("integer", "decimal", "double", "float", "int", "long", "nonNegativeInteger", "gYear")
_DATES = ("date", "dateTime", "gYearMonth")
_MOST_CLASSES = 12
_MOST_PROPERTIES = 12
_CALLED = "What a thing is called is a value of {label}: compare it with STR(?name), as it may have a language."


def make_examples(
    queries: BoundedQueries, survey: Survey, prefixes: Mapping[str, str], languages: Sequence[str]
) -> tuple[PackExample, ...]:
    """Return examples for the most frequent classes. A query that has no rows, or fails, is left out."""
    found, maker = dict[str, PackExample](), _PackMaker(queries, survey, prefixes, languages)
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
    return "ABOUT_" + "".join(c if c.isalnum() else "_" for c in unaccented(label_of(one, "en"))).upper()


class _PackMaker:
    def __init__(
        self, queries: BoundedQueries, survey: Survey, prefixes: Mapping[str, str], languages: Sequence[str]
    ) -> None:
        self._queries, self._survey, self._prefixes = queries, survey, prefixes
        read = tomllib.loads((files("refactx.prompts") / "pack-questions.toml").read_text(encoding="utf-8"))
        self._questions: dict[str, dict[str, str]] = {
            one: read[one] for one in dict.fromkeys(("en", *languages)) if one in read
        }
        self._used = [one for one in survey.properties if one.iri != survey.label and not one.iri.startswith(SCHEMA)]

    def of_class(self, one: FoundTerm) -> Iterator[PackExample]:
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

    def of_things(self) -> Iterator[PackExample]:
        """Yield examples about things without a class."""
        called = {language: texts["thing"] for language, texts in self._questions.items()}
        thing = FoundTerm(iri="", count=0, places=(DEFAULT,), labels=called)
        for two in self._used:
            yield from self._values(thing, self._step(two), two)

    def _values(self, one: FoundTerm, body: str, two: FoundTerm) -> Iterator[PackExample]:
        """Yield a question for the values of a property, and one for what has such a value."""
        step = self._step(two)
        body = step if body == step else f"{body} . {step}"
        name = self._entity(body, "?x")
        if name is not None:
            query = f"SELECT DISTINCT ?y {{ {self._named('?x', name)} . {step} }}"
            yield from self._example("value", one, query, ("LIST",), two=two, name=name)
        name = self._entity(body, "?y")
        if name is not None:
            query = f"SELECT DISTINCT ?x {{ {body} . {self._named('?y', name)} }}"
            yield from self._example("with", one, query, ("LIST",), two=two, name=name)

    def _order(self, one: FoundTerm, body: str, two: FoundTerm) -> Iterator[PackExample]:
        """Yield a question for the highest number or the latest date of a property."""
        datatype = two.range[0].rpartition("#")[2] if len(two.range) == 1 else ""
        if datatype in _NUMBERS or datatype in _DATES:
            query = f"SELECT DISTINCT ?x {{ {body} . {self._step(two)} }} ORDER BY DESC(?y) LIMIT 1"
            yield from self._example("most" if datatype in _NUMBERS else "latest", one, query, ("MOST",), two=two)

    def _two_hops(self, one: FoundTerm, body: str, two: FoundTerm, number: int) -> Iterator[PackExample]:
        """Yield a question for a property of a property's value."""
        threes = [three for three in self._used if set(three.domain) & set(two.range)]
        name = self._entity(f"{body} . {self._step(two)}", "?x") if threes else None
        if name is not None:
            three = threes[number % len(threes)]
            last = self._in(three, f"?y {self._name(three.iri)} ?z")
            query = f"SELECT DISTINCT ?z {{ {self._named('?x', name)} . {self._step(two)} . {last} }}"
            yield from self._example("hops", one, query, ("LIST", "TWO_HOPS"), two=two, name=name, three=three)

    def _step(self, two: FoundTerm) -> str:
        return self._in(two, f"?x {self._name(two.iri)} ?y")

    def _example(
        self,
        kind: str,
        one: FoundTerm,
        query: str,
        patterns: Sequence[str],
        *,
        two: FoundTerm | None = None,
        name: str = "",
        three: FoundTerm | None = None,
    ) -> Iterator[PackExample]:
        query = with_prefixes(query, self._prefixes)
        if not self._queries.rows(query, 1):
            return
        form = "" if two is None else part_of_speech(label_of(two, "en"))
        written = dict[str, str]()
        for language, texts in self._questions.items():
            noun, property_ = label_of(one, language), "" if two is None else label_of(two, language)
            second = "" if three is None else label_of(three, language)
            written[language] = texts.get(f"{kind} {form}", texts[kind]).format(
                one=noun, many=plural(noun), property=property_, name=name, second=second
            )
        question = written.pop("en")
        about = {} if kind in ("value", "hops") or not one.iri else {class_pattern(one): 0.8}
        yield PackExample(
            id=question,
            question=question,
            variants={language: (text,) for language, text in written.items()},
            sparql=query,
            patterns=dict.fromkeys(patterns, 1.0) | about,
        )

    def _entity(self, body: str, variable: str) -> str | None:
        """Return what an instance that fits is called, if its name fits into quotes."""
        label = self._survey.label
        if label is None:
            return None
        query = f"SELECT ?l {{ {body} . {self._named(variable, None)} }}"
        for row in self._queries.rows(with_prefixes(query, self._prefixes), 20) or ():
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
        return inside(DEFAULT if DEFAULT in term.places else term.places[0], pattern)

    def _name(self, iri: str) -> str:
        return shorten(iri, self._prefixes)


def prefixes_of(survey: Survey) -> dict[str, str]:
    """Return prefixes for the namespaces of a survey's terms and instances, and for labels and datatypes."""
    terms = [*survey.classes, *survey.properties]
    named = [namespace_of(iri) for one in terms for iri in (one.iri, *one.domain, *one.range)]
    usual = [
        f"http://www.w3.org/{path}#" for path in ("2000/01/rdf-schema", "1999/02/22-rdf-syntax-ns", "2001/XMLSchema")
    ]
    return prefixes_for([name for name in [*named, *survey.namespaces] if name] + usual)


def write_pack(
    folder: Path,
    name: str,
    survey: Survey,
    examples: Sequence[PackExample],
    *,
    title: str,
    place: Mapping[str, str],
    languages: Sequence[str],
) -> None:
    """Write the files of a pack into a folder, which is made. `place`: where its queries run, as `pack.toml` has it."""
    folder.mkdir(parents=True, exist_ok=True)
    prefixes = prefixes_of(survey)
    graphs = {prefix.upper(): graph for prefix, graph in _graph_names(survey.graphs).items()}
    texts = {
        "pack.toml": _head(survey, prefixes, graphs, name=name, title=title, place=place, languages=languages),
        "patterns.toml": _patterns(survey, languages),
        "rules.toml": _rules(survey, prefixes, graphs),
        "examples.jsonl": "".join(f"{json.dumps(example_json(one), ensure_ascii=False)}\n" for one in examples),
        "schema.jsonl": "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in _schema(survey)),
    }
    for file, text in texts.items():
        (folder / file).write_text(text, encoding="utf-8")


def _head(
    survey: Survey,
    prefixes: Mapping[str, str],
    graphs: Mapping[str, str],
    *,
    name: str,
    title: str,
    place: Mapping[str, str],
    languages: Sequence[str],
) -> str:
    closed: list[str] = []
    if survey.whole and survey.by == "sampling":  # none of its instances is there, and nothing was left out
        own = {namespace_of(one.iri) for one in (*survey.classes, *survey.properties)} - set(survey.namespaces)
        closed = [key for key, iri in prefixes.items() if iri in own and not iri.startswith("http://www.w3.org/")]
    base = "" if survey.label is None else _CALLED.format(label=shorten(survey.label, prefixes))
    lines = [
        f"# A first pack by {survey.by}: say in `base` what is special about the data, and write examples of your own.",
        "version = 1",
        f"name = {_text(name)}",
        f"title = {_text(title)}",
        f"languages = {_texts(languages)}",
        *(f"{key} = {_text(value)}" for key, value in place.items()),
        *([f"base = {_text(base)}"] if base else []),
        "# Prefixes whose names are all in schema.jsonl: another name is then a mistake.",
        f"vocabularies = {_texts(closed)}",
        *(["", "[graphs]", *(f"{_key(key)} = {_text(iri)}" for key, iri in graphs.items())] if graphs else []),
        "",
        "[prefixes]",
        *(f"{_key(key)} = {_text(iri)}" for key, iri in prefixes.items()),
    ]
    return "\n".join(lines) + "\n"


def _patterns(survey: Survey, languages: Sequence[str]) -> str:
    heads = (files("refactx.prompts") / "pack-heads.toml").read_text(encoding="utf-8")
    parts = [heads.rstrip()]
    named = dict[str, FoundTerm]()
    for one in survey.classes[:_MOST_CLASSES]:
        named.setdefault(class_pattern(one), one)
    for name, one in named.items():
        about = _text(f"instances of {one.iri}")
        lines = ["[[pattern]]", f"name = {_text(name)}", f"about = {about}", "weight = 0.8", "[pattern.words]"]
        for language in languages:
            noun = " ".join(
                re.sub(r"\*|\.{3}", " ", unaccented(label_of(one, language))).split()
            )  # patterns have signs for more
            stem = f"{noun[:-1]}*" if len(noun) > 3 and noun[-2] != " " else noun
            words = dict.fromkeys([noun, plural(noun)] if language == "en" else [stem])
            lines.append(f"{_key(language)} = {_texts(words if noun else ())}")
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _rules(survey: Survey, prefixes: Mapping[str, str], graphs: Mapping[str, str]) -> str:
    """Return a rule that shows the schema, and rules for terms that one named graph alone has: a text, and the check."""
    lines = ["# Rules: text for the prompt, and checks of queries.", "version = 1"]
    if survey.classes:
        lines += ["", "[[rule]]", 'id = "schema"', f"text = {_text(_overview(survey, prefixes))}"]
    for key, graph in graphs.items():
        terms = [one.iri for one in (*survey.classes, *survey.properties) if one.places == (graph,)]
        names = [name for iri in terms if not (name := shorten(iri, prefixes)).startswith("<")]
        if not names:
            continue
        shown = ", ".join(names[:12])
        lines += ["", "[[rule]]", f"id = {_text(f'graph-{key.lower()}')}"]
        lines += [f"text = {_text(f'In GRAPH <{graph}> alone: {shown}.')}"]
        lines += ["[[rule.check]]", 'kind = "place"', f"names = {_texts(names)}", f"in = {_texts([key])}"]
    return "\n".join(lines) + "\n"


def _overview(survey: Survey, prefixes: Mapping[str, str]) -> str:
    """Return the classes with their properties and what these lead to, on one line."""
    parts = list[str]()
    for one in survey.classes[:_MOST_CLASSES]:
        used = [two for two in survey.properties if one.iri in two.domain and not two.iri.startswith(SCHEMA)]
        shown = list[str]()
        for two in used[:_MOST_PROPERTIES]:
            ranges = " or ".join(shorten(iri, prefixes) for iri in two.range[:2])
            shown.append(shorten(two.iri, prefixes) + (f" ({ranges})" if ranges else ""))
        name = shorten(one.iri, prefixes)
        parts.append(f"{name} has {', '.join(shown)}" if shown else f"{name} has no properties of its own")
    return f"Classes with their properties: {'; '.join(parts)}."


def _graph_names(graphs: Sequence[str]) -> dict[str, str]:
    """Return names of graphs, by the last word of each IRI.

    >>> _graph_names(["http://e.org/graph/staff"])
    {'staff': 'http://e.org/graph/staff'}
    """
    bases = {f"{graph.rstrip('/#')}/": graph for graph in graphs}
    return {name: bases[base] for name, base in prefixes_for(bases).items()}


def example_json(one: PackExample) -> dict[str, object]:
    return {
        "id": one.id,
        "question": one.question,
        "variants": {language: list(texts) for language, texts in one.variants.items()},
        "sparql": one.sparql,
        "patterns": dict(one.patterns),
    }


def _schema(survey: Survey) -> Iterable[dict[str, object]]:
    for kind, terms in (("class", survey.classes), ("property", survey.properties)):
        for one in terms:
            labels = dict(one.labels) or {"en": label_of(one, "en")}
            line: dict[str, object] = {"iri": one.iri, "kind": kind, "labels": labels}
            for key, iris in (("domain", one.domain), ("range", one.range), ("parents", one.parents)):
                if iris:
                    line[key] = list(iris)
            if one.comment:
                line["comment"] = one.comment
            yield line


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _text(name)


def _text(value: str) -> str:
    """Return a basic string of TOML: JSON's, with its escapes."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")


def _texts(values: Iterable[str]) -> str:
    return f"[{', '.join(map(_text, values))}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeOptions:
    """`title`: what prompts call the data; `endpoint`, `file`, `index`: where queries are run, which is written into the
    pack, the first of them that there is; `languages`: of labels and questions; `queries`: the most that are run;
    `seconds`: the most time of each."""

    title: str = ""
    endpoint: str | None = None
    file: Path | None = None
    index: str | None = None
    languages: tuple[str, ...] = ("en",)
    queries: int = 600
    seconds: float = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MadePack:
    """A pack that was made. `by`: `VoID` or `sampling`; `notes`: what failed, one line each."""

    pack: Pack
    by: str
    notes: tuple[str, ...]


def make_pack(engine: SparqlEngine, folder: Path, name: str, options: MakeOptions | None = None) -> MadePack:
    """Write a first pack of what an engine has into a folder, and return it as it was read back.

    It has the classes and properties with labels, domains and ranges, prefixes, graphs with rules for what each has alone,
    patterns, and examples that have rows. Raises InputError if the folder has a pack, or if no class and no property was
    found.
    """
    options = options or MakeOptions()
    if (folder / "pack.toml").exists():
        raise InputError(f"{folder} has a pack already: give another folder with --out, or delete this one")
    found = survey(engine, languages=options.languages, queries=options.queries, seconds=options.seconds)
    if not found.classes and not found.properties:
        reason = f": {found.notes[0]}" if found.notes else ", which has no data that can be read"
        raise InputError(f"no class and no property was found at {engine.name}{reason}")
    queries = BoundedQueries(engine, queries=options.queries, seconds=options.seconds)
    examples = make_examples(queries, found, prefixes_of(found), options.languages)
    file = (
        None if options.file is None else Path(relpath(options.file, folder)).as_posix()
    )  # both may be moved together
    places = {"endpoint": options.endpoint, "file": file, "index": options.index}
    write_pack(
        folder,
        name,
        found,
        examples,
        title=options.title or name,
        place=dict([(key, value) for key, value in places.items() if value is not None][:1]),
        languages=options.languages,
    )
    notes = dict.fromkeys([*found.notes, *queries.notes])
    return MadePack(pack=load_pack(folder), by=found.by, notes=tuple(notes))
