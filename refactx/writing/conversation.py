"""Conversations as ids of a model, by the chat template of its tokenizer.

What users say is data and must not contain control tokens: any text of an added token of the tokenizer (`<|im_end|>`,
`<think>`) is removed by `without_control` before the chat template is applied.
"""

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
        messages = _folded(messages)
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


def _writes(tokenizer: Any, messages: list[Message], options: Mapping[str, Any]) -> bool:
    """Return whether the chat template writes the system message: some raise an error for it, some drop it."""
    try:
        return messages[0]["content"] in tokenizer.apply_chat_template(messages, tokenize=False, **options)
    except Exception:  # TemplateError, and what templates raise themselves
        return False


def _folded(messages: list[Message]) -> list[Message]:
    """Return the conversation with the system message at the beginning of the first user turn."""
    system, first, *rest = messages
    return [{"role": "user", "content": f"{system['content']}\n\n{first['content']}"}, *rest]
