"""Checks of how text is compared: literals with a language are not equal to a text without one."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from refactx.nl2sparql.parsed import Call, ParsedQuery, is_literal
from refactx.nl2sparql.parsed.query import parts
from refactx.nl2sparql.parsed.terms import parts_of_literal
from refactx.nl2sparql.rules.matching import Wanted
from refactx.nl2sparql.rules.rule import Finding, Names, Term


@dataclass(frozen=True, slots=True)
class NoLiteral:
    """`no_literal`: a value of these properties is a variable, which a FILTER compares, and not a written text."""

    wanted: Wanted

    def findings(self, query: ParsedQuery, names: Names, schema: Mapping[str, Term]) -> Iterator[Finding]:
        for pattern in query.patterns:
            if self.wanted.has(pattern.predicate) and is_literal(pattern.object):
                yield Finding(
                    f"{names.short(pattern.predicate)} has the text {pattern.object} as its value, and texts in the data "
                    "may have a language",
                    f"write {names.short(pattern.predicate)} ?text and FILTER(STR(?text) = {pattern.object.split('@')[0]})",
                )


@dataclass(frozen=True, slots=True)
class Compared:
    """`compared`: the text of these properties is compared as STR(?x), and by REGEX with the flag "i" if `any_case`."""

    wanted: Wanted
    any_case: bool

    def findings(self, query: ParsedQuery, names: Names, schema: Mapping[str, Term]) -> Iterator[Finding]:
        texts = {one.object for one in query.patterns if self.wanted.has(one.predicate)}
        for condition in query.conditions:
            for part in parts(condition.expression):
                if not isinstance(part, Call):
                    continue
                bare = [one for one in part.arguments if isinstance(one, str) and one in texts]
                plain = [one for one in part.arguments if isinstance(one, str) and _is_plain(one)]
                if part.name in ("=", "!=", "IN") and bare and plain:
                    yield Finding(
                        f"{bare[0]} is compared with {plain[0]}, and texts in the data may have a language",
                        f"write STR({bare[0]}) in place of {bare[0]}",
                    )
                if self.any_case and part.name == "REGEX" and _about(part.arguments[0]) & texts and not _folds(part):
                    yield Finding(
                        f"REGEX looks at {', '.join(sorted(_about(part.arguments[0]) & texts))} in one case alone, and "
                        "labels begin with a capital",
                        'write the flag: REGEX(STR(?x), "...", "i")',
                    )


def _is_plain(term: str) -> bool:
    found = parts_of_literal(term)
    return found is not None and found[1:] == ("", "")


def _about(argument: object) -> set[str]:
    """Return the variable that is the text of a REGEX, alone or within STR."""
    if isinstance(argument, Call) and argument.name == "STR":
        return _about(argument.arguments[0])
    return {argument} if isinstance(argument, str) else set()


def _folds(call: Call) -> bool:
    return len(call.arguments) > 2 and "i" in str(call.arguments[2])
