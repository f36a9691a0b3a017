"""`latest-truthy.nt` of a made-up world: N-Triples in dump order, with all the vocabularies that a real one has."""

from collections.abc import Iterator
from urllib.parse import quote

from support.ingest.dump_world import WD, XSD, Item, World, literal

_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
_LABELS = (
    "http://www.w3.org/2000/01/rdf-schema#label",
    "http://www.w3.org/2004/02/skos/core#prefLabel",
    "http://schema.org/name",
)
_ALIAS = "http://www.w3.org/2004/02/skos/core#altLabel"
_DESCRIPTION = "http://schema.org/description"
_SCHEMA = "http://schema.org/"
_WIKIBASE = "http://wikiba.se/ontology#"
_OWL = "http://www.w3.org/2002/07/owl#"
_CC0 = "<http://creativecommons.org/publicdomain/zero/1.0/>"
_LANGUAGES = ("de", "fr", "ru", "zh-hans")


def truthy_lines(world: World) -> Iterator[str]:
    """Yield `latest-truthy.nt` line by line: the dump's own description, items and properties in turn, then lexemes."""
    yield from _triples(
        f"<{_WIKIBASE}Dump>",
        (_RDF, f"<{_SCHEMA}Dataset>"),
        (_RDF, f"<{_OWL}Ontology>"),
        ("http://creativecommons.org/ns#license", _CC0),
        (_SCHEMA + "softwareVersion", '"1.0.0"'),
        (_SCHEMA + "dateModified", f'"2025-11-19T23:00:01Z"^^<{XSD}dateTime>'),
        (_OWL + "imports", "<http://wikiba.se/ontology-1.0.owl>"),
    )
    for number in range(1, max(world.items, world.properties) + 1):
        if number <= world.items:
            yield from _item_lines(world, world.item(number))
        if number <= world.properties:
            yield from _property_lines(world, number)
    for number in range(1, world.items // 10 + 2):
        yield from _lexeme_lines(number)


def _triples(subject: str, *pairs: tuple[str, str]) -> Iterator[str]:
    for predicate, object_ in pairs:
        yield f"{subject} <{predicate}> {object_} .\n"


def _integer(number: int) -> str:
    return f'"{number}"^^<{XSD}integer>'


def _data_lines(entity: str, statements: int) -> Iterator[str]:
    """Yield the lines about an entity's page, which are before those about the entity."""
    yield from _triples(
        f"<https://www.wikidata.org/wiki/Special:EntityData/{entity}>",
        (_RDF, f"<{_SCHEMA}Dataset>"),
        (_SCHEMA + "about", f"<{WD}{entity}>"),
        ("http://creativecommons.org/ns#license", _CC0),
        (_SCHEMA + "softwareVersion", '"1.0.0"'),
        (_SCHEMA + "version", _integer(2_000_000_000 + statements)),
        (_SCHEMA + "dateModified", f'"2025-11-18T22:35:59Z"^^<{XSD}dateTime>'),
        (_WIKIBASE + "statements", _integer(statements)),
        (_WIKIBASE + "identifiers", _integer(0)),
        (_WIKIBASE + "sitelinks", _integer(1)),
    )


def _item_lines(world: World, item: Item) -> Iterator[str]:
    subject = f"<{WD}{item.id}>"
    yield from _data_lines(item.id, len(item.claims))
    if item.number % 50 == 0:  # also a redirect to this item
        other = f"Q{world.items * 2 + item.number}"
        yield from _data_lines(other, 0)
        yield from _triples(f"<{WD}{other}>", (_OWL + "sameAs", subject))
    yield from _triples(subject, (_RDF, f"<{_WIKIBASE}Item>"))
    languages = (*_LANGUAGES[: item.number % 4], *(("en",) if item.label else ()))
    for language in languages:
        text = item.label if language == "en" else f"{language} {item.number}"
        yield from _triples(subject, *((name, f"{literal(text or '')}@{language}") for name in _LABELS))
    if item.description is not None:
        yield from _triples(subject, (_DESCRIPTION, f"{literal(item.description)}@en"), (_DESCRIPTION, '"Ding"@de'))
    yield from _triples(subject, (_ALIAS, f'"alias {item.number}"@en'), (_ALIAS, '"Beiname"@de'))
    for property_, written, _ in item.claims:
        yield from _triples(subject, (f"http://www.wikidata.org/prop/direct/P{property_}", written))
        if world.datatype(property_) == "ExternalId":
            normalized = f"http://www.wikidata.org/prop/direct-normalized/P{property_}"
            yield from _triples(subject, (normalized, f"<https://id.example.com/{item.number}>"))
    if item.number % 30 == 0:
        yield from _triples(subject, (_RDF, "<http://www.wikidata.org/prop/novalue/P1>"))
    if item.title is not None:
        yield from _sitelink_lines("en", item.title, subject)
    if item.number % 3 == 0:
        yield from _sitelink_lines("de", f"Ding {item.number}", subject)


def _sitelink_lines(language: str, title: str, item: str) -> Iterator[str]:
    wiki = f"https://{language}.wikipedia.org/"
    yield from _triples(
        f"<{wiki}wiki/{quote(title.replace(' ', '_'), safe='/:,()!-;@*')}>",
        (_RDF, f"<{_SCHEMA}Article>"),
        (_SCHEMA + "about", item),
        (_SCHEMA + "inLanguage", f'"{language}"'),
        (_SCHEMA + "isPartOf", f"<{wiki}>"),
        (_SCHEMA + "name", f"{literal(title)}@{language}"),
    )
    yield from _triples(f"<{wiki}>", (_WIKIBASE + "wikiGroup", '"wikipedia"'))


def _property_lines(world: World, number: int) -> Iterator[str]:
    subject, prop = f"<{WD}P{number}>", "http://www.wikidata.org/prop/"
    label = f"{literal(world.property_label(number))}@en"
    yield from _data_lines(f"P{number}", 0)
    yield from _triples(
        subject,
        (_RDF, f"<{_WIKIBASE}Property>"),
        *((name, label) for name in _LABELS),
        (_WIKIBASE + "propertyType", f"<{_WIKIBASE}{world.datatype(number)}>"),
        (_WIKIBASE + "directClaim", f"<{prop}direct/P{number}>"),
        (_WIKIBASE + "claim", f"<{prop}P{number}>"),
        (_WIKIBASE + "statementProperty", f"<{prop}statement/P{number}>"),
        (_WIKIBASE + "qualifier", f"<{prop}qualifier/P{number}>"),
        (_WIKIBASE + "reference", f"<{prop}reference/P{number}>"),
        (_WIKIBASE + "statementValue", f"<{prop}statement/value/P{number}>"),
        (_WIKIBASE + "qualifierValue", f"<{prop}qualifier/value/P{number}>"),
        (_WIKIBASE + "referenceValue", f"<{prop}reference/value/P{number}>"),
        (_WIKIBASE + "novalue", f"<{prop}novalue/P{number}>"),
    )
    yield from _triples(f"<{prop}direct/P{number}>", (_RDF, f"<{_OWL}ObjectProperty>"))
    yield from _triples(
        f"<{prop}novalue/P{number}>", (_RDF, f"<{_OWL}Class>"), (_OWL + "complementOf", f"_:genid{number}")
    )
    yield from _triples(
        f"_:genid{number}",
        (_RDF, f"<{_OWL}Restriction>"),
        (_OWL + "onProperty", f"<{prop}direct/P{number}>"),
        (_OWL + "someValuesFrom", f"<{_OWL}Thing>"),
    )


def _lexeme_lines(number: int) -> Iterator[str]:
    lexeme, ontolex = f"<{WD}L{number}>", "http://www.w3.org/ns/lemon/ontolex#"
    yield from _data_lines(f"L{number}", 1)
    yield from _triples(
        lexeme,
        (_RDF, f"<{_WIKIBASE}Lexeme>"),
        (_RDF, f"<{ontolex}LexicalEntry>"),
        (_LABELS[0], '"statement"@en'),
        (_WIKIBASE + "lemma", '"statement"@en'),
        ("http://purl.org/dc/terms/language", f"<{WD}Q1>"),
        (_WIKIBASE + "lexicalCategory", f"<{WD}Q2>"),
        (ontolex + "lexicalForm", f"<{WD}L{number}-F1>"),
        (ontolex + "sense", f"<{WD}L{number}-S1>"),
        ("http://www.wikidata.org/prop/direct/P1", f"<{WD}Q1>"),
    )
    yield from _triples(
        f"<{WD}L{number}-F1>",
        (_RDF, f"<{ontolex}Form>"),
        (ontolex + "representation", '"statements"@en'),
        (_WIKIBASE + "grammaticalFeature", f"<{WD}Q1>"),
    )
    yield from _triples(
        f"<{WD}L{number}-S1>",
        (_RDF, f"<{ontolex}LexicalSense>"),
        (_LABELS[0], '"declaration"@en'),
        ("http://www.w3.org/2004/02/skos/core#definition", '"declaration"@en'),
        ("http://www.wikidata.org/prop/direct/P1", f"<{WD}Q2>"),
    )
