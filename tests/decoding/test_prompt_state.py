"""The state at the end of a prompt: a fact that the prompt leaves unfinished continues."""

from collections.abc import Sequence

import pytest
from support.tiny_model import ids, tiny_index

from refactx.decoding.machine import Machine
from refactx.decoding.states import Free, InFact, InTerminator, State

FACTS = ("<Ann> <p> <b>", "<Ann> <p> <c>", "<Ann> <q> <b>", "<Bé> <p> <b>")


FACT_B = (" <", "Ann", ">", " <", "p", ">", " <", "b", ">")


def machine(*facts: str, trigger: str = "Fact:", terminator: str = " .") -> Machine:
    return Machine(tiny_index(facts or FACTS, trigger=trigger, terminator=terminator))


class TestPrompt:
    def start(self, *pieces: str, padding: frozenset[int] | None = None) -> State:
        return machine().start(ids(*pieces), padding)

    def test_its_facts_do_not_count(self) -> None:
        m = machine("<Ann> <p> <b>")
        prompt = ids("Fact:", *FACT_B, " .", "\n")
        assert isinstance(m.start(prompt), Free)
        assert m.facts(prompt, len(prompt)) == []
        assert isinstance(m.run([*prompt, *ids("Fact:")], len(prompt)), InFact)

    @pytest.mark.parametrize(
        ("pieces", "prefix"),
        [
            (("Fact:",), ()),
            (("i", " Fact", ":\n"), ()),
            (("Fact:", " "), ()),
            (("Fact:", "\n", " "), ()),
            (("<pad>", "<pad>", "<s>", "Fact:"), ()),
            (("Fact:", "<pad>", "<pad>"), ()),
            (("Fact:", " <", "Ann"), (" <", "Ann")),
            (("Fact:", "\n", " <", "Ann"), (" <", "Ann")),
            (("Fact:", *FACT_B, " .", "Fact:", " <"), (" <",)),
            (("Fact:", "a", " Fact:", " <"), (" <",)),
            (("Fact:", *FACT_B), FACT_B),
        ],
    )
    def test_an_unfinished_fact_continues(self, pieces: Sequence[str], prefix: Sequence[str]) -> None:
        state = self.start(*pieces)
        assert isinstance(state, InFact)
        assert state.prefix == tuple(ids(*prefix))
        assert state.facts == ()

    @pytest.mark.parametrize("pieces", [("Fact:", " "), ("Fact:", "\n", " "), ("Fact:", " ", "<pad>")])
    def test_a_fact_after_a_space_begins_without_its_own(self, pieces: Sequence[str]) -> None:
        m, prompt = machine(), ids(*pieces)
        state = m.start(prompt)
        assert state != machine().start(ids("Fact:"))
        assert m.allowed(state).tolist() == ids("<")
        assert m.forced(state) == ids("<")[0]
        (fact,) = m.facts([*prompt, *ids("<", *FACT_B[1:], " .")], len(prompt))
        assert fact.text == "<Ann> <p> <b> ."
        assert fact.token_span[1] == len(pieces) + len(FACT_B) + 1

    @pytest.mark.parametrize("first", [" <", "<"])
    def test_a_prompt_may_have_one_space_or_two_before_a_fact(self, first: str) -> None:
        state = self.start("Fact:", " ", first, "Ann")
        assert isinstance(state, InFact)
        assert state.prefix == tuple(ids(" <", "Ann"))

    def test_a_fact_is_not_written_twice_after_a_space(self) -> None:
        m = machine("<Ann> <p> <b>", "<Ann> <p> <c>")
        prompt = ids("Fact:", " ")
        written = [*prompt, *ids("<", *FACT_B[1:], " .", "Fact:", *FACT_B[:-2])]
        assert m.allowed(m.run(written, len(prompt))).tolist() == ids("c")

    def test_an_unfinished_terminator_continues(self) -> None:
        state = self.start("Fact:", *FACT_B, " ")
        assert isinstance(state, InTerminator)
        assert state.done == 1

    @pytest.mark.parametrize(
        "pieces",
        [
            (),
            ("Fact:", *FACT_B, " ."),
            ("Fact:", *FACT_B, " .\n", "a"),
            ("Fact:", "a"),
            ("Fact:", " <", "a"),
            ("Fact:", " <", "\n"),
            ("in", "Fact:"),
            ("Fact", ":*"),
            ("Fact:", "<s>", "a"),
        ],
    )
    def test_a_finished_fact_or_one_off_the_tree_does_not(self, pieces: Sequence[str]) -> None:
        assert isinstance(self.start(*pieces), Free)

    def test_special_tokens_other_than_padding_end_it(self) -> None:
        padding = frozenset(ids("<pad>"))
        assert isinstance(self.start("Fact:", "</s>", padding=padding), Free)
        assert isinstance(self.start("Fact:", "<pad>", padding=padding), InFact)

    def test_a_trigger_inside_the_label_of_an_unfinished_fact_is_ignored(self) -> None:
        m = machine("<see Fact: one> <p> <b>")
        prompt = m.source.tokenizer.encode("Fact: <see Fact:")
        state = m.start(prompt)
        assert isinstance(state, InFact)
        assert len(state.prefix) == len(prompt) - 2

    def test_half_a_trigger_is_completed_by_the_continuation(self) -> None:
        m = machine()
        assert isinstance(m.run(ids("i", " Fact", ":"), 2), InFact)
        assert isinstance(m.run(ids("in", "Fact", ":"), 2), Free)

    def test_a_fact_that_begins_in_the_prompt_is_recorded(self) -> None:
        written = ids("i", " Fact:", *FACT_B, " .")
        (fact,) = machine().facts(written, 5)
        assert fact.token_span == (2, len(written))
