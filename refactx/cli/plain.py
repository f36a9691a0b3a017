"""Plain text: what is read from standard input and arguments, and an answer as lines.

Text from a model or a knowledge base must not control the terminal: control characters and marks of writing direction
are removed from everything that is printed.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from io import TextIOWrapper
from pathlib import Path

from refactx.asking.answer import Answer
from refactx.errors import InputError
from refactx.fact import Link, LinkedFact, counted, line, visible

QUERY = "SELECT ?x { wd:Q797 wdt:P36 ?x }"
SHOWN = 6
"""The most facts that are shown as the proof of a query."""


def standard_input() -> Iterator[str]:
    """Yield the lines of standard input. Raises InputError if it is no text in UTF-8."""
    if isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8", errors="strict")  # some locales would pass any byte on
    try:
        for number, text in enumerate(sys.stdin):
            yield text if number else text.removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise InputError(f"standard input is not text in UTF-8: {error}") from None


def query_text(query: str) -> str:
    """Return the query of an argument: a query, a file with one, or - for standard input. Raises InputError."""
    if query == "-":
        return "".join(standard_input())
    if "{" in query or len(query.split()) != 1:
        return query
    try:
        return Path(query).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = "it is not text in UTF-8" if isinstance(error, UnicodeDecodeError) else error.strerror
        raise InputError(
            f"{query} is no query, and no file that can be read ({reason}): expected one such as {QUERY!r}, a file, or -"
        ) from None


def row_of(row: Iterable[object]) -> str:
    """Return a row of a SPARQL result on one line: its terms as N-Triples has them."""
    return "  ".join("" if term is None else line(str(term)) for term in row)


def plain(answer: Answer) -> str:
    """Return the answer as lines, with a line end after the last.

    Each fact has a line of its own, and no other line starts with `<`: the rest of the model's text is indented.
    """
    lines, own = [f"Question: {line(answer.question)}"], visible(answer.text)
    for fact in answer.facts:
        own = re.sub(
            rf"(^[ \t]*\S+:)?[ \t]*{re.escape(visible(fact.text))}[ \t]*\n?", "", own, count=1, flags=re.MULTILINE
        )
    lines += [f"  {written}".rstrip() for written in own.splitlines()]
    lines += [line(fact.text) for fact in answer.facts]
    lines.append(f"Answer: {line(answer.answer) or '(none)'}")
    if note := ending(answer):
        lines.append(note)
    proof = proof_of(answer)
    lines += [f"Proof: {line(_text(fact))}" for fact in proof]
    lines += [f"Link: {label} {url}" for label, url in _links((*answer.links, *proof))]
    return "\n".join(lines) + "\n"


def proof_of(answer: Answer) -> tuple[LinkedFact, ...]:
    """Return facts that prove the queries of an answer, the first `SHOWN` of each."""
    return tuple(fact for query in answer.queries for fact in query.facts[:SHOWN])


def ending(answer: Answer) -> str:
    """Return why a text is incomplete; empty if it is complete."""
    if answer.finish_reason == "length":
        return f"(cut off after {counted(answer.tokens, 'token')}: see --max-new-tokens)"
    return "(interrupted)" if answer.finish_reason == "interrupted" else ""


def _links(facts: tuple[LinkedFact, ...]) -> list[tuple[str, str]]:
    """Return the label and address of each distinct part that has an address, in the order of the facts."""
    parts = [part for fact in facts for part in (fact.subject, fact.predicate, fact.object)]
    named = [part for part in parts if isinstance(part, Link)]
    return list(dict.fromkeys((line(part.label), visible(part.url)) for part in named if part.url is not None))


def _text(fact: LinkedFact) -> str:
    value = fact.object if isinstance(fact.object, str) else fact.object.label
    return f"<{fact.subject.label}> <{fact.predicate.label}> <{value}>"
