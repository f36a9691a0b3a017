"""The guess at an answer that lists what its facts name, wherever the model is in it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.tiny_model import FACTS, tiny_index

from refactx.choosing.answer_draft import listed
from refactx.choosing.answer_lines import Lines, _until_object
from refactx.decoding.machine import Free, InFact, Machine

NAMES = st.lists(st.text("abc d", min_size=1).map(str.strip).filter(bool), max_size=5)


@given(NAMES, st.data(), st.sampled_from(["; ", ", "]))
def test_a_list_in_order_is_guessed_from_any_place_in_it(names: list[str], data: st.DataObject, separator: str) -> None:
    names = [name for n, name in enumerate(names) if not any(name in other or other in name for other in names[:n])]
    whole = " " + separator.join(names) if names else ""
    written = whole[: data.draw(st.integers(0, len(whole)))]
    usual = separator[0] in written or separator == "; "  # the one that it goes on with
    assert written + listed(written, names) == (whole if usual else whole.replace(", ", "; "))


@given(st.text("ab ;,and"), NAMES)
def test_whatever_is_written_what_is_guessed_are_names_that_it_has_not(written: str, names: list[str]) -> None:
    more = listed(written, names)
    assert not more or any(name in written + more for name in names)
    assert more.count("; ") + more.count(", ") <= len(set(names))


@pytest.mark.parametrize(
    ("written", "more"),
    [
        (" Rome, and", " Oslo, Bonn"),
        (" Rome and ", "Oslo; Bonn"),
        (" Bonn; Rome", "; Oslo"),
        (" Rome; Oslo; Bonn", ""),
        (" Paris", ""),
        (" Paris;", " Rome; Oslo; Bonn"),
        (" Romeo", ""),
    ],
)
def test_one_that_leaves_out_or_adds_is_followed(written: str, more: str) -> None:
    assert listed(written, ["Rome", "Oslo", "Bonn", "Oslo"]) == more
    assert not listed(written, [])


class TestLines:
    machine = Machine(tiny_index([*FACTS, "<Bo (n)> <p> <x (y) z>"]))
    ANN = "Fact: <Ann> <p> <b> .\nFact: <Ann> <p> <c> .\n"

    def draft(self, text: str, marker: str = "Answer:", told: float | None = None) -> str:
        ids = self.machine.source.tokenizer.encode(text)
        state, lines = self.machine.run(ids, 0), Lines(marker, "no", 6, 4.0, 4.0)
        if told is not None:
            lines.told = {_until_object(self.machine, fact.tokens): told for fact in state.facts}
        return self.machine.source.tokenizer.decode(lines.draft(self.machine, state, np.array(ids)))

    @pytest.mark.parametrize(
        ("text", "behind"),
        [
            (ANN, "Answer: b; c"),
            (f"{ANN}Fact: <Bo (n)> <p> <x (y) z> .  \n", "Answer: b; c; x"),
            (f"{ANN}Ans", "wer: b; c"),
            (f"{ANN}Answer:", " b; c"),
            (f"{ANN}Answer: c", "; b"),
            (f"{ANN}Answer: b,", " c"),
            (f"{ANN}Answer: in", ""),
            (f"{ANN}Answer: b\n", ""),
            (f"{ANN}so", ""),
            (f"{ANN}Fact: <Ann> <q> <b>", ""),
            ("Fact: <Ann> <q> <b> .", ""),
            ("Answer:", ""),
            ("hello\n", ""),
        ],
    )
    def test_guess_the_answer_from_where_it_is(self, text: str, behind: str) -> None:
        assert self.draft(text) == behind
        assert not self.draft(text, marker="")

    def test_guess_that_nobody_knows_where_no_fact_tells(self) -> None:
        assert self.draft(self.ANN, told=3.9) == "Answer: no"
        assert self.draft(self.ANN, told=4.1) == "Answer: b; c"

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
    def test_end_a_fact_that_goes_on_in_no_other(self, text: str, ids: str) -> None:
        state = self.machine.run(self.machine.source.tokenizer.encode(text), 0)
        end = Lines("Answer:", "", 6, 4.0, 4.0).end(self.machine, state)
        assert self.machine.source.tokenizer.decode(end).rstrip("\n") == ids
        assert not Lines("", "", 6, 4.0, 4.0).end(self.machine, state)

    def test_leave_one_that_may_go_on_to_the_model(self) -> None:
        machine = Machine(tiny_index(["<Ann> <p> <b>", "<Ann> <p> <b> c>"]))
        state = machine.run(machine.source.tokenizer.encode("Fact: <Ann> <p> <b>"), 0)
        assert isinstance(state, InFact)
        assert state.children.terminal
        assert not Lines("Answer:", "", 6, 4.0, 4.0).end(machine, state)
        ended = machine.run(machine.source.tokenizer.encode("Fact: <Ann> <p> <b> ."), 0)
        assert isinstance(ended, Free)
