"""Values for the variables of a query: terms that keep its conditions, and fresh ones."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

from refactx.sparql.syntax.view import (
    CallView,
    Expression,
    QueryView,
    iri_of,
    is_literal,
    is_variable,
    literal,
    parts,
    variables,
)

INVENTED = "http://example.org/frozen/"
"""The namespace of fresh resources."""
LANGUAGE = "it"
_XSD = "http://www.w3.org/2001/XMLSchema#"
_FOLDS = ("STR", "LCASE", "UCASE")
_PLACES = {"REGEX": "", "CONTAINS": "", "STRSTARTS": "^", "STRENDS": "$"}
_LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"(?:@([\w-]+)|\^\^<([^>]*)>)?', re.DOTALL)
_UNESCAPED = {"\\\\": "\\", '\\"': '"', "\\n": "\n", "\\r": "\r", "\\t": "\t"}
_ORDER = ("=", "!=", "<", ">", "<=", ">=")


def parts_of_literal(term: str) -> tuple[str, str, str] | None:
    """Return the text, the language and the data type of a literal; None for another term.

    >>> parts_of_literal('"cane"@it'), parts_of_literal("?x")
    (('cane', 'it', ''), None)
    """
    match = _LITERAL.fullmatch(term)
    if match is None:
        return None
    text = re.sub(r"\\.", lambda escape: _UNESCAPED.get(escape[0], escape[0][1]), match[1], flags=re.DOTALL)
    return text, match[2] or "", match[3] or ""


def text_of_literal(term: str) -> str | None:
    """Return the text of a literal without its quotes; None for another term."""
    parts = parts_of_literal(term)
    return None if parts is None else parts[0]


@dataclass(frozen=True, slots=True)
class Fresh:
    """A fresh value: an IRI, or a text. `word`: what it begins with, by the variable's name."""

    word: str
    is_literal: bool

    def named(self, suffix: str) -> str:
        """Return the value of one copy, as a term."""
        return literal(f"{self.word}{suffix}", LANGUAGE) if self.is_literal else f"<{INVENTED}{self.word}{suffix}>"


def candidates(names: Sequence[str], conditions: Sequence[Expression], fresh: Fresh, suffix: str) -> Iterator[str]:
    """Yield terms that variables of one value may have, by what is asked of them in conditions; a fresh one last."""
    texts, lengths, languages = list[str](), list[int](), list[str]()
    for condition in conditions:
        for call in (part for part in parts(condition) if isinstance(part, CallView)):
            about = [one for one in call.arguments if variable_of(one) in names]
            if not about:
                continue
            others = [one for one in call.arguments if isinstance(one, str) and not is_variable(one)]
            if call.name in ("=", "IN"):
                yield from (one for one in others if iri_of(one) is not None)
                texts += [text for one in others if (text := text_of_literal(one)) is not None and _is_text(one)]
            elif call.name in _PLACES:
                for pattern in filter(None, map(text_of_literal, others[:1])):
                    texts += _matching(pattern, call.name, suffix)
        lengths += _lengths(condition, names)
        languages += _languages(condition, names)
        yield from _dates(condition, names)
        yield from _numbers(condition, names)
    written = [
        *texts,
        *(one for text in texts or [fresh.word] for length in lengths for one in _padded(text, length, suffix)),
    ]
    for text in written:
        if fresh.is_literal:
            for language in (*languages, LANGUAGE):
                yield literal(text, language)
            yield literal(text)
        else:
            yield f"<{INVENTED}{re.sub(r'[^A-Za-z0-9/-]', '', text)}{suffix}>"
    yield from (literal(f"{fresh.word}{suffix}", language) for language in languages)
    yield fresh.named(suffix)


def variable_of(expression: Expression = "") -> str:
    """Return the variable that an expression is about: alone, or within STR and the like."""
    if isinstance(expression, str):
        return expression
    is_cast = expression.name.startswith("<") and len(expression.arguments) == 1
    return variable_of(expression.arguments[0]) if expression.name in _FOLDS or is_cast else ""


def _is_text(term: str) -> bool:
    found = parts_of_literal(term)
    return found is not None and not found[2].startswith(_XSD)


def _matching(pattern: str, place: str, suffix: str) -> Iterator[str]:
    """Yield texts in which a pattern is found: with a fresh part, if it leaves room for one."""
    found = list(samples(pattern)) if place == "REGEX" else [pattern]
    word = re.sub(r"\W", "", suffix)
    for text in found:
        yield from (f"{text}a{word}", f"{word}a{text}", text)
        if place == "REGEX" and ".*" in pattern:
            head, _, tail = pattern.partition(".*")
            yield from (f"{one}a{word}{two}" for one in samples(head) for two in samples(tail))


def _lengths(condition: Expression, names: Sequence[str]) -> Iterator[int]:
    """Yield lengths near those with which STRLEN is compared."""
    measured = any(
        isinstance(part, CallView) and part.name == "STRLEN" and variable_of(part.arguments[0]) in names
        for part in parts(condition)
    )
    for part in parts(condition) if measured else ():
        if isinstance(part, str) and is_literal(part) and (text := text_of_literal(part) or "").isdecimal():
            yield from (int(text), int(text) + 1, max(1, int(text) - 1))


def _padded(text: str, length: int, suffix: str) -> Iterator[str]:
    word = re.sub(r"\W", "", suffix)
    filler = (word + "ab" * length)[: max(0, length - len(text))]
    yield from (text + filler, filler + text, (text + filler)[:length])


def _languages(condition: Expression, names: Sequence[str]) -> Iterator[str]:
    for part in parts(condition):
        if not isinstance(part, CallView) or part.name not in ("=", "IN", "LANGMATCHES"):
            continue
        asked = [one for one in part.arguments if isinstance(one, CallView) and one.name == "LANG"]
        if any(variable_of(one.arguments[0]) in names for one in asked):
            yield from filter(None, (text_of_literal(one) for one in part.arguments if isinstance(one, str)))


def _numbers(condition: Expression, names: Sequence[str]) -> Iterator[str]:
    """Yield numbers near those with which variables are compared."""
    for part in parts(condition):
        if (
            not isinstance(part, CallView)
            or part.name not in _ORDER
            or not any(variable_of(one) in names for one in part.arguments)
        ):
            continue
        for other in part.arguments:
            for number in _constants(other):
                for one in (number, number + 0.05, number - 0.05, number + 0.5, number - 0.5):
                    yield literal(_decimal(one), datatype=f"{_XSD}decimal")


def _decimal(number: float) -> str:
    """Return a number as SPARQL writes decimals back.

    >>> _decimal(0.75), _decimal(1000001.0)
    ('0.75', '1000001')
    """
    return f"{number:.2f}".rstrip("0").rstrip(".")


def _dates(condition: Expression, names: Sequence[str]) -> Iterator[str]:
    """Yield dates, if the year of one is compared with a number, or a date with another."""
    called = {
        part.name
        for part in parts(condition)
        if isinstance(part, CallView) and variable_of(*part.arguments[:1]) in names
    }
    for part in parts(condition):
        found = parts_of_literal(part) if isinstance(part, str) else None
        if found is None:
            continue
        if "YEAR" in called and re.fullmatch(r"\d{1,4}", found[0]):
            years = (int(found[0]) + step for step in (0, 1, -1))
            yield from (literal(f"{year:04}-06-15T00:00:00Z", datatype=f"{_XSD}dateTime") for year in years)
        elif found[2] in (f"{_XSD}date", f"{_XSD}dateTime") and re.match(r"\d{4}", found[0]):
            years = (int(found[0][:4]) + step for step in (0, 1, -1))
            yield from (literal(f"{year:04}{found[0][4:]}", datatype=found[2]) for year in years)


def _constants(expression: Expression) -> Iterator[float]:
    if isinstance(expression, CallView):
        if expression.name == "-" and len(expression.arguments) == 1:
            yield from (-number for number in _constants(expression.arguments[0]))
        return
    found = parts_of_literal(expression)
    if found is not None and found[2].startswith(_XSD):
        try:
            yield float(found[0])
        except ValueError:
            return


def used_together(condition: Expression) -> frozenset[str]:
    """Return the variables of a condition."""
    return frozenset(variables(condition))


def test_of(conditions: Sequence[Expression], values: dict[str, str]) -> str:
    """Return a query that asks whether conditions hold for some values."""
    names = " ".join(values)
    filters = " ".join(f"FILTER({sparql_of(one)})" for one in conditions)
    return f"ASK {{ VALUES ({names}) {{ ({' '.join(values.values())}) }} {filters} }}"


# --- Expressions

_BETWEEN = frozenset({"||", "&&", "=", "!=", "<", ">", "<=", ">=", "+", "-", "*", "/"})
AGGREGATES = frozenset({"COUNT", "SUM", "AVG", "MIN", "MAX", "SAMPLE", "GROUP_CONCAT"})


def sparql_of(expression: Expression) -> str:
    """Return an expression as SPARQL.

    >>> sparql_of(CallView("=", (Call("STR", ("?x",)), '"a"')))
    '(STR(?x) = "a")'
    """
    if isinstance(expression, str):
        return expression
    arguments = [sparql_of(one) for one in expression.arguments]
    if expression.name == "IN":
        return f"({arguments[0]} IN ({', '.join(arguments[1:])}))"
    if expression.name in _BETWEEN and len(arguments) > 1:
        return f"({f' {expression.name} '.join(arguments)})"
    if expression.name in ("!", "-", "+"):
        return f"({expression.name}{arguments[0]})"
    return f"{expression.name}({', '.join(arguments)})"


def conjuncts(query: QueryView) -> Iterator[Expression]:
    """Yield the conditions of the filters of a query that its rows keep, those of HAVING for one row a group."""
    for condition in query.conditions:
        if query.has_to_match(condition.group):
            if condition.kind == "filter":
                yield from (one for one in _parts(condition.expression) if not _has_group(one))
            elif condition.kind == "having":
                yield from (_of_a_row(one) for one in _parts(condition.expression) if not _counts(one))


def _parts(expression: Expression) -> Iterator[Expression]:
    if isinstance(expression, CallView) and expression.name == "&&":
        for argument in expression.arguments:
            yield from _parts(argument)
    else:
        yield expression


def _has_group(expression: Expression) -> bool:
    return isinstance(expression, CallView) and (bool(expression.groups) or any(map(_has_group, expression.arguments)))


def _counts(expression: Expression) -> bool:
    """Return whether an expression counts rows, of which several are needed then."""
    return isinstance(expression, CallView) and (expression.name == "COUNT" or any(map(_counts, expression.arguments)))


def _of_a_row(expression: Expression) -> Expression:
    """Return an expression without its aggregates: of one row, the average of a value is the value."""
    if isinstance(expression, str):
        return expression
    if expression.name in AGGREGATES and expression.arguments:
        return _of_a_row(expression.arguments[0])
    return CallView(expression.name, tuple(map(_of_a_row, expression.arguments)))


def counted(query: QueryView) -> int:
    """Return how many rows a group has to have for the HAVING of a query; 1 without one."""
    numbers = [1]
    for condition in query.conditions:
        if condition.kind == "having" and _counts(condition.expression):
            numbers += [int(float(text)) + 1 for text in _limits(condition.expression)]
    return min(max(numbers), 60)


def _limits(expression: Expression) -> Iterator[str]:
    if isinstance(expression, str):
        if expression.startswith('"') and "XMLSchema#" in expression:
            yield expression[1 : expression.index('"', 1)]
    else:
        for argument in expression.arguments:
            yield from _limits(argument)


# --- Texts of regular expressions

_MOST = 8


def samples(pattern: str) -> Iterator[str]:
    """Yield texts for a regular expression, the plainest first: one for each alternative at its beginning, at most 8.

    >>> list(samples("^(corpo|testa)$")), list(samples("in.*bile")), list(samples("[àè]s+"))
    (['corpo', 'testa'], ['inbile'], ['às'])
    """
    try:
        tree = parser.parse(pattern)
    except re.error:
        return
    seen: dict[str, None] = {}
    for number in range(_MOST):
        seen[_text(tree, number)] = None
    yield from seen


def _text(tree: Any, choice: int) -> str:
    """Return the shortest text of a parsed expression. `choice`: which alternative is taken."""
    found = []
    for code, value in tree:
        if code in (codes.LITERAL, codes.NOT_LITERAL):
            found.append(chr(value) if code == codes.LITERAL else ("b" if value == ord("a") else "a"))
        elif code == codes.ANY:
            found.append("a")
        elif code == codes.IN:
            found.append(_of_class(value))
        elif code == codes.BRANCH:
            branches = value[1]
            found.append(_text(branches[choice % len(branches)], choice))
        elif code == codes.SUBPATTERN:
            found.append(_text(value[3], choice))
        elif code in (codes.MAX_REPEAT, codes.MIN_REPEAT):
            low, _, inner = value
            found.append(_text(inner, choice) * low)
    return "".join(found)


def _of_class(members: Any) -> str:
    """Return a character of a class such as `[àè]`, `[^a]` or `\\s`."""
    if members[0][0] == codes.NEGATE:
        barred = {value for code, value in members[1:] if code == codes.LITERAL}
        return next(letter for letter in "abcdefghij-" if ord(letter) not in barred)
    code, value = members[0]
    if code == codes.LITERAL:
        return chr(value)
    if code == codes.RANGE:
        return chr(value[0])
    return {codes.CATEGORY_SPACE: " ", codes.CATEGORY_DIGIT: "1"}.get(value, "a")
