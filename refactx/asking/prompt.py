"""The prompt: a system message, worked examples and the question, as the model's chat template writes them.

Prompts are data, TOML files in `refactx.prompts`: `system`, `trigger`, `marker`, `unknown`, `channel`, `asks`, and
`[[example]]` tables with `question` and `answer`. The question is data too. It cannot bring control tokens: before it
meets the chat template, whatever reads as an added token of the tokenizer (`<|im_end|>`, `<think>`) is cut out of it.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from refactx.errors import InputError, ModelError
from refactx.fact import clean_part

Message = dict[str, str]


@dataclass(frozen=True, slots=True)
class Example:
    """A question and how the assistant answers it."""

    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a model is told before the question.

    `trigger` starts a fact in the examples, `marker` the final answer; `unknown` is the answer without proof. `channel`: facts
    with questions that they answer, for `refactx.choosing.channel`, a line each; `asks`: what stands between the two.
    """

    system: str
    examples: tuple[Example, ...] = ()
    trigger: str = "Fact:"
    marker: str = "Answer:"
    unknown: str = "I don't know."
    channel: str = ""
    asks: str = " Question:"

    def messages(self, question: str, history: Sequence[Example] = ()) -> list[Message]:
        """The conversation up to the question; `history`: its earlier turns. Raises InputError for a question without
        visible text.

        >>> Prompt("Use facts.", (Example("Who?", "Answer: I."),)).messages(" What? ")[1:]  # doctest: +NORMALIZE_WHITESPACE
        [{'role': 'user', 'content': 'Who?'}, {'role': 'assistant', 'content': 'Answer: I.'},
         {'role': 'user', 'content': 'What?'}]
        """
        if not clean_part(question):
            raise InputError("the question is empty: ask something, in quotes")
        turns = [("system", self.system)]
        for example in (*self.examples, *history):
            turns += [("user", example.question), ("assistant", example.answer)]
        return [{"role": role, "content": text.strip()} for role, text in [*turns, ("user", question)]]

    def encode(self, tokenizer: Any, question: str, history: Sequence[Example] = ()) -> dict[str, Any]:
        """`input_ids` and `attention_mask`, int64[1, length], up to where the assistant starts to write.

        A chat template without a system role gets the system message at the head of the first user turn. Raises
        InputError for a question without visible text, ModelError where the chat template is of no use.
        """
        said = [Example(*(without_control(tokenizer, text) for text in (t.question, t.answer))) for t in history]
        messages = self.messages(without_control(tokenizer, question), said)
        options = {"add_generation_prompt": True, "enable_thinking": False}  # templates ignore what they don't know
        if self.system.strip() and not _writes(tokenizer, messages, options):
            messages = _folded(messages)
        try:
            encoded = tokenizer.apply_chat_template(messages, return_dict=True, return_tensors="pt", **options)
        except Exception as error:  # whatever a template raises, in Jinja or by raise_exception
            raise ModelError(f"the model's chat template cannot write a conversation with examples: {error}") from error
        return {name: encoded[name] for name in ("input_ids", "attention_mask")}


def without_control(tokenizer: Any, text: str) -> str:
    """`text` without what the tokenizer would read as an added token; lone surrogates become `?`."""
    added = [str(token) for token in getattr(tokenizer, "added_tokens_decoder", {}).values()]
    # words and white space, which some tokenizers add, are no control tokens
    control = sorted((token for token in added if not token.replace(" ", "").isalnum() and token.strip()), key=len)
    text = text.encode("utf-8", "replace").decode()
    before = None
    while text != before:  # what is left when one is cut out may read as another
        before = text
        for token in reversed(control):
            text = text.replace(token, " ")
    return text


def _writes(tokenizer: Any, messages: list[Message], options: Mapping[str, Any]) -> bool:
    """Whether the chat template writes the system message: some raise for one, some drop it."""
    try:
        return messages[0]["content"] in tokenizer.apply_chat_template(messages, tokenize=False, **options)
    except Exception:  # TemplateError, and what templates raise themselves
        return False


def _folded(messages: list[Message]) -> list[Message]:
    system, first, *rest = messages
    return [{"role": "user", "content": f"{system['content']}\n\n{first['content']}"}, *rest]


def load_prompt(name: str = "wikidata") -> Prompt:
    """The prompt of that name, or in the TOML file at that path. Raises InputError."""
    source = Path(name) if name.endswith(".toml") else files("refactx.prompts") / f"{name}.toml"
    try:
        fields = tomllib.loads(source.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"there is no prompt {name}: give the name of one, or the path of a .toml file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"the prompt {name} is not TOML: {error}") from error
    try:
        examples = tuple(Example(**example) for example in fields.pop("example", []))
        return _checked(Prompt(examples=examples, **fields))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"the prompt {name} is not as it should be ({error}): it has the texts system, trigger, marker, "
            "unknown, channel and asks, and [[example]] tables of a question and an answer"
        ) from error


def _checked(prompt: Prompt) -> Prompt:
    texts = [prompt.system, prompt.trigger, prompt.marker, prompt.unknown, prompt.channel, prompt.asks]
    texts += [text for example in prompt.examples for text in (example.question, example.answer)]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("something in it is not a text")
    if not prompt.marker.strip():
        raise ValueError("its marker is empty")
    return prompt
