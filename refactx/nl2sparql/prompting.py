"""The conversation that asks a model for the query of a question."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from string import Template
from typing import get_type_hints

from refactx.ask.chat import Message
from refactx.fact import clean_part
from refactx.nl2sparql.attempt import Attempt
from refactx.nl2sparql.pack import Pack
from refactx.nl2sparql.retrieval import Retrieved
from refactx.query.sparql.tokens import tokens_of


@dataclass(frozen=True, slots=True)
class Writing:
    """Templates for the writing of queries: the system's message, and the parts of the user's."""

    system: str
    user: str
    adapt: str
    plan: str
    explored: str
    repair: str


@dataclass(frozen=True, slots=True)
class Asking:
    """Templates for a question to a model about a question: the system's message and the user's."""

    system: str
    user: str


@dataclass(frozen=True, slots=True)
class TranslationTexts:
    """All templates, by what they are for."""

    write: Writing
    plan: Asking
    analyse: Asking
    verify: Asking


@cache
def translation_texts() -> TranslationTexts:
    """Return the texts of the product.

    >>> filled(translation_texts().plan.user, question="Which dogs bark?")
    'Which dogs bark?'
    """
    fields = tomllib.loads((files("refactx.prompts") / "translation.toml").read_text(encoding="utf-8"))
    return TranslationTexts(**{name: kind(**fields[name]) for name, kind in get_type_hints(TranslationTexts).items()})


def filled(template: str, **parts: str) -> str:
    """Return a template with its parts, without the empty lines that empty parts leave.

    >>> filled("$base\\n\\n$rules\\n\\nend", base="", rules="r")
    'r\\n\\nend'
    """
    text = Template(template.strip()).substitute(_stripped(parts))
    while "\n\n\n" in text:
        text = text.replace("\n\n\n", "\n\n")
    return text.strip()


def _stripped(parts: Mapping[str, str]) -> dict[str, str]:
    return {name: text.strip() for name, text in parts.items()}


_DECLARED = re.compile(r"\bPREFIX\s+([\w.-]*):\s*<([^<>\s]*)>\s*", re.IGNORECASE)


def with_prefixes(sparql: str, prefixes: Mapping[str, str]) -> str:
    """Return a query with declarations of those of some prefixes (IRIs by prefix) that it uses and does not declare.

    >>> with_prefixes("ASK { ex:a a ?b }", {"ex": "http://e.org/", "no": "http://n.org/"})
    'PREFIX ex: <http://e.org/>\\nASK { ex:a a ?b }'
    """
    tokens = tokens_of(sparql)
    declared = {name for name, _ in _DECLARED.findall("".join(t.text for t in tokens if t.kind != "comment"))}
    used = {token.text.partition(":")[0] for token in tokens if token.kind == "name"}
    missing = [name for name in prefixes if name in used - declared]
    return "".join(f"PREFIX {name}: <{prefixes[name]}>\n" for name in missing) + sparql


def without_prefixes(sparql: str, prefixes: Mapping[str, str]) -> str:
    """Return a query on one line, without comments, and without the declarations that some prefixes have as well.

    >>> without_prefixes("PREFIX ex: <http://e.org/> # of examples\\nASK {\\n  ex:a a '1  2' }", {"ex": "http://e.org/"})
    "ASK { ex:a a '1  2' }"
    """
    texts = [" " if token.is_space else token.text for token in tokens_of(sparql)]
    line = "".join(text for at, text in enumerate(texts) if text != " " or at == 0 or texts[at - 1] != " ")
    return _DECLARED.sub(lambda match: "" if prefixes.get(match[1]) == match[2] else match[0], line).strip()


ADAPTED = 0.85
"""An example with at least this score is nearly the same question: its query is to be adapted."""
SHOWN_FAILURES = 3
"""The most attempts that are shown again, the last ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What a query is to be written for.

    `patterns`: those of the question, with their scores; `examples`: those to follow, the best first; `plan`: steps
    towards the answer; `explored`: properties that the data has there, as prefixed names; `failed`: earlier attempts, in
    order.
    """

    question: str
    patterns: Mapping[str, float] = field(default_factory=dict)
    examples: Sequence[Retrieved] = ()
    plan: Sequence[str] = ()
    explored: Sequence[str] = ()
    failed: Sequence[Attempt] = ()


def conversation(pack: Pack, task: Task) -> list[Message]:
    """Return the messages: what the pack says, the examples as turns, the best one last, the question, and what was
    wrong with the queries before."""
    texts = translation_texts().write
    system = filled(
        texts.system,
        title=pack.title,
        base=pack.base,
        rules="\n".join(f"* {rule.text}" for rule in pack.rules if rule.applies_to(task.patterns)),
        prefixes=", ".join(f"{name}:" for name in pack.prefixes),
    )
    turns = [("system", system)]
    for one in reversed(task.examples):
        turns.append(("user", filled(texts.user, question=one.question)))
        turns.append(("assistant", without_prefixes(one.example.sparql, pack.prefixes)))
    is_near = bool(task.examples) and task.examples[0].score >= ADAPTED
    parts = [filled(texts.adapt if is_near else texts.user, question=clean_part(task.question))]
    if task.plan:
        parts.append(filled(texts.plan, steps="\n".join(f"{n}. {step}" for n, step in enumerate(task.plan, 1))))
    if task.explored:
        parts.append(filled(texts.explored, properties=" ".join(task.explored)))
    turns.append(("user", "\n\n".join(parts)))
    for attempt in task.failed[-SHOWN_FAILURES:]:
        turns.append(("assistant", _written(attempt, pack)))
        problems = "\n".join(f"* {problem}" for problem in attempt.problems)
        turns.append(("user", filled(texts.repair, problems=problems)))
    return [{"role": role, "content": text} for role, text in turns]


def _written(attempt: Attempt, pack: Pack) -> str:
    text = attempt.text if attempt.sparql is None else without_prefixes(attempt.sparql, pack.prefixes)
    return text.strip()[:4000] or "(nothing)"
