"""A tiny model that writes what a test says, and chat templates of models that think, with their marks as tokens."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tokenizers import AddedToken
from transformers import PreTrainedTokenizerFast

from support.tiny_asker import chat_tokenizer
from support.tiny_model import tiny_model

TURNS = "{% for m in messages %}{{ '<s>' + m['role'] + ': ' + m['content'] + '</s>' }}{% endfor %}"
_TURN = "{% if add_generation_prompt %}{{ '<s>assistant: ' }}"
_OFF = "{% if enable_thinking is defined and not enable_thinking %}{{ 'OPENED\n\nCLOSED\n\n' }}{% endif %}"
HARMONY = ("<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|return|>")
_HARMONY_TURNS = "{{ '<|start|>' + m['role'] + '<|channel|>final<|message|>' + m['content'] + '<|end|>' }}"
TEMPLATES = {
    "option": TURNS + _TURN + _OFF.replace("OPENED", "<think>").replace("CLOSED", "</think>") + "{% endif %}",
    "always": TURNS + _TURN + "{{ '<think>\n' }}{% endif %}",
    "variable": TURNS + _TURN + "{{ '<think>' if thinking else '</think>' }}{% endif %}",
    "by itself": "{# <think></think> #}" + TURNS + _TURN + "{% endif %}",
    "brackets": "{# [THINK]...[/THINK] #}" + TURNS + _TURN + "{% endif %}",
    "triangles": TURNS + _TURN + "{{ '◁think▷' }}{% endif %}",
    "gemma": TURNS + _TURN + "{% if not enable_thinking %}{{ '<|channel>thought\n<channel|>' }}{% endif %}{% endif %}",
    "harmony": "{% for m in messages %}" + _HARMONY_TURNS + "{% endfor %}{# <|channel|>analysis<|message|> #}"
    "{% if add_generation_prompt %}{{ '<|start|>assistant' }}{% endif %}",
    "sentences": "{# Here is my thought process: Here is my response: #}" + TURNS + _TURN + "{% endif %}",
}
"""Chat templates whose prompts end as those of well-known models do, by how they think."""
ADDED: dict[str, Sequence[str]] = {
    "brackets": ("[THINK]", "[/THINK]"),
    "gemma": ("<|channel>", "<channel|>"),
    "harmony": HARMONY,
    "triangles": (),
    "sentences": (),
}
"""The tokens of marks, by template: `<think>` and `</think>` by default, which are no special tokens."""


def thinking_tokenizer(kind: str) -> PreTrainedTokenizerFast:
    """The tiny tokenizer with a template of `TEMPLATES` and the tokens of its marks."""
    tokenizer = chat_tokenizer(TEMPLATES[kind])
    special = kind not in ("option", "always", "variable", "by itself")
    added = [AddedToken(text, special=special, normalized=False) for text in ADDED.get(kind, ("<think>", "</think>"))]
    tokenizer.add_tokens(added, special_tokens=special)
    return tokenizer


class Script:
    """What a model writes after a prompt of `start` ids: `ids`, then the end of the text."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer, self.start, self.ids, self.then = tokenizer, 0, list[int](), tokenizer.eos_token_id

    def say(self, start: int, text: str, then: str = "</s>") -> None:
        """Write a text, and then one token again and again."""
        self.start, self.ids = start, self._tokenizer.encode(text, add_special_tokens=False)
        self.then = self._tokenizer.convert_tokens_to_ids(then)

    def after(self, position: int) -> int:
        """Return the id after the one at a position."""
        at = position + 1 - self.start
        return self.ids[at] if 0 <= at < len(self.ids) else self.then


@contextmanager
def scripted_model(tokenizer: Any) -> Iterator[tuple[Any, Script]]:
    """Yield the tiny model, and the script that it follows."""
    model, script = tiny_model(), Script(tokenizer)

    def follow(_: Any, __: Any, kwargs: Any, out: Any) -> None:
        places = kwargs["position_ids"][..., -out.logits.shape[1] :]
        for row, positions in enumerate(places.tolist()):
            for at, position in enumerate(positions):
                out.logits[row, at] = -9.0
                out.logits[row, at, script.after(position)] = 9.0

    hook = model.register_forward_hook(follow, with_kwargs=True)
    yield model, script
    hook.remove()
