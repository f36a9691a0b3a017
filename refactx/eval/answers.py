"""Final answers as sets of items, the comparison of items with gold answers, and the metrics of an answer.

**Splitting.** An answer is split at line ends, `;`, `|`, `•`, `/` with spaces around it, `and`, `&`, and commas, but not
inside parentheses, a date or a number (`1,234`, `one hundred and five`). The marks of a list that is numbered or lettered
in order (`1.`, `2)`, `(a)`) are no part of its items. If neighbouring parts together are a known
name (a gold answer, or a part of a fact in the text), they are one item: `Trinidad and Tobago`, `Washington, D.C.`.

**Equality.** An item equals a gold answer if its normal form (`refactx.eval.normalise`) is that of the gold answer or of
one of its aliases. A qualifier (text in parentheses at the end) counts only if both have one: `Bern (capital of
Switzerland)` equals `Bern`, but not `Bern (Indiana)`. A number with a unit equals the bare number, but not the number
with another unit.

**Metrics** of an answer with the items P to a question with the gold answers G:

| metric | formula | edge cases |
|---|---|---|
| hit | some g in G is in P, or is in the answer as whole tokens | not in parentheses, nor in a name of a fact |
| exact | every item of P is in G, and every g of G is in P | order, repetition and spelling do not matter |
| F1 | 2pr / (p + r), p = items of P that are in G / P, r = gold answers found / G | 0 if nothing is found |
| EM | the answer is G with commas between, letter by letter but for case | a full stop at its end does not matter |

If the gold answer is yes or no, the answer has one item: its first word, if that is yes, no, true or false, unless a
word with a capital follows directly, as in the title `No Country for Old Men`.
An answer that is not *given* has hit and exact false and F1 0. An answer is given unless it is empty, is or begins with
the prompt's "I don't know." (or is `unknown`), or was cut off by the limit of tokens.

Of a run over n questions, the paper's equations 6a and 6b: accuracy = correct / n, precision = correct / given, where an
answer is correct by hit, by exact match or by a judge (`refactx.eval.statistics`). Precision is not defined if no answer
is given. F1 is the mean over all n questions.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from refactx.eval.normalise import AND_IN_NUMBER, Tokens, agrees, fold, is_quantity, normalise, with_iso_dates

_SEPARATOR = re.compile(
    r"\s*(?:[;\n|•]|,(?!\d{3}(?!\d)))\s*(?:(?:and\b|&)\s*)?"
    rf"|(?!{AND_IN_NUMBER})\s+(?:and|&|/)\s+"
)
_MARK = re.compile(
    r"(?:^|(?<=\s))[*_#(\[-]*(?:(?:(\d{1,3})(?:\\?[.):\]]|\ufe0f?\u20e3|(?= - )|(?<=#\d)(?= ))|([a-z])[.)]))[*_:-]*"
    r"(?:\s+(?:-\s+)?|(?=[^\W\d_]))"
)
"""The mark of an item of a list, in a folded text: `1.`, `(2)`, `**3.**`, `4 -`, `#5`, `a)`, `b.`."""
_WIDEST = 8
"""The most neighbouring parts that may be one name: `the London School of Economics, Political Science and ...`."""
Outcome = Literal["given", "unknown", "none", "cut off", "failed"]
"""The outcome of a question. `unknown`: "I don't know."; `none`: no final answer; `failed`: it could not be asked."""
_TRUTH = {"yes": "yes", "true": "yes", "no": "no", "false": "no"}
_SECOND = re.compile(r"\W*\w+[^\S\n]+(?!I\b)(\w)")
"""The first letter of the second word, if nothing but space is between it and the first word."""
_UNKNOWN = ("i dont know", "i do not know", "unknown", "dont know", "not known")


@dataclass(frozen=True, slots=True)
class Gold:
    """An answer that counts as right: its text, other names of it, and its id in the knowledge base if known.

    `text` is empty if the data set has only an id; then the aliases are compared.
    """

    text: str
    id: str | None = None
    aliases: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The text and the aliases, those with visible text."""
        return tuple(name for name in (self.text, *self.aliases) if normalise(name))


def unqualified(text: str) -> str:
    """Return a name without the text in parentheses at its end, if anything else is left.

    >>> unqualified("Bern (capital (of Switzerland))"), unqualified("(What) (x)"), unqualified("(x)")
    ('Bern', '(What)', '(x)')
    """
    spans = _parentheses(text)
    if not spans or text[spans[-1][1] :].strip():
        return text
    return text[: spans[-1][0]].rstrip() or text


def _parentheses(text: str) -> list[tuple[int, int]]:
    """Return where the outermost pairs of parentheses begin and end; one that is never closed is ignored.

    >>> _parentheses("a (b (c)) (d")
    [(2, 9)]
    """
    spans: list[tuple[int, int]] = []
    opened: list[int] = []
    for at, sign in enumerate(text):
        if sign == "(":
            opened.append(at)
        elif sign == ")" and opened:
            start = opened.pop()
            while spans and spans[-1][0] > start:  # inside this pair
                spans.pop()
            spans.append((start, at + 1))
    return spans


def same(gold: str, said: str) -> bool:
    """Return whether an item of an answer equals the name of a gold answer.

    >>> same("Bern", "Bern (capital of Switzerland)"), same("Bern (Indiana)", "Bern (capital of Switzerland)")
    (True, False)
    >>> same("170", "170 cm"), same("170 kg", "170 cm"), same("1956-10-20", "20 October 1956")
    (True, False, True)
    """
    return _same_forms(_forms_of(gold), _forms_of(said))


def match(golds: Sequence[Sequence[str]], said: Sequence[str]) -> tuple[list[bool], list[bool]]:
    """Return which gold answers, given their names, equal an item, and which items equal a gold answer (see `same`).

    Only forms with digits may agree without being equal, so thousands of names are compared at once.

    >>> match([["Bern"], ["1956", "2 km"]], ["Bern (city)", "Basel", "20 October 1956"])
    ([True, True], [True, False, True])
    """
    forms = [_forms_of(item) for item in said]
    having, whole = defaultdict[Tokens, list[int]](list), defaultdict[Tokens, list[int]](list)
    for at, (first, *others) in enumerate(forms):
        whole[first].append(at)
        for form in (first, *others):
            having[form].append(at)
    found, wanted = [False] * len(golds), [False] * len(said)
    every = [(number, forms_) for number, names in enumerate(golds) for name in names if (forms_ := _forms_of(name))[0]]
    for number, gold in every:
        for at in (*having.get(gold[0], ()), *(at for form in gold[1:] for at in whole.get(form, ()))):
            found[number] = wanted[at] = True
    with_digits = [at for at, each in enumerate(forms) if _has_digits(each)]
    for number, gold in every if with_digits else ():
        if _has_digits(gold):
            for at in with_digits:
                if not (found[number] and wanted[at]) and _same_forms(gold, forms[at]):
                    found[number] = wanted[at] = True
    return found, wanted


@lru_cache(1 << 14)
def _forms_of(name: str) -> tuple[Tokens, ...]:
    """Return the normal forms of a name, of it without its last qualifier, and so on."""
    return tuple(map(normalise, (name, *_peeled(name))))


def _same_forms(gold: Sequence[Tokens], said: Sequence[Tokens]) -> bool:
    return any(_agree(gold[0], form) for form in said) or any(_agree(form, said[0]) for form in gold[1:])


def _has_digits(forms: Sequence[Tokens]) -> bool:
    return any(sign.isdigit() for form in forms for token in form for sign in token)


def _peeled(name: str) -> list[str]:
    """Return a name without its last qualifier, without the last two, and so on.

    >>> _peeled("Wake Up (Hilary Duff song) (2005 single)")
    ['Wake Up (Hilary Duff song)', 'Wake Up']
    """
    peeled = []
    while (bare := unqualified(name)) != name:
        peeled.append(bare)
        name = bare
    return peeled


def _agree(gold: Tokens, said: Tokens) -> bool:
    if not gold or not said:
        return False
    if len(gold) == len(said):
        return all(map(agrees, gold, said))
    if is_quantity(said) and len(gold) == 1:
        return gold[0] == said[0]
    return is_quantity(gold) and len(said) == 1 and gold[0] == said[0]


def contains(gold: str, said: str) -> bool:
    """Return whether a longer text contains the name of a gold answer as consecutive whole tokens.

    Text in parentheses counts only if the gold answer has parentheses too, since names of a knowledge base have
    explanations there.

    >>> contains("Bern", "The capital is Bern."), contains("Bern", "Bernard"), contains("Switzerland", "Bern (in Switzerland)")
    (True, False, False)
    """
    if "(" in gold:
        return _within(normalise(gold), normalise(said)) or (
            "(" not in said and _within(normalise(unqualified(gold)), normalise(said))
        )
    return _within(normalise(gold), normalise(without_parentheses(said)))


def without_parentheses(text: str) -> str:
    """Return `text` without the parts in parentheses, unless nothing is left."""
    left = _with_parentheses_as(text, " ")
    return left if normalise(left) else text


def _with_parentheses_as(text: str, sign: str) -> str:
    """Return `text` with every character in parentheses replaced by `sign`, in the same length."""
    for start, end in _parentheses(text):
        text = text[:start] + sign * (end - start) + text[end:]
    return text


def _within(gold: Tokens, said: Tokens) -> bool:
    if gold and gold[0] not in said and not gold[0][:1].isdigit():
        return False
    width = len(gold)
    return width > 0 and any(all(map(agrees, gold, said[at : at + width])) for at in range(len(said) - width + 1))


def items(answer: str, known: Iterable[str] = ()) -> list[str]:
    """Return the distinct items of an answer (by their normal forms), in order. `known`: names that are not split.

    >>> items("Finnish and Swedish (North Germanic, spoken in Finland)")
    ['finnish', 'swedish (north germanic, spoken in finland)']
    >>> items("October 20, 1956; 1,234"), items("Trinidad and Tobago, Cuba", ["Trinidad and Tobago"])
    (['1956-10-20', '1,234'], ['trinidad and tobago', 'cuba'])
    """
    text, spans = _cut(answer, _forms(known))
    found = [text[start:end].strip() for start, end in spans]
    return list({normalise(item): item for item in reversed(found)}.values())[::-1]


def without_known(answer: str, known: Iterable[str]) -> str:
    """Return an answer, folded, without the items that are known names: the rest may have a name and words around it.

    >>> without_known("West Virginia and the city of Bern", ["West Virginia (state)"])
    '; and the city of bern'
    """
    names = _forms(known)
    text, spans = _cut(answer, names)
    for start, end in reversed(spans):
        if _known(text[start:end], names):
            text = f"{text[:start]};{text[end:]}"
    return text


def _forms(known: Iterable[str]) -> set[Tokens]:
    """Return the normal forms of names, with and without qualifiers."""
    return {normalise(form) for name in known for form in (name, *_peeled(name))}


def _cut(answer: str, names: set[Tokens]) -> tuple[str, list[tuple[int, int]]]:
    """Return an answer, folded, and where its items begin and end in it."""
    text = with_iso_dates(_without_marks(fold(answer), names))
    masked = _with_parentheses_as(text, "x")
    spans, start = [], 0
    for cut in _SEPARATOR.finditer(masked):
        spans.append((start, cut.start()))
        start = cut.end()
    spans = [(a, b) for a, b in [*spans, (start, len(text))] if normalise(text[a:b])]
    found, at = [], 0
    while at < len(spans):
        widths = range(min(_WIDEST, len(spans) - at), 1, -1)
        width = next((w for w in widths if _known(text[spans[at][0] : spans[at + w - 1][1]], names)), 1)
        found.append((spans[at][0], spans[at + width - 1][1]))
        at += width
    return text, found


def _without_marks(text: str, names: set[Tokens]) -> str:
    """Return a folded text with a line end in place of each mark of a list, unless a known name begins so: `1. FC Koeln`.

    >>> _without_marks("1. ann lee 2. bo berg", set()), _without_marks("1. fc koeln", {("1", "fc", "koeln")})
    ('\\nann lee \\nbo berg', '1. fc koeln')
    """
    marks = list[re.Match[str]]()
    for mark in _MARK.finditer(text):
        begins = bool(marks) or text[: mark.start()].rstrip(" ")[-1:] in ("", "\n", ":")
        if begins and (mark[1] or mark[2]) in (str(len(marks) + 1), chr(ord("a") + len(marks))):
            marks.append(mark)
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    for mark, end in zip(marks, ends, strict=False):
        line = text[mark.start() : end].partition("\n")[0]
        if _known(line, names) and not _known(line[len(mark[0]) :], names):
            return text
    if len(marks) == 1 and (not marks[0][1] or text[: marks[0].start()].strip()):  # `A. Lee` is a name
        return text
    for mark in reversed(marks):
        text = f"{text[: mark.start()]}\n{text[mark.end() :]}"
    return text


def _known(text: str, names: set[Tokens]) -> bool:
    return any(normalise(form) in names for form in (text, *_peeled(text)))


def distinct(golds: Sequence[Gold]) -> list[Gold]:
    """Return the gold answers without those that have the normal form of an earlier one, or no name."""
    kept: dict[Tokens, Gold] = {}
    for gold in golds:
        if gold.names:
            kept.setdefault(normalise(gold.names[0]), gold)
    return list(kept.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerScore:
    """The metrics of one answer: `f1` from 0 to 1, with its precision and recall over items."""

    hit: bool
    exact: bool
    f1: float
    precision: float
    recall: float


NOTHING = AnswerScore(hit=False, exact=False, f1=0.0, precision=0.0, recall=0.0)


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


def score(answer: str, golds: Sequence[Gold], names: Iterable[str] = ()) -> AnswerScore:
    """Return the metrics of a given answer. `names`: names that an answer may have, such as the parts of its facts.

    >>> score("Finnish and Danish", [Gold("Finnish"), Gold("Swedish"), Gold("Sámi")])
    AnswerScore(hit=True, exact=False, f1=0.4, precision=0.5, recall=0.3333333333333333)
    >>> score("Yes, she was.", [Gold("true")]).exact
    True
    """
    golds = distinct(golds)
    if not golds or not normalise(answer):
        return NOTHING
    if all(_truth(gold.text) for gold in golds):
        right = _truth(answer, first=True) == _truth(golds[0].text)
        return AnswerScore(hit=True, exact=True, f1=1.0, precision=1.0, recall=1.0) if right else NOTHING
    names = tuple(names)
    said = items(answer, [*(name for gold in golds for name in gold.names), *names])
    found, wanted = match([gold.names for gold in golds], said)
    precision, recall = sum(wanted) / len(said), sum(found) / len(golds)
    around = without_known(answer, names)  # West Virginia is another state than Virginia
    hit = any(found) or any(contains(name, around) for gold in golds for name in gold.names)
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return AnswerScore(hit=hit, exact=all(found) and all(wanted), f1=f1, precision=precision, recall=recall)


def is_equal(answer: str, golds: Sequence[Gold]) -> bool:
    """Return whether an answer is the text of the gold answers, in their order and with commas between, but for case and a
    full stop at its end: the exact match of the paper.

    >>> golds = [Gold("Bern"), Gold("Zug")]
    >>> is_equal("bern, zug.", golds), is_equal("Zug, Bern", golds), is_equal("20 May 1990", [Gold("1990-05-20")])
    (True, False, False)
    """
    text, said = ", ".join(gold.text or next(iter(gold.names), "") for gold in golds).lower(), answer.strip().lower()
    return bool(text) and text in (said, said.removesuffix("."))


def kind_of_answer(golds: Sequence[Gold]) -> str:
    """Return the kind of a question's answer, as the paper has them: `yes or no`, `enumeration` (several gold answers),
    or `generic`; `not given` without gold answers.

    >>> [kind_of_answer([Gold(text) for text in some]) for some in (["No"], ["Bern", "Zug"], ["Bern", "bern"], [])]
    ['yes or no', 'enumeration', 'generic', 'not given']
    """
    if not golds:
        return "not given"
    if all(_truth(gold.text) for gold in golds):
        return "yes or no"
    return "generic" if len({normalise(gold.text) or gold.id for gold in golds}) == 1 else "enumeration"


def _truth(text: str, first: bool = False) -> str | None:
    words = normalise(text)
    if first and (second := _SECOND.match(text)) and second[1].isupper():
        return None
    return _TRUTH.get(words[0]) if words and (first or len(words) == 1) else None
