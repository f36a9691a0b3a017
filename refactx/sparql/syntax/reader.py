"""The reader of the shape of a SPARQL query."""

from collections.abc import Iterator, Sequence

from refactx.sparql.syntax.shape import Cursor, Element, ElementKind, Group, Shape, ShapeError, Triple, Values
from refactx.sparql.syntax.tokens import Span, Token

_KEYWORDS: dict[str, ElementKind] = {
    "OPTIONAL": "optional", "MINUS": "minus", "GRAPH": "graph", "SERVICE": "service", "LATERAL": "group"
}  # fmt: skip
FORMS = ("SELECT", "ASK", "CONSTRUCT", "DESCRIBE")
_TERMS = frozenset({"string", "iri", "label", "name", "variable", "blank", "number"})


def shape_of(tokens: Sequence[Token]) -> Shape:
    """Return the shape of a query. Raises ShapeError if it cannot be read.

    >>> from refactx.sparql.syntax.tokens import text_of, tokens_of
    >>> tokens = tokens_of("SELECT ?x { <Ann> <child>/<child> ?x ; <age> ?a FILTER(?a < 3) }")
    >>> [text_of(tokens, triple.path).strip() for triple in shape_of(tokens).triples]
    ['<child>/<child>', '<age>']
    >>> [element.kind for element in shape_of(tokens).where.elements]
    ['triple', 'triple', 'filter']
    """
    return ShapeReader(tokens).read()


class ShapeReader:
    """A reader of a query. `shape`: what was read so far; `cursor`: what the next term would be."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.shape, self.cursor = Shape(), Cursor()
        self._tokens = tokens
        self._places = [at for at, token in enumerate(tokens) if not token.is_space]
        self._at = 0

    def read(self) -> Shape:
        """Read the whole query."""
        while self._word() in ("BASE", "PREFIX"):
            for _ in range(2 if self._word() == "BASE" else 3):
                self._next()
        self.shape.prologue = (0, self._place())
        if self._word() not in FORMS:
            raise ShapeError(self._peek())
        self.shape.form = self._word()
        self.shape.where = self._query()
        start = self._place()
        self._modifiers()
        self.shape.modifiers = (start, len(self._tokens))
        if self._peek() is not None:
            raise ShapeError(self._peek())
        return self.shape

    # --- Queries and groups

    def _query(self) -> Group:
        """Read a query from its form up to the end of its patterns."""
        while not self._is("{"):
            self._bracket() if self._is("(") else self._next()
        return self._group()

    def _modifiers(self) -> None:
        while self._peek() is not None and not self._is("}"):
            if self._word() == "VALUES":
                self._values()
            else:
                self._bracket() if self._is("(") else self._next()

    def _group(self) -> Group:
        start, elements = self._place(), list[Element]()
        self._expect("{")
        if self._word() == "SELECT":
            first = self._place()
            inner = self._query()
            self._modifiers()
            elements.append(Element("select", (first, self._end()), groups=(inner,)))
        while not self._is("}"):
            if self._is("."):
                self._next()
            else:
                elements += self._element()
        self._next()
        return Group((start, self._end()), tuple(elements))

    def _element(self) -> Iterator[Element]:
        start, word = self._place(), self._word()
        if self._is("{"):
            groups = [self._group()]
            while self._word() == "UNION":
                self._next()
                groups.append(self._group())
            yield Element("union" if len(groups) > 1 else "group", (start, self._end()), groups=tuple(groups))
        elif word in _KEYWORDS:
            self._next()
            while not self._is("{"):  # SILENT, and the name of a graph or service
                self._next()
            inner = self._group()
            yield Element(_KEYWORDS[word], (start, self._end()), groups=(inner,))
        elif word == "FILTER":
            self._next()
            self._constraint()
            yield Element("filter", (start, self._end()))
        elif word == "BIND":
            self._next()
            self._bracket()
            yield Element("bind", (start, self._end()))
        elif word == "VALUES":
            self._values()
            yield Element("values", (start, self._end()))
        else:
            triples = self._triples()
            for triple in triples:
                yield Element("triple", (start, self._end()), triple)
            if not triples:  # only a bracket, such as `[ <age> 3 ]`
                yield Element("triple", (start, self._end()))

    def _constraint(self) -> None:
        if self._word() in ("NOT", "EXISTS"):
            while not self._is("{"):
                self._next()
            self._group()
            return
        if not self._is("("):  # a function
            self._next()
        self._bracket()

    def _bracket(self) -> None:
        """Read what is within round brackets of an expression, where groups are those of EXISTS."""
        self._expect("(")
        while not self._is(")"):
            if self._is("("):
                self._bracket()
            elif self._is("{"):
                self._group()
            else:
                self._next()
        self._next()

    def _values(self) -> None:
        self._next()
        variables, columns = list[str](), list[list[int]]()
        is_table = self._is("(")
        while not self._is("{"):
            token = self._next()
            if token.kind == "variable":
                variables.append(token.text[1:])
                columns.append([])
        self._next()
        column = 0
        while not self._is("}"):
            if self._is("(") or self._is(")"):
                self._next()
                column = 0
                continue
            start = self._place()
            self._constant()
            columns[column if column < len(columns) else 0].append(start)
            column += is_table
        self._next()
        self.shape.values.append(Values(tuple(variables), tuple(map(tuple, columns))))

    # --- Triples

    def _triples(self) -> list[Triple]:
        """Read the triples of one subject."""
        self.cursor = Cursor(wants="subject")
        is_list = self._is("[") or self._is("(")
        subject = self._term()
        if is_list and (self._is(".") or self._is("}")):
            return []
        found = list(self._properties(subject))
        self.cursor = Cursor(wants="subject")
        return found

    def _properties(self, subject: Span | None) -> Iterator[Triple]:
        while True:
            self.cursor = Cursor(subject, wants="path")
            path = self._path()
            while True:
                self.cursor = Cursor(subject, path, wants="object")
                triple = Triple(subject, path, self._term())
                self.shape.triples.append(triple)
                yield triple
                if not self._is(","):
                    break
                self._next()
            self.cursor = Cursor()
            if not self._is(";"):
                return
            while self._is(";"):
                self.cursor = Cursor(subject, wants="path")
                self._next()
            if self._is(".") or self._is("}") or self._is("]"):
                return

    def _path(self) -> Span:
        start = self._place()
        self._path_element()
        while self._is("/") or self._is("|"):
            self._next()
            self._path_element()
        return (start, self._end())

    def _path_element(self) -> None:
        while self._is("^") or self._is("!"):
            self._next()
        if self._is("("):
            self._next()
            if not self._is(")"):  # `!()` excludes nothing
                self._path()
            self._expect(")")
        else:
            token = self._next()
            if token.kind not in ("iri", "label", "name", "variable") and token.text != "a":
                raise ShapeError(token)
        if self._is("*") or self._is("+") or self._is("?"):
            self._next()

    def _term(self) -> Span:
        start = self._place()
        if self._is("["):
            self._next()
            if not self._is("]"):
                list(self._properties(None))
            self._expect("]")
        elif self._is("("):
            self._next()
            while not self._is(")"):
                self._term()
                self.shape.listed += 1
            self._next()
        else:
            self._constant()
        return (start, self._end())

    def _constant(self) -> None:
        """Read a variable, an IRI, a label or a literal."""
        if self._is("+") or self._is("-"):
            self._next()
        token = self._next()
        if token.kind not in _TERMS and token.upper not in ("TRUE", "FALSE", "UNDEF"):
            raise ShapeError(token)
        if token.kind == "string":
            following = self._peek()
            if following is not None and following.kind == "language":
                self._next()
            elif self._is("^^"):
                self._next()
                self._next()

    # --- Tokens

    def _peek(self) -> Token | None:
        return self._tokens[self._places[self._at]] if self._at < len(self._places) else None

    def _next(self) -> Token:
        token = self._peek()
        if token is None:
            raise ShapeError(None)
        self._at += 1
        return token

    def _place(self) -> int:
        """Return the number of the next token."""
        return self._places[self._at] if self._at < len(self._places) else len(self._tokens)

    def _end(self) -> int:
        """Return the number after the last token that was read."""
        return self._places[self._at - 1] + 1 if self._at else 0

    def _is(self, sign: str) -> bool:
        token = self._peek()
        return token is not None and token.kind == "other" and token.text == sign

    def _word(self) -> str:
        token = self._peek()
        return "" if token is None else token.upper

    def _expect(self, sign: str) -> None:
        if not self._is(sign):
            raise ShapeError(self._peek())
        self._next()
