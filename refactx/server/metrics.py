"""The figures of a server for Prometheus, with the names that vLLM gives to the same figures, as `refactx:...`."""

import time
from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from refactx.index.index import Index
from refactx.server.http.slots import Slots
from refactx.server.text.events import Record

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250)
TOKEN_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)


class Metrics:
    """The figures of one server. `name`: of the model; `slots`: whose requests are counted; `index`: whose lookups."""

    def __init__(self, name: str, slots: Slots, index: Any) -> None:
        self._registry, self._labels = CollectorRegistry(), {"model_name": name}
        self._gauge("num_requests_running", "Texts that are being written.").set_function(lambda: slots.running)
        self._gauge("num_requests_waiting", "Requests that wait for their turn.").set_function(lambda: slots.waiting)
        self._prompt_tokens = self._counter("prompt_tokens", "Tokens of prompts.")
        self._tokens = self._counter("generation_tokens", "Tokens of texts.")
        self._forced = self._counter("forced_tokens", "Tokens of texts that had no alternative in the index.")
        self._passes = self._counter("forward_passes", "Forward passes of the model, counted for each text.")
        self._facts = self._counter("facts", "Facts in texts.")
        self._success = Counter(
            "refactx:request_success", "Texts that ended.", ["model_name", "finished_reason"], registry=self._registry
        )
        self._first = self._histogram("time_to_first_token_seconds", "Until the first token.", SECONDS)
        self._between = self._histogram(
            "inter_token_latency_seconds", "From token to token, on average.", TOKEN_SECONDS
        )
        self._whole = self._histogram("e2e_request_latency_seconds", "Until the end of the text.", SECONDS)
        self._translations = Counter(
            "refactx:translations",
            "Questions translated to SPARQL.",
            ["model_name", "outcome"],
            registry=self._registry,
        )
        self._translated = self._histogram("translation_seconds", "Until the end of a translation.", SECONDS)
        self._http = Counter(
            "refactx:http_requests", "Requests.", ["method", "path", "status"], registry=self._registry
        )
        if isinstance(index, Index):
            figures: dict[tuple[str, str], Callable[[], float]] = {
                ("lookups", "Queries to the database for parts of the tree."): lambda: index.round_trips,
                ("lookup_seconds", "Seconds of lookups."): lambda: sum(rows.seconds for rows in index.rows),
                ("cache_hits", "Lookups that memory answered."): lambda: sum(tree.hits for _, tree in index.segments),
            }
            for (figure, about), read in figures.items():
                self._registry.register(_Read(f"refactx:{figure}", about, name, read))

    def record(self, record: Record) -> None:
        """Count a text that has ended."""
        finished, seconds = record.finished, time.monotonic() - record.started
        if finished is None:
            return
        self._prompt_tokens.inc(finished.prompt_tokens)
        self._tokens.inc(finished.tokens)
        self._forced.inc(finished.forced_tokens)
        self._passes.inc(finished.forward_passes)
        self._facts.inc(len(finished.facts))
        self._success.labels(**self._labels, finished_reason=finished.reason).inc()
        self._whole.observe(seconds)
        if record.first is not None:
            self._first.observe(record.first - record.started)
            if finished.tokens > 1:
                self._between.observe((time.monotonic() - record.first) / (finished.tokens - 1))

    def record_translation(self, seconds: float, sparql: str | None, valid: bool) -> None:
        """Count a translation that has ended: `valid`, `invalid` or, without a query, `none`."""
        outcome = "none" if sparql is None else "valid" if valid else "invalid"
        self._translations.labels(**self._labels, outcome=outcome).inc()
        self._translated.observe(seconds)

    def count(self, method: str, path: str, status: int) -> None:
        """Count a request. `path`: the route, not what the client wrote."""
        self._http.labels(method=method, path=path, status=str(status)).inc()

    def text(self) -> bytes:
        """Return all figures as Prometheus reads them."""
        return generate_latest(self._registry)

    def _gauge(self, name: str, about: str) -> Gauge:
        return Gauge(f"refactx:{name}", about, ["model_name"], registry=self._registry).labels(**self._labels)

    def _counter(self, name: str, about: str) -> Counter:
        return Counter(f"refactx:{name}", about, ["model_name"], registry=self._registry).labels(**self._labels)

    def _histogram(self, name: str, about: str, buckets: tuple[float, ...]) -> Histogram:
        made = Histogram(f"refactx:{name}", about, ["model_name"], buckets=buckets, registry=self._registry)
        return made.labels(**self._labels)


class _Read:
    """A counter whose value is asked for."""

    def __init__(self, name: str, about: str, model: str, read: Callable[[], float]) -> None:
        self._name, self._about, self._model, self._read = name, about, model, read

    def collect(self) -> Any:
        from prometheus_client.core import CounterMetricFamily

        family = CounterMetricFamily(self._name, self._about, labels=["model_name"])
        family.add_metric([self._model], float(self._read()))
        yield family
