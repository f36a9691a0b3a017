"""Conversations as ids of a model, by its chat template.

What users say is data and must not contain control tokens: any text of an added token of the tokenizer (`<|im_end|>`,
`<think>`) is removed by `without_control` before the chat template is applied.

Whether a model thinks before it answers is seen from its template: written with and without the options that templates
have for it (`enable_thinking`, `thinking`), a prompt may end in an opened thought, or in a closed one (`thinking_of`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from refactx.decoding.thoughts import Marks, ThoughtTokens, marks_in
from refactx.errors import ModelError

Message = dict[str, str]
"""A message of a conversation: `role` (`system`, `user` or `assistant`) and `content`."""

_PROBE = "zebra 4096"
"""A question that no template has a text of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thinking:
    """How the replies by a chat template think. `marks`: of thoughts; None: the template has none.

    `off`, `on`: the text after the template's own, for a reply without a thought and for one that begins with one.
    """

    marks: Marks | None = None
    off: str = ""
    on: str = ""

    def tokens(self, tokenizer: Any) -> ThoughtTokens | None:
        """Return the marks as a tokenizer writes them; None without marks."""
        if self.marks is None:
            return None
        added = {number: str(token) for number, token in getattr(tokenizer, "added_tokens_decoder", {}).items()}
        return ThoughtTokens.of(self.marks, lambda text: list(tokenizer.encode(text, add_special_tokens=False)), added)


_known_thinking: WeakKeyDictionary[Any, tuple[Any, Thinking]] = WeakKeyDictionary()  # by tokenizer, with its template


def thinking_of(tokenizer: Any) -> Thinking:
    """Return how replies by a tokenizer's chat template think, as its prompts and its text show."""
    template = getattr(tokenizer, "chat_template", None)
    known, found = _known_thinking.get(tokenizer, (None, Thinking()))
    if known != template:
        found = _find_thinking(tokenizer)
        _known_thinking[tokenizer] = template, found
    return found


def _find_thinking(tokenizer: Any) -> Thinking:
    off, on = (_end_of_prompt(tokenizer, think=think) for think in (False, True))
    templates = getattr(tokenizer, "chat_template", None)
    source = "".join(templates.values()) if isinstance(templates, dict) else str(templates)
    added = " ".join(map(str, getattr(tokenizer, "added_tokens_decoder", {}).values()))
    marks = next(filter(None, map(marks_in, (on, off, source, added))), None)
    if marks is None:
        return Thinking()
    is_open = [text.rfind(marks.opens) > text.rfind(marks.closes) for text in (off, on)]
    skips = "" if marks.skips in off else marks.skips
    return Thinking(
        marks=marks,
        off=marks.closing if is_open[0] else skips,
        on="" if is_open[1] else f"{marks.opens}{marks.begin}",
    )


def _end_of_prompt(tokenizer: Any, *, think: bool) -> str:
    """Return the text of a prompt after the question; "" if the template cannot write one."""
    try:
        text: str = tokenizer.apply_chat_template(
            [{"role": "user", "content": _PROBE}], tokenize=False, **_options(think=think)
        )
    except Exception:  # a template may raise anything
        return ""
    return text.rpartition(_PROBE)[2]


def _options(*, think: bool) -> dict[str, Any]:
    """Return the variables of chat templates, which ignore those that they do not know."""
    return {"add_generation_prompt": True, "enable_thinking": think, "thinking": think}


def conversation_ids(
    tokenizer: Any, messages: Sequence[Mapping[str, Any]], *, think: bool = False, tools: Sequence[Any] = ()
) -> list[int]:
    """Return the ids of a conversation up to the beginning of the assistant's turn.

    `tools`: those that the prompt has, as chat templates take them.

    `think`: whether the prompt ends in an opened thought; else it has none, or one that is closed at once. For a chat
    template without a system role, the system message begins the first user turn. Raises ModelError if the chat
    template cannot be used.
    """
    options, messages = _options(think=think) | ({"tools": tools} if tools else {}), [dict(one) for one in messages]
    has_system = messages[0]["role"] == "system" and bool(messages[0]["content"].strip())
    if has_system and not _writes(tokenizer, messages, options):
        messages = folded(messages)
    try:
        encoded = tokenizer.apply_chat_template(messages, return_dict=False, **options)
    except Exception as error:  # a template may raise anything, in Jinja or by raise_exception
        raise ModelError(
            f"the model's chat template cannot write a conversation with examples: {error}. Choose another model"
        ) from error
    found = thinking_of(tokenizer)
    rest = found.on if think else found.off
    return [*encoded, *(tokenizer.encode(rest, add_special_tokens=False) if rest else ())]


def without_control(tokenizer: Any, text: str) -> str:
    """Return `text` without the texts of the tokenizer's added tokens; lone surrogates become `?`."""
    added = [str(token) for token in getattr(tokenizer, "added_tokens_decoder", {}).values()]
    # Words and white space, which some tokenizers add, are not control tokens.
    control = sorted((token for token in added if not token.replace(" ", "").isalnum() and token.strip()), key=len)
    text = text.encode("utf-8", "replace").decode()
    before = None
    while text != before:  # the texts around a removed token may form another
        before = text
        for token in reversed(control):
            text = text.replace(token, " ")
    return text


def _writes(tokenizer: Any, messages: Sequence[Mapping[str, Any]], options: Mapping[str, Any]) -> bool:
    """Return whether the chat template writes the system message: some raise an error for it, some drop it."""
    try:
        return messages[0]["content"].strip() in tokenizer.apply_chat_template(messages, tokenize=False, **options)
    except Exception:  # TemplateError, and what templates raise themselves
        return False


def folded(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the conversation with the system message at the beginning of the first user turn."""
    system, first, *rest = messages
    return [{"role": "user", "content": f"{system['content']}\n\n{first['content']}"}, *map(dict, rest)]
