"""An alias leads to those who have it, by their own names in the tree, and never to one without facts."""

import pytest
from support.tiny_model import MemoryIndex, one_thread, tiny_index  # noqa: F401
from test_candidates import EVERY, found, shown
from test_channel_tokenizers import joining_tokenizer

from refactx.choosing import namesakes as module
from refactx.choosing.answer_lines import after
from refactx.choosing.namesakes import Namesake, namesakes
from refactx.decoding.machine import InFact, Machine
from refactx.tokenizer import FactTokenizer

FACTS = (
    *(f"<Ann (n)> <p> <{letter}>" for letter in "bcd"),
    "<Bé> <p> <b>",
    "<Bé> <q> <b>",
    "<Bo (b)> <p> <b>",
)
ALIASES = ("<in (alias)> <alias of> <Ann (n)>", "<in (alias)> <alias of> <Bé>", "<Bo (alias)> <alias of> <Ann (n)>")


@pytest.mark.parametrize("text", ["a Fact:", "a Fact: <"])
@pytest.mark.parametrize("seed", range(3))
def test_every_subject_is_found_by_its_name_or_an_alias_and_no_alias_is_one(text: str, seed: int) -> None:
    index = tiny_index((*FACTS, *ALIASES))
    some, _, state = found(index, text, seed, EVERY)
    assert set(shown(index, state, some)) == {"<Ann (n)>", "<Bo (b)>", "<Bé>"}
    for one, name in zip(some, shown(index, state, some), strict=True):
        assert one.state.children.total == sum(fact.startswith(name) for fact in FACTS)


def meant(index: MemoryIndex, name: str, most: int = 9, begun: str = "", text: str = "Fact:") -> dict[str, Namesake]:
    """Who may be meant by a name, in order; the text of the subject has `begun`, behind some text."""
    machine, encode = Machine(index), index.tokenizer.encode
    ids = tuple(index.tokenizer.encode_after("Fact:", f" <{name}"))
    head = tuple(encode(begun))
    assert ids[: len(head)] == head
    begin = machine.run(encode(text), 0)
    start, state = after(machine, begin, head), after(machine, begin, ids)
    assert isinstance(start, InFact) and isinstance(state, InFact)
    some = namesakes(machine, start, ids[len(head) :], state, most)
    for one in some:
        assert after(machine, start, one.ids) == one.state
    return {index.tokenizer.decode((*head, *one.ids)).strip()[1:-1]: one for one in some}


def shares(index: MemoryIndex, name: str, begun: str = "") -> dict[str, float]:
    return {called: one.share for called, one in meant(index, name, begun=begun).items()}


@pytest.mark.parametrize("begun", ["", " <"])
def test_shares_are_of_the_facts_of_all_who_have_the_name(begun: str) -> None:
    index = tiny_index((*FACTS, *ALIASES))
    assert shares(index, "in (", begun=begun) == pytest.approx({"Ann (n)": 3 / 5, "Bé": 2 / 5})
    assert shares(index, "Bo (", begun=begun) == pytest.approx({"Ann (n)": 3 / 4, "Bo (b)": 1 / 4})
    assert shares(index, "Ann (", begun=begun) == {"Ann (n)": 1}
    assert shares(index, "Bé>", begun=begun) == {"Bé": 1}


def test_those_with_most_facts_come_first_and_no_more_than_are_wanted() -> None:
    index = tiny_index((*FACTS, *ALIASES))
    assert list(meant(index, "in (", most=1)) == ["Ann (n)"]
    assert list(meant(index, "Bo (", most=1)) == ["Ann (n)"]
    assert list(meant(index, "in (", most=2)) == ["Ann (n)", "Bé"]


def test_who_has_no_fact_left_is_not_meant() -> None:
    index = tiny_index((*FACTS, *ALIASES))
    told = "Fact: <Bé> <p> <b> .\nFact: <Bé> <q> <b> .\nFact:"
    assert list(meant(index, "in (", text=told)) == ["Ann (n)"]


def test_an_alias_whose_name_goes_on_in_brackets_leads_on_too() -> None:
    index = tiny_index((*FACTS, "<in (b) (alias)> <alias of> <Bé>", "<in (alias)> <alias of> <Ann (n)>"))
    assert {name: one.alias for name, one in meant(index, "in (").items()} == {"Ann (n)": "in", "Bé": "in (b)"}
    assert {name: one.alias for name, one in meant(index, "in (b) (").items()} == {"Bé": "in (b)"}
    assert {name: one.alias for name, one in meant(index, "Ann (").items()} == {"Ann (n)": ""}


def test_who_has_no_facts_at_all_leaves_the_alias_itself() -> None:
    """A text that has begun with the alias can go on with nothing else."""
    index = tiny_index((*FACTS, "<in (alias)> <alias of> <c>", *ALIASES[2:]))
    assert list(shares(index, "in (")) == ["in (alias)"]
    assert list(shares(index, "Bo (", begun=" <Bo")) == ["Bo (alias)", "Bo (b)"]


def test_of_many_with_one_alias_some_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHARED_BY", 2)
    many = [f"<{a}{b}>" for a in "abc" for b in "pq"]
    index = tiny_index([*(f"{one} <p> <b>" for one in many), *(f"<in (alias)> <alias of> {one}" for one in many)])
    assert len(shares(index, "in (")) == 2


@pytest.mark.parametrize("kind", ["byte level", "sentence piece"])
def test_tokenizers_whose_ids_join_a_name_to_what_follows_it(kind: str) -> None:
    index = MemoryIndex(FactTokenizer.from_transformers(joining_tokenizer(kind)), (*FACTS, *ALIASES))
    assert [name.strip("<> ") for name in shares(index, "in (")] == ["Ann (n)", "Bé"]


def test_who_has_the_first_words_of_the_own_name_for_an_alias_is_there_once() -> None:
    """A name kept from before, say: an alias that a name begins with is none otherwise."""
    index = tiny_index(("<in (b)> <p> <b>", "<in (b)> <p> <c>", "<in (c)> <p> <b>", "<in (alias)> <alias of> <in (b)>"))
    assert shares(index, "in (") == pytest.approx({"in (b)": 2 / 3, "in (c)": 1 / 3})


def test_many_aliases_leave_room_for_a_namesake() -> None:
    aliases = [f"<in ({letter}) (alias)> <alias of> <{letter}>" for letter in "bcd"]
    index = tiny_index([*aliases, *(f"<{letter}> <p> <b>" for letter in "bcd"), "<in (n)> <p> <b>", "<in (n)> <p> <c>"])
    assert next(iter(meant(index, "in (", most=2))) == "in (n)"
