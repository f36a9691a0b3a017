"""The prompt: a system message, examples and the question, written by the model's chat template.

Prompts are data, TOML files in `refactx.prompts`: `system`, `trigger`, `marker`, `unknown`, `channel`, `asks`,
`min_confidence`, and `[[example]]` tables with `question` and `answer`. The question is data too: the texts of control
tokens are removed from it (`refactx.ask.conversation`).
"""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol

from refactx.ask.conversation import Message, conversation_ids, without_control
from refactx.engines.writer import Sampling
from refactx.errors import InputError
from refactx.fact import (
    DESCRIPTIONS,
    Fact,
    LinkedFact,
    clean_part,
    qualifiers_of,
    split_fact,
    written_fact,
    written_part,
)
from refactx.options import check_options, option
from refactx.paths import read_toml
from refactx.ranking.ranker import open_ranker
from refactx.selection.mentions import QueryWords
from refactx.selection.weights import Weights, load_weights

TAUGHT_PROMPT, TAUGHT_REPORT = "prompt.toml", "report.json"
"""The files of an adapter that `refactx train` made: a prompt of the user's own, and the report, which names one of ours."""
MAX_NEW_TOKENS = 1000
"""As in the paper."""
THOUGHT = 1000
"""The most tokens of a thought that is asked for without a number."""
THINK_WORDS = {"off": 0, "on": THOUGHT}
MAX_FACTS = 25
"""A fact of the sample has 32 ids on average: so many leave room for the answer in `MAX_NEW_TOKENS`."""
LANGUAGES = ("en", "de", "fr", "es")
"""The languages of questions whose words are known (`prompts/words`); the first is that of questions that show none."""
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{1,8})*", re.ASCII)
_NO_CODES = (("answer_language", "question"), ("answer_language", "index"))
_CHOICE, _SAMPLING = "Choice of facts", "Sampling"


@dataclass(frozen=True, slots=True)
class Example:
    """A question and the assistant's text after it."""

    question: str
    answer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """The text that a model reads before the question; `load_prompt` returns one.

    `system`: the system message; `examples`: questions with the assistant's texts; `trigger`: the text before a fact in
    these, that of the index; `marker`: the text before the final answer; `unknown`: the answer without proof. For
    `refactx.selection.channel`: `channel`, facts with questions that they answer, one a line; `asks`, the text between
    the two; `min_confidence`, how much likelier, in nats, a fact or query has to make the question than none does, for
    the answer not to be `unknown`. For `refactx.selection.queries`: `queries`, queries with questions, written like
    `channel`; `words`, what tells them apart. Without both, questions are answered with facts alone. `weights`: those of the
    choice of both, but for `min_confidence`; `ranker`: the encoder that tells how near names are to the question in meaning
    (`refactx.ranking.open_ranker`).
    """

    system: str
    examples: tuple[Example, ...] = ()
    trigger: str = "Fact:"
    marker: str = "Answer:"
    unknown: str = "I don't know."
    channel: str = ""
    asks: str = " Question:"
    min_confidence: float = Weights().min_confidence
    queries: str = ""
    words: QueryWords | None = None
    weights: Weights = field(default_factory=Weights)
    ranker: str = ""

    @property
    def has_queries(self) -> bool:
        """Whether texts may have queries."""
        return self.words is not None and bool(self.queries.strip())

    def messages(self, question: str, history: Sequence[Example] = (), system: str = "") -> list[Message]:
        """Return the conversation up to the question; `history`: its earlier turns; `system`: what follows the prompt's.

        Raises InputError for a question without visible text.

        >>> prompt = Prompt(system="Use facts.", examples=(Example("Who?", "Answer: I."),))
        >>> prompt.messages(" What? ")[1:]  # doctest: +NORMALIZE_WHITESPACE
        [{'role': 'user', 'content': 'Who?'}, {'role': 'assistant', 'content': 'Answer: I.'},
         {'role': 'user', 'content': 'What?'}]
        """
        if not clean_part(question):
            raise InputError("the question is empty: ask something, in quotes")
        turns = [("system", f"{self.system.strip()}\n\n{system}" if system.strip() else self.system)]
        for example in (*self.examples, *history):
            turns += [("user", example.question), ("assistant", example.answer)]
        return [{"role": role, "content": text.strip()} for role, text in [*turns, ("user", question)]]

    def weighted(self, path: Path | None, ranker: str | None = None) -> "Prompt":
        """Return the prompt with a `ranker`, and the weights of a file, as `load_weights` reads it; `min_confidence` too if the
        file has it."""
        if ranker is not None:
            open_ranker(ranker)  # reports at once that there is none
        prompt = self if ranker is None else replace(self, ranker=ranker)
        if path is None:
            return prompt
        weights = load_weights(path, replace(self.weights, min_confidence=self.min_confidence))
        return replace(prompt, weights=weights, min_confidence=weights.min_confidence)

    def ids(
        self,
        tokenizer: Any,
        question: str,
        history: Sequence[Example] = (),
        system: str = "",
        *,
        think: bool = False,
    ) -> list[int]:
        """Return the ids of the conversation (`messages`) up to the beginning of the assistant's turn.

        `think`: whether that begins with a thought.

        For a chat template without a system role, the system message begins the first user turn. Raises InputError for
        a question without visible text, ModelError if the chat template cannot be used.
        """
        said: list[Example] = []
        for turn in history:
            answer = turn.answer
            if self.marker not in answer and "\n" not in answer.strip():  # clients send back the answer alone
                answer = f"{self.marker} {answer.strip()}"
            said.append(Example(without_control(tokenizer, turn.question), without_control(tokenizer, answer)))
        plain = without_control(tokenizer, question), said, without_control(tokenizer, system)
        return conversation_ids(tokenizer, self.messages(*plain), think=think)


def load_prompt(name: str | Path = "wikidata") -> Prompt:
    """Return a built-in prompt, given its name, or the prompt in a file, given a `Path` or a path that ends in `.toml`.

    Raises InputError if there is no such prompt, or if the file is not a valid prompt.

    >>> load_prompt().trigger, load_prompt().marker
    ('Fact:', 'Answer:')
    """
    if not isinstance(name, str | Path):
        raise InputError(f"{name!r} names no prompt: give the name of a built-in prompt, or the path of a .toml file")
    source = (
        Path(name) if isinstance(name, Path) or name.endswith(".toml") else files("refactx.prompts") / f"{name}.toml"
    )
    try:
        fields = read_toml(source.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"there is no prompt {name}: give the name of a built-in prompt, such as wikidata, or the path of a .toml "
            "file"
        ) from error
    except ValueError as error:
        raise InputError(f"the prompt {name} is not TOML: {error}") from error
    try:
        examples = tuple(Example(**example) for example in fields.pop("example", []))
        if "tells" in fields:  # its name in earlier releases
            fields["min_confidence"] = fields.pop("tells")
        words = _words_of(fields.pop("words")) if "words" in fields else None
        return _checked(Prompt(examples=examples, words=words, **fields))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"the prompt {name} is not valid ({error}): a prompt has the texts system, trigger, marker, unknown, "
            "channel, asks, queries and ranker, a number min_confidence, [[example]] tables with a question and an answer, and "
            "a table [words]"
        ) from error


def prompt_of(*taught: str | Path | None) -> str | None:
    """Return the prompt that `refactx train` has taught the first of some adapters or models, as `load_prompt` takes it.

    None if it has taught none of them.
    """
    for folder in (Path(one).expanduser() for one in taught if one is not None):
        if (folder / TAUGHT_PROMPT).is_file():
            return str(folder / TAUGHT_PROMPT)
        try:
            name = json.loads((folder / TAUGHT_REPORT).read_text(encoding="utf-8"))["questions"]["prompt"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if isinstance(name, str) and not name.endswith(".toml"):  # that file is not here
            return name
    return None


def _words_of(words: dict[str, Any]) -> QueryWords:
    """Return the words of a prompt's table: its own for all questions, or, where it is `like` another prompt, `wikidata`, those
    of `LANGUAGES`, with its own in place of the first one's."""
    if not isinstance(words, dict) or "like" not in words:
        return QueryWords.of(words)
    if words["like"] != "wikidata":
        raise ValueError(f"its [words] are like {words['like']!r}: only those of wikidata can be taken")
    first, *others = (read_words(language) for language in LANGUAGES)
    ways = {name: words.get(name, first[name]) for name in ("class_of", "subclass_of")}
    own = {key: {**first.get(key, {}), **value} if isinstance(value, dict) else value for key, value in words.items()}
    found = QueryWords.of({**first, **{key: value for key, value in own.items() if key != "like"}})
    by_language = {
        code: replace(QueryWords.of({**other, **ways}), language=code)
        for code, other in zip(LANGUAGES[1:], others, strict=True)
    }
    return replace(found, language=LANGUAGES[0], others=by_language)


@cache
def read_words(language: str) -> dict[str, Any]:
    """Return the table of the words of questions in one of `LANGUAGES`; the first one's has also the predicates of classes."""
    return read_toml((files("refactx.prompts") / "words" / f"{language}.toml").read_text(encoding="utf-8"))


def _checked(prompt: Prompt) -> Prompt:
    texts = [prompt.system, prompt.trigger, prompt.marker, prompt.unknown, prompt.channel, prompt.asks]
    texts += [prompt.queries, prompt.ranker]
    texts += [text for example in prompt.examples for text in (example.question, example.answer)]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("one of its values is not a text")
    least = prompt.min_confidence
    if not isinstance(least, int | float) or isinstance(least, bool) or math.isnan(least):
        raise TypeError("its `min_confidence` is not a number")
    if not prompt.marker.strip():
        raise ValueError("its marker is empty")
    return prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """Options of generation: by default greedy text of at most `max_new_tokens` ids.

    `think`: the most ids of a thought before the answer, its marks included, besides `max_new_tokens`; or `"on"`, which is
    `THOUGHT`, or `"off"`, which is 0: no thought.

    `language`: of the question, such as `de`; None: as its words say. `answer_language`: of the names in the answer, where
    the index has labels in it: a code, `question` or None for that of the question, or `index` for the names of facts.

    `channel`: choose each fact by the question (`refactx.selection.channel`), if the prompt has examples for that and
    there are no beams; `min_confidence`: how much likelier, in nats, a fact or query has to make the question than none
    does, for the answer not to be "I don't know." (None: as the prompt says). `num_beams`: beams over the whole text.
    `fact_beams`: search for each fact with this many beams, in greedy or sampled text; `fact_length_penalty`: see
    `refactx.FactBeams`. `max_facts`: after this many facts the answer has to follow, and the text ends if it begins
    another fact (None: no limit). `temperature`: above 0, sample from the `top_k` likeliest ids, and from the likeliest
    ids with a total probability of `top_p` (None: from all); `seed`: for sampling (None: another text each time).

    Raises InputError for values out of range, and for options that exclude each other.

    >>> Generation(temperature=0.7).samples, Generation().samples
    (True, False)
    """

    channel: bool = option(True, "Choose by the question; default: on without beams.", group=_CHOICE)
    min_confidence: float | None = option(
        None, "Confidence an answer needs; default: the prompt's.", metavar="X", group=_CHOICE, former="tells"
    )
    language: str | None = option(None, "Of the questions; default: by words.", metavar="CODE", group=_CHOICE)
    answer_language: str | None = option(
        None, "Of answers: index, or a code; default: question.", metavar="CODE", group=_CHOICE
    )
    fact_beams: int | None = option(None, "Beam search within each fact.", least=1, group=_CHOICE)
    fact_length_penalty: float = option(
        0.0, "Divide scores of --fact-beams by length^X.", least=0, metavar="X", group=_CHOICE
    )
    num_beams: int = option(1, "Beam search over the whole text.", least=1, group=_CHOICE)
    max_facts: int | None = option(MAX_FACTS, "After N facts, the answer follows.", least=1, group=_CHOICE)
    max_new_tokens: int = option(MAX_NEW_TOKENS, "At most N tokens per answer.", least=1)
    think: int = option(0, "off; on; or at most N tokens of thought.", least=0, words=THINK_WORDS, metavar="on|off|N")
    temperature: float = option(
        0.0, "Sample with this temperature; default: greedy.", least=0, metavar="X", group=_SAMPLING
    )
    top_k: int | None = option(None, "Sample from the K likeliest tokens.", least=1, metavar="K", group=_SAMPLING)
    top_p: float | None = option(
        None, "Sample from the likeliest of total probability P.", above=0, most=1, metavar="P", group=_SAMPLING
    )
    seed: int | None = option(None, "Seed that makes sampling repeatable.", least=0, group=_SAMPLING)

    def __post_init__(self) -> None:
        if isinstance(self.think, bool | str):  # a word for a number; any other text is out of range
            word: Any = {True: "on", False: "off"}.get(self.think, self.think)
            object.__setattr__(self, "think", THINK_WORDS.get(word, word))
        check_options(self)
        for option_name, code in (("language", self.language), ("answer_language", self.answer_language)):
            if code is not None and not _LANGUAGE.fullmatch(code) and (option_name, code) not in _NO_CODES:
                raise InputError(f"{option_name} is {code!r}: give a code such as de")
        if self.think and self.num_beams > 1:
            raise InputError(
                "a thought and num_beams were both given: thoughts need text by one beam, so leave one out"
            )
        if self.min_confidence is not None and not self.uses_channel:
            raise InputError(
                "a threshold `min_confidence` was given with beams or without the channel: leave these options out, or it"
            )
        if self.fact_beams is not None and self.num_beams > 1:
            raise InputError(
                "fact beams and num_beams were both given: fact beams need greedy or sampled text, so leave out num_beams"
            )
        given = [name for name in ("top_k", "top_p", "seed") if getattr(self, name) is not None]
        if given and not self.samples:
            raise InputError(f"{' and '.join(given)} given without sampling: give a temperature above 0 too")

    @property
    def samples(self) -> bool:
        """Whether ids are drawn at random."""
        return self.temperature > 0

    @property
    def uses_channel(self) -> bool:
        """Whether facts are chosen by the question: so without beams, which choose them otherwise."""
        return self.channel and self.num_beams == 1 and self.fact_beams is None

    @property
    def free(self) -> "Generation":
        """These options with the usual values of those for facts, which free text has none of."""
        most = None if self.max_facts is None else MAX_FACTS
        return replace(
            self, channel=False, min_confidence=None, fact_beams=None, fact_length_penalty=0.0, max_facts=most
        )

    @property
    def sampling(self) -> Sampling:
        """How ids are picked."""
        return Sampling(temperature=self.temperature, top_k=self.top_k, top_p=self.top_p, seed=self.seed)


GREEDY = Generation()


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
        expected = f"{written_fact(rest) or ' <subject> <predicate> <object>'}{index.terminator}"
        if rest != expected:
            raise InputError(
                f"example {number} of the prompt has {index.trigger + rest!r}, which is not the form of facts in index "
                f"{index.name!r}: write {index.trigger + expected!r}"
            )
        subject, predicate, object_ = split_fact(expected) or ("", "", "")
        facts.append(Fact(subject, predicate, object_, expected.lstrip(), (0, 0), qualifiers_of(expected)))
    return facts


def _known(fact: Fact, index: CheckedIndex) -> bool:
    if fact.predicate in DESCRIPTIONS or fact.text in index:
        return True
    return index.links(fact).predicate.id is not None
