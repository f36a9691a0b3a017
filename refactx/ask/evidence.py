"""The facts of an answer in one list: first those that prove it, then those that were only tried."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from refactx.fact import LinkedFact, label_of
from refactx.linking.names import bare_name, unaccented
from refactx.selection.mentions import words_of
from refactx.walks.answered import AnsweredQuery
from refactx.walks.values import TRUTH

SEPARATOR = ";"
"""The separator of names in an answer that lists several, as in the prompts' examples."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A fact of an answer. `proves`: whether the answer follows from it, maybe with others; else it was only tried."""

    fact: LinkedFact
    proves: bool

    @property
    def text(self) -> str:
        """The fact as it is written, with its terminator."""
        return text_of(self.fact)


def evidence_of(
    answer: str, facts: Iterable[LinkedFact], queries: Sequence[AnsweredQuery], *, unknown: bool = False
) -> tuple[Evidence, ...]:
    """Return the facts of an answer, each once: those that say it, those that lead to these, and those that were only tried.

    `facts`: those in its text; `queries`: the queries that it has: the facts of the last one prove its result. `unknown`:
    whether the answer is that the facts do not tell.

    >>> from refactx.fact import Link
    >>> born = LinkedFact(Link("Danny Boyle"), Link("date of birth"), "1956-10-20")
    >>> directed = LinkedFact(Link("Slumdog Millionaire"), Link("director"), Link("Danny Boyle"))
    >>> capital = LinkedFact(Link("Peru"), Link("capital"), Link("Lima"))
    >>> found = evidence_of("1956-10-20", [capital, directed, born], ())
    >>> [(one.text, one.proves) for one in found]  # doctest: +NORMALIZE_WHITESPACE
    [('<Danny Boyle> <date of birth> <1956-10-20> .', True), ('<Slumdog Millionaire> <director> <Danny Boyle> .', True),
     ('<Peru> <capital> <Lima> .', False)]
    """
    written = list({text_of(fact): fact for fact in facts}.values())
    says = () if unknown or not answer else _saying(answer, written)
    proof = list(_leading(says, written))
    if queries and not unknown and queries[-1].answer == answer:
        of_query = list({text_of(fact): fact for fact in queries[-1].facts}.values())
        proof = sorted(of_query, key=lambda fact: not _is_value(fact, answer))
    known = {text_of(fact) for fact in proof}
    return (
        *(Evidence(fact, proves=True) for fact in proof),
        *(Evidence(fact, proves=False) for fact in written if text_of(fact) not in known),
    )


def text_of(fact: LinkedFact) -> str:
    """Return a fact as it is written, with its terminator."""
    return f"{fact.text} ."


def parts_of(fact: LinkedFact) -> tuple[str, str, str]:
    """Return the names of a fact's subject, predicate and object."""
    return fact.subject.label, fact.predicate.label, label_of(fact.object)


def _saying(answer: str, facts: Sequence[LinkedFact]) -> Sequence[LinkedFact]:
    """Return the facts that say an answer: with one of its values as an object, else as a subject; else with most words of
    their object in it, as where a date is written otherwise. Of yes, no, and a number of facts: those of the last subject
    and predicate, so many."""
    if found := [fact for fact in facts if _is_value(fact, answer)]:
        return found
    if found := [fact for fact in facts if unaccented(bare_name(fact.subject.label)) in _values(answer)]:
        return found
    last: Sequence[LinkedFact] = [
        fact for fact in facts if (fact.subject, fact.predicate) == (facts[-1].subject, facts[-1].predicate)
    ]
    bare = answer.strip(" .").lower()
    if bare in TRUTH:
        return last
    if bare.isdecimal() and any(fact.qualifiers for fact in facts):
        return [fact for fact in facts if fact.qualifiers]
    if bare.isdecimal():
        return next((some for some in (last, facts) if len(some) == int(bare)), [])
    said = set(words_of(answer))
    return [fact for fact in facts if (words := words_of(_object(fact))) and 2 * len(said & set(words)) >= len(words)]


def _object(fact: LinkedFact) -> str:
    return bare_name(parts_of(fact)[2])


def _is_value(fact: LinkedFact, answer: str) -> bool:
    """Return whether an answer has the object of a fact, or the value of a qualifier."""
    values = [_object(fact), *(bare_name(label_of(value)) for _, value in fact.qualifiers)]
    return not _values(answer).isdisjoint(map(unaccented, values))


def _values(answer: str) -> set[str]:
    """Return the values of an answer as they are compared, and all of it: a value may have a separator.

    >>> sorted(_values("Rome; Oslo."))
    ['oslo', 'oslo.', 'rome', 'rome; oslo', 'rome; oslo.']
    """
    texts = [text.strip() for text in (answer, *answer.split(SEPARATOR))]
    return {unaccented(one) for text in texts for one in (text, text.rstrip(" .")) if one}


def _leading(proof: Sequence[LinkedFact], facts: Sequence[LinkedFact]) -> Iterator[LinkedFact]:
    """Yield facts, and after them those whose objects are their subjects, and so on."""
    found, wanted = list(proof), {fact.subject.label for fact in proof}
    yield from proof
    while more := [fact for fact in facts if fact not in found and parts_of(fact)[2] in wanted]:
        yield from more
        found += more
        wanted = {fact.subject.label for fact in more}
