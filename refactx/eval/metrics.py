"""How right an answer is, and how right a run is.

Of one answer with the items P (`refactx.eval.answers`) to a question with the gold answers G:

| metric | formula | edge cases |
|---|---|---|
| hit | some g in G is an item of P, or stands in the answer in whole tokens | not in parentheses, nor in a fact's name |
| exact | every item of P is in G and every g in G is among P | order, repetition and form don't matter |
| F1 | 2pr / (p + r), p = items of P that are in G / P, r = gold answers found / G | 0 where nothing is found |

A question whose gold answer is yes or no has one item, the answer's first word if that is yes, no, true or false, unless
a word with a capital follows at once, as in the title `No Country for Old Men`.
An answer that is not *given* has hit and exact false and F1 0. Given is what is not: empty; the prompt's "I don't
know." (also with more behind it, or `unknown`); cut off, i.e. the last that was written before the limit of tokens.

Of a run over n questions, the paper's equations 6a and 6b:

    accuracy  = correct / n               precision = correct / given

with correct counted by hit, by exact match or by a judge. Precision has no value if no answer is given. F1 is the mean
over all n questions. Proportions have Wilson's interval, F1 a bootstrap interval (`refactx.eval.intervals`).
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from refactx.eval.answers import Gold, contains, distinct, items, same, without_known
from refactx.eval.intervals import Estimate, proportion
from refactx.eval.normalise import normalise

Outcome = Literal["given", "unknown", "none", "cut off", "failed"]
"""`unknown`: "I don't know."; `none`: the text ended without a final answer; `failed`: the question couldn't be asked."""

_TRUTH = {"yes": "yes", "true": "yes", "no": "no", "false": "no"}
_SECOND = re.compile(r"\W*\w+[^\S\n]+(?!I\b)(\w)")
"""How the second word begins, if nothing but space is between it and the first."""
_UNKNOWN = ("i dont know", "i do not know", "unknown", "dont know", "not known")


@dataclass(frozen=True, slots=True)
class Score:
    """How right one answer is: `f1` from 0 to 1, with its precision and recall over items."""

    hit: bool
    exact: bool
    f1: float
    precision: float
    recall: float


NOTHING = Score(False, False, 0.0, 0.0, 0.0)


def outcome(answer: str, at_limit: bool, unknown: str = "I don't know.", golds: Iterable[Gold] = ()) -> Outcome:
    """What came of a question. `at_limit`: the last token allowed was used; `answer`: the final answer, or empty.

    `at_limit` should be true only if what was being written then is the answer itself, or comes before it. `golds`: their
    names are answers whatever they say.

    >>> outcome("Bern", False), outcome("I don’t know", False), outcome("", False), outcome("", True)
    ('given', 'unknown', 'none', 'cut off')
    >>> outcome("Don't Know Why", False), outcome("Don't Know Why", False, golds=[Gold("Don't Know Why")])
    ('unknown', 'given')
    """
    if at_limit:
        return "cut off"
    words = normalise(answer)
    if not words:
        return "none"
    if any(words == normalise(name) for gold in golds for name in gold.names):
        return "given"
    said = " ".join(words)
    phrases = (" ".join(normalise(unknown)), *_UNKNOWN)
    return (
        "unknown"
        if any(p and (said == p or (len(p.split()) > 1 and said.startswith(p + " "))) for p in phrases)
        else "given"
    )


def score(answer: str, golds: Sequence[Gold], names: Iterable[str] = ()) -> Score:
    """How right a given answer is. `names`: what an item may be called, such as the parts of the facts it rests on.

    >>> score("Finnish and Danish", [Gold("Finnish"), Gold("Swedish"), Gold("Sámi")])
    Score(hit=True, exact=False, f1=0.4, precision=0.5, recall=0.3333333333333333)
    >>> score("Yes, she was.", [Gold("true")]).exact
    True
    """
    golds = distinct(golds)
    if not golds or not normalise(answer):
        return NOTHING
    if all(_truth(gold.text) for gold in golds):
        right = _truth(answer, first=True) == _truth(golds[0].text)
        return Score(True, True, 1.0, 1.0, 1.0) if right else NOTHING
    names = tuple(names)
    said = items(answer, [*(name for gold in golds for name in gold.names), *names])
    found = [any(same(name, item) for name in gold.names for item in said) for gold in golds]
    wanted = [any(same(name, item) for gold in golds for name in gold.names) for item in said]
    precision, recall = sum(wanted) / len(said), sum(found) / len(golds)
    around = without_known(answer, names)  # West Virginia is another state than Virginia
    hit = any(found) or any(contains(name, around) for gold in golds for name in gold.names)
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return Score(hit, all(found) and all(wanted), f1, precision, recall)


def _truth(text: str, first: bool = False) -> str | None:
    words = normalise(text)
    if first and (second := _SECOND.match(text)) and second[1].isupper():
        return None
    return _TRUTH.get(words[0]) if words and (first or len(words) == 1) else None


def accuracy(correct: Sequence[bool]) -> Estimate:
    """Equation 6a: correct answers by questions.

    >>> accuracy([True, False, False, False]).value
    0.25
    """
    return proportion(sum(correct), len(correct))


def precision(correct: Sequence[bool], given: Sequence[bool]) -> Estimate:
    """Equation 6b: correct answers by answers given.

    >>> precision([True, False, False, False], [True, True, False, False]).value
    0.5
    """
    return proportion(sum(c and g for c, g in zip(correct, given, strict=True)), sum(given))
