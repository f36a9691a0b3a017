"""The texts that models get when they write SPARQL by a pack, from `prompts/translation.toml`."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from string import Template
from typing import get_type_hints


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
