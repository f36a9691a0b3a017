"""Models that think: the thought is closed by its mark, and what follows it is the answer."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.channel_runs import EXAMPLES, GRAPH
from support.llamacpp.tiny_gguf import write_tiny_gguf
from support.thinking_model import TEMPLATES, TURNS, Script, scripted_model, thinking_tokenizer
from support.tiny_asker import LinkedIndex, chat_tokenizer
from support.tiny_model import one_thread, tiny_fact_tokenizer, tiny_model  # noqa: F401

from refactx.ask.asker import Asker
from refactx.ask.conversation import thinking_of
from refactx.ask.prompt import Example, Generation, Prompt
from refactx.decoding.stream import TextPiece
from refactx.errors import InputError
from refactx.fact import verbalise, written_part

LABELS = {"option": "</think>", "brackets": "[/THINK]", "triangles": "◁/think▷", "harmony": "<|end|>"}
FACTS = (
    "<Ann> <p> <b>",
    "<Ann> <p> <c>",
    *(verbalise("Bo", "p", written_part(mark)).strip() for mark in LABELS.values()),
)
PROMPT = Prompt(system="Be true.")
Say = Callable[..., Any]


class Told:
    """An asker whose model writes what it is told."""

    def __init__(self, kind: str, model: Any, script: Script, tokenizer: Any) -> None:
        self.tokenizer, self._script = tokenizer, script
        self.asker = Asker(model, tokenizer, LinkedIndex(tiny_fact_tokenizer(), FACTS), PROMPT)
        self.streamed = list[TextPiece]()

    def ask(self, text: str, then: str = "</s>", **options: Any) -> Any:
        """The answer of a model that writes `text`; `streamed` has its pieces."""
        think, free = Generation(think=options.get("think", 0)).think, options.get("free", False)
        start = len(PROMPT.ids(self.tokenizer, "Who?", think=think > 0, history=options.get("history", ())))
        self._script.say(start, text, then)
        self.streamed = []
        stream = self.asker.stream(self.streamed.append, free, think=think)
        return self.asker.ask("Who?", max_new_tokens=options.pop("max_new_tokens", 80), streamer=stream, **options)

    def text(self, in_thought: bool) -> str:
        return "".join(piece.text for piece in self.streamed if piece.in_thought == in_thought).strip()


@pytest.fixture
def told() -> Iterator[Callable[[str], Told]]:
    running = []

    def begin(kind: str) -> Told:
        tokenizer = thinking_tokenizer(kind)
        model = scripted_model(tokenizer)
        running.append(model)
        return Told(kind, *model.__enter__(), tokenizer)

    yield begin
    for model in running:
        model.__exit__(None, None, None)


FINAL = "<|end|><|start|>assistant<|channel|>final<|message|>"
ENDS = {
    # the end of a prompt without a thought, with one, and what a model writes to close it
    "option": ("<think>\n\n</think>\n\n", "<think>\n", "\n</think>\n\n"),
    "always": ("<think>\n\n</think>\n\n", "<think>\n", "\n</think>\n\n"),
    "variable": ("</think>", "<think>", "</think>"),
    "by itself": ("", "<think>\n", "\n</think>\n\n"),
    "brackets": ("", "[THINK]", "[/THINK]"),
    "triangles": ("◁think▷◁/think▷", "◁think▷", "◁/think▷"),
    "gemma": ("<|channel>thought\n<channel|>", "<|channel>thought\n", "\n<channel|>"),
    "harmony": ("<|channel|>final<|message|>", "<|channel|>analysis<|message|>", FINAL),
    "sentences": ("", "Here is my thought process:\n", "\n\nHere is my response:\n"),
}


@pytest.mark.parametrize("kind", TEMPLATES)
def test_how_a_template_thinks_is_seen_from_its_prompts(kind: str) -> None:
    tokenizer = thinking_tokenizer(kind)
    turn = "<|start|>assistant" if kind == "harmony" else "<s>assistant: "
    for think, end in zip((False, True), ENDS[kind][:2], strict=True):
        written = tokenizer.decode(PROMPT.ids(tokenizer, "Who?", think=think))
        assert written.rpartition(turn)[2] == end


def test_a_template_without_thoughts_has_none() -> None:
    tokenizer = chat_tokenizer(TURNS)
    assert thinking_of(tokenizer).marks is None
    assert PROMPT.ids(tokenizer, "Who?", think=True) == PROMPT.ids(tokenizer, "Who?")
    asker = Asker(tiny_model(), tokenizer, LinkedIndex(tiny_fact_tokenizer(), FACTS), PROMPT)
    assert not asker.can_think
    with pytest.raises(InputError, match="no marks of thoughts"):
        asker.ask("Who?", think="on")


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("kind", TEMPLATES)
def test_the_answer_is_what_follows_the_thought(told: Callable[[str], Told], kind: str, free: bool) -> None:
    one = told(kind)
    answer = one.ask(f"Answer: no, so I look.{ENDS[kind][2]}Answer: b", think=60, free=free)
    assert (answer.thought, answer.text) == ("Answer: no, so I look.", "Answer: b")
    assert answer.answer == ("b" if free else "I don't know."), "it has no fact"
    assert answer.finish_reason == "stop"
    assert (one.text(True), one.text(False)) == (answer.thought, answer.text)


@pytest.mark.parametrize("kind", TEMPLATES)
def test_after_its_budget_a_thought_is_closed(told: Callable[[str], Told], kind: str) -> None:
    one = told(kind)
    closing = thinking_of(one.tokenizer).tokens(one.tokenizer)
    assert closing is not None
    answer = one.ask("", then="a", think=40, max_new_tokens=12)
    left = 40 - len(closing.closing)
    assert (answer.thought, answer.text.strip("a")) == ("a" * left, ""), "the mark is a part of it"
    assert (one.text(True), one.text(False)) == (answer.thought, answer.text)
    assert (len(answer.text) in (11, 12), answer.finish_reason) == (True, "length")  # after a line end or not


def test_facts_of_a_thought_count_as_proof(told: Callable[[str], Told]) -> None:
    answer = told("option").ask("I look.\nFact: <Ann> <p> <b> .\nSo b.\n</think>\n\nAnswer: b", think=60)
    assert [fact.text for fact in answer.facts] == ["<Ann> <p> <b> ."]
    assert "Fact: <Ann> <p> <b> ." in answer.thought
    assert (answer.text, answer.answer) == ("Answer: b", "b")


def test_a_query_in_a_thought_is_text_that_proves_nothing(told: Callable[[str], Told]) -> None:
    answer = told("option").ask("Query: count <Zed> <q> .\nSo 2.\n</think>\n\nAnswer: 2", think=60)
    assert answer.thought == "Query: count <Zed> <q> .\nSo 2."
    assert (answer.answer, answer.queries, answer.facts) == ("I don't know.", (), ())


def test_an_answer_may_have_a_fact_of_its_thought_again(told: Callable[[str], Told]) -> None:
    fact = "Fact: <Ann> <p> <b> ."
    answer = told("option").ask(f"{fact}\nFact: <Ann> <p> <c> .\n</think>\n\n{fact}\nAnswer: b", think=70)
    assert answer.text == f"{fact}\nAnswer: b"
    assert [one.text for one in answer.facts] == ["<Ann> <p> <c> .", "<Ann> <p> <b> ."]


@pytest.mark.parametrize(("kind", "label"), LABELS.items())
def test_a_mark_in_a_label_closes_no_thought(told: Callable[[str], Told], kind: str, label: str) -> None:
    one = told(kind)
    encoded = [*one.tokenizer.encode("Fact:", add_special_tokens=False)]
    fact = verbalise("Bo", "p", written_part(label)).strip()
    one._script.say(len(PROMPT.ids(one.tokenizer, "Who?", think=True)), "")
    one._script.ids = [*encoded, *tiny_fact_tokenizer().encode_after("Fact:", f" {fact}")]
    one._script.ids += one.tokenizer.encode(f" .\nmore{ENDS[kind][2]}Answer: b", add_special_tokens=False)
    stream = one.asker.stream(one.streamed.append, think=99)
    answer = one.asker.ask("Who?", think=99, max_new_tokens=60, streamer=stream)
    assert answer.thought == f"Fact: {fact} .\nmore"
    assert (answer.answer, len(answer.facts)) == ("b", 1)
    assert (one.text(True), one.text(False)) == (answer.thought, "Answer: b")


def test_a_mark_that_is_a_token_is_no_text_that_looks_like_it(told: Callable[[str], Told]) -> None:
    one = told("option")
    one._script.say(len(PROMPT.ids(one.tokenizer, "Who?", think=True)), "")
    one._script.ids = tiny_fact_tokenizer().encode("a </think> b")
    one._script.ids += one.tokenizer.encode("\n</think>\n\nAnswer: b", add_special_tokens=False)
    assert one.asker.ask("Who?", think=99).thought == "a </think> b"


def test_a_thought_that_repeats_itself_is_closed(told: Callable[[str], Told]) -> None:
    answer = told("option").ask("Ann is in b, Bo is in c. " * 9, think=200, max_new_tokens=30)
    assert answer.thought.count("Ann is in b") <= 4
    assert answer.finish_reason in ("stop", "length")


def test_the_last_fact_of_a_limit_closes_the_thought(told: Callable[[str], Told]) -> None:
    answer = told("option").ask("Fact: <Ann> <p> <b> .\nFact: <Ann> <p> <c> .\nand", think=90, max_facts=1)
    assert [fact.text for fact in answer.facts] == ["<Ann> <p> <b> ."]
    assert answer.thought == "Fact: <Ann> <p> <b> ."
    assert answer.text.startswith("Answer:")


def test_a_thought_does_not_end_the_text(told: Callable[[str], Told]) -> None:
    answer = told("option").ask("So b.", think=60)
    assert (answer.thought, answer.text) == ("So b.", "Answer:")


@pytest.mark.parametrize("kind", ["option", "by itself", "brackets", "gemma"])
def test_a_thought_that_is_begun_unasked_is_closed_at_once(told: Callable[[str], Told], kind: str) -> None:
    opened = ENDS[kind][1]
    answer = told(kind).ask(opened, then="a", max_new_tokens=20)
    assert answer.thought == ""
    assert answer.tokens == 20 and answer.text.strip("a") == ""


def test_earlier_turns_have_no_thoughts(told: Callable[[str], Told]) -> None:
    one = told("option")
    first = one.ask("Rome?\n</think>\n\nAnswer: b", think=60)
    ids = PROMPT.ids(one.tokenizer, "And?", [Example("Who?", first.text)], think=True)
    assert "Rome" not in one.tokenizer.decode(ids)


def test_a_thought_leaves_room_for_the_answer(told: Callable[[str], Told]) -> None:
    answer = told("option").ask("", then="a", think=10_000, max_new_tokens=50)
    assert len(answer.text) >= 40


def test_what_a_thought_cannot_be_is_refused() -> None:
    with pytest.raises(InputError, match="off, on, at least 0"):
        Generation(think=-1)
    with pytest.raises(InputError, match="off, on, at least 0"):
        Generation(think="maybe")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="num_beams"):
        Generation(think=10, num_beams=2)
    assert [Generation(think=word).think for word in ("off", "on", False, True)] == [0, 1000, 0, 1000]  # type: ignore[arg-type]


RANDOM: dict[str, dict[str, Any]] = {
    "channel": {},
    "model alone": {"channel": False},
    "fact beams": {"fact_beams": 2},
    "sampling": {"temperature": 1.5, "seed": 3, "channel": False},
    "free": {"free": True},
}


def random_asker(kind: str) -> Asker:
    """An asker of a random model that begins facts often, with a channel."""
    model, tokenizer = tiny_model(), thinking_tokenizer(kind)
    triggers = tiny_fact_tokenizer().encode("Fact:")

    def begin_facts(_: Any, __: Any, ___: Any, out: Any) -> None:
        out.logits[..., triggers] += 16.0

    model.register_forward_hook(begin_facts, with_kwargs=True)
    index = LinkedIndex(tiny_fact_tokenizer(), GRAPH)
    return Asker(model, tokenizer, index, Prompt(system="Be true.", channel=EXAMPLES))


@pytest.mark.parametrize("kind", ["option", "harmony"])
@pytest.mark.parametrize("how", RANDOM)
def test_thoughts_of_any_text_are_closed_and_have_facts_of_the_index(kind: str, how: str) -> None:
    asker, free = random_asker(kind), how == "free"
    for question in ("Who?", "What is it?"):
        pieces = list[TextPiece]()
        stream = asker.stream(pieces.append, free, think=60)
        answer = asker.ask(question, think=60, max_new_tokens=40, streamer=stream, **RANDOM[how])
        assert answer.thought and answer.thought_tokens <= 90, "a fact that has begun is whole"
        assert {fact.text for fact in answer.facts} <= {f"{fact} ." for fact in GRAPH}
        for text, in_thought in ((answer.thought, True), (answer.text, False)):
            streamed = "".join(piece.text for piece in pieces if piece.in_thought == in_thought).strip()
            assert streamed.removesuffix("Fact:").rstrip() == text.removesuffix("Fact:").rstrip()
    if not free:
        assert any("Fact: <" in text for text in (answer.thought, answer.text))


def test_many_questions_have_the_thoughts_of_each_alone() -> None:
    asker, questions = random_asker("option"), ("Who?", "What is it?", "Is it so?")
    alone = [asker.ask(question, think=30, max_new_tokens=20) for question in questions]
    batch = asker.ask_all(questions, batch_size=3, think=30, max_new_tokens=20)
    assert [(one.thought, one.text) for one in batch if not isinstance(one, InputError)] == [
        (one.thought, one.text) for one in alone
    ]


def test_a_model_of_llamacpp_thinks(tmp_path: Path) -> None:
    pytest.importorskip("llama_cpp")
    from refactx.engines.llamacpp.model import load_gguf
    from refactx.models.options import EngineOptions

    path = write_tiny_gguf(tmp_path / "tiny.gguf", template=TEMPLATES["always"])
    index = LinkedIndex(tiny_fact_tokenizer(), FACTS)
    model = load_gguf(path, index, EngineOptions(context=1024, threads=1))
    asker = Asker(model, model.tokenizer, index, PROMPT)
    answer = asker.ask("Who?", think=40, max_new_tokens=20)
    assert answer.thought and answer.text
    assert "think>" not in answer.thought + answer.text
    assert not asker.ask("Who?", max_new_tokens=20).thought
