"""The prologue of a query: the prefixes that it declares, and the URIs with ids that its tokens are by them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from urllib.parse import urljoin

from refactx.iris import ID, NAMESPACES, PREFIXES, id_of_entity, is_of_vocabulary, split_uri
from refactx.sparql.syntax.tokens import Token, tokens_of

_BEFORE_NO_ID = frozenset({"^^", "SERVICE", "SILENT", "FROM", "NAMED", "GRAPH"})
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_ESCAPE = re.compile(r"\\(.)")
_NO_TOKEN = Token("space", "", 0)


@dataclass(frozen=True, slots=True)
class Uri:
    """A URI of a query, in a namespace of Wikidata's ids, or any other: then its namespace is empty.

    `start`: of its token; `name`: what follows the namespace; `before`, `after`: what the token has around that.
    """

    start: int
    namespace: str
    name: str
    before: str
    after: str

    @property
    def id(self) -> str | None:
        """The id of an entity or property; None if it is something else in a namespace of Wikidata."""
        if not self.namespace:
            return id_of_entity(self.name)
        return self.name if ID.fullmatch(self.name) else None

    @property
    def is_vocabulary(self) -> bool:
        """Whether it is of a vocabulary that graphs share, and so maybe no id, or a name without one."""
        return not self.namespace and is_of_vocabulary(self.name)

    @property
    def text(self) -> str:
        """The token."""
        return f"{self.before}{self.name}{self.after}"

    def is_misspelt(self) -> bool:
        """Whether it is an id of Wikidata but for the case of its letters."""
        return self.id is None and ID.fullmatch(self.name.upper()) is not None

    def renamed(self, name: str) -> str:
        """Return the token with another name after the namespace."""
        return f"{self.before}{name}{self.after}"


class Prologue:
    """The declarations with which a query begins, given its tokens.

    `declared`: the namespaces of the declared prefixes; `prefixes`: also those of the known ones; `body`: the number of the
    first token that is none of the declarations'.
    """

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens, self._base, self.body = tokens, "", 0
        self.declared = dict[str, str]()
        self._spans = list[
            tuple[str, str, range]
        ]()  # the prefix, its namespace, its tokens, the white space after them included
        at = self._after_space(0)
        while (following := self._declaration(at)) > at:
            at = self._after_space(following)
        self.body = at
        self.prefixes = PREFIXES | self.declared if self.declared else PREFIXES

    def _declaration(self, at: int) -> int:
        """Read a declaration at a token, and return the number of the token after it; `at` if there is none."""
        word = self._token(at).upper
        if word not in ("BASE", "PREFIX"):
            return at
        name = self._after_space(at + 1)
        iri = name if word == "BASE" else self._after_space(name + 1)
        if not self._token(iri).is_iri:
            return at
        namespace = self.absolute(self._token(iri).label)
        if word == "BASE":
            self._base = namespace
        elif self._token(name).kind != "name" or self._token(name).text.find(":") != len(self._token(name).text) - 1:
            return at
        else:
            self.declared[self._token(name).text[:-1]] = namespace
            stop = iri + 1
            while self._token(stop).kind == "space" and stop < len(self.tokens):
                stop += 1
            self._spans.append((self._token(name).text[:-1], namespace, range(at, stop)))
        return iri + 1

    def _token(self, at: int) -> Token:
        return self.tokens[at] if at < len(self.tokens) else _NO_TOKEN

    def _after_space(self, at: int) -> int:
        while at < len(self.tokens) and self.tokens[at].is_space:
            at += 1
        return at

    def absolute(self, uri: str) -> str:
        """Return a URI, which may be relative to the base of the query."""
        try:
            return urljoin(self._base, uri) if self._base else uri
        except ValueError:  # such as `http://[`, which a parser takes
            return uri

    def uris(self) -> Iterator[Uri]:
        """Yield the URIs after the declarations that are terms of patterns: no datatypes, functions, graphs and services."""
        last, following = "", [*self.tokens[self.body + 1 :], _NO_TOKEN]
        for token, after in zip(self.tokens[self.body :], following, strict=False):
            if token.is_space:
                continue
            before, last = last, token.text.upper()
            if (iri := self.iri(token)) is None:
                continue
            namespace, name = split_uri(iri)
            if namespace not in NAMESPACES:
                if before not in _BEFORE_NO_ID and after.text != "(" and _SCHEME.match(iri):
                    yield Uri(token.start, "", iri, "<", ">")
            elif token.text.endswith(name) or token.text.endswith(f"{name}>"):
                end = len(token.text) - token.is_iri
                yield Uri(token.start, namespace, name, token.text[: end - len(name)], token.text[end:])
            else:
                yield Uri(token.start, namespace, name, f"<{namespace}", ">")

    def iri(self, token: Token) -> str | None:
        """Return the IRI that a token is; None if it is none, or has a prefix that is not known."""
        if token.kind != "name":
            return self.absolute(token.label) if token.is_iri else None
        prefix, _, local = token.text.partition(":")
        namespace = self.prefixes.get(prefix)
        return None if namespace is None else namespace + _ESCAPE.sub(r"\1", local)

    def qualified(self, namespace: str, name: str) -> str:
        """Return a token for a URI: with a known prefix, unless the query declares that as another's."""
        for prefix, known in PREFIXES.items():
            if known == namespace and self.prefixes[prefix] == namespace:
                return f"{prefix}:{name}"
        return f"<{namespace}{name}>"

    def without_known(self, known: Mapping[str, str] = PREFIXES) -> list[Token]:
        """Return the tokens without declarations of known prefixes (IRIs by prefix) as what they are known for."""
        spans = [span for prefix, namespace, span in self._spans if known.get(prefix) == namespace]
        return [token for at, token in enumerate(self.tokens) if not any(at in span for span in spans)]


def undeclared(tokens: Sequence[Token]) -> dict[str, Token]:
    """Return the prefixes that a text uses and does not declare, each with the first name that has it.

    >>> list(undeclared(tokens_of("PREFIX ex: <http://e.org/> ASK { ex:a wdt:P2 ?x }")))
    ['wdt']
    """
    written, found = [token for token in tokens if not token.is_space], dict[str, Token]()
    declared = {two.text for one, two in pairwise(written) if one.upper == "PREFIX"}
    for token in written:
        prefix, colon, _ = token.text.partition(":")
        if token.kind == "name" and prefix + colon not in declared:
            found.setdefault(prefix, token)
    return found


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
