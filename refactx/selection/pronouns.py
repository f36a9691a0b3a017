"""Pronouns of a question: whether they stand for something in it, or for what was said before.

`his` in "And what is his email?" stands for nobody there, and a model would take anybody. In "Which company has its
headquarters in Graz?" the pronoun stands for what is asked for. The rules see words, not grammar: where they cannot tell, a
pronoun is taken to stand for something in the question.
"""

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

from refactx.english import plural

SUBJECTS = frozenset(["he", "she", "they", "this", "these", "those"])
"""Pronouns of which what is asked for is not the antecedent: "Which department does she lead?"."""
PLURALS = frozenset(["they", "them", "their", "theirs"])
OTHERS = frozenset(["him", "his", "her", "hers", "it", "its", "them", "their", "theirs"])
ASKING = frozenset(["which", "what", "who", "whose", "how", "many", "much", "every", "each", "all", "any"])
NO_THING = frozenset(
    ["true", "false", "correct", "right", "possible", "year", "month", "week", "day", "century", "decade", "time"]
)
"""The words after `it` and `this` which then stand for no thing: "Is it true that ...", "this year"."""
_WORD = re.compile(r"[^\W_]+")


def open_pronoun(
    question: str, named: Sequence[tuple[int, int]], is_function: Callable[[str], bool]
) -> tuple[int, int] | None:
    """Return the half-open range of the first pronoun that stands for nothing in a question; None if there is none.

    `named`: the ranges of what it names that is no class; `is_function`: whether a word names nothing by itself.

    >>> small = frozenset("and what is his who the of in has its does she".split()).__contains__
    >>> open_pronoun("And what is his email?", [], small), open_pronoun("Who is Ann, and what is her email?", [(7, 10)], small)
    ((12, 15), None)
    >>> open_pronoun("Which company has its headquarters in Graz?", [], small)
    >>> open_pronoun("Which department does she lead?", [], small)
    (22, 25)
    """
    words = [(one.group().lower(), *one.span()) for one in _WORD.finditer(question)]
    for number, (word, start, stop) in enumerate(words):
        if word not in SUBJECTS | OTHERS or question[start:stop] == "IT":
            continue
        if any(begin <= start < end or begin < start for begin, end in named):  # a part of a name, or after one
            continue
        comma = question.find(",", stop)
        if comma >= 0 and any(begin > comma for begin, _ in named):  # "In his life, what did Ann write?"
            continue
        before, after = [one for one, *_ in words[:number]], [one for one, *_ in words[number + 1 :]]
        if after[:1] and after[0] in NO_THING:
            continue
        is_asked = any(one in ASKING and not is_function(other) for one, other in pairwise(before))
        if word in OTHERS and is_asked:
            continue
        if word in PLURALS and any(one == plural(one) and not is_function(one) for one in before):
            continue
        return start, stop
    return None
