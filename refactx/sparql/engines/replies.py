"""What endpoints reply: results, or the reason why there are none.

pyoxigraph reads the W3C's formats, JSON and XML, to the letter. A JSON document that it refuses is written anew as the
W3C has it, where what it means is plain (`as_standard`), and read again.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from itertools import islice
from typing import Any
from urllib.parse import quote
from xml.parsers import expat

import numpy as np
from pyoxigraph import QueryBoolean, QueryResultsFormat, parse_query_results

from refactx.fact import visible
from refactx.sparql.engines.address import EXAMPLE
from refactx.sparql.engines.engine import EngineError, EngineTimeoutError, Result, Rows, SparqlSyntaxError, Term

ACCEPTED = "application/sparql-results+json, application/sparql-results+xml;q=0.5"
_ALIKE = {
    "application/json": QueryResultsFormat.JSON,
    "text/xml": QueryResultsFormat.XML,
    "application/xml": QueryResultsFormat.XML,
}
_XSD = "http://www.w3.org/2001/XMLSchema#"
_BUSY = frozenset({HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT})
_SHOWN = 200
_ILLEGAL = re.compile(r'[\x00-\x20<>"{}|\\^`]|%(?![0-9A-Fa-f]{2})')
"""What no IRI has."""
_DAY = 86_400.0
_DEEPEST = 256
"""The deepest nesting of a document with triple terms: pyoxigraph, which follows them on the stack, crashes at some 10,000."""
_LARGEST_REWRITTEN = 32 << 20
"""The most bytes of a document that is written anew: in Python it takes 20 times as much memory."""


class TryAgain(Exception):  # noqa: N818  # the endpoint may answer later
    """A reply that may be another one later. `error`: what to raise if it is not; `after`: seconds to wait, or 0."""

    def __init__(self, error: EngineError, after: float = 0.0) -> None:
        super().__init__(str(error))
        self.error, self.after = error, after


@dataclass(frozen=True, slots=True)
class Reply:
    """The reply of an endpoint. `kind`: its media type, in lower case; `retry_after`: that header; `name`: the
    endpoint's, for messages."""

    name: str
    status: int
    kind: str
    body: bytes
    retry_after: str = ""

    def result(self, limit: int | None) -> Result:
        """Return the result that the reply has, with at most `limit` rows.

        Raises TryAgain for an endpoint that is busy; EngineTimeoutError, SparqlSyntaxError or EngineError for another
        reply without a result.
        """
        if self.status != HTTPStatus.OK:
            raise self._refusal()
        form = QueryResultsFormat.from_media_type(self.kind) or _ALIKE.get(self.kind)
        if form is None:
            what = "a web page (HTML)" if self._is_html else f"{visible(self.kind) or 'data of an unknown kind'}"
            raise EngineError(
                f"{self.name} answered with {what} in place of results: is this the address of a SPARQL endpoint, such as "
                f"{EXAMPLE}?"
            )
        try:
            if _is_deep(self.body, form):
                raise ValueError(f"a document that is nested more than {_DEEPEST} deep")
            try:
                return _read(self.body, form, limit)
            except (SyntaxError, ValueError):
                if form != QueryResultsFormat.JSON or len(self.body) > _LARGEST_REWRITTEN:
                    raise
                standard = self._standard()
                if standard is None:
                    raise
            return _read(standard, form, limit)
        except (SyntaxError, ValueError, OSError) as error:
            if b"TimeoutException" in self.body[-100_000:]:  # Blazegraph's, in the middle of results
                raise EngineTimeoutError(f"{self.name} ended the query, which takes too long there") from None
            raise EngineError(
                f"the results of {self.name} cannot be read: {_line(str(error))}: run the query again"
            ) from None

    def _standard(self) -> bytes | None:
        """Return the document as the W3C has it; None if it is no JSON."""
        try:
            document = json.loads(self.body, parse_int=_Number, parse_float=_Number)
        except (ValueError, RecursionError):
            return None
        return json.dumps(as_standard(document)).encode()

    def _refusal(self) -> Exception:
        if self.status == HTTPStatus.TOO_MANY_REQUESTS:
            after = seconds_of(self.retry_after)
            wait = f"asks to wait {after:,.0f} seconds" if after else "asks to wait"
            wait = wait if after <= _DAY else "asks to wait more than a day"
            return TryAgain(
                EngineError(f"{self.name} had too many queries (HTTP 429), and {wait}: run the query later"), after
            )
        if self.status in _BUSY:
            error = EngineError(f"{self.name} is down or busy ({self._status}): run the query later")
            return TryAgain(error, seconds_of(self.retry_after))
        if b"TimeoutException" in self.body or b"timed out" in self.body.lower():
            return EngineTimeoutError(
                f"{self.name} ended the query, which takes too long there: bind more, or ask for less"
            )
        said = self._said()
        if self.status == HTTPStatus.BAD_REQUEST:
            return SparqlSyntaxError(f"{self.name} refused the query: {said or self._status}")
        if self.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.PROXY_AUTHENTICATION_REQUIRED):
            return EngineError(f"{self.name} refuses access ({self._status}): does it need a user and a password?")
        if self.status in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE, HTTPStatus.METHOD_NOT_ALLOWED):
            return EngineError(f"{self.name} is no endpoint ({self._status}): expected an address such as {EXAMPLE}")
        return EngineError(f"{self.name} answered {self._status}{f': {said}' if said else ''}")

    @property
    def _status(self) -> str:
        try:
            return f"HTTP {self.status} {HTTPStatus(self.status).phrase}"
        except ValueError:
            return f"HTTP {self.status}"

    @property
    def _is_html(self) -> bool:
        return "html" in self.kind or self.body.lstrip()[:20].lower().startswith((b"<!doctype html", b"<html"))

    def _said(self) -> str:
        """Return the line of an error's text that says most; empty for a web page."""
        if self._is_html:
            return ""
        lines = [line.strip() for line in self.body[:20_000].decode("utf-8", "replace").splitlines() if line.strip()]
        best = next((line for line in lines if "Exception: " in line), lines[0] if lines else "")
        return _line(best.rpartition("Exception: ")[2])


def as_standard(document: Any) -> dict[str, Any]:
    """Return a document of results as SPARQL 1.1 Query Results JSON has it.

    Its numbers are `_Number`. The head may be missing; languages and data types may be null or empty; blank nodes, which
    are numbered, may have any name, as Virtuoso's; IRIs are percent-encoded where they have letters that none has.

    >>> odd = {"results": {"bindings": [{"x": {"type": "bnode", "value": "nodeID://b10012"}, "y": None}]}}
    >>> as_standard(odd)
    {'head': {'vars': ['x']}, 'results': {'bindings': [{'x': {'type': 'bnode', 'value': 'b0'}}]}}

    Raises ValueError if what it means is not plain.
    """
    if not isinstance(document, dict):
        raise ValueError("results are a JSON object")
    if "boolean" in document:
        truth = str(document["boolean"]).lower()
        if truth not in ("true", "false"):
            raise ValueError(f"a truth is true or false, not {truth!r}")
        return {"head": {}, "boolean": truth == "true"}
    head, results = document.get("head") or {}, document.get("results")
    bindings, variables = (
        found.get(name) if isinstance(found, dict) else None for found, name in ((results, "bindings"), (head, "vars"))
    )
    if not isinstance(bindings, list) or not all(isinstance(row, dict) for row in bindings):
        raise ValueError("there is no list of results, 'bindings'")
    if variables is not None and not (isinstance(variables, list) and all(type(name) is str for name in variables)):
        raise ValueError("'vars' is no list of names")
    nodes = dict[str, str]()
    rows = [
        {name.lstrip("?$"): _term(term, nodes) for name, term in row.items() if not _is_unbound(term)}
        for row in bindings
    ]
    declared = [name.lstrip("?$") for name in variables or ()]
    return {
        "head": {"vars": list(dict.fromkeys([*declared, *(name for row in rows for name in row)]))},
        "results": {"bindings": rows},
    }


class _Number(str):
    """A number of a JSON document, as it is written there."""

    __slots__ = ()


def _is_unbound(term: Any) -> bool:
    return term is None or (isinstance(term, dict) and term.get("value", "") is None)


def _term(term: Any, nodes: dict[str, str]) -> Mapping[str, Any]:
    """Return a term as the W3C has it. `nodes`: the names of blank nodes, by those in the document."""
    if not isinstance(term, dict) or "value" not in term:
        raise ValueError(f"{str(term)[:_SHOWN]} is no term: it has no type and value")
    kind, value = term.get("type"), term["value"]
    if kind in ("triple", "statement") and isinstance(value, dict):
        names = {"s": "subject", "p": "predicate", "property": "predicate", "o": "object"}
        return {"type": "triple", "value": {names.get(name, name): _term(part, nodes) for name, part in value.items()}}
    if kind in ("uri", "iri"):
        return {"type": "uri", "value": _ILLEGAL.sub(lambda found: quote(found[0]), str(value))}
    if kind == "bnode":
        return {"type": "bnode", "value": nodes.setdefault(str(value), f"b{len(nodes)}")}
    if kind not in ("literal", "typed-literal") or isinstance(value, dict | list):
        raise ValueError(f"{kind!r} is no type of a term")
    language, datatype = term.get("xml:lang") or term.get("lang"), term.get("datatype")
    if language:
        direction = {"its:dir": term["its:dir"]} if term.get("its:dir") else {}
        return {"type": "literal", "value": str(value), "xml:lang": str(language).replace("_", "-"), **direction}
    if isinstance(value, bool):
        value, datatype = str(value).lower(), datatype or f"{_XSD}boolean"
    elif isinstance(value, _Number):
        kind = "double" if "e" in value.lower() else "decimal" if "." in value else "integer"
        datatype = datatype or f"{_XSD}{kind}"
    return {"type": "literal", "value": str(value), **({"datatype": str(datatype)} if datatype else {})}


def _read(body: bytes, form: QueryResultsFormat, limit: int | None) -> Result:
    found = parse_query_results(body, format=form)
    if isinstance(found, QueryBoolean):
        return bool(found)
    variables, rows = tuple(variable.value for variable in found.variables), list[tuple[Term | None, ...]]()
    try:
        for row in islice(found, None if limit is None else limit + 1):
            rows.append(tuple(row))
    finally:
        del found  # an error, which holds this frame, may end in another thread, where pyoxigraph's results must not
    return Rows(variables, rows[:limit], truncated=limit is not None and len(rows) > limit)


def _is_deep(body: bytes, form: QueryResultsFormat) -> bool:
    """Return whether a document that may have triple terms is nested deeply."""
    if b"triple" not in body and b"\\u" not in body:  # the word may be written in escapes
        return False
    if form == QueryResultsFormat.JSON:
        signs = np.frombuffer(re.sub(rb'"(?:[^"\\]|\\[\s\S])*+"|[^{}"]+', b"", body), np.uint8)
        depths = np.cumsum((signs == ord("{")).astype(np.int32) - (signs == ord("}")))
        return bool(depths.max(initial=0) > _DEEPEST)
    depth, deepest, parser = 0, 0, expat.ParserCreate()

    def enter(name: str, attributes: object) -> None:
        nonlocal depth, deepest
        depth, deepest = depth + 1, max(deepest, depth + 1)

    def leave(name: str) -> None:
        nonlocal depth
        depth -= 1

    parser.StartElementHandler, parser.EndElementHandler = enter, leave
    try:
        parser.Parse(body, True)
    except expat.ExpatError as error:
        raise ValueError(str(error)) from None
    return deepest > _DEEPEST


def seconds_of(retry_after: str) -> float:
    """Return the seconds that a header Retry-After asks to wait: a number, or a date; 0 if it is neither.

    >>> seconds_of("120"), seconds_of("soon"), seconds_of("Wed, 21 Oct 2015 07:28:00 GMT")
    (120.0, 0.0, 0.0)
    """
    if re.fullmatch(r"\s*\d{1,9}\s*", retry_after, re.ASCII):
        return float(retry_after)
    try:
        moment = parsedate_to_datetime(retry_after)
    except (ValueError, OverflowError):
        return 0.0
    return max(0.0, (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds())


def _line(text: str) -> str:
    line = " ".join(visible(text).split())
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"
