"""The declarations with which a query begins, and the URIs that its tokens are by them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urljoin

from refactx.query.pgmr.inline import tokens_of
from refactx.query.pgmr.uris import NAMESPACES, PREFIXES, Term, split_uri
from refactx.query.sparql.tokens import Token


@dataclass(frozen=True, slots=True)
class _Declaration:
    """The declaration of a prefix, at the characters from `start` to `stop`, with the white space after it."""

    prefix: str
    namespace: str
    start: int
    stop: int


class Prologue:
    """The declarations of a query, given its tokens. `prefixes`: the namespaces of declared and of known prefixes."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens, self._base = tokens, ""
        self._declared: list[_Declaration] = []
        left = [token for token in tokens if not token.is_space]
        while (count := self._read(left)) > 0:
            left = left[count:]
        self._end = left[0].start if left else sum(len(token.text) for token in tokens)
        self.prefixes = PREFIXES | {one.prefix: one.namespace for one in self._declared}

    def _read(self, tokens: Sequence[Token]) -> int:
        """Read a declaration, and return how many of some tokens it has; 0 if they do not begin with one."""
        kinds = [token.kind for token in tokens[:3]]
        word = tokens[0].text.upper() if tokens else ""
        if word == "BASE" and kinds[:2] == ["word", "iri"]:
            self._base = self.absolute(tokens[1].text[1:-1])
            return 2
        if word == "PREFIX" and kinds == ["word", "name", "iri"] and tokens[1].text.endswith(":"):
            after = (token.start for token in self.tokens if token.start > tokens[2].start and token.kind != "space")
            stop = next(after, tokens[2].start + len(tokens[2].text))
            namespace = self.absolute(tokens[2].text[1:-1])
            self._declared.append(_Declaration(tokens[1].text[:-1], namespace, tokens[0].start, stop))
            return 3
        return 0

    @property
    def declared(self) -> set[str]:
        """The declared prefixes."""
        return {one.prefix for one in self._declared}

    @property
    def body(self) -> Iterator[Token]:
        """The tokens after the declarations."""
        return (token for token in self.tokens if token.start >= self._end)

    def absolute(self, uri: str) -> str:
        """Return a URI, which may be relative to the base of the query."""
        try:
            return urljoin(self._base, uri)
        except ValueError:  # such as `http://[`, which a parser takes
            return uri

    def terms(self) -> Iterator[Term]:
        """Yield the URIs after the declarations that are in a namespace of ids."""
        for token in self.body:
            if token.kind == "name":
                prefix, _, name = token.text.partition(":")
                if self.prefixes.get(prefix) in NAMESPACES:
                    yield Term(token.start, self.prefixes[prefix], name, f"{prefix}:", "")
            elif token.kind == "iri":
                namespace, name = split_uri(self.absolute(token.text[1:-1]))
                if namespace in NAMESPACES and token.text.endswith(f"{name}>"):
                    yield Term(token.start, namespace, name, token.text[: -len(name) - 1], ">")

    def qualified(self, namespace: str, name: str) -> str:
        """Return a token for a URI: with a known prefix, unless the query declares that as another's."""
        for prefix, known in PREFIXES.items():
            if known == namespace and self.prefixes[prefix] == namespace:
                return f"{prefix}:{name}"
        return f"<{namespace}{name}>"

    def without_known(self) -> list[Token]:
        """Return the tokens without declarations of known prefixes as what they are known for."""
        known = [one for one in self._declared if PREFIXES.get(one.prefix) == one.namespace]
        return [token for token in self.tokens if not any(one.start <= token.start < one.stop for one in known)]


def with_declarations(sparql: str) -> str:
    r"""Return a query that declares all prefixes which it uses, so that any engine reads it.

    >>> print(with_declarations("ASK {\n  wd:Q1 wdt:P2 ?x\n}"))
    PREFIX wd: <http://www.wikidata.org/entity/>
    PREFIX wdt: <http://www.wikidata.org/prop/direct/>
    ASK {
      wd:Q1 wdt:P2 ?x
    }
    """
    tokens = tokens_of(sparql)
    declared = Prologue(tokens).declared
    used = dict.fromkeys(token.text.partition(":")[0] for token in tokens if token.kind == "name")
    missing = [prefix for prefix in used if prefix in PREFIXES and prefix not in declared]
    end = "\n" if "\n" in sparql else " "
    return "".join(f"PREFIX {prefix}: <{PREFIXES[prefix]}>{end}" for prefix in missing) + sparql
