"""The profile of a graph: which predicates name, describe and class its things, and how an IRI alone is read as a name.

| profile | for |
|---|---|
| `wikidata` | Wikidata's RDF export (`refactx.ingest.parsers.wikidata`) |
| `wikibase` | that of another Wikibase, whose IRIs begin otherwise: `base` is found in the data |
| `rdf` | any other graph (`refactx.ingest.parsers.graph`) |

A file of one's own, in TOML, changes the profile `rdf`: it has the names of the lists in `Profile`, and a table `names`
of IRIs and the names that they get. IRIs may be written with the prefixes `PREFIXES`.
"""

import difflib
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from tomllib import TOMLDecodeError, loads
from typing import Any
from urllib.parse import unquote

from refactx.errors import InputError
from refactx.fact import clean_part

PREFIXES = {
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "owl": "http://www.w3.org/2002/07/owl#",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "sh": "http://www.w3.org/ns/shacl#",
    "schema": "http://schema.org/",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "dc": "http://purl.org/dc/elements/1.1/",
    "dcterms": "http://purl.org/dc/terms/",
    "dbo": "http://dbpedia.org/ontology/",
}
WIKIDATA, WIKIBASE, RDF = "wikidata", "wikibase", "rdf"
WIKIDATA_BASE = "http://www.wikidata.org/"
_SCHEMA = "https://schema.org/"
"""The other beginning of schema.org's IRIs: a predicate of `schema:` in a list stands for both."""
_WELL_KNOWN = {
    PREFIXES["rdf"] + "type": "instance of",
    PREFIXES["rdfs"] + "subClassOf": "subclass of",
    PREFIXES["rdfs"] + "subPropertyOf": "subproperty of",
    PREFIXES["rdfs"] + "seeAlso": "see also",
}
_SLUG = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)+")
_PLUS = re.compile(r"(?<=[^\W\d_])\+(?=[^\W_])|(?<=\d)\+(?=[^\W\d_])")
"""A space as forms write it, but not the signs of `C++` and `1+1`."""
_PERCENT = re.compile(r"%[0-9A-Fa-f]{2}")
_WORDS = re.compile(r"(?<=[a-z])(?<!Mc)(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})|(?<=\d)(?=[A-Z][a-z])")
OWN_NAMES = (("name", "fullname", "displayname"), ("label", "preflabel"), ("title",), ("desc",), ("description",))
"""What the predicates of a graph's own are called that name its things, the best first: a title may be that of an office,
`desc` a longer text, and the last one only describes."""
_OWN_GIVEN, _OWN_FAMILY = ("firstname", "givenname", "forename"), ("lastname", "familyname", "surname")
_TRIED = 20_000
_FEW = 100
_CLAIM = re.compile(r"(https?://[^<>\s]+/)prop/direct/P[1-9]\d*")
TYPE, FIRST, REST, NIL, VALUE = (PREFIXES["rdf"] + name for name in ("type", "first", "rest", "nil", "value"))
IS_DEFINED_BY = PREFIXES["rdfs"] + "isDefinedBy"
"""The property from all terms of a vocabulary to its file."""
ROW_OF = "row_of"
"""The property of the rows of a table, whose object is called as the table is."""
SUBCLASS, EQUIVALENT = PREFIXES["rdfs"] + "subClassOf", PREFIXES["owl"] + "equivalentClass"
ON_PROPERTY, SOME, HAS_VALUE, INTERSECTION, UNION, ONE_OF, INVERSE_OF = (
    PREFIXES["owl"] + name
    for name in ("onProperty", "someValuesFrom", "hasValue", "intersectionOf", "unionOf", "oneOf", "inverseOf")
)
STRUCTURE = (FIRST, REST, EQUIVALENT, ON_PROPERTY, SOME, HAS_VALUE, INTERSECTION, UNION, ONE_OF, INVERSE_OF)
_CLASSES = tuple(PREFIXES["rdfs"] + name for name in ("Class", "Datatype", "Resource")) + (
    PREFIXES["rdf"] + "Property",
)


def _iris(*names: str) -> tuple[str, ...]:
    return tuple(itertools.chain.from_iterable(map(_expanded, names)))


def _expanded(name: str) -> tuple[str, ...]:
    """Return the IRIs that a name in a profile stands for: one, or two for schema.org.

    >>> _expanded("schema:name"), _expanded("http://example.org/p")
    (('http://schema.org/name', 'https://schema.org/name'), ('http://example.org/p',))
    """
    prefix, _, local = name.partition(":")
    iri = PREFIXES[prefix] + local if prefix in PREFIXES and not local.startswith("//") else name
    return (iri, _SCHEMA + local) if prefix == "schema" else (iri,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """How a graph names its things. Predicates are IRIs; of several in a list, the first counts most.

    `labels`, `descriptions`, `aliases`: predicates of names and other texts about an entity. `given_names`,
    `family_names`: of which a label is made if an entity has none. `left_out`: predicates whose triples are dropped.
    `axioms`: keep the triples with predicates and classes of OWL and SHACL as facts. `names`: pairs of an IRI and its
    name, which comes before all labels. `base`: the beginning of the IRIs of a Wikibase. `named_by`: the predicates of names
    that the user gives, as IRIs or by their last parts, before all labels.

    >>> Profile.from_json(Profile(name="wikibase", base="http://kb/").to_json()).base
    'http://kb/'
    """

    name: str = RDF
    base: str = ""
    labels: tuple[str, ...] = _iris(
        "skos:prefLabel", "rdfs:label", "schema:name", "foaf:name", "dcterms:title", "dc:title"
    )
    descriptions: tuple[str, ...] = _iris(
        "schema:description", "skos:definition", "dcterms:description", "dc:description", "rdfs:comment", "dbo:abstract"
    )
    aliases: tuple[str, ...] = _iris("skos:altLabel", "schema:alternateName", "foaf:nick", "skos:hiddenLabel")
    given_names: tuple[str, ...] = _iris("schema:givenName", "foaf:givenName", "foaf:firstName")
    family_names: tuple[str, ...] = _iris("schema:familyName", "foaf:familyName", "foaf:lastName", "foaf:surname")
    left_out: tuple[str, ...] = ()
    axioms: bool = False
    names: tuple[tuple[str, str], ...] = ()
    named_by: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the name, and the fields that are not those of its built-in profile; `from_json` reads them back."""
        usual = asdict(Profile())
        return {name: value for name, value in asdict(self).items() if name == "name" or value != usual[name]}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Profile":
        lists = {name: tuple(value) for name, value in document.items() if isinstance(value, list | tuple)}
        names = tuple((iri, name) for iri, name in document.get("names", ()))
        return cls(**{**document, **lists, "names": names})


def read_profile(text: str) -> Profile:
    """Return a profile by its name, or that of a TOML file.

    Raises InputError if there is neither, or the file has a key or a value that no profile has.

    >>> read_profile("rdf") == Profile()
    True
    """
    if text in (WIKIDATA, RDF):
        return Profile(name=text)
    path = Path(text)
    if not path.is_file():
        raise InputError(
            f"{text!r} is neither a profile nor a file: expected wikidata, rdf or the name of a TOML file "
            "(a Wikibase is recognised by its data)"
        )
    try:
        document = loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, TOMLDecodeError) as error:
        raise InputError(f"profile {path} cannot be read as TOML: {error}") from None
    return _of_document(document, path)


def _of_document(document: dict[str, Any], path: Path) -> Profile:
    known = {field.name for field in fields(Profile)} - {"name", "base", "named_by"}
    values: dict[str, Any] = {}
    for key, value in document.items():
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            meant = f"did you mean {near[0]}?" if near else f"expected {', '.join(sorted(known))}"
            raise InputError(f"profile {path} has the key {key!r}, which no profile has: {meant}")
        if key == "axioms":
            fits = isinstance(value, bool)
        elif key == "names":
            fits = isinstance(value, dict) and all(
                isinstance(name, str) and clean_part(name) for name in value.values()
            )
        else:
            fits = isinstance(value, list) and all(isinstance(one, str) and ":" in one for one in value)
        if not fits:
            form = {"axioms": "true or false", "names": "a table of IRIs and names"}.get(key, "a list of IRIs")
            raise InputError(f"profile {path}: {key} is not {form}")
        if key == "names":
            values[key] = tuple((iri, clean_part(name)) for one, name in value.items() for iri in _expanded(one))
        else:
            values[key] = value if key == "axioms" else _iris(*value)
    return replace(Profile(), **values)


def recognise_profile(triples: Iterator[tuple[str, str]]) -> Profile:
    """Return the profile of a graph, given the subjects and predicates of its first triples, as IRIs.

    It is a Wikibase's if a predicate is a property of one (`prop/direct/P31`) and the subject an entity of the same, or
    Wikidata's if nearly all subjects are entities of it, or pages about them.

    >>> entity, claim = "https://kb.example.org/entity/Q1", "https://kb.example.org/prop/direct/P31"
    >>> recognise_profile(iter([(entity, claim)])).base
    'https://kb.example.org/'
    """
    entities = others = 0
    for subject, predicate in itertools.islice(triples, _TRIED):
        found = _CLAIM.fullmatch(predicate)
        if found and re.match(re.escape(found[1]) + r"entity/[PQ][1-9]\d*\Z", subject):
            base = found[1].replace("https:", "http:", 1)
            return Profile(name=WIKIDATA) if base == WIKIDATA_BASE else Profile(name=WIKIBASE, base=found[1])
        if re.match(r"https?://www\.wikidata\.org/(?:entity/[PQL]|wiki/Special:EntityData)", subject):
            entities += 1
        elif not re.match(r"https?://[\w.-]+\.(?:wikidata|wiki[a-z]+|wiktionary)\.org/|_:", subject):
            others += 1
    return Profile(name=WIKIDATA) if entities > _FEW * others else Profile()


def local_name(iri: str, *, of_thing: bool = False) -> str:
    """Return what an IRI alone is read as: its last part in words; the whole IRI if that has no letter or digit.

    Its last part is what follows `#`, else the last `/`, else the last `:`. `_`, `%20` and `+` between letters are
    spaces; words that are run together are parted (`worksFor`), but not those of a name with spaces (`Ann_McAdam`);
    words beginning with a small letter are in lower case, as predicates are. A number alone is read with the part
    before it. `of_thing`: capitals after a small letter stay too, beside spaces (`Charles_de_Gaulle`, `iPhone_SE`).

    >>> [local_name(f"http://example.org/{end}") for end in ("worksFor", "LowerTriassic", "x#Caf%C3%A9_au_lait", "human/1")]
    ['works for', 'Lower Triassic', 'Café au lait', 'human 1']
    >>> local_name("http://example.org/"), local_name("urn:isbn:0451450523"), local_name("http://e.org/amy-farrah-fowler")
    ('http://example.org/', 'isbn 0451450523', 'amy farrah fowler')
    """
    if iri in _WELL_KNOWN:
        return _WELL_KNOWN[iri]
    parts = [part for part in re.split(r"[#/:]", re.sub(r"^[A-Za-z][\w+.-]*:(?://[^/#]*)?", "", iri)) if part]
    if not parts:
        return clean_part(unquote(iri))
    text = unquote(_PLUS.sub(" ", parts[-1]))
    if text.isdigit() and len(parts) > 1:
        text = f"{unquote(parts[-2])} {text}"
    words = in_words(text, of_thing=of_thing)
    return words if any(map(str.isalnum, words)) else clean_part(unquote(iri))


def name_of_id(id_: str) -> str:
    """Return what the id of a thing that is no IRI is read as, in a list of edges or a graph of properties: without
    underscores and the signs of addresses, if it has no space; its capitals stay.

    >>> [name_of_id(id_) for id_ in ("body_substance", "Old+Town", "Caf%C3%A9", "/c/en/body_part", "/m/3", "a_b c", "_")]
    ['body substance', 'Old Town', 'Café', 'body part', '/m/3', 'a_b c', '_']
    """
    if re.search(r"\s|://", id_):
        return id_
    if re.match(r"/\w", id_):  # `/m/02mjmr` has no word
        return local_name(id_, of_thing=True) if re.search(r"/[^\W\d]+$", id_) else id_
    text = unquote(_PLUS.sub(" ", id_)) if _PERCENT.search(id_) else _PLUS.sub(" ", id_)
    return clean_part(text.replace("_", " ")) or id_


def in_words(text: str, *, of_thing: bool = False) -> str:
    """Return a name that a program gave in words. `of_thing`: it is no predicate, so its capitals stay beside spaces.

    >>> [in_words(name) for name in ("worksFor", "official_name_fr", "ISO code", "Ann_McAdam", "AnnMcAdam")]
    ['works for', 'official name fr', 'ISO code', 'Ann McAdam', 'Ann McAdam']
    >>> in_words("is_partOf"), in_words("iPhone_SE", of_thing=True)
    ('is part of', 'iPhone SE')
    """
    if _SLUG.fullmatch(text):
        text = text.replace("-", " ")
    text = text.replace("_", " ").strip()
    is_parted = " " in text and (of_thing or text[0].isupper())
    words = (text if is_parted else _WORDS.sub(" ", text)).split()
    if words and words[0][:1].islower() and not (is_parted and of_thing):
        words = [word if word.isupper() or not word[:1].isupper() else word.lower() for word in words]
    return clean_part(" ".join(words))


def predicate_label(text: str) -> str | None:
    """Return what the name of a column or relation is read as; None for an IRI, which the joins read.

    >>> [predicate_label(text) for text in ("directed_by", "/film/film/genre", "name of Country", "http://x/worksFor")]
    ['directed by', 'genre', 'name of Country', None]
    """
    if re.match(r"https?://", text):
        return None
    if " " in text.strip():
        return clean_part(text)
    return local_name(text) if text.startswith("/") else (in_words(text) or clean_part(text))


@lru_cache(maxsize=4)
def kinds_of_predicates(profile: Profile) -> Callable[[str], tuple[str, int]]:
    """Return a function from a predicate's IRI to what its triples are, and its place among those of a kind.

    Kinds: `label`, `description`, `other name`, `given name`, `family name`, `own label` (of `OWN_NAMES`, in no known
    vocabulary), `claim`, `structure` (of lists and OWL's classes, which `refactx.ingest.knowledge.structure` reads), or the
    reason by which its triples are dropped.

    >>> [kinds_of_predicates(Profile())(f"http://example.org/{name}") for name in ("name", "hasTitle", "last_name", "city")]
    [('own label', 1), ('own label', 3), ('family name', 0), ('claim', 0)]
    """
    known: dict[str, tuple[str, int]] = {}
    lists: Sequence[tuple[str, tuple[str, ...]]] = (
        ("family name", profile.family_names),
        ("given name", profile.given_names),
        ("other name", profile.aliases),
        ("description", profile.descriptions),
        ("label", profile.labels),
        ("left out", profile.left_out),
    )
    for kind, predicates in lists:
        known |= {predicate: (kind, place) for place, predicate in enumerate(predicates, 1)}
    known |= dict.fromkeys(STRUCTURE, ("structure", 0))
    own = {name: ("own label", place) for place, names in enumerate(OWN_NAMES, 1) for name in names}
    own |= dict.fromkeys(_OWN_GIVEN, ("given name", 0)) | dict.fromkeys(_OWN_FAMILY, ("family name", 0))
    given = {one if ":" in one else _last_part(one) for one in profile.named_by}

    def kind_of(predicate: str) -> tuple[str, int]:
        last = _last_part(predicate)
        if predicate in given or last in given:
            return "label", 0
        found = known.get(predicate)
        if found is not None:
            return found
        if last in own and not predicate.startswith((*PREFIXES.values(), _SCHEMA)):
            return own[last]
        if not profile.axioms and (predicate.startswith(PREFIXES["owl"]) or predicate == IS_DEFINED_BY):
            return "OWL axiom", 0
        return ("SHACL shape", 0) if not profile.axioms and predicate.startswith(PREFIXES["sh"]) else ("claim", 0)

    return kind_of


def _last_part(iri: str) -> str:
    """Return the last part of a predicate's IRI without what its writers may choose.

    >>> _last_part("http://example.org/x#hasFull_Name")
    'fullname'
    """
    return re.sub(r"[\W_]|^has(?=[A-Z_])", "", re.split(r"[#/:]", iri)[-1]).casefold()


def class_reason(class_: str, profile: Profile) -> str | None:
    """Return the reason by which the type of a thing is dropped, given its class; None if it is a fact.

    >>> class_reason(PREFIXES["owl"] + "Class", Profile()), class_reason("http://example.org/Person", Profile())
    ('OWL axiom', None)
    """
    if profile.axioms:
        return None
    if class_.startswith(PREFIXES["owl"]) or class_ in _CLASSES:
        return "OWL axiom"
    return "SHACL shape" if class_.startswith(PREFIXES["sh"]) else None
