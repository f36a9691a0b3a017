"""Servers of the tiny model, in threads of this process, on free ports."""

import io
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Event, Thread
from typing import Any

import httpx2
import openai

from refactx.ask.asker import Asker
from refactx.ask.prompt import Prompt
from refactx.server import Availability, ServingOptions, TextService, listen
from refactx.server.app import HttpServer
from refactx.server.http import RequestLog
from refactx.server.uploads import Uploads
from refactx.sparql.packs.translator import Translator
from support.tiny_asker import FACTS, LinkedIndex, chat_tokenizer
from support.tiny_model import tiny_fact_tokenizer, tiny_model

PROMPT = Prompt(system="Be true.")


@dataclass(frozen=True)
class Running:
    """A server that runs at `url`. `log`: what it has logged."""

    url: str
    service: TextService
    server: HttpServer
    log: io.StringIO

    def openai(self, **options: Any) -> openai.OpenAI:
        """A client of OpenAI's, without retries unless they are asked for."""
        return openai.OpenAI(base_url=f"{self.url}/v1", **{"api_key": "none", "max_retries": 0, **options})

    def get(self, path: str, **options: Any) -> httpx2.Response:
        return httpx2.get(f"{self.url}{path}", timeout=60, **options)

    def post(self, path: str, document: Any, **options: Any) -> httpx2.Response:
        return httpx2.post(f"{self.url}{path}", json=document, timeout=60, **options)

    @property
    def requests(self) -> list[dict[str, Any]]:
        """The lines of requests in the log."""
        lines = [json.loads(line) for line in self.log.getvalue().splitlines()]
        return [line for line in lines if line["event"] == "request"]


@contextmanager
def running(
    model: Any = None,
    index: Any = None,
    availability: Availability | None = None,
    translator: Translator | None = None,
    tokenizer: Any = None,
    others: Sequence[Any] = (),
    **options: Any,
) -> Iterator[Running]:
    """A server of a model, by default the tiny one with facts in memory, called `tiny`; with `others`, which are indexes
    too, it is called `tiny@NAME` by each one's name."""
    index, model = index or LinkedIndex(tiny_fact_tokenizer(), FACTS), model or tiny_model()
    service = TextService(
        model,
        tokenizer or chat_tokenizer(),
        index,
        ServingOptions(
            **{"name": f"tiny@{index.name}" if others else "tiny", "short": "tiny" if others else "", **options}
        ),
        prompt=PROMPT,
        availability=availability,
        translator=translator,
    )
    services = [service]
    for other in others:
        named = replace(service.options, name=f"tiny@{other.name}")
        services.append(
            TextService(service.model, service.model.tokenizer, other, named, prompt=PROMPT, slots=service.slots)
        )
    with served(services) as server:
        yield server


@contextmanager
def served(services: Sequence[TextService], uploads: Uploads | None = None) -> Iterator[Running]:
    """A server of services, which are closed with it."""
    log, started = io.StringIO(), Event()
    with listen("127.0.0.1", 0) as listening:
        server = HttpServer(services, RequestLog(log), started.set, uploads)
        thread = Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        started.wait(60)
        try:
            yield Running(f"http://127.0.0.1:{listening.getsockname()[1]}", services[0], server, log)
        finally:
            server.should_exit = True
            thread.join(60)
            for one in services:
                one.close()


def asker_alone(model: Any = None) -> Asker:
    """An asker with the same facts and prompt."""
    return Asker(model or tiny_model(), chat_tokenizer(), LinkedIndex(tiny_fact_tokenizer(), FACTS), PROMPT)


class Gate:
    """A tiny model whose passes wait while the gate is closed. `passes`: how many have begun."""

    def __init__(self) -> None:
        self.model, self.passes = tiny_model(), 0
        self._open, self._waits = Event(), Event()
        self._closes_at = 0
        self._open.set()
        self.model.register_forward_pre_hook(self._pass)

    def close(self) -> None:
        """Let the next pass wait."""
        self._waits.clear()
        self._open.clear()

    def close_at(self, number: int) -> None:
        """Let the pass of that number wait, counted from now."""
        self._waits.clear()
        self._closes_at = self.passes + number

    def open(self) -> None:
        """Let passes go on."""
        self._open.set()

    def wait_until_reached(self) -> None:
        """Return when a pass waits."""
        assert self._waits.wait(60)

    def _pass(self, *_: object) -> None:
        self.passes += 1
        if self.passes == self._closes_at:
            self.close()
        if not self._open.is_set():
            self._waits.set()
        assert self._open.wait(60)


def said(text: str) -> list[dict[str, str]]:
    """A conversation of one message."""
    return [{"role": "user", "content": text}]


def eventually(condition: Callable[[], bool]) -> bool:
    """Whether a condition holds within some seconds."""
    pause = Event()
    return any(condition() or pause.wait(0.02) for _ in range(1500))
