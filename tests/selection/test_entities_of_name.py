"""An alias leads to the entities that have it, by their own names in the tree, but never to one without facts."""

import pytest
from support.channel_runs import EVERY_NAME, found, joining_tokenizer, shown
from support.tiny_model import MemoryIndex, one_thread, tiny_index  # noqa: F401

from refactx.decoding.machine import Machine
from refactx.decoding.states import InFact
from refactx.selection import candidates as module
from refactx.selection.candidates import NamedEntity, entities_of_name
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
    some, _, state = found(index, text, seed, EVERY_NAME)
    assert set(shown(index, state, some)) == {"<Ann (n)>", "<Bo (b)>", "<Bé>"}
    for one, name in zip(some, shown(index, state, some), strict=True):
        assert one.state.children.total == sum(fact.startswith(name) for fact in FACTS)


def meant(index: MemoryIndex, name: str, most: int = 9, begun: str = "", text: str = "Fact:") -> dict[str, NamedEntity]:
    """The entities that a name may mean, in order; `begun`: the beginning of the subject, after some text."""
    machine, encode = Machine(index), index.tokenizer.encode
    ids = tuple(index.tokenizer.encode_after("Fact:", f" <{name}"))
    head = tuple(encode(begun))
    assert ids[: len(head)] == head
    begin = machine.run(encode(text), 0)
    start, state = machine.follow(begin, head), machine.follow(begin, ids)
    assert isinstance(start, InFact) and isinstance(state, InFact)
    some = entities_of_name(machine, start, ids[len(head) :], state, most)
    for one in some:
        assert machine.follow(start, one.ids) == one.state
    return {index.tokenizer.decode((*head, *one.ids)).strip()[1:-1]: one for one in some}


def shares(index: MemoryIndex, name: str, begun: str = "") -> dict[str, float]:
    return {called: one.share for called, one in meant(index, name, begun=begun).items()}


@pytest.mark.parametrize("begun", ["", " <"])
def test_shares_are_of_the_facts_of_all_namesakes(begun: str) -> None:
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


def test_an_entity_without_facts_left_is_left_out() -> None:
    index = tiny_index((*FACTS, *ALIASES))
    written = "Fact: <Bé> <p> <b> .\nFact: <Bé> <q> <b> .\nFact:"
    assert list(meant(index, "in (", text=written)) == ["Ann (n)"]


def test_an_alias_with_a_parenthesis_leads_to_its_entity_too() -> None:
    index = tiny_index((*FACTS, "<in (b) (alias)> <alias of> <Bé>", "<in (alias)> <alias of> <Ann (n)>"))
    assert {name: one.alias for name, one in meant(index, "in (").items()} == {"Ann (n)": "in", "Bé": "in (b)"}
    assert {name: one.alias for name, one in meant(index, "in (b) (").items()} == {"Bé": "in (b)"}
    assert {name: one.alias for name, one in meant(index, "Ann (").items()} == {"Ann (n)": ""}


def test_an_alias_of_an_entity_without_facts_is_the_subject_itself() -> None:
    """A text that begins with the alias can continue with nothing else."""
    index = tiny_index((*FACTS, "<in (alias)> <alias of> <c>", *ALIASES[2:]))
    assert list(shares(index, "in (")) == ["in (alias)"]
    assert list(shares(index, "Bo (", begun=" <Bo")) == ["Bo (alias)", "Bo (b)"]


def test_of_many_entities_with_an_alias_some_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHARED_BY", 2)
    many = [f"<{a}{b}>" for a in "abc" for b in "pq"]
    index = tiny_index([*(f"{one} <p> <b>" for one in many), *(f"<in (alias)> <alias of> {one}" for one in many)])
    assert len(shares(index, "in (")) == 2


@pytest.mark.parametrize("kind", ["byte level", "sentence piece"])
def test_tokenizers_whose_ids_join_a_name_to_what_follows_it(kind: str) -> None:
    index = MemoryIndex(FactTokenizer.from_transformers(joining_tokenizer(kind)), (*FACTS, *ALIASES))
    assert [name.strip("<> ") for name in shares(index, "in (")] == ["Ann (n)", "Bé"]


def test_an_entity_whose_name_begins_with_its_alias_is_found_once() -> None:
    """For example with an earlier name: otherwise, an ingest makes no alias with which the name begins."""
    index = tiny_index(("<in (b)> <p> <b>", "<in (b)> <p> <c>", "<in (c)> <p> <b>", "<in (alias)> <alias of> <in (b)>"))
    assert shares(index, "in (") == pytest.approx({"in (b)": 2 / 3, "in (c)": 1 / 3})


def test_many_aliases_leave_room_for_a_namesake() -> None:
    aliases = [f"<in ({letter}) (alias)> <alias of> <{letter}>" for letter in "bcd"]
    index = tiny_index([*aliases, *(f"<{letter}> <p> <b>" for letter in "bcd"), "<in (n)> <p> <b>", "<in (n)> <p> <c>"])
    assert next(iter(meant(index, "in (", most=2))) == "in (n)"
