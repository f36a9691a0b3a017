"""The metrics of an answer and of a run.

For an answer with the items P (`refactx.eval.answers`) to a question with the gold answers G:

| metric | formula | edge cases |
|---|---|---|
| hit | some g in G is in P, or is in the answer as whole tokens | not in parentheses, nor in a name of a fact |
| exact | every item of P is in G, and every g of G is in P | order, repetition and spelling do not matter |
| F1 | 2pr / (p + r), p = items of P that are in G / P, r = gold answers found / G | 0 if nothing is found |

If the gold answer is yes or no, the answer has one item: its first word, if that is yes, no, true or false, unless a
word with a capital follows directly, as in the title `No Country for Old Men`.
An answer that is not *given* has hit and exact false and F1 0. An answer is given unless it is empty, is or begins with
the prompt's "I don't know." (or is `unknown`), or was cut off by the limit of tokens.

Of a run over n questions, the paper's equations 6a and 6b:

    accuracy  = correct / n               precision = correct / given

where an answer is correct by hit, by exact match or by a judge. Precision is not defined if no answer is given. F1 is
the mean over all n questions. Proportions have Wilson's interval, F1 a bootstrap interval (`refactx.eval.intervals`).
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from refactx.eval.answers import Gold, contains, distinct, items, match, without_known
from refactx.eval.intervals import Estimate, proportion
from refactx.eval.normalise import normalise

Outcome = Literal["given", "unknown", "none", "cut off", "failed"]
"""The outcome of a question. `unknown`: "I don't know."; `none`: no final answer; `failed`: it could not be asked."""

_TRUTH = {"yes": "yes", "true": "yes", "no": "no", "false": "no"}
_SECOND = re.compile(r"\W*\w+[^\S\n]+(?!I\b)(\w)")
"""The first letter of the second word, if nothing but space is between it and the first word."""
_UNKNOWN = ("i dont know", "i do not know", "unknown", "dont know", "not known")


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The metrics of one answer: `f1` from 0 to 1, with its precision and recall over items."""

    hit: bool
    exact: bool
    f1: float
    precision: float
    recall: float


NOTHING = Score(hit=False, exact=False, f1=0.0, precision=0.0, recall=0.0)


def outcome(answer: str, at_limit: bool, unknown: str = "I don't know.", golds: Iterable[Gold] = ()) -> Outcome:
    """Return the outcome of a question, given its final answer (empty if there is none).

    `at_limit`: whether the limit of tokens cut off the answer, or the text before it; not the text after it. `golds`:
    names of theirs always count as given.

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
    """Return the metrics of a given answer. `names`: names that an answer may have, such as the parts of its facts.

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
        return Score(hit=True, exact=True, f1=1.0, precision=1.0, recall=1.0) if right else NOTHING
    names = tuple(names)
    said = items(answer, [*(name for gold in golds for name in gold.names), *names])
    found, wanted = match([gold.names for gold in golds], said)
    precision, recall = sum(wanted) / len(said), sum(found) / len(golds)
    around = without_known(answer, names)  # West Virginia is another state than Virginia
    hit = any(found) or any(contains(name, around) for gold in golds for name in gold.names)
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return Score(hit=hit, exact=all(found) and all(wanted), f1=f1, precision=precision, recall=recall)


def _truth(text: str, first: bool = False) -> str | None:
    words = normalise(text)
    if first and (second := _SECOND.match(text)) and second[1].isupper():
        return None
    return _TRUTH.get(words[0]) if words and (first or len(words) == 1) else None


def accuracy(correct: Sequence[bool]) -> Estimate:
    """Return the accuracy, by equation 6a: correct answers / questions.

    >>> accuracy([True, False, False, False]).value
    0.25
    """
    return proportion(sum(correct), len(correct))


def precision(correct: Sequence[bool], given: Sequence[bool]) -> Estimate:
    """Return the precision, by equation 6b: correct answers / given answers.

    >>> precision([True, False, False, False], [True, True, False, False]).value
    0.5
    """
    return proportion(sum(c and g for c, g in zip(correct, given, strict=True)), sum(given))
