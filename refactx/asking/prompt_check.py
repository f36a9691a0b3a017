"""Whether a prompt and an index go together: models copy the examples, so these have to look like the index's facts."""

from typing import Protocol

from refactx.asking.prompt import Prompt
from refactx.errors import InputError
from refactx.fact import DESCRIPTIONS, Fact, split_fact, verbalise, written_part
from refactx.index.links import LinkedFact


class CheckedIndex(Protocol):
    """What the check needs of an index."""

    name: str
    trigger: str
    terminator: str

    def __contains__(self, fact: object) -> bool:
        """Whether it has the fact."""
        ...

    def links(self, fact: Fact) -> LinkedFact:
        """The ids of the fact's parts."""
        ...


def check_prompt(prompt: Prompt, index: CheckedIndex) -> list[str]:
    """See that a prompt's trigger is the index's, and that the facts of its examples are in the index's form.

    Returns what is not wrong but worth knowing, a sentence each: predicates that the index does not know, and a trigger or
    marker that the prompt never shows. Raises InputError, which says what to write instead.
    """
    if prompt.trigger != index.trigger:
        raise InputError(
            f"the prompt's trigger is {prompt.trigger!r}, and that of index {index.name!r} is {index.trigger!r}: write that "
            "into the prompt, as its trigger and in its system text and examples"
        )
    _check_channel(prompt)
    facts = [fact for n, example in enumerate(prompt.examples, 1) for fact in _facts(example.answer, n, index)]
    unknown = dict.fromkeys(fact.predicate for fact in facts if not _known(fact, index))
    notes = []
    if unknown:
        notes.append(
            f"the prompt's examples have predicates that index {index.name!r} does not know "
            f"({', '.join(f'<{name}>' for name in unknown)}): examples with its own make better answers (--prompt)"
        )
    shown = "\n".join([prompt.system, *(example.answer for example in prompt.examples)])
    for what, text in (("trigger", prompt.trigger), ("marker", prompt.marker)):
        if text not in shown:
            notes.append(f"the prompt never shows its {what} {text!r}, so the model may never write it")
    return notes


def _check_channel(prompt: Prompt) -> None:
    """Each line of `channel` that begins as a fact goes on with a subject and a predicate, and ends with a question."""
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
                f"the prompt's `channel` has {line!r}, which is not a fact as far as its predicate with the question that it "
                f"answers: write {f'{prompt.trigger} {expected}{prompt.asks} what is ...?'!r}"
            )


def _facts(answer: str, number: int, index: CheckedIndex) -> list[Fact]:
    """The facts of an example's answer: what stands behind a line's first trigger, up to its end."""
    facts = []
    for whole in answer.splitlines():
        _, found, behind = whole.rstrip().partition(index.trigger)
        if not found:
            continue
        parts = split_fact(behind)
        expected = f" <subject> <predicate> <object>{index.terminator}"
        if parts is not None:
            expected = verbalise(*map(written_part, parts)) + index.terminator
        if behind != expected:
            raise InputError(
                f"example {number} of the prompt has {index.trigger + behind!r}, which is not how facts of index "
                f"{index.name!r} are written: write {index.trigger + expected!r}"
            )
        subject, predicate, object_ = split_fact(expected) or ("", "", "")
        facts.append(Fact(subject, predicate, object_, expected.lstrip(), (0, 0)))
    return facts


def _known(fact: Fact, index: CheckedIndex) -> bool:
    if fact.predicate in DESCRIPTIONS or fact.text in index:
        return True
    return index.links(fact).predicate.id is not None
