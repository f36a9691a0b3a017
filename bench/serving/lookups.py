"""What HTTP adds to a lookup of facts."""

import time
from collections.abc import Callable
from statistics import median
from urllib.parse import urlencode

import httpx2

from refactx.ask.browse import browse
from refactx.documents import browsed_document, to_json
from refactx.index.index import Index
from refactx.walks import TreeFacts


def lookup_seconds(url: str, index: Index, times: int) -> tuple[float, float]:
    """Return the median seconds of `GET /v1/facts` over one connection, and of the same lookup without a server.

    Each reads the facts of one subject, warm: 20 of them, of a subject that has more if there is one.
    """
    subject = index.complete("<", 1)[0][0].removeprefix("<").removesuffix(">")
    facts, path = TreeFacts(index), f"/v1/facts?{urlencode({'subject': subject})}"
    with httpx2.Client(base_url=url) as client:

        def over_http() -> None:
            client.get(path).raise_for_status().json()

        return _median(over_http, times), _median(
            lambda: to_json(browsed_document(index.name, browse(index, facts, subject=subject))), times
        )


def _median(call: Callable[[], object], times: int) -> float:
    call()
    found = []
    for _ in range(times):
        begun = time.perf_counter()
        call()
        found.append(time.perf_counter() - begun)
    return median(found)
