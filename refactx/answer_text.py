"""An answer as people read it: with colours and links on a terminal, in plain lines elsewhere.

What a model or a knowledge base wrote must not steer the terminal: control characters and the marks that turn the
writing direction are taken out of everything that is printed.
"""

import re

import click

from refactx.answer import Answer
from refactx.fact import Fact
from refactx.links import Link, LinkedFact

_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """`text` without what could steer a terminal; line ends and tabs stay.

    >>> visible("a\\x1b[31mb\\r\\n")
    'a[31mb\\n'
    """
    return _STEERING.sub("", text)


def render(answer: Answer, color: bool) -> str:
    """The answer as text that ends in a line end. `color`: for a terminal, with ANSI colours; else plain lines.

    Plain, every fact is on a line of its own and nothing else starts with `<`: the model's text is indented.
    """
    return _for_terminal(answer) if color else _plain(answer)


def _plain(answer: Answer) -> str:
    lines = [f"Question: {_line(answer.question)}"]
    lines += [f"  {line}".rstrip() for line in visible(answer.text).splitlines()]
    lines += [_line(fact.text) for fact in answer.facts]
    lines.append(f"Answer: {_line(answer.answer) or '(none)'}")
    lines += [f"Link: {label} {url}" for label, url in _links(answer.links)]
    return "\n".join(lines) + "\n"


def _for_terminal(answer: Answer) -> str:
    found = _line(answer.answer) or "(the model came to no answer)"
    blocks = [
        click.style(_line(answer.question), bold=True),
        _marked(visible(answer.text), answer.facts),
        click.style("Answer: ", bold=True) + click.style(found, fg="green", bold=True),
    ]
    if answer.facts:
        blocks.append("\n".join(_numbered(answer)))
    return "\n\n".join(block for block in blocks if block) + "\n"


def _numbered(answer: Answer) -> list[str]:
    """Each fact with its number, and below it the parts that have a page on Wikidata, with their addresses."""
    lines = ["Facts:"]
    for number, (fact, linked) in enumerate(zip(answer.facts, answer.links, strict=True), 1):
        lines.append(f"{number:>3}. {_style(_line(fact.text))}")
        lines += [f"     {url}  {label}" for label, url in _links((linked,))]
    return lines


def _marked(text: str, facts: tuple[Fact, ...]) -> str:
    """The text with its facts, which come in this order, blue and underlined."""
    pieces, behind = [], 0
    for fact in facts:
        shown = visible(fact.text)
        start = text.find(shown, behind)
        if start >= 0:
            pieces += [text[behind:start], _style(shown)]
            behind = start + len(shown)
    return "".join([*pieces, text[behind:]])


def _links(facts: tuple[LinkedFact, ...]) -> list[tuple[str, str]]:
    """Label and address of every part that has one, each once, in order."""
    parts = [part for fact in facts for part in (fact.subject, fact.predicate, fact.object)]
    named = [part for part in parts if isinstance(part, Link)]
    return list(dict.fromkeys((_line(part.label), visible(part.url)) for part in named if part.url is not None))


def _line(text: str) -> str:
    return " ".join(visible(text).split())


def _style(text: str) -> str:
    return click.style(text, fg="blue", underline=True)
