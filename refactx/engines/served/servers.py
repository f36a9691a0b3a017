"""Servers of models that score given ids: vLLM, SGLang and llama-server, each asked by its own API.

Two things are asked for: texts that continue prompts, with the log-probabilities of the likeliest ids at each place, and
the log-probabilities of given ids. Prompts are token ids, and many of them go into one request. What each server gives:

| | vLLM | SGLang | llama-server |
|---|---|---|---|
| texts | `/v1/completions` | `/generate` | `/completion` |
| one of given ids | `allowed_token_ids` | `logit_bias` | `logit_bias` |
| given ids after a prompt | `logprob_token_ids` | `token_ids_logprob` | the likeliest 1,000 |
| the last ids of a prompt | each id after the ids before it | `logprob_start_len` | written by a grammar of these ids |

vLLM has `prompt_logprobs` too, but then it reads the whole prompt anew: nothing comes from its prefix cache.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

from refactx.engines.served.connection import Connection, RefusedError
from refactx.engines.writer import common_length
from refactx.errors import ModelError

MOST_PROMPTS = 256
"""The most prompts of a request."""

WRITTEN = 4
"""How many ids llama-server reads in the time in which it writes one: 13 and 55 ms with 0.5B parameters on two cores."""

Row = dict[int, float]
"""The log-probabilities after a text that are known, by id."""

_FORCING = 10_000.0
"""What is added to the logits of ids of which one has to follow: more than logits differ."""


@dataclass(frozen=True, slots=True)
class Continuation:
    """The `ids` that follow a prompt, and the rows before each of them; `ended`: whether the model ended the text."""

    ids: list[int]
    rows: list[Row]
    ended: bool = False


class ModelServer(ABC):
    """A model on a server. `model`: its name there; `room`: the most ids of a text, None if the server does not say.

    `identity`: what tells this model from another one behind the same name; `kind`: what the server is called.
    """

    kind = "server"

    def __init__(self, connection: Connection, model: str, room: int | None, identity: str) -> None:
        self.connection, self.model, self.room, self.identity = connection, model, room, identity

    def write(
        self,
        prompts: Sequence[Sequence[int]],
        most: int,
        stop: Sequence[str] = (),
        allowed: Sequence[int] | None = None,
    ) -> list[Continuation]:
        """Return the likeliest continuation of each prompt, of at most `most` ids.

        A text ends before the first of the texts `stop`, or somewhat after it. `allowed`: the ids of which each is one.
        """
        ends = {"stop": list(stop)} if stop else {}
        return self._written(prompts, self._options(most) | ends | ({} if allowed is None else self._allow(allowed)))

    @abstractmethod
    def _written(self, prompts: Sequence[Sequence[int]], options: Mapping[str, Any]) -> list[Continuation]:
        """Return the continuations of prompts, given options of the server."""

    @abstractmethod
    def _options(self, most: int) -> dict[str, Any]:
        """Return the server's options for at most so many ids, each with the likeliest ones in its place."""

    @abstractmethod
    def _allow(self, allowed: Sequence[int]) -> dict[str, Any]:
        """Return the server's options for texts of some ids alone."""

    @abstractmethod
    def rows(self, prompts: Sequence[Sequence[int]], asked: Sequence[Sequence[int]]) -> list[Row]:
        """Return the log-probabilities after each prompt: of the ids that are `asked` for, or of the likeliest ones."""

    @abstractmethod
    def scores(self, texts: Sequence[tuple[Sequence[int], int]]) -> list[list[float]]:
        """Return the log-probabilities of the last ids of each text: of how many is given with it."""

    @abstractmethod
    def tokenize(self, text: str) -> list[int] | None:
        """Return the ids of a text by the server's tokenizer, no special ones among them; None if it does not tell."""

    @abstractmethod
    def conversation(self, messages: Sequence[Mapping[str, str]]) -> list[int] | None:
        """Return the ids of a conversation by the server's chat template; None if it does not tell."""

    @abstractmethod
    def look(self) -> str:
        """Return the identity of the model that the server has now."""

    def ask(self, path: str, body: Mapping[str, Any]) -> Any:
        """Return the answer to a request. Raises ModelError if the server has another model than before."""
        answer = self.connection.post(path, body)
        if self.connection.failed and (now := self.look()) != self.identity:
            raise ModelError(
                f"the model server {self.connection.shown} has another model now ({now}) than at the beginning "
                f"({self.identity}): ask again"
            )
        self.connection.failed = False
        return answer

    def fail(self, reason: str) -> NoReturn:
        """Raise the error for an answer that cannot be read."""
        raise ModelError(
            f"the answer of the model server {self.connection.shown} ({self.kind}) {reason}: check its log"
        )

    def number(self, value: Any) -> float:
        """Return a log-probability of an answer. Raises ModelError if it is none."""
        if not isinstance(value, int | float) or math.isnan(value):
            self.fail(f"has {value!r} for a log-probability")
        return float(value)

    def one_each(self, found: Any, prompts: Sequence[object]) -> list[Any]:
        """Return what was found if it is a list with one for each prompt."""
        if not isinstance(found, list) or len(found) != len(prompts):
            self.fail(f"has not one text for each of {len(prompts)} prompts")
        return found


def _parts(some: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for begin in range(0, len(some), MOST_PROMPTS):
        yield some[begin : begin + MOST_PROMPTS]


class VllmServer(ModelServer):
    """vLLM's OpenAI server."""

    kind = "vLLM"
    _likeliest = 20  # --max-logprobs, unless the server was given another number
    _most_asked = 100  # it takes at most 128 at a time

    @classmethod
    def found(cls, connection: Connection, model: str | None) -> "VllmServer | None":
        """Return the server if it is one."""
        if not isinstance(connection.look("version"), dict):
            return None
        one = _served(connection, model)
        return cls(connection, one["id"], one.get("max_model_len"), cls._identity(one))

    @staticmethod
    def _identity(one: Mapping[str, Any]) -> str:
        return f"{one['id']}, {one.get('root')}, {one.get('max_model_len')} tokens"

    def look(self) -> str:
        return self._identity(_served(self.connection, self.model))

    def _options(self, most: int) -> dict[str, Any]:
        return {"max_tokens": most, "logprobs": self._likeliest}

    def _allow(self, allowed: Sequence[int]) -> dict[str, Any]:
        return {"allowed_token_ids": list(allowed)}

    def _written(self, prompts: Sequence[Sequence[int]], options: Mapping[str, Any]) -> list[Continuation]:
        return [self._read(choice) for choice in self._complete(prompts, options)]

    def rows(self, prompts: Sequence[Sequence[int]], asked: Sequence[Sequence[int]]) -> list[Row]:
        wanted = sorted({token for some in asked for token in some})
        if not wanted or len(wanted) > self._most_asked:
            return [one.rows[0] if one.rows else {} for one in self.write(prompts, 1)]
        options = {"max_tokens": 1, "logprobs": 1, "logprob_token_ids": wanted}
        found = [one.rows[0] for one in self._written(prompts, options)]
        if any(token not in row for row in found for token in wanted):
            self.fail(
                "has no log-probabilities of the ids in `logprob_token_ids`, as vLLM 0.32 has: a newer vLLM is needed"
            )
        return found

    def scores(self, texts: Sequence[tuple[Sequence[int], int]]) -> list[list[float]]:
        places = [
            (number, end) for number, (ids, count) in enumerate(texts) for end in range(len(ids) - count, len(ids))
        ]
        found: list[list[float]] = [[] for _ in texts]
        for some in _by_ids(places, texts, self._most_asked):
            prompts = [list(texts[number][0][:end]) for number, end in some]
            asked = [[texts[number][0][end]] for number, end in some]
            for (number, _), row, (token,) in zip(some, self.rows(prompts, asked), asked, strict=True):
                found[number].append(row[token])
        return found

    def tokenize(self, text: str) -> list[int] | None:
        answer = self.ask("tokenize", {"model": self.model, "prompt": text, "add_special_tokens": False})
        return list(answer["tokens"])

    def conversation(self, messages: Sequence[Mapping[str, str]]) -> list[int] | None:
        options = {"add_generation_prompt": True, "chat_template_kwargs": {"enable_thinking": False}}
        said = [dict(message) for message in messages]
        return list(self.ask("tokenize", {"model": self.model, "messages": said, **options})["tokens"])

    def _complete(self, prompts: Sequence[Sequence[int]], options: Mapping[str, Any]) -> list[Any]:
        """Return the choices for prompts."""
        body = {"model": self.model, "temperature": 0, "return_tokens_as_token_ids": True, **options}
        found: list[Any] = []
        for some in _parts(prompts):
            answer = self.ask("v1/completions", {**body, "prompt": [list(ids) for ids in some]})
            self.connection.usage.requests += 1
            self._count(answer.get("usage") or {})
            choices = self.one_each(answer.get("choices"), some)
            found += sorted(choices, key=lambda one: int(one["index"]))
        return found

    def _count(self, usage: Mapping[str, Any]) -> None:
        own = self.connection.usage
        own.prompt += usage.get("prompt_tokens") or 0
        own.written += usage.get("completion_tokens") or 0
        own.cached += (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0

    def _read(self, choice: Mapping[str, Any]) -> Continuation:
        """Return the continuation that a choice is."""
        given = choice.get("logprobs")
        if not given:
            self.fail("has no log-probabilities")
        ids = [_numbered(token) for token in given["tokens"]]
        rows: list[Row] = []
        for token, own, others in zip(ids, given["token_logprobs"], given["top_logprobs"], strict=True):
            row = {_numbered(name): self.number(value) for name, value in (others or {}).items()}
            rows.append(row | {token: self.number(own)})
        return Continuation(ids, rows, choice.get("finish_reason") == "stop" and choice.get("stop_reason") is None)


def _by_ids(
    places: Sequence[tuple[int, int]], texts: Sequence[tuple[Sequence[int], int]], most: int
) -> Iterator[list[tuple[int, int]]]:
    """Yield the places of texts in parts whose next ids are at most `most` different ones, in their order."""
    part: list[tuple[int, int]] = []
    ids: set[int] = set()
    for number, end in places:
        if len(ids | {texts[number][0][end]}) > most:
            yield part
            part, ids = [], set()
        part.append((number, end))
        ids.add(texts[number][0][end])
    if part:
        yield part


def _numbered(token: str) -> int:
    """Return the id that vLLM writes for a token.

    >>> _numbered("token_id:5")
    5
    """
    return int(token.removeprefix("token_id:"))


class SglangServer(ModelServer):
    """SGLang's native API."""

    kind = "SGLang"
    _likeliest = 100

    @classmethod
    def found(cls, connection: Connection, model: str | None) -> "SglangServer | None":
        """Return the server if it is one."""
        about = connection.look("get_model_info") or connection.look("model_info")
        if not isinstance(about, dict) or "model_path" not in about:
            return None
        served = _served(connection, model)
        return cls(connection, served["id"], served.get("max_model_len"), str(about["model_path"]))

    def look(self) -> str:
        about = self.connection.look("get_model_info") or self.connection.look("model_info") or {}
        return str(about.get("model_path"))

    def _options(self, most: int) -> dict[str, Any]:
        return {"max_new_tokens": most, "skip_special_tokens": False}

    def _allow(self, allowed: Sequence[int]) -> dict[str, Any]:
        return {"logit_bias": {str(token): _FORCING for token in allowed}}

    def _written(self, prompts: Sequence[Sequence[int]], options: Mapping[str, Any]) -> list[Continuation]:
        return [self._read(one) for one in self._generate(prompts, options, {"top_logprobs_num": self._likeliest})]

    def rows(self, prompts: Sequence[Sequence[int]], asked: Sequence[Sequence[int]]) -> list[Row]:
        options = {"top_logprobs_num": self._likeliest, "token_ids_logprob": [list(some) for some in asked]}
        rows: list[Row] = []
        for meta in self._generate(prompts, {"max_new_tokens": 1}, options):
            [row] = self._read(meta).rows[:1] or [{}]
            [given] = (meta.get("output_token_ids_logprobs") or [[]])[:1]
            rows.append(row | {int(token): self.number(value) for value, token, *_ in given or ()})
        return rows

    def scores(self, texts: Sequence[tuple[Sequence[int], int]]) -> list[list[float]]:
        starts = [len(ids) - count - 1 for ids, count in texts]
        found: list[list[float]] = []
        options = {"logprob_start_len": starts}
        for (ids, count), meta in zip(
            texts, self._generate([ids for ids, _ in texts], {"max_new_tokens": 0}, options), strict=True
        ):
            given = (meta.get("input_token_logprobs") or [])[-count:]
            if [token for _, token, *_ in given] != list(ids[len(ids) - count :]):
                self.fail("has not the log-probabilities of the prompt's last ids")
            found.append([self.number(value) for value, *_ in given])
        return found

    def tokenize(self, text: str) -> list[int] | None:
        try:
            answer = self.ask("tokenize", {"model": self.model, "prompt": text, "add_special_tokens": False})
        except RefusedError:
            return None
        return list(answer["tokens"])

    def conversation(self, messages: Sequence[Mapping[str, str]]) -> list[int] | None:
        return None

    def _generate(
        self, prompts: Sequence[Sequence[int]], sampling: Mapping[str, Any], options: Mapping[str, Any]
    ) -> list[Any]:
        """Return what is told of the text after each prompt. A list among `options` has a value for each prompt."""
        found: list[Any] = []
        for begin in range(0, len(prompts), MOST_PROMPTS):
            some, own = prompts[begin : begin + MOST_PROMPTS], slice(begin, begin + MOST_PROMPTS)
            body = {name: value[own] if isinstance(value, list) else value for name, value in options.items()}
            body |= {"input_ids": [list(ids) for ids in some], "return_logprob": True}
            answer = self.ask("generate", {**body, "sampling_params": {"temperature": 0, **sampling}})
            self.connection.usage.requests += 1
            for one in self.one_each(answer if isinstance(answer, list) else [answer], some):
                meta, usage = one.get("meta_info") or {}, self.connection.usage
                usage.prompt += meta.get("prompt_tokens") or 0
                usage.cached += meta.get("cached_tokens") or 0
                usage.written += meta.get("completion_tokens") or 0
                found.append(meta)
        return found

    def _read(self, meta: Mapping[str, Any]) -> Continuation:
        chosen, top = meta.get("output_token_logprobs") or [], meta.get("output_top_logprobs") or []
        ids = [int(token) for _, token, *_ in chosen]
        rows: list[Row] = []
        for number, (own, token, *_) in enumerate(chosen):
            others = top[number] if number < len(top) and top[number] else ()
            rows.append({int(one): self.number(value) for value, one, *_ in others} | {int(token): self.number(own)})
        reason = meta.get("finish_reason") or {}
        ended = reason.get("type") == "stop" and not isinstance(reason.get("matched"), str)
        return Continuation(ids, rows, ended)


class LlamaServer(ModelServer):
    """llama.cpp's server. It keeps what it has read in `slots`, each with one text.

    By itself it gives a prompt to any slot with much of its beginning, whatever else is lost there: so the slot of each
    prompt is chosen here.
    """

    kind = "llama-server"
    _likeliest, _candidates = 100, 1000

    def __init__(self, connection: Connection, model: str, room: int | None, identity: str, slots: int = 1) -> None:
        super().__init__(connection, model, room, identity)
        self._texts_in_slots: list[list[int]] = [[] for _ in range(slots)]

    @classmethod
    def found(cls, connection: Connection, model: str | None) -> "LlamaServer | None":
        """Return the server if it is one."""
        about = connection.look("props")
        if not isinstance(about, dict) or "total_slots" not in about:
            return None
        room = (about.get("default_generation_settings") or {}).get("n_ctx")
        name = model or str(about.get("model_alias") or about.get("model_path"))
        return cls(connection, name, room, str(about.get("model_path")), max(1, int(about["total_slots"])))

    def look(self) -> str:
        return str((self.connection.look("props") or {}).get("model_path"))

    def _options(self, most: int) -> dict[str, Any]:
        return {"n_predict": most, "n_probs": self._likeliest}

    def _allow(self, allowed: Sequence[int]) -> dict[str, Any]:
        return {"logit_bias": [[token, _FORCING] for token in allowed]}

    def rows(self, prompts: Sequence[Sequence[int]], asked: Sequence[Sequence[int]]) -> list[Row]:
        # It tells nothing of an id that does not end a character: an id that does is written.
        options = {"n_predict": 1, "n_probs": self._candidates, "logit_bias": [[self._letter, _FORCING]]}
        found = [_told(one) for one in self._complete(prompts, options)]
        if not all(found):
            self.fail("has no log-probabilities")
        return [self._row(one) for one, *_ in found]

    def scores(self, texts: Sequence[tuple[Sequence[int], int]]) -> list[list[float]]:
        alike: dict[tuple[int, ...], list[int]] = {}
        for number, (ids, count) in enumerate(texts):
            alike.setdefault(tuple(ids[len(ids) - count :]), []).append(number)
        found: list[list[float]] = [[] for _ in texts]
        for last, numbers in alike.items():
            prompts = [texts[number][0][: -len(last)] for number in numbers]
            grammar = "root ::= " + " ".join(f"<[{token}]>" for token in last)
            options = {"n_predict": len(last), "n_probs": 1, "grammar": grammar}
            for number, written in zip(numbers, self._written(prompts, options), strict=True):
                if tuple(written.ids) != last:
                    self.fail("has other ids than its grammar: a newer llama-server is needed, with ids in grammars")
                found[number] = [row[token] for row, token in zip(written.rows, last, strict=True)]
        return found

    def tokenize(self, text: str) -> list[int] | None:
        return list(self.ask("tokenize", {"content": text, "add_special": False, "parse_special": False})["tokens"])

    def conversation(self, messages: Sequence[Mapping[str, str]]) -> list[int] | None:
        options = {"add_generation_prompt": True, "chat_template_kwargs": {"enable_thinking": False}}
        said = [dict(message) for message in messages]
        text = self.ask("apply-template", {"messages": said, **options})["prompt"]
        return list(self.ask("tokenize", {"content": text, "add_special": True, "parse_special": True})["tokens"])

    def _complete(self, prompts: Sequence[Sequence[int]], options: Mapping[str, Any]) -> list[Any]:
        """Return what is told of the text after each prompt. Each slot has requests, of the prompts that go there."""
        body = {"temperature": 0, "cache_prompt": True, "return_tokens": True, **options}

        def send(slot: int, numbers: Sequence[int]) -> list[Any]:
            answers: list[Any] = []
            for some in _parts(numbers):
                given = [list(prompts[number]) for number in some]
                asked = {**body, "id_slot": slot, "prompt": given[0] if len(given) == 1 else given}
                answer = self.ask("completion", asked)
                answers += self.one_each(answer if isinstance(answer, list) else [answer], some)
            return answers

        shares = self._shares(prompts, options["n_predict"])
        found: dict[int, Any] = {}
        with ThreadPoolExecutor(len(shares)) as pool:
            for numbers, answers in zip(shares.values(), pool.map(send, shares, shares.values()), strict=True):
                found.update(zip(numbers, answers, strict=True))
        usage = self.connection.usage
        usage.requests += sum(len(list(_parts(numbers))) for numbers in shares.values())
        for one in found.values():
            told = one.get("tokens_evaluated") or 0
            usage.prompt += told
            usage.cached += told - ((one.get("timings") or {}).get("prompt_n") or 0)
            usage.written += one.get("tokens_predicted") or 0
        return [found[number] for number in range(len(prompts))]

    def _shares(self, prompts: Sequence[Sequence[int]], most: int) -> dict[int, list[int]]:
        """Return the numbers of the prompts for each slot: a prompt goes where it soonest has what it needs.

        That takes the ids which are read, those of another text that are lost, and what the slot has to do before.
        """
        shares: dict[int, list[int]] = {}
        busy = [0] * len(self._texts_in_slots)
        for number, prompt in enumerate(prompts):
            ids = list(prompt)
            new = [len(ids) - common_length(ids, text) for text in self._texts_in_slots]
            costs = [
                2 * new[slot] + len(text) - len(ids) + busy[slot] for slot, text in enumerate(self._texts_in_slots)
            ]
            slot = costs.index(min(costs))
            busy[slot] += new[slot] + WRITTEN * most
            self._texts_in_slots[slot] = ids
            shares.setdefault(slot, []).append(number)
        return shares

    def _written(self, prompts: Sequence[Sequence[int]], options: Mapping[str, Any]) -> list[Continuation]:
        """Return the continuations of prompts.

        llama-server tells nothing of ids that do not end a character, and of those of a text that ended it. Their rows are
        asked for; of the latter only the first: the others follow.
        """
        found: list[tuple[list[int], list[Row | None], bool]] = []
        for one in self._complete(prompts, options):
            told = _told(one)
            ids, rows, left = [int(token) for token in one.get("tokens") or (each["id"] for each in told)], [], told
            for token in ids:
                own, left = (left[0], left[1:]) if left and int(left[0]["id"]) == token else (None, left)
                rows.append(None if own is None else self._row(own))
            if one.get("stop_type") == "word":
                last = next((at for at in range(len(rows), 0, -1) if rows[at - 1] is not None), 0)
                rows[last + 1 :] = [{token: 0.0} for token in ids[last + 1 :]]
            found.append((ids, rows, one.get("stop_type") == "eos"))
        places = [
            (number, at) for number, (_, rows, _) in enumerate(found) for at, row in enumerate(rows) if row is None
        ]
        asked = [[*prompts[number], *found[number][0][:at]] for number, at in places]
        for (number, at), row in zip(places, self.rows(asked, [()] * len(asked)) if asked else (), strict=True):
            ids, rows, _ = found[number]
            rows[at] = {ids[at]: min(row.values()), **row}
        return [Continuation(ids, [row or {} for row in rows], ended) for ids, rows, ended in found]

    def _row(self, place: Mapping[str, Any]) -> Row:
        row = {int(other["id"]): self.number(other.get("logprob")) for other in place.get("top_logprobs") or ()}
        return row | {int(place["id"]): self.number(place.get("logprob"))}

    @cached_property
    def _letter(self) -> int:
        """An id that ends a character."""
        ids = self.tokenize("a")
        return ids[0] if ids else 0


def _told(one: Mapping[str, Any]) -> list[Any]:
    """Return what llama-server tells of the ids of a text."""
    return list(one.get("completion_probabilities") or ())


def _served(connection: Connection, model: str | None) -> Mapping[str, Any]:
    """Return what `/v1/models` says of a model, or of the only one. Raises ModelError if it is not there."""
    answer = connection.look("v1/models")
    given = answer.get("data") if isinstance(answer, dict) else None
    models = [one for one in given or () if isinstance(one, dict) and "id" in one]
    found = [one for one in models if model is None or one["id"] == model]
    if len(found) != 1 and not (found and model is not None):
        names = ", ".join(sorted(str(one["id"]) for one in models)) or "none"
        said = "no --model was given" if model is None else f"there is no model {model!r}"
        raise ModelError(
            f"the model server {connection.shown} has these models: {names}; {said}: give one with --model"
        )
    return found[0]


def find_server(connection: Connection, model: str | None = None) -> ModelServer | None:
    """Return the server that scores ids, found by asking; None for a server that has none of the APIs, and may chat.

    `model`: its name there, None for the only one. Raises ModelError if the server cannot be reached, or has not the model.
    """
    for kind in (LlamaServer, VllmServer, SglangServer):
        server = kind.found(connection, model)
        if server is not None:
            return server
    return None
