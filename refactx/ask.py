"""One question to a model: prompt, generate, and read the facts and the final answer off what it wrote.

Decoding is deterministic: greedy, or beam search. Of the model's `generation_config.json` only the ids of special
tokens count, since penalties and sampling there were chosen for chat and would bend the names inside facts.
"""

import copy
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from refactx.errors import InputError, ModelError
from refactx.fact import Fact
from refactx.links import Link, LinkedFact
from refactx.models import check_chat_template
from refactx.prompt import Prompt, load_prompt
from refactx.state import FactSource

MAX_NEW_TOKENS = 512


class FactIndex(FactSource, Protocol):
    """An index that also knows the ids behind a fact."""

    def links(self, fact: Fact) -> LinkedFact:
        """The parts of a fact of this index with their ids."""
        ...


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model made of a question.

    `text`: all that it wrote, without special tokens. `answer`: what it gave as its final answer, empty if it came to
    none (see `final_answer`). `facts`: the facts it wrote, in order; their `token_span`s count from the start of the
    prompt. `links`: the same facts with their ids. `tokens`: how many ids it generated, the end of sequence included;
    `forward_passes`: how often the model ran; `seconds`: from the question to the answer.
    """

    question: str
    answer: str
    text: str
    facts: tuple[Fact, ...]
    links: tuple[LinkedFact, ...]
    tokens: int
    forward_passes: int
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """The answer as `refactx ask --json` prints it."""
        return {
            "question": self.question,
            "answer": self.answer,
            "text": self.text,
            "facts": [_fact_json(fact, linked) for fact, linked in zip(self.facts, self.links, strict=True)],
            "tokens": self.tokens,
            "forward_passes": self.forward_passes,
            "seconds": round(self.seconds, 3),
        }


def _fact_json(fact: Fact, linked: LinkedFact) -> dict[str, Any]:
    return {
        "text": fact.text,
        "subject": _link_json(linked.subject),
        "predicate": _link_json(linked.predicate),
        "object": _link_json(linked.object) if isinstance(linked.object, Link) else {"literal": linked.object},
        "inverse": linked.inverse,
    }


def _link_json(link: Link) -> dict[str, str | None]:
    return {"label": link.label, "id": link.id, "url": link.url}


def final_answer(text: str, marker: str, facts: Sequence[Fact] = ()) -> str:
    """What stands behind the last `marker` of a text, up to the end of the line; "" if there is none.

    A marker inside one of `facts` doesn't count. Asterisks around the marker or the answer go: chat models set them.

    >>> final_answer("Answer: no\\nSo **Answer:** Bern.\\nDone", "Answer:")
    'Bern.'
    """
    for fact in facts:
        text = text.replace(fact.text, "")
    _, found, behind = text.rpartition(marker)
    return behind.lstrip(" \t*").partition("\n")[0].strip().rstrip("*").rstrip() if found else ""


@dataclass
class _Counter:
    calls: int = field(default=0)


@contextmanager
def _forward_passes(model: Any) -> Iterator[_Counter]:
    """Count the model's forward passes for as long as the block lasts."""
    counter = _Counter()

    def count(*_: Any) -> None:
        counter.calls += 1

    hook = model.register_forward_pre_hook(count)
    try:
        yield counter
    finally:
        hook.remove()


class Asker:
    """Asks one model questions, over one index or (None) none.

    Holds no state between questions. Raises ModelError for a tokenizer without a chat template, and whatever
    `refactx.ground` raises for a model that doesn't fit the index.
    """

    def __init__(self, model: Any, tokenizer: Any, index: FactIndex | None, prompt: Prompt | None = None) -> None:
        import transformers  # seconds

        from refactx.grounded import ground  # imports torch and transformers

        check_chat_template(tokenizer)
        self._tokenizer, self._index, self._prompt = tokenizer, index, prompt or load_prompt()
        generation_config: Any = transformers.GenerationConfig  # it has no types
        # `generate` fills whatever a call leaves open from the model's own generation config, and takes no "leave it".
        # So the config is replaced, on a shallow copy: weights and hooks are shared, the caller's model stays as it is.
        given = model.generation_config
        self._stop = _ids(given.eos_token_id) | _ids(tokenizer.eos_token_id)
        pad = given.pad_token_id if given.pad_token_id is not None else tokenizer.pad_token_id
        self._model = copy.copy(model)
        self._model.generation_config = generation_config(
            bos_token_id=given.bos_token_id,
            eos_token_id=sorted(self._stop) or None,
            pad_token_id=pad if pad is not None else min(self._stop, default=None),
        )
        self._grounded = None if index is None else ground(self._model, tokenizer, index)
        self._prefix: Any = None  # False: there is none

    def ask(
        self,
        question: str,
        num_beams: int = 1,
        max_new_tokens: int = MAX_NEW_TOKENS,
        free: bool = False,
        streamer: Any = None,
        fact_beams: Any = None,
    ) -> Answer:
        """Ask one question. `free`: the same model and prompt without constraint, and so without facts.

        `streamer`: a Transformers streamer, for greedy decoding only. `fact_beams`: search each fact with beams (a number,
        or `refactx.FactBeams`). The beginning of the prompt, the same for all questions, is computed with the first
        alone. Raises InputError for a question without visible text, one too long for the model, numbers below 1, a
        streamer with beams, both kinds of beams, or no index where one is needed.
        """
        self._check(num_beams, max_new_tokens, free, streamer, fact_beams)
        started = time.perf_counter()
        inputs = self._prompt.encode(self._tokenizer, question)
        length = inputs["input_ids"].shape[1]
        room = getattr(self._model.config, "max_position_embeddings", None)
        if room is not None and length >= room:
            raise InputError(f"question and prompt are {length} tokens, and the model takes {room}: ask more briefly")
        inputs = {name: tensor.to(self._model.device) for name, tensor in inputs.items()}
        options = {"num_beams": num_beams, "max_new_tokens": max_new_tokens, "do_sample": False, "streamer": streamer}
        prefix = self._shared(inputs["input_ids"])
        with _forward_passes(self._model) as passes:
            if free or self._grounded is None:
                cache = None if prefix is None else prefix.cache_for(inputs["input_ids"], num_beams)
                out = self._model.generate(**inputs, **options, past_key_values=cache)
            else:
                out = self._grounded.generate(**inputs, **options, fact_beams=fact_beams, prefix=prefix)
        facts = () if free or self._grounded is None else tuple(self._grounded.facts(out)[0])
        ids = self._written(out[0, length:].tolist())
        text = self._tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False).strip()
        links = tuple(self._index.links(fact) for fact in facts) if self._index is not None else ()
        return Answer(
            question=question.strip(),
            answer=final_answer(text, self._prompt.marker, facts),
            text=text,
            facts=facts,
            links=links,
            tokens=len(ids),
            forward_passes=passes.calls,
            seconds=time.perf_counter() - started,
        )

    def _shared(self, ids: Any) -> Any:
        """What all prompts have in front of their questions, computed once; None where that can't be."""
        from refactx.prefix import prefill

        if self._prefix is None:
            self._prefix = False
            one, other = (self._prompt.encode(self._tokenizer, text)["input_ids"][0].tolist() for text in ("0", "?"))
            length = next((n for n, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), 0)
            if length and ids[0, :length].tolist() == one[:length]:
                with suppress(ModelError):
                    self._prefix = prefill(self._model, ids[:, :length])
        begins = self._prefix and self._prefix.ids.shape[1] < ids.shape[1]
        if not begins or (ids[:, : self._prefix.ids.shape[1]].cpu() != self._prefix.ids).any():
            return None
        return self._prefix

    def _check(self, num_beams: int, max_new_tokens: int, free: bool, streamer: Any, fact_beams: Any) -> None:
        if num_beams < 1 or max_new_tokens < 1:
            raise InputError(f"{num_beams} beams and {max_new_tokens} new tokens: both must be at least 1")
        if streamer is not None and num_beams > 1:
            raise InputError("beam search cannot stream, since it decides at the end: use num_beams=1")
        if fact_beams is not None and (free or num_beams > 1):
            raise InputError("fact beams search each fact within greedy text: leave out num_beams and free")
        if not free and self._index is None:
            raise InputError("there is no index to take facts from: give one, or ask freely (free=True)")

    def _written(self, ids: list[int]) -> list[int]:
        """The ids up to the first end of sequence, without the padding behind it."""
        end = next((position for position, number in enumerate(ids) if number in self._stop), len(ids) - 1)
        return ids[: end + 1]


def _ids(value: int | list[int] | None) -> set[int]:
    if value is None:
        return set()
    return {value} if isinstance(value, int) else set(value)
