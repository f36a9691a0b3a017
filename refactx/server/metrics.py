"""The figures of a server, as Prometheus reads them."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from refactx.index.index import Index
from refactx.server.http import RequestSlots
from refactx.server.texts import Finished

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250)
TOKEN_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)
_OF_SLOTS: dict[tuple[str, str], Callable[[RequestSlots], float]] = {
    ("num_requests_running", "Texts that are being written."): lambda slots: slots.running,
    ("num_requests_waiting", "Requests that wait for their turn."): lambda slots: slots.waiting,
}
_OF_INDEX: dict[tuple[str, str], Callable[[Index], float]] = {
    ("lookups", "Queries to the database for parts of the tree."): lambda index: index.round_trips,
    ("lookup_seconds", "Seconds of lookups."): lambda index: sum(rows.seconds for rows in index.rows),
    ("cache_hits", "Lookups that memory answered."): lambda index: sum(tree.hits for _, tree in index.segments),
}


class Metrics:
    """The figures of one service. `model`, `index`: their names."""

    def __init__(self, model: str, index: str) -> None:
        self._registry, self._labels = CollectorRegistry(), {"model_name": model, "index": index}
        self._prompt_tokens = self._counter("prompt_tokens", "Tokens of prompts.")
        self._tokens = self._counter("generation_tokens", "Tokens of texts.")
        self._forced = self._counter("forced_tokens", "Tokens of texts that had no alternative in the index.")
        self._passes = self._counter("forward_passes", "Forward passes of the model, counted for each text.")
        self._facts = self._counter("facts", "Facts in texts.")
        self._success = Counter(
            "refactx:request_success", "Texts that ended.", [*self._labels, "finished_reason"], registry=self._registry
        )
        self._first = self._histogram("time_to_first_token_seconds", "Until the first token.", SECONDS)
        self._between = self._histogram(
            "inter_token_latency_seconds", "From token to token, on average.", TOKEN_SECONDS
        )
        self._whole = self._histogram("e2e_request_latency_seconds", "Until the end of the text.", SECONDS)
        self._translations = Counter(
            "refactx:translations",
            "Questions translated to SPARQL.",
            [*self._labels, "outcome"],
            registry=self._registry,
        )
        self._translated = self._histogram("translation_seconds", "Until the end of a translation.", SECONDS)
        self._http = Counter(
            "refactx:http_requests", "Requests.", ["method", "path", "status"], registry=self._registry
        )

    def record(self, finished: Finished, started: float, first: float | None) -> None:
        """Count a text that has ended. `started`, `first`: the times of its beginning and its first piece."""
        now = time.monotonic()
        self._prompt_tokens.inc(finished.prompt_tokens)
        self._tokens.inc(finished.tokens)
        self._forced.inc(finished.forced_tokens)
        self._passes.inc(finished.forward_passes)
        self._facts.inc(len(finished.facts))
        self._success.labels(**self._labels, finished_reason=finished.reason).inc()
        self._whole.observe(now - started)
        if first is not None:
            self._first.observe(first - started)
            if finished.tokens > 1:
                self._between.observe((now - first) / (finished.tokens - 1))

    def record_translation(self, seconds: float, sparql: str | None, valid: bool) -> None:
        """Count a translation that has ended: `valid`, `invalid` or, without a query, `none`."""
        outcome = "none" if sparql is None else "valid" if valid else "invalid"
        self._translations.labels(**self._labels, outcome=outcome).inc()
        self._translated.observe(seconds)

    def count(self, method: str, path: str, status: int) -> None:
        """Count a request. `path`: the route, not what the client wrote."""
        self._http.labels(method=method, path=path, status=str(status)).inc()

    def families(self) -> Iterable[Metric]:
        """Return all figures, each with its samples."""
        return self._registry.collect()

    def _counter(self, name: str, about: str) -> Counter:
        return Counter(f"refactx:{name}", about, [*self._labels], registry=self._registry).labels(**self._labels)

    def _histogram(self, name: str, about: str, buckets: tuple[float, ...]) -> Histogram:
        made = Histogram(f"refactx:{name}", about, [*self._labels], buckets=buckets, registry=self._registry)
        return made.labels(**self._labels)


@dataclass(frozen=True, slots=True)
class JoinedMetrics:
    """The figures of a server: those of its services, each with its slots and its index, which services may share: then these
    count once."""

    services: Sequence[tuple[Metrics, RequestSlots, Any]]

    def collect(self) -> Iterable[Metric]:
        """Return the figures as `prometheus_client` writes them: each once, with the samples of all services."""
        found: dict[str, Metric] = {}
        for family in (family for metrics, _, _ in self.services for family in metrics.families()):
            found.setdefault(family.name, family)
            if found[family.name] is not family:
                found[family.name].samples.extend(family.samples)
        yield from found.values()
        all_slots = {id(slots): slots for _, slots, _ in self.services}.values()
        for (name, about), number in _OF_SLOTS.items():
            yield GaugeMetricFamily(f"refactx:{name}", about, sum(map(number, all_slots)))
        indexes = {index.name: index for _, _, index in self.services if isinstance(index, Index)}
        for (name, about), read in _OF_INDEX.items() if indexes else ():
            counted = CounterMetricFamily(f"refactx:{name}", about, labels=["index"])
            for name_of_index, index in indexes.items():
                counted.add_metric([name_of_index], float(read(index)))
            yield counted
