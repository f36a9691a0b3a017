"""The prompt: a system message, examples and the question, written by the model's chat template.

Prompts are data, TOML files in `refactx.prompts`: `system`, `trigger`, `marker`, `unknown`, `channel`, `asks`,
`tells`, and `[[example]]` tables with `question` and `answer`. The question is data too: the texts of control tokens are
removed from it (`refactx.writing.conversation`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from refactx.choosing.queries.answering import TELLS
from refactx.choosing.queries.words import QueryWords
from refactx.errors import InputError
from refactx.fact import clean_part
from refactx.paths import read_toml
from refactx.writing.conversation import Message, conversation_ids, without_control


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
    `refactx.choosing.channel`: `channel`, facts with questions that they answer, one a line; `asks`, the text between
    the two; `tells`, how much likelier, in nats, a fact or query has to make the question than none does, for the answer
    not to be `unknown`. For `refactx.choosing.queries`: `queries`, queries with questions, written like `channel`;
    `words`, what tells them apart. Without both, questions are answered with facts alone.
    """

    system: str
    examples: tuple[Example, ...] = ()
    trigger: str = "Fact:"
    marker: str = "Answer:"
    unknown: str = "I don't know."
    channel: str = ""
    asks: str = " Question:"
    tells: float = TELLS
    queries: str = ""
    words: QueryWords | None = None

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

    def ids(self, tokenizer: Any, question: str, history: Sequence[Example] = (), system: str = "") -> list[int]:
        """Return the ids of the conversation (`messages`) up to the beginning of the assistant's turn.

        For a chat template without a system role, the system message begins the first user turn. Raises InputError for
        a question without visible text, ModelError if the chat template cannot be used.
        """
        said = [Example(*(without_control(tokenizer, text) for text in (t.question, t.answer))) for t in history]
        plain = without_control(tokenizer, question), said, without_control(tokenizer, system)
        return conversation_ids(tokenizer, self.messages(*plain))


def load_prompt(name: str = "wikidata") -> Prompt:
    """Return a built-in prompt, given its name, or the prompt in a file, given a path that ends in `.toml`.

    Raises InputError if there is no such prompt, or if the file is not a valid prompt.

    >>> load_prompt().trigger, load_prompt().marker
    ('Fact:', 'Answer:')
    """
    source = Path(name) if name.endswith(".toml") else files("refactx.prompts") / f"{name}.toml"
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
        words = QueryWords.of(fields.pop("words")) if "words" in fields else None
        return _checked(Prompt(examples=examples, words=words, **fields))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"the prompt {name} is not valid ({error}): a prompt has the texts system, trigger, marker, unknown, "
            "channel, asks and queries, a number tells, [[example]] tables with a question and an answer, and a table [words]"
        ) from error


def _checked(prompt: Prompt) -> Prompt:
    texts = [prompt.system, prompt.trigger, prompt.marker, prompt.unknown, prompt.channel, prompt.asks]
    texts += [prompt.queries]
    texts += [text for example in prompt.examples for text in (example.question, example.answer)]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("one of its values is not a text")
    if not isinstance(prompt.tells, int | float) or isinstance(prompt.tells, bool) or math.isnan(prompt.tells):
        raise TypeError("its `tells` is not a number")
    if not prompt.marker.strip():
        raise ValueError("its marker is empty")
    return prompt
