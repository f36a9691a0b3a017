"""The files of a first pack: written for a person to edit, and read back before they are reported."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from refactx.nl2sparql.making.examples import class_pattern, label_of
from refactx.nl2sparql.making.names import namespace_of, plural, prefixes_for
from refactx.nl2sparql.making.survey import SCHEMA, FoundTerm, Survey
from refactx.nl2sparql.pack import Example
from refactx.nl2sparql.patterns.wording import fold

_CLASSES = 12
_PROPERTIES = 12
_CALLED = "What a thing is called is a value of {label}: compare it with STR(?name), as it may have a language."


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
    examples: Sequence[Example],
    *,
    title: str,
    endpoint: str | None,
    languages: Sequence[str],
) -> None:
    """Write the files of a pack into a folder, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    prefixes = prefixes_of(survey)
    graphs = {prefix.upper(): graph for prefix, graph in _graph_names(survey.graphs).items()}
    texts = {
        "pack.toml": _head(name, title, endpoint, languages, survey, prefixes, graphs),
        "patterns.toml": _patterns(survey, languages),
        "rules.toml": _rules(survey, prefixes, graphs),
        "examples.jsonl": "".join(f"{json.dumps(_example(one), ensure_ascii=False)}\n" for one in examples),
        "schema.jsonl": "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in _schema(survey)),
    }
    for file, text in texts.items():
        (folder / file).write_text(text, encoding="utf-8")


def _head(
    name: str,
    title: str,
    endpoint: str | None,
    languages: Sequence[str],
    survey: Survey,
    prefixes: Mapping[str, str],
    graphs: Mapping[str, str],
) -> str:
    closed = _closed(survey, prefixes)
    label = None if survey.label is None else _short(survey.label, prefixes)
    base = "" if label is None else _CALLED.format(label=label)
    lines = [
        f"# A first pack by {survey.by}: say in `base` what is special about the data, and write examples of your own.",
        "version = 1",
        f"name = {_text(name)}",
        f"title = {_text(title)}",
        f"languages = {_texts(languages)}",
        *([f"endpoint = {_text(endpoint)}"] if endpoint else []),
        *([f"base = {_text(base)}"] if base else []),
        "# Prefixes whose names are all in schema.jsonl: another name is then a mistake.",
        f"vocabularies = {_texts(closed)}",
        *(["", "[graphs]", *(f"{_key(key)} = {_text(iri)}" for key, iri in graphs.items())] if graphs else []),
        "",
        "[prefixes]",
        *(f"{_key(key)} = {_text(iri)}" for key, iri in prefixes.items()),
    ]
    return "\n".join(lines) + "\n"


def _closed(survey: Survey, prefixes: Mapping[str, str]) -> list[str]:
    """Return the prefixes of which the survey has all names: none of its instances is there, and nothing was left out."""
    if not survey.whole or survey.by != "sampling":
        return []
    own = {namespace_of(one.iri) for one in (*survey.classes, *survey.properties)} - set(survey.namespaces)
    return [prefix for prefix, iri in prefixes.items() if iri in own and not iri.startswith("http://www.w3.org/")]


def _patterns(survey: Survey, languages: Sequence[str]) -> str:
    heads = (files("refactx.prompts") / "pack-heads.toml").read_text(encoding="utf-8")
    parts = [heads.rstrip()]
    for one, name in _named_classes(survey):
        about = _text(f"instances of {one.iri}")
        lines = ["[[pattern]]", f"name = {_text(name)}", f"about = {about}", "weight = 0.8", "[pattern.words]"]
        for language in languages:
            noun = " ".join(
                re.sub(r"\*|\.{3}", " ", fold(label_of(one, language))).split()
            )  # patterns have signs for more
            stem = f"{noun[:-1]}*" if len(noun) > 3 and noun[-2] != " " else noun
            words = dict.fromkeys([noun, plural(noun)] if language == "en" else [stem])
            lines.append(f"{_key(language)} = {_texts(words if noun else ())}")
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _named_classes(survey: Survey) -> Iterable[tuple[FoundTerm, str]]:
    named = dict[str, FoundTerm]()
    for one in survey.classes[:_CLASSES]:
        named.setdefault(class_pattern(one), one)
    return [(one, name) for name, one in named.items()]


def _rules(survey: Survey, prefixes: Mapping[str, str], graphs: Mapping[str, str]) -> str:
    """Return a rule that shows the schema, and rules for terms that one named graph alone has: a text, and the check."""
    lines = ["# Rules: text for the prompt, and checks of queries.", "version = 1"]
    if survey.classes:
        lines += ["", "[[rule]]", 'id = "schema"', f"text = {_text(_overview(survey, prefixes))}"]
    for key, graph in graphs.items():
        names = [
            written
            for one in (*survey.classes, *survey.properties)
            if one.places == (graph,) and (written := _short(one.iri, prefixes)) is not None
        ]
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
    for one in survey.classes[:_CLASSES]:
        used = [two for two in survey.properties if one.iri in two.domain and not two.iri.startswith(SCHEMA)]
        shown = [_with_range(two, prefixes) for two in used[:_PROPERTIES]]
        name = _short(one.iri, prefixes) or f"<{one.iri}>"
        parts.append(f"{name} has {', '.join(shown)}" if shown else f"{name} has no properties of its own")
    return f"Classes with their properties: {'; '.join(parts)}."


def _with_range(two: FoundTerm, prefixes: Mapping[str, str]) -> str:
    ranges = [_short(iri, prefixes) or f"<{iri}>" for iri in two.range[:2]]
    name = _short(two.iri, prefixes) or f"<{two.iri}>"
    return f"{name} ({' or '.join(ranges)})" if ranges else name


def _short(iri: str, prefixes: Mapping[str, str]) -> str | None:
    for prefix, base in prefixes.items():
        local = iri.removeprefix(base)
        if local != iri and local.replace("_", "").isalnum():
            return f"{prefix}:{local}"
    return None


def _graph_names(graphs: Sequence[str]) -> dict[str, str]:
    """Return names of graphs, by the last word of each IRI.

    >>> _graph_names(["http://e.org/graph/staff"])
    {'staff': 'http://e.org/graph/staff'}
    """
    bases = {f"{graph.rstrip('/#')}/": graph for graph in graphs}
    return {name: bases[base] for name, base in prefixes_for(bases).items()}


def _example(one: Example) -> dict[str, object]:
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
