"""Values for the variables of a query: from its conditions, or fresh."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from refactx.nl2sparql.frozen.expressions import sparql_of
from refactx.nl2sparql.frozen.sampling import samples
from refactx.nl2sparql.parsed import Call, Expression, iri_of, is_literal, is_variable, text_of_literal
from refactx.nl2sparql.parsed.query import parts, variables
from refactx.nl2sparql.parsed.terms import literal, parts_of_literal

FROZEN = "http://example.org/frozen/"
"""The namespace of fresh resources."""
LANGUAGE = "it"
_XSD = "http://www.w3.org/2001/XMLSchema#"
_FOLDS = ("STR", "LCASE", "UCASE")
_PLACES = {"REGEX": "", "CONTAINS": "", "STRSTARTS": "^", "STRENDS": "$"}
_ORDER = ("=", "!=", "<", ">", "<=", ">=")


@dataclass(frozen=True, slots=True)
class Fresh:
    """A fresh value: an IRI, or a text. `word`: what it begins with, by the variable's name."""

    word: str
    is_literal: bool

    def named(self, suffix: str) -> str:
        """Return the value of one copy, as a term."""
        return literal(f"{self.word}{suffix}", LANGUAGE) if self.is_literal else f"<{FROZEN}{self.word}{suffix}>"


def candidates(names: Sequence[str], conditions: Sequence[Expression], fresh: Fresh, suffix: str) -> Iterator[str]:
    """Yield terms that variables of one value may have, by what is asked of them in conditions; a fresh one last."""
    texts, lengths, languages = list[str](), list[int](), list[str]()
    for condition in conditions:
        for call in (part for part in parts(condition) if isinstance(part, Call)):
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
            yield f"<{FROZEN}{re.sub(r'[^A-Za-z0-9/-]', '', text)}{suffix}>"
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
        isinstance(part, Call) and part.name == "STRLEN" and variable_of(part.arguments[0]) in names
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
        if not isinstance(part, Call) or part.name not in ("=", "IN", "LANGMATCHES"):
            continue
        asked = [one for one in part.arguments if isinstance(one, Call) and one.name == "LANG"]
        if any(variable_of(one.arguments[0]) in names for one in asked):
            yield from filter(None, (text_of_literal(one) for one in part.arguments if isinstance(one, str)))


def _numbers(condition: Expression, names: Sequence[str]) -> Iterator[str]:
    """Yield numbers near those with which variables are compared."""
    for part in parts(condition):
        if (
            not isinstance(part, Call)
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
        part.name for part in parts(condition) if isinstance(part, Call) and variable_of(*part.arguments[:1]) in names
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
    if isinstance(expression, Call):
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
