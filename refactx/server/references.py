"""Places within JSON schemas, and what their references mean: pointers, `$id`, `$anchor`, `$dynamicRef`, of any draft."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import unquote, urldefrag, urljoin

ONE = frozenset(
    {"not", "if", "then", "else", "contains", "propertyNames", "additionalProperties", "additionalItems", "items",
     "unevaluatedProperties", "unevaluatedItems", "contentSchema"}
)  # fmt: skip
"""Keywords whose value is a schema; that of `items` may be a list."""
LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems", "items"})
"""Keywords whose value is a list of schemas."""
NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"})
"""Keywords whose value has schemas by names."""


class UnheldError(Exception):
    """A schema that cannot be held. `place`: of the `keyword` that is why, as a JSON pointer; `reason`: with what to do;
    `is_wrong`: it is no schema, or no value is as it says.

    >>> str(UnheldError("#/properties/tags", "uniqueItems", "has no bound: leave it out"))
    'uniqueItems at #/properties/tags has no bound: leave it out'
    """

    def __init__(self, place: str, keyword: str, reason: str, *, is_wrong: bool = False) -> None:
        super().__init__(f"{keyword} at {place} {reason}")
        self.place, self.keyword, self.is_wrong = place, keyword, is_wrong


class SchemaPlace(NamedTuple):
    """A schema where it stands: at a `pointer` in a `document`, in the `resource` with that address; `scope`: the resources
    through which it was reached, the outermost first."""

    document: str
    pointer: str
    schema: Any
    resource: str
    scope: tuple[str, ...]

    @property
    def name(self) -> str:
        """The place as errors tell it."""
        return f"{self.document}#{self.pointer}"


@dataclass(slots=True)
class _Resource:
    """A schema with an address of its own, and those of its parts that have names."""

    pointer: str
    root: Any
    anchors: dict[str, str] = field(default_factory=dict)
    dynamic: set[str] = field(default_factory=set)


class References:
    """The places of some schemas. `documents`: by the addresses with which the one at "" refers to them; what else one has
    as addresses is known in it alone."""

    def __init__(self, documents: Mapping[str, Any]) -> None:
        self._documents = documents
        self._resources: dict[tuple[str, str], _Resource] = {}
        self._within: dict[tuple[str, str], str] = {}
        for document, schema in documents.items():
            self._read(document, schema)

    def root(self, document: str) -> SchemaPlace:
        """Return the place of a whole document."""
        uri = self._within[document, ""]
        return SchemaPlace(document, "", self._documents[document], uri, (uri,))

    def part(self, place: SchemaPlace, *steps: str | int) -> SchemaPlace:
        """Return the place of a part of a schema."""
        pointer, schema = place.pointer, place.schema
        for step in steps:
            pointer, schema = f"{pointer}/{_escaped(step)}", schema[step]
        return self._at(place.document, pointer, schema, place.resource, place.scope)

    def follow(self, place: SchemaPlace, keyword: str) -> SchemaPlace:
        """Return the place that a reference of a schema means. Raise UnheldError if there is none."""
        given = place.schema[keyword]
        if not isinstance(given, str):
            said = "is no text: give an address such as #/$defs/NAME"
            raise UnheldError(place.name, keyword, said, is_wrong=True)
        if keyword == "$ref" and given in self._documents and not place.document:
            return self.root(given)
        uri, fragment = self._address(place, given)
        resource = self._resources.get((place.document, uri))
        if resource is None:
            said = f"refers to {given[:200]!r}, which is not in the schema: copy it into $defs, and write #/$defs/NAME"
            raise UnheldError(place.name, keyword, said)
        if keyword == "$recursiveRef" and len(place.scope) > 1:
            raise UnheldError(place.name, keyword, "cannot be held across several schemas: write a $ref")
        if keyword == "$dynamicRef" and fragment in resource.dynamic:
            known = ((one, self._resources[place.document, one]) for one in (*place.scope, place.resource))
            uri, resource = next(((one, found) for one, found in known if fragment in found.dynamic), (uri, resource))
        pointer = resource.anchors.get(fragment, fragment)
        schema, at = resource.root, resource.pointer
        for step in pointer.split("/")[1:] if pointer.startswith("/") or not pointer else ("", pointer):
            name = step.replace("~1", "/").replace("~0", "~")
            try:
                schema = schema[int(name) if isinstance(schema, list) else name]
            except (KeyError, IndexError, ValueError, TypeError):
                said = f"refers to {given[:200]!r}, which is not there: name a part of the schema"
                raise UnheldError(place.name, keyword, said, is_wrong=True) from None
            at = f"{at}/{_escaped(name)}"
        return self._at(place.document, at, schema, uri, place.scope)

    def _address(self, place: SchemaPlace, given: str) -> tuple[str, str]:
        """Return the resource and the fragment that a reference names."""
        if given.startswith("#"):
            return place.resource, unquote(given[1:])
        try:
            uri, fragment = urldefrag(urljoin(place.resource, given))
        except ValueError:
            uri, fragment = given, ""
        return uri, unquote(fragment)

    def _at(self, document: str, pointer: str, schema: Any, above: str, scope: tuple[str, ...]) -> SchemaPlace:
        uri = self._within.get((document, pointer), above)
        return SchemaPlace(document, pointer, schema, uri, scope if uri in scope else (*scope, uri))

    def _read(self, document: str, schema: Any) -> None:
        """Enter the resources and names of a document."""
        key = "id" if isinstance(schema, Mapping) and "draft-04" in str(schema.get("$schema")) else "$id"
        self._resources[document, document] = _Resource("", schema)
        waiting: list[tuple[str, Any, str]] = [("", schema, document)]
        while waiting:
            pointer, part, uri = waiting.pop()
            if isinstance(part, Mapping):
                given = part.get(key)
                if isinstance(given, str) and not given.startswith("#"):
                    try:
                        uri = urldefrag(urljoin(uri, given))[0]
                    except ValueError:
                        uri = given
                    self._resources[document, uri] = _Resource(pointer, part)
                within = self._resources[document, uri]
                for keyword in ("$anchor", "$dynamicAnchor", key):
                    name = part.get(keyword)
                    if isinstance(name, str) and (keyword != key or name.startswith("#")):
                        within.anchors[name.removeprefix("#")] = pointer[len(within.pointer) :]
                        if keyword == "$dynamicAnchor":
                            within.dynamic.add(name)
                waiting += [(f"{pointer}{one}", value, uri) for one, value in _parts(part)]
            self._within[document, pointer] = uri


def _parts(schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the schemas within a schema, with their pointers in it."""
    for keyword, value in schema.items():
        at = f"/{_escaped(keyword)}"
        if keyword in NAMED and isinstance(value, Mapping):
            yield from ((f"{at}/{_escaped(name)}", one) for name, one in value.items())
        elif keyword in LISTS and isinstance(value, Sequence) and not isinstance(value, str):
            yield from ((f"{at}/{number}", one) for number, one in enumerate(value))
        elif keyword in ONE:
            yield at, value


def _escaped(step: str | int) -> str:
    return str(step).replace("~", "~0").replace("/", "~1")
