"""The state machine and the mask, token by token, on a tiny tokenizer and trees in memory."""

import logging
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tiny_model import MemoryIndex, allowed_by_brute_force, ids, tiny_fact_tokenizer, tiny_index

from refactx.decoding.machine import Machine
from refactx.decoding.states import Dead, Free, InFact, State
from refactx.errors import ModelError
from refactx.fact import verbalise

FACTS = ("<Ann> <p> <b>", "<Ann> <p> <c>", "<Ann> <q> <b>", "<Bé> <p> <b>")


FACT_B = (" <", "Ann", ">", " <", "p", ">", " <", "b", ">")


FACT_C = (" <", "Ann", ">", " <", "p", ">", " <", "c", ">")


def machine(*facts: str, trigger: str = "Fact:", terminator: str = " .") -> Machine:
    return Machine(tiny_index(facts or FACTS, trigger=trigger, terminator=terminator))


def generated(machine: Machine, *pieces: str) -> State:
    """The state after these tokens without a prompt."""
    return machine.run(ids(*pieces), 0)


def may_follow(machine: Machine, state: State) -> set[str]:
    tokens = machine.allowed(state)
    assert tokens is not None
    return {machine.source.tokenizer.decode([number]) for number in tokens.tolist()}


class TestTrigger:
    @pytest.mark.parametrize(
        "pieces",
        [
            ("Fact:",),
            ("Fact", ":"),
            ("F", "a", "c", "t", ":"),
            (" Fact", ":"),
            (" Fact:",),
            ("\nFact:",),
            ("i", " Fact:"),
            ("Fact", ":\n"),
            ("Fa", "<pad>", "ct", ":"),
            (".", "Fact:"),
        ],
    )
    def test_starts_a_fact_in_any_tokenization(self, pieces: Sequence[str]) -> None:
        m = machine()
        state = generated(m, *pieces)
        assert state == InFact(prefix=(), start=len(pieces))
        assert may_follow(m, state) == {" <"}

    @pytest.mark.parametrize(
        "pieces",
        [
            ("Fact",),
            ("in", "Fact:"),
            ("i", "Fact", ":"),
            ("Fact", ":*"),
            ("Fact", " ", ":"),
            ("Fact", ":*", "\n"),
            ("in", "Fact:", "\n", "\n", "\n", "\n", "\n", "\n"),
            ("<pad>",),
            (),
        ],
    )
    def test_nothing_else_does(self, pieces: Sequence[str]) -> None:
        m = machine()
        state = generated(m, *pieces)
        assert isinstance(state, Free)
        assert m.allowed(state) is None

    def test_a_letter_of_several_bytes_makes_it_part_of_a_word(self) -> None:
        m = machine()
        tokens = m.source.tokenizer.encode("é")
        assert len(tokens) == 2
        assert isinstance(m.run([*tokens, *ids("Fact:")], 0), Free)
        assert isinstance(m.run([tokens[1], *ids("Fact:")], 0), InFact)  # half a letter is not a letter

    def test_other_triggers_may_be_set(self) -> None:
        m = machine(trigger="é")
        assert isinstance(m.run(m.source.tokenizer.encode("Fact: é"), 0), InFact)
        assert isinstance(generated(m, "Fact:"), Free)

    def test_ids_beyond_the_vocabulary_have_no_text(self) -> None:
        m = machine()
        assert isinstance(m.run([*ids("Fact"), 100_000, *ids(":")], 0), InFact)


class TestFact:
    def test_only_the_tree_decides_inside(self) -> None:
        m = machine()
        assert may_follow(m, generated(m, "Fact:", " <")) == {"Ann", "B"}
        assert may_follow(m, generated(m, "Fact:", " <", "Ann", ">", " <")) == {"p", "q"}

    def test_it_may_end_with_any_token_that_writes_the_terminator(self) -> None:
        m = machine()
        assert may_follow(m, generated(m, "Fact:", *FACT_B)) == {" .", " .\n", " .\n\n"}
        assert may_follow(m, generated(m, "Fact:", *FACT_B, " ")) == {".", ".\n", ".\n\n"}

    def test_it_may_end_with_a_part_of_a_terminator_that_no_token_writes(self) -> None:
        m = machine(terminator=" !")
        assert may_follow(m, generated(m, "Fact:", *FACT_B)) == {" "}
        assert may_follow(m, generated(m, "Fact:", *FACT_B, " ")) == {"!"}

    @pytest.mark.parametrize("terminator", [(" .",), (" ", "."), (" .\n",), (" .\n\n",), (" ", ".\n")])
    def test_the_terminator_completes_it_and_free_text_follows(self, terminator: Sequence[str]) -> None:
        m = machine()
        written = ids("i", " Fact:", *FACT_B, *terminator)
        state = m.run(written, 0)
        assert isinstance(state, Free)
        (fact,) = m.facts(written, 0)
        assert (fact.subject, fact.predicate, fact.object, fact.text) == ("Ann", "p", "b", "<Ann> <p> <b> .")
        assert fact.token_span == (2, len(written))

    def test_a_trigger_may_follow_at_once(self) -> None:
        m = machine()
        state = generated(m, "Fact:", *FACT_B, " .", "Fact", ":")
        assert isinstance(state, InFact)
        state = generated(machine(trigger="\nFact:"), "\nFact:", *FACT_B, " .\n", "Fact:")
        assert isinstance(state, InFact)  # the terminator's own line break belongs to the trigger

    def test_a_text_that_is_cut_off_inside_a_fact_has_only_the_complete_facts(self) -> None:
        m = machine()
        assert m.facts(ids("Fact:", *FACT_B), 0) == []
        assert m.facts(ids("Fact:", *FACT_B, " "), 0) == []
        assert len(m.facts(ids("Fact:", *FACT_B, " .", "Fact:", " <", "B"), 0)) == 1

    def test_a_fact_that_continues_another_is_distinguished(self) -> None:
        m = Machine(_PrefixIndex())
        state = generated(m, "Fact:", "a", "b")
        assert may_follow(m, state) == {"c", " .", " .\n", " .\n\n"}
        again = ("Fact:", "a", "b", " .", "Fact:", "a", "b")
        assert may_follow(m, generated(m, *again)) == {"c"}
        other = ("Fact:", "a", "b", "c", " .", "Fact:", "a", "b")
        assert may_follow(m, generated(m, *other)) == {" .", " .\n", " .\n\n"}

    def test_a_token_that_is_in_the_tree_and_in_the_terminator_continues_in_the_tree(self) -> None:
        m = Machine(_PrefixIndex())
        assert generated(m, "Fact:", "a", " ") == InFact(prefix=tuple(ids("a", " ")), start=1)
        assert m.run(ids("Fact:", "a", " ", "."), 0) == Dead()


class TestOnlyOnce:
    def test_a_written_fact_and_an_exhausted_prefix_are_not_allowed(self) -> None:
        m = machine("<Ann> <p> <b>", "<Ann> <p> <c>", "<Bo> <p> <c>")
        after_one = ("Fact:", *FACT_B, " .", "Fact:")
        assert may_follow(m, generated(m, *after_one, " <", "Ann", ">", " <", "p", ">", " <")) == {"c"}
        after_two = (*after_one, *FACT_C, " .", "Fact:")
        assert may_follow(m, generated(m, *after_two, " <")) == {"B"}
        assert isinstance(generated(m, *after_two, " <", "Ann"), Dead)

    def test_an_exhausted_index_no_longer_constrains_and_logs_one_warning(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        m = machine("<Ann> <p> <b>")
        with caplog.at_level(logging.WARNING):
            assert isinstance(generated(m, "Fact:", *FACT_B, " .", "Fact:"), Free)
            assert isinstance(generated(m, "Fact:", *FACT_B, " .", "Fact:", "a", " Fact:"), Free)
        assert [r.levelname for r in caplog.records if "all facts" in r.message] == ["WARNING"]

    @pytest.mark.parametrize(
        ("prompt", "is_logged"),
        [
            (("Fact:", " <", "c"), True),
            (("Fact:", " <", "Ann", ">", " <", "a"), True),
            (("Fact:", *FACT_B, " .", " Fact:", " <", "c"), True),
            (("Fact:", " <", "Ann", ">", " <", "p"), False),  # it continues
            (("Fact:", " <", "c", ">", " ."), False),  # whole
            (("Fact:", " <", "c", "\n", "a"), False),  # text after it
            (("Fact:", "a"), False),
        ],
    )
    def test_an_unfinished_text_that_begins_no_fact_is_logged_once(
        self, prompt: tuple[str, ...], is_logged: bool, caplog: pytest.LogCaptureFixture
    ) -> None:
        m = machine()
        with caplog.at_level(logging.WARNING):
            states = [m.start(ids(*prompt)) for _ in range(3)]
        assert ["unfinished" in record.message for record in caplog.records] == [True] * is_logged
        assert isinstance(states[0], Free) or not is_logged

    def test_an_empty_index_never_constrains(self) -> None:
        m = Machine(MemoryIndex(tiny_fact_tokenizer(), []))
        assert isinstance(generated(m, "Fact:"), Free)
        assert isinstance(m.start(ids("Fact:")), Free)


class TestOffTheTree:
    @pytest.mark.parametrize("wrong", ["a", " .", "</s>", "<pad>", " "])
    def test_nothing_may_follow_ever(self, wrong: str) -> None:
        m = machine()
        state = generated(m, "Fact:", wrong)
        assert isinstance(state, Dead)
        assert may_follow(m, state) == set()
        assert isinstance(generated(m, "Fact:", wrong, "Fact:", *FACT_B, " ."), Dead)

    def test_in_the_terminator_too(self) -> None:
        m = machine()
        assert isinstance(generated(m, "Fact:", *FACT_B, " ", " "), Dead)

    def test_facts_completed_before_remain(self) -> None:
        assert len(machine().facts(ids("Fact:", *FACT_B, " .", "Fact:", "a"), 0)) == 1


class TestConstruction:
    def test_a_terminator_that_no_tokens_write_is_refused(self) -> None:
        index = tiny_index(FACTS)
        index.tokenizer = _Without(index.tokenizer, b".")
        with pytest.raises(ModelError, match="terminator"):
            Machine(index)

    @pytest.mark.parametrize("options", [{"trigger": ""}, {"terminator": ""}])
    def test_empty_marks_are_refused(self, options: dict[str, str]) -> None:
        with pytest.raises(ModelError, match="empty"):
            machine(**options)


class _PrefixIndex(MemoryIndex):
    """Token sequences that are prefixes of others, and one with a space as a separate token."""

    def __init__(self) -> None:
        super().__init__(tiny_fact_tokenizer(), [])
        self.sequences = frozenset(tuple(ids(*s)) for s in (("a", "b"), ("a", "b", "c"), ("a",), ("a", " ", "c")))
        self._tree = type(self._tree)(self.sequences)


class _Without(type(tiny_fact_tokenizer())):  # type: ignore[misc]
    """The tiny tokenizer without the tokens that have a given byte."""

    def __init__(self, whole: object, byte: bytes) -> None:
        super().__init__(whole.serialized)  # type: ignore[attr-defined]
        self.token_bytes = [b"" if byte in piece else piece for piece in whole.token_bytes]  # type: ignore[attr-defined]


PART = st.sampled_from(["Ann", "b", "p", "Fact:", "in", ".", "é", " "]).map(lambda part: part.strip() or "x")


PAIRS = st.lists(st.tuples(PART, PART), max_size=2)


SOME_FACTS = st.sets(
    st.tuples(PART, PART, PART, PAIRS).map(lambda f: verbalise(*f[:3], tuple(f[3])).lstrip()), min_size=1, max_size=5
)


@settings(deadline=None)
@given(SOME_FACTS, st.lists(st.integers(0, 999), max_size=120), st.integers(0, 9))
def test_the_mask_is_the_brute_force_one_along_any_walk(facts: set[str], choices: list[int], stray: int) -> None:
    index = tiny_index(facts)
    m = Machine(index)
    favourites = ids("Fact:", "Fact", ":", " Fact:", ":\n", ":*", "in", " ", "\n", "<pad>", "a")
    written: list[int] = []
    state: State = m.start([])
    for choice in choices:
        expected = allowed_by_brute_force(index, written)
        tokens = m.allowed(state)
        assert (None if tokens is None else set(tokens.tolist())) == expected
        if tokens is None or (choice % 100 == stray and tokens.size):  # sometimes a step off the tree
            number = favourites[choice % len(favourites)]
        elif tokens.size:
            number = int(tokens[choice % len(tokens)])
        else:
            break
        state = m.advance(state, number, len(written))
        written.append(number)
    assert m.run(written, 0) == state
    texts = [fact.text for fact in m.facts(written, 0)]
    assert len(texts) == len(set(texts))
    assert {text.removesuffix(" .") for text in texts} <= index.facts
