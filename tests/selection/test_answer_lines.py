"""Drafts of the answer's line after facts, from any place in it."""

from collections.abc import Sequence

import numpy as np
import pytest
from support.channel_runs import ALWAYS, channel
from support.tiny_model import FACTS, prompts, tiny_index, tiny_model, tiny_tokenizer

from refactx.ask.grounded import ground
from refactx.decoding.machine import Machine
from refactx.decoding.states import Free, InFact, State
from refactx.selection.answer_lines import AnswerLines, up_to_object
from refactx.selection.channel import Channel


def end_of_fact(marker: str, machine: Machine, state: State) -> Sequence[int]:
    return AnswerLines(machine, Channel(examples=(), question=(), lead=0, marker=marker)).end_of_fact(state)


class TestLines:
    machine = Machine(tiny_index([*FACTS, "<Bo (n)> <p> <x (y) z>"]))
    ANN = "Fact: <Ann> <p> <b> .\nFact: <Ann> <p> <c> .\n"

    def draft(self, text: str, marker: str = "Answer:", evidence: float | None = None) -> str:
        ids = self.machine.source.tokenizer.encode(text)
        state = self.machine.run(ids, 0)
        channel = Channel(examples=(), question=(), lead=0, marker=marker, unknown="no")
        if evidence is not None:
            channel.evidence.update({up_to_object(self.machine, fact.tokens): evidence for fact in state.facts})
        return self.machine.source.tokenizer.decode(AnswerLines(self.machine, channel).draft(state, np.array(ids)))

    @pytest.mark.parametrize(
        ("text", "following"),
        [
            (ANN, "Answer: b; c"),
            (f"{ANN}Fact: <Bo (n)> <p> <x (y) z> .  \n", "Answer: b; c; x"),
            (f"{ANN}Ans", "wer: b; c"),
            (f"{ANN}Answer:", " b; c"),
            (f"{ANN}Answer: b;", " c"),
            (f"{ANN}Answer: c", ""),
            (f"{ANN}Answer: b,", ""),
            (f"{ANN}Answer: in", ""),
            (f"{ANN}Answer: b\n", ""),
            (f"{ANN}so", ""),
            (f"{ANN}Fact: <Ann> <q> <b>", ""),
            ("Fact: <Ann> <q> <b> .", ""),
            ("Answer:", ""),
            ("hello\n", ""),
        ],
    )
    def test_drafts_are_the_answer_from_where_it_is(self, text: str, following: str) -> None:
        assert self.draft(text) == following
        assert not self.draft(text, marker="")

    def test_drafts_are_the_unknown_answer_if_no_fact_answers(self) -> None:
        assert self.draft(self.ANN, evidence=3.9) == "Answer: no"
        assert self.draft(self.ANN, evidence=4.1) == "Answer: b; c"

    @pytest.mark.parametrize(
        ("text", "ids"),
        [
            ("a Fact: <Ann> <p> <b>", " ."),
            ("a Fact: <Ann> <p> <b", ""),
            ("a Fact: <Ann> <p> <", ""),
            ("a Fact: <Ann> <p> <b> .", ""),
            ("hello", ""),
        ],
    )
    def test_end_a_fact_that_continues_in_no_other(self, text: str, ids: str) -> None:
        state = self.machine.run(self.machine.source.tokenizer.encode(text), 0)
        assert self.machine.source.tokenizer.decode(end_of_fact("Answer:", self.machine, state)).rstrip("\n") == ids
        assert not end_of_fact("", self.machine, state)

    def test_leave_one_that_may_continue_to_the_model(self) -> None:
        machine = Machine(tiny_index(["<Ann> <p> <b>", "<Ann> <p> <b> c>"]))
        state = machine.run(machine.source.tokenizer.encode("Fact: <Ann> <p> <b>"), 0)
        assert isinstance(state, InFact)
        assert state.children.terminal
        assert not end_of_fact("Answer:", machine, state)
        ended = machine.run(machine.source.tokenizer.encode("Fact: <Ann> <p> <b> ."), 0)
        assert isinstance(ended, Free)


class TestRoom:
    """Facts end while there is room for the answer."""

    LISTED = tuple(f"<Ann> <p> <{'b' * count}>" for count in range(1, 7))

    def text(self, room: int, facts: Sequence[str]) -> str:
        index = tiny_index(facts)
        grounded, prompt = ground(tiny_model(), tiny_tokenizer(), index), prompts("a Fact:")
        length, chosen = (
            prompt["input_ids"].shape[1],
            channel(index, room=room, another_fact_gain=ALWAYS, facts_of_property=5),
        )
        out = grounded.generate(**prompt, channel=chosen, max_new_tokens=room, do_sample=False)[0].tolist()
        return index.tokenizer.decode(out[length:])

    @pytest.mark.parametrize("facts", [LISTED, FACTS])
    def test_an_answer_follows_facts_however_little_there_is(self, facts: Sequence[str]) -> None:
        """The tiny model does not write it, but there is room for its names."""
        encode, counts = tiny_index(facts).tokenizer.encode, set[int]()
        for room in range(40, 200, 7):
            written, marker, _ = self.text(room, facts).partition("Answer:")
            objects = [line.rpartition("<")[2].partition(">")[0] for line in written.strip().split("\n")]
            assert marker
            assert len(encode(f"{written}{marker} {'; '.join(objects)}")) < room
            counts.add(len(objects))
        assert counts >= {1, 2, 3, 4}
