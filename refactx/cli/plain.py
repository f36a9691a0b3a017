"""An answer in plain lines.

What a model or a knowledge base wrote must not steer a terminal: control characters and the marks that turn the writing
direction are taken out of everything that is printed.
"""

import re

from refactx.asking.answer import Answer
from refactx.index.links import Link, LinkedFact

_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """`text` without what could steer a terminal; line ends and tabs stay.

    >>> visible("a\\x1b[31mb\\r\\n")
    'a[31mb\\n'
    """
    return _STEERING.sub("", text)


def line(text: str) -> str:
    """`text` on one line, without what could steer a terminal."""
    return " ".join(visible(text).split())


def plain(answer: Answer) -> str:
    """The answer as lines, with a line end behind the last.

    Every fact is on a line of its own and nothing else starts with `<`: the model's text is indented.
    """
    lines = [f"Question: {line(answer.question)}"]
    lines += [f"  {written}".rstrip() for written in visible(answer.text).splitlines()]
    lines += [line(fact.text) for fact in answer.facts]
    lines.append(f"Answer: {line(answer.answer) or '(none)'}")
    if note := ending(answer):
        lines.append(note)
    lines += [f"Link: {label} {url}" for label, url in _links(answer.links)]
    return "\n".join(lines) + "\n"


def ending(answer: Answer) -> str:
    """Why a text is not whole; empty if it is."""
    if answer.finish_reason == "length":
        return f"(cut off after {answer.tokens:,} tokens: see --max-new-tokens)"
    return "(interrupted)" if answer.finish_reason == "interrupted" else ""


def _links(facts: tuple[LinkedFact, ...]) -> list[tuple[str, str]]:
    """Label and address of every part that has one, each once, in order."""
    parts = [part for fact in facts for part in (fact.subject, fact.predicate, fact.object)]
    named = [part for part in parts if isinstance(part, Link)]
    return list(dict.fromkeys((line(part.label), visible(part.url)) for part in named if part.url is not None))
