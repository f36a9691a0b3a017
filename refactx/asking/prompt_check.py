"""The check of a prompt against an index: models imitate the examples, so these must look like facts of the index."""

from typing import Protocol

from refactx.asking.prompt import Prompt
from refactx.errors import InputError
from refactx.fact import DESCRIPTIONS, Fact, LinkedFact, split_fact, verbalise, written_part


class CheckedIndex(Protocol):
    """The part of an index that the check needs."""

    name: str
    trigger: str
    terminator: str

    def __contains__(self, fact: object) -> bool:
        """Return whether the index has the fact."""
        ...

    def links(self, fact: Fact) -> LinkedFact:
        """Return the parts of the fact with their ids."""
        ...


def check_prompt(prompt: Prompt, index: CheckedIndex) -> list[str]:
    """Check that a prompt has the trigger of the index, and that its examples write facts in the form of the index.

    Returns warnings, one sentence each: for predicates that the index does not have, and for a trigger or marker that
    the prompt never shows. Raises InputError if the check fails; the message says what to write.
    """
    if prompt.trigger != index.trigger:
        raise InputError(
            f"the prompt's trigger is {prompt.trigger!r}, but that of index {index.name!r} is {index.trigger!r}: write "
            f"{index.trigger!r} as the prompt's trigger, and in its system text and examples"
        )
    _check_channel(prompt)
    facts = [fact for n, example in enumerate(prompt.examples, 1) for fact in _facts(example.answer, n, index)]
    unknown = dict.fromkeys(fact.predicate for fact in facts if not _known(fact, index))
    notes = []
    if unknown:
        notes.append(
            f"the prompt's examples have predicates that index {index.name!r} does not have "
            f"({', '.join(f'<{name}>' for name in unknown)}): examples with its own predicates give better answers "
            "(--prompt)"
        )
    shown = "\n".join([prompt.system, *(example.answer for example in prompt.examples)])
    for what, text in (("trigger", prompt.trigger), ("marker", prompt.marker)):
        if text not in shown:
            notes.append(f"the prompt never shows its {what} {text!r}, so the model may never write it")
    return notes


def _check_channel(prompt: Prompt) -> None:
    """Check that each line of `channel` with a fact has its subject, its predicate and a question. Raise InputError."""
    for line in filter(None, map(str.strip, prompt.channel.splitlines())):
        if not line.startswith(prompt.trigger):
            continue
        begun, asks, question = line.removeprefix(prompt.trigger).partition(prompt.asks)
        parts = split_fact(f"{begun} <object> .")
        expected = (
            "<subject> <predicate>" if parts is None else " ".join(f"<{written_part(part)}>" for part in parts[:2])
        )
        if parts is None or begun != f" {expected}" or not asks or not question.strip():
            raise InputError(
                f"the prompt's `channel` has {line!r}: write a fact up to its predicate and a question that it answers, "
                f"such as {f'{prompt.trigger} {expected}{prompt.asks} what is ...?'!r}"
            )


def _facts(answer: str, number: int, index: CheckedIndex) -> list[Fact]:
    """Return the facts of an example's answer: the text after the first trigger of a line. Raise InputError if one is
    not written as in the index."""
    facts = []
    for whole in answer.splitlines():
        _, found, rest = whole.rstrip().partition(index.trigger)
        if not found:
            continue
        parts = split_fact(rest)
        expected = f" <subject> <predicate> <object>{index.terminator}"
        if parts is not None:
            expected = verbalise(*map(written_part, parts)) + index.terminator
        if rest != expected:
            raise InputError(
                f"example {number} of the prompt has {index.trigger + rest!r}, which is not the form of facts in index "
                f"{index.name!r}: write {index.trigger + expected!r}"
            )
        subject, predicate, object_ = split_fact(expected) or ("", "", "")
        facts.append(Fact(subject, predicate, object_, expected.lstrip(), (0, 0)))
    return facts


def _known(fact: Fact, index: CheckedIndex) -> bool:
    if fact.predicate in DESCRIPTIONS or fact.text in index:
        return True
    return index.links(fact).predicate.id is not None
