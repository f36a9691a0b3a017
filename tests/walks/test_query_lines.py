"""Lines that the grammar of queries allows and others, and texts with queries beside facts and prompts."""

import pytest
from support.channel_runs import joining_tokenizer
from support.query.lines import encode, is_written, machine_of, on
from support.query.memory_index import RowsIndex

from refactx.decoding.machine import Machine
from refactx.decoding.states import Dead, Free, InFact, InQuery
from refactx.errors import ModelError
from refactx.tokenizer import FactTokenizer
from refactx.walks.language import read_line


class TestWhatIsAllowed:
    @pytest.fixture
    def machine(self) -> Machine:
        people = [
            ("Ann", "p", "Bo"),
            ("Ann", "n", "7"),
            ("Bo", "p", "C"),
            ("Bo", "t", "1990-05"),
            ("C", "x", "some text"),
        ]
        return on(*people, ("Ann", "p", "C"), ("D", "q", "E"))

    @pytest.mark.parametrize(
        "line",
        [
            "list <Ann> <p> .",
            "ask <Ann> <p> <D> .",  # the answer is no
            "ask <Ann> <p> <p> <D> .",
            "ask <Ann> <p>+ which is <D> .",
            "ask <Ann> <p>* <D> .",
            "ask <Ann> <n> over <5> and <p> <Bo> .",
            "ask <Ann> <n> equals <-12.25> .",
            "most 2 <Ann> <p> by <t> .",
            "least 100 <Ann> <p>* which <t> over <12 BCE> by count <p> .",
            "count <Ann> <p> which <x> <some text> which is <C> which <x> <some text> .",
            "count <Ann> <p> <t> which under <1990-05-31> .",
        ],
    )
    def test_a_query_that_can_be_answered(self, machine: Machine, line: str) -> None:
        assert is_written(machine, line)

    @pytest.mark.parametrize(
        "line",
        [
            "who <Ann> <p> .",
            "list <E> <p> .",  # no subject
            "list <Ann> .",
            "list <Ann> <q> .",
            "list <Ann> <p> <n> .",  # none of them has it
            "list 2 <Ann> <p> .",
            "list <Ann> <n> <p> .",  # numbers have no facts
            "list <Ann> <n>+ .",
            "list <Ann> <p> <p> <p> .",
            "list <Ann> <p> which <t> <1991> .",
            "list <Ann> <p> which <t> over <1990-13> .",
            "list <Ann> <p> which <t> over <1.5> .",
            "list <Ann> <p> which <t> over <> .",
            "list <Ann> <p> by <t> .",
            "most <Ann> <p> .",
            "most 1 <Ann> <p> by <t> .",
            "most <Ann> <p> by <x> .",  # text has no order
            "ask <Ann> <n> <7> .",  # the answer would always be yes
            "ask <C> <x> <some text> .",
            "ask <Ann> is <Bo> .",
            "list <Ann> <p> which is <Bo> which is <Bo> which is <Bo> which is <Bo> .",
        ],
    )
    def test_no_other_query(self, machine: Machine, line: str) -> None:
        assert not is_written(machine, line)

    def test_filters_are_of_members_that_are_left(self, machine: Machine) -> None:
        assert is_written(machine, "list <Ann> <p> which <t> <1990-05> which <p> <C> .")
        assert not is_written(machine, "list <Ann> <p> which <t> <1990-05> which <x> <some text> .")

    def test_a_name_like_a_number_or_a_sign_is_a_name(self) -> None:
        machine = on(("7", "p", "c++"), ("c++", "p", "+"), ("+", "p", "by"), ("by", "p", "."))
        for line in ("list <7> <p> <p> .", "most 7 <7> <p>* by count <p> .", "ask <+> <p> <by> .", "list <by> <p> ."):
            assert is_written(machine, line)

    def test_an_alias_is_a_start_if_no_other_name_continues_the_text(self) -> None:
        alias = "alias of"
        machine = on(
            ("JFK (alias)", alias, "Ann"),
            ("JFK (film)", "p", "Ann"),
            ("Bo (alias)", alias, "Ann"),
            ("Bo", "p", "Ann"),
            ("CC (alias)", alias, "Ann"),
        )
        assert not is_written(machine, f"list <JFK (alias)> <{alias}> .")
        assert is_written(machine, "list <JFK (film)> <p> .")
        assert not is_written(machine, f"list <Bo (alias)> <{alias}> .")
        assert is_written(machine, "list <Bo> <p> .")
        assert is_written(machine, f"list <CC (alias)> <{alias}> .")

    def test_a_large_set_may_have_any_entity_as_a_value(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("refactx.walks.decoding.readings.MOST_MEMBERS", 2)
        claims = [(s, "q", o) for s, o in zip("ABCDE", "FGHIJ", strict=True)]
        machine = on(*(("S", "p", name) for name in "ABCDE"), *claims, ("J", "q", "A"))
        assert is_written(machine, "list <S> <p> which <q> <F> .")
        assert is_written(machine, "list <S> <p> which <q> <J> .")
        assert not is_written(machine, "list <S> <p> which <q> <I> .")  # no subject


class TestText:
    FACT = ("Ann", "p", "Bo")

    def test_a_query_needs_no_grammar_without_the_option(self) -> None:
        index = RowsIndex([(1, frozenset([self.FACT]))])
        assert isinstance(Machine(index).run(index.tokenizer.encode("Query: no"), 0), Free)

    def test_facts_and_queries_may_follow_each_other(self) -> None:
        machine = on(self.FACT)
        text = "Query: list <Ann> <p> .\nFact: <Ann> <p> <Bo> .\nQuery: count <Ann> <p> . so Query: ask"
        state = machine.run(encode(machine, text), 0)
        assert isinstance(state, InQuery)
        assert [fact.text for fact in machine.facts_of(state)] == ["<Ann> <p> <Bo> ."]
        assert machine.queries(encode(machine, text), 0) == ["list <Ann> <p> .", "count <Ann> <p> ."]
        assert isinstance(machine.run(encode(machine, f"{text} me"), 0), Dead)

    @pytest.mark.parametrize("begun", ["Query:", "Query: ", "a Query: li", "Query: list <", "Query:\n"])
    def test_a_query_that_the_prompt_begins_is_continued(self, begun: str) -> None:
        machine = on(self.FACT)
        prompt = encode(machine, begun)
        state = machine.start(prompt)
        assert isinstance(state, InQuery)
        ids = list(prompt)
        while not isinstance(state, Free):
            tokens = machine.allowed(state)
            assert tokens is not None
            state = machine.advance(state, int(tokens[-1]), len(ids))
            ids.append(int(tokens[-1]))
        (line,) = machine.queries(ids, len(prompt))
        assert read_line(line).start == "Ann"

    @pytest.mark.parametrize("text", ["Query: list <Ann> <p> .", "Query: list\n", "Query: me", "inQuery:", "Query:**"])
    def test_another_prompt_is_free(self, text: str) -> None:
        machine = on(self.FACT)
        assert isinstance(machine.start(encode(machine, text)), Free)

    def test_triggers_in_names_start_nothing(self) -> None:
        machine = on(("Fact: Query: x", "p", "b"))
        assert isinstance(machine.start(encode(machine, "Fact: <Fact: Query:")), InFact)
        state = machine.start(encode(machine, "Query: list <Fact: Query:"))
        assert isinstance(state, InQuery)
        assert is_written(machine, "list <Fact: Query: x> <p> .")

    def test_an_index_without_facts_does_not_constrain(self, caplog: pytest.LogCaptureFixture) -> None:
        index = RowsIndex([])
        machine = machine_of(index)
        assert isinstance(machine.run(encode(machine, "Query: me"), 0), Free)
        assert "the text after 'Query:' is not constrained" in caplog.text

    @pytest.mark.parametrize("kind", ["byte level", "sentence piece"])
    def test_a_tokenizer_that_joins_parts_is_refused(self, kind: str) -> None:
        tokenizer = FactTokenizer.from_transformers(joining_tokenizer(kind))
        with pytest.raises(ModelError, match="parts of a query cannot be told apart"):
            machine_of(RowsIndex([(1, frozenset([self.FACT]))], tokenizer))

    def test_what_was_computed_is_forgotten_when_the_index_changes(self) -> None:
        index, other = (RowsIndex([(1, frozenset([("Ann", p, "Bo")]))]) for p in "pq")
        machine = machine_of(index)
        assert is_written(machine, "list <Ann> <p> .")
        index.segments, index._tree = other.segments, other._tree
        assert is_written(machine, "list <Ann> <q> .")
        assert not is_written(machine, "list <Ann> <p> .")
