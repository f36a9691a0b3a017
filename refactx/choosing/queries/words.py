"""The words of a language that say what a question asks for: data of a prompt, not code."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

from refactx.query.walk import HEADS, OPERATORS, Head, Operator

_NUMBER = re.compile(
    r"(?<![\w.])[-+]?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?(?!\w|\.\d|,\d{3}(?!\d))"
)


@dataclass(frozen=True, kw_only=True)
class QueryWords:
    """The words of a language that tell queries apart.

    `heads`, `operators`: regular expressions, of which one that matches a question says that the head or operator is
    meant; `function`: words that name nothing by themselves; `class_of`, `subclass_of`: the ids of the properties that
    lead from an entity to its classes, and from a class to wider ones.
    """

    heads: Mapping[Head, Sequence[str]] = field(default_factory=dict)
    operators: Mapping[Operator, Sequence[str]] = field(default_factory=dict)
    function: frozenset[str] = frozenset()
    class_of: str = ""
    subclass_of: str = ""

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> Self:
        """Return the words of a prompt's table. Raise ValueError if it is not valid."""
        known, texts = {"heads": HEADS, "operators": OPERATORS}, ("function", "class_of", "subclass_of")
        if not isinstance(table, Mapping):
            raise ValueError("its `words` is not a table")
        if unknown := table.keys() - {*known, *texts}:
            raise ValueError(f"its [words] has {', '.join(sorted(unknown))}: use {', '.join((*known, *texts))}")
        fields = dict(table)
        for name in texts:
            if not isinstance(fields.get(name, ""), str):
                raise ValueError(f"{name} of its [words] is not a text")
        for name, keys in known.items():
            patterns = fields.get(name, {})
            if not isinstance(patterns, dict) or not all(map(_are_texts, patterns.values())):
                raise ValueError(f"its [words.{name}] is not a table of lists of texts")
            if wrong := patterns.keys() - set(keys):
                raise ValueError(f"its [words.{name}] has {', '.join(sorted(wrong))}: use {', '.join(keys)}")
        fields["function"] = frozenset(fields.get("function", "").split())
        words = cls(**fields)
        try:
            words.heads_of(""), words.operators_of("")
        except re.error as error:
            raise ValueError(f"its [words] has {error.pattern!r}, which is no regular expression: {error}") from error
        return words

    def heads_of(self, question: str) -> list[Head]:
        """Return the heads that a question's words name, in the order of the table; `list` if there is none.

        >>> QueryWords(heads={"count": ["how many"]}).heads_of("How many nicknames does Louisiana have?")
        ['count']
        """
        found = [head for head, patterns in self._heads.items() if any(one.search(question) for one in patterns)]
        return found or ["list"]

    def operators_of(self, question: str) -> list[Operator]:
        """Return the operators that a question's words name; `equals` if there is none."""
        found = [name for name, patterns in self._operators.items() if any(one.search(question) for one in patterns)]
        return found or ["equals"]

    def is_function(self, text: str) -> bool:
        """Return whether a text has function words alone."""
        return all(word in self.function for word in re.findall(r"[^\W_]+", text.lower()))

    @cached_property
    def _heads(self) -> dict[Head, list[re.Pattern[str]]]:
        return {head: _compiled(patterns) for head, patterns in self.heads.items()}

    @cached_property
    def _operators(self) -> dict[Operator, list[re.Pattern[str]]]:
        return {name: _compiled(patterns) for name, patterns in self.operators.items()}


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _compiled(patterns: Sequence[str]) -> list[re.Pattern[str]]:
    return [re.compile(rf"\b(?:{one})", re.IGNORECASE) for one in patterns]


def numbers_of(question: str) -> list[tuple[int, int, str]]:
    """Return the numbers of a question: their half-open ranges of characters, and each as literals are written.

    >>> numbers_of("more than 12,500.5?")
    [(10, 18, '12500.5')]
    """
    return [(one.start(), one.end(), one.group().replace(",", "")) for one in _NUMBER.finditer(question)]
