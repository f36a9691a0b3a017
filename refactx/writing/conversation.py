"""Conversations as ids of a model, by the chat template of its tokenizer.

What users say is data and must not contain control tokens: any text of an added token of the tokenizer (`<|im_end|>`,
`<think>`) is removed by `without_control` before the chat template is applied.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from refactx.errors import ModelError

Message = dict[str, str]
"""A message of a conversation: `role` (`system`, `user` or `assistant`) and `content`."""


def conversation_ids(tokenizer: Any, messages: Sequence[Message]) -> list[int]:
    """Return the ids of a conversation up to the beginning of the assistant's turn. The first message is the system's.

    For a chat template without a system role, the system message begins the first user turn. Raises ModelError if the
    chat template cannot be used.
    """
    options = {"add_generation_prompt": True, "enable_thinking": False}  # templates ignore unknown options
    messages = list(messages)
    if messages[0]["content"].strip() and not _writes(tokenizer, messages, options):
        messages = folded(messages)
    try:
        encoded = tokenizer.apply_chat_template(messages, return_dict=False, **options)
    except Exception as error:  # a template may raise anything, in Jinja or by raise_exception
        raise ModelError(
            f"the model's chat template cannot write a conversation with examples: {error}. Choose another model"
        ) from error
    return list(encoded)


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


_THOUGHT = r"(?:\w+:)?(?:think|thinking|thoughts?|reasoning|reflection|analysis|scratchpad)"
_OPENED = (
    rf"^[ \t]*(?:<{_THOUGHT}(?:\s[^<>]*)?>|\[{_THOUGHT}\]|◁think▷|<\|(?:begin_of_thought|start_thinking)\|>"
    r"|<\|channel>\s*thought\b|\A(?-i:analysis(?=[A-Z<])))"
)
_CLOSED = (
    rf"(?:</{_THOUGHT}\s*>|\[/{_THOUGHT}\]|◁/think▷|<\|end_(?:of_thought|thinking)\|>|<channel\|>|(?-i:assistantfinal))"
)
_WHOLE = re.compile(rf"{_OPENED}.*?{_CLOSED}", re.IGNORECASE | re.DOTALL | re.MULTILINE)
_REST = re.compile(rf"\A.*{_CLOSED}|{_OPENED}.*\Z", re.IGNORECASE | re.DOTALL | re.MULTILINE)
_CHANNEL = re.compile(
    r"<\|channel\|>\s*(\w*)[^<]*<\|message\|>(.*?)(?=<\|(?:channel|start|end|return|call)\|>|\Z)", re.DOTALL
)


def without_thoughts(text: str) -> str:
    """Return what a model says to the user: without what it thinks, also in a thought that it has not ended.

    Thoughts stand in tags (`<think>`, `[THINK]`, `<reasoning>`, in any case, of which a prompt may have the first one), or
    in the channels of OpenAI's harmony format, of which `final` is the user's.

    >>> without_thoughts("<think>Rome?</think>Bern"), without_thoughts("Rome?</think> Bern"), without_thoughts("<think>Rome")
    ('Bern', ' Bern', '')
    >>> without_thoughts("<|channel|>analysis<|message|>Rome?<|end|><|start|>a<|channel|>final<|message|>Bern<|return|>")
    'Bern'
    """
    if channels := _CHANNEL.findall(text):
        return "".join(said for name, said in channels if name == "final")
    return _REST.sub("", _WHOLE.sub("", text))


def _writes(tokenizer: Any, messages: list[Message], options: Mapping[str, Any]) -> bool:
    """Return whether the chat template writes the system message: some raise an error for it, some drop it."""
    try:
        return messages[0]["content"] in tokenizer.apply_chat_template(messages, tokenize=False, **options)
    except Exception:  # TemplateError, and what templates raise themselves
        return False


def folded(messages: list[Message]) -> list[Message]:
    """Return the conversation with the system message at the beginning of the first user turn."""
    system, first, *rest = messages
    return [{"role": "user", "content": f"{system['content']}\n\n{first['content']}"}, *rest]
