"""The routes of facts, queries, translations, assistants, the page, and the server's state."""

import errno
import json
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, FastAPI, Query, Request, Response
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse
from prometheus_client import generate_latest
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from refactx.ask.asker import Asker
from refactx.ask.browse import browse, check_text
from refactx.ask.checked import CheckedAsker
from refactx.ask.examples import Examples
from refactx.ask.extraction import LEAST_CONFIDENCE, ExtractionOptions, NewNames
from refactx.ask.prompt import Generation
from refactx.ask.queries import EXAMPLE, Replies
from refactx.ask.schema import FactSchema
from refactx.ask.sentences import places_of
from refactx.documents import (
    BrowsedDocument,
    ExampleList,
    ExtractedFactsDocument,
    FactChangeDocument,
    FactChecks,
    QueryReplyDocument,
    SparqlRows,
    SparqlTruth,
    TextClaimsDocument,
    TranslationReply,
    browsed_document,
    checked_text,
    claims_document,
    extracted_document,
    fact_change_document,
    reply_document,
    sparql_document,
    step_json,
    to_json,
    translation_document,
)
from refactx.errors import RefactxError
from refactx.index.index import Index
from refactx.locking import lock_file
from refactx.mcp import fact_server, http_app, sparql_result
from refactx.mcp.documents import AnswerForAssistants, answer_for_assistants
from refactx.server.http import QUOTES, ApiError, RequestSlot, api_error, bad_request, may_write
from refactx.server.metrics import CONTENT_TYPE, JoinedMetrics
from refactx.server.service import GenerationOrder, TextService
from refactx.server.streaming import DONE, STREAMED, Document, JsonReply, JsonRoute, gone, last_of, note, sse, streamed
from refactx.server.texts import Finished, Work
from refactx.walks.facts import TreeFacts
from refactx.walks.language import is_line

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from starlette.routing import BaseRoute

    from refactx.ingest import FactChange, FactWriter
    from refactx.sparql.packs.translator import Event, Translator


MOST_FACTS = 1000
MOST_EXAMPLES = 20
LONGEST = 4000
"""The most characters of a name or prefix: no part of a fact is longer than 1,000."""
Name = Annotated[str, Query(max_length=LONGEST)]
MOST_ROWS = 10_000
MOST_FEEDBACK = 100 << 20
"""Bytes of a file of feedback, after which no more is taken."""
PAGE = Path(__file__).parent / "page"
FIRST = "index.html"
_log = logging.getLogger(__name__)


class CheckRequest(BaseModel):
    """A text whose facts or claims are checked."""

    text: str = Field(min_length=1)


class ExtractRequest(BaseModel):
    """A text whose facts are read. `schema`: as in a file of TOML, in JSON; the others as `ExtractionOptions` has them."""

    model_config = ConfigDict(populate_by_name=True)

    text: str = Field(min_length=1)
    fact_schema: dict[str, Any] | None = Field(default=None, alias="schema")
    new_names: NewNames = "none"
    verify: bool = False
    min_confidence: float = LEAST_CONFIDENCE

    def options(self) -> ExtractionOptions:
        schema = None if self.fact_schema is None else FactSchema.of(self.fact_schema)
        return ExtractionOptions(
            schema=schema, new_names=self.new_names, verify=self.verify, min_confidence=self.min_confidence
        )


def facts_router(service: TextService) -> APIRouter:
    router = APIRouter(route_class=JsonRoute)
    examples_of: dict[int, Examples] = {}

    @router.get("/v1/examples", response_class=JsonReply)
    async def examples(
        limit: Annotated[int, Query(ge=1, le=MOST_EXAMPLES)] = 4,
        seed: Annotated[int | None, Query(ge=0, lt=1 << 63)] = None,
    ) -> ExampleList:
        """Return questions that facts of the index answer, by chance or by a seed."""
        index, known = _opened(service)
        chooser = examples_of.setdefault(id(index), Examples(index, known))
        found = await service.look_up(chooser.some, limit, seed)
        return ExampleList(index.name, index.facts, found)

    @router.get("/v1/facts", response_class=JsonReply, response_model=BrowsedDocument)
    async def facts(
        subject: Name = "",
        predicate: Name = "",
        prefix: Name = "",
        limit: Annotated[int, Query(ge=1, le=MOST_FACTS)] = 20,
    ) -> JsonReply:
        """Return how a prefix continues, or the properties and facts of a subject."""
        index, known = _opened(service)
        read = partial(browse, index, known, prefix=prefix, subject=subject, predicate=predicate, limit=limit)
        return JsonReply(to_json(browsed_document(index.name, await service.look_up(read))))

    @router.post("/v1/facts/check", response_class=JsonReply, response_model=FactChecks)
    async def check(asked: CheckRequest) -> JsonReply:
        """Return which facts in a text exist; for one that does not, the nearest that do."""
        index, known = _opened(service)
        found = await service.look_up(check_text, index, known, asked.text)
        return JsonReply(to_json(checked_text(index.name, found)))

    return router


def _opened(service: TextService) -> tuple[Index, TreeFacts]:
    """Return the index and its facts. Raise ApiError (503) while the database is away."""
    service.availability.check()
    if service.facts is None or not isinstance(service.index, Index):
        raise ApiError(404, "the facts of this server cannot be looked up: they are in no database")
    return service.index, service.facts


class NewFact(BaseModel):
    """A fact to be added. `new`: names in it that the index does not have yet; `also`: beside another value."""

    fact: str = Field(min_length=1, max_length=LONGEST)
    new: list[str] = Field(default=[], max_length=3)
    also: bool = False


class CorrectedFact(BaseModel):
    """A `fact` in the place of the fact `old`; `new`: as of one to be added."""

    old: str = Field(min_length=1, max_length=LONGEST)
    fact: str = Field(min_length=1, max_length=LONGEST)
    new: list[str] = Field(default=[], max_length=3)


class ForgottenFact(BaseModel):
    """A fact to be taken away."""

    fact: str = Field(min_length=1, max_length=LONGEST)


def writing_router(service: TextService) -> APIRouter:
    """Return the routes that write single facts, for requests with a key of `ServingOptions.write_keys`."""
    router = APIRouter(route_class=JsonRoute)

    async def written(write: "Callable[[FactWriter], FactChange]") -> Response:
        if service.writer is None:
            raise ApiError(404, "this server writes no facts")
        if not may_write():
            raise ApiError(403, "the key of this request may only read: send one with which facts may be written")
        service.availability.check()
        done: FactChange = await service.run_query(write, service.writer)
        return JsonReply(to_json(fact_change_document(done)), 409 if done.contradicts else 200)

    @router.post("/v1/facts", response_class=JsonReply, responses={200: {"model": FactChangeDocument}})
    async def add_fact(given: NewFact) -> Response:
        """Add a fact. If it contradicts another one, nothing is written, and the status is 409."""
        return await written(lambda writer: writer.remember(given.fact, new=given.new, also=given.also))

    @router.post("/v1/facts/correct", response_class=JsonReply, responses={200: {"model": FactChangeDocument}})
    async def correct_fact(given: CorrectedFact) -> Response:
        """Put a fact in the place of another one."""
        return await written(lambda writer: writer.correct(given.old, given.fact, new=given.new))

    @router.post("/v1/facts/forget", response_class=JsonReply, responses={200: {"model": FactChangeDocument}})
    async def forget_fact(given: ForgottenFact) -> Response:
        """Take a fact away, with its inverse fact."""
        return await written(lambda writer: writer.forget(given.fact))

    return router


class SparqlRequest(BaseModel):
    """A query of SPARQL on the index, with ids or with names in angle brackets."""

    query: str = Field(min_length=1, max_length=100_000)
    limit: int = Field(default=1000, ge=1, le=MOST_ROWS)


def sparql_router(service: TextService) -> APIRouter:
    router = APIRouter(route_class=JsonRoute)

    @router.post("/v1/sparql", response_class=JsonReply, responses={200: {"model": SparqlRows | SparqlTruth}})
    async def sparql(asked: SparqlRequest) -> Response:
        """Run a SELECT or ASK query of SPARQL on the index. The result is in the JSON of the W3C, with the names of IRIs as
        `labels`."""
        from refactx.sparql.engines import EngineError, EngineTimeoutError

        index, known = _opened(service)

        def run() -> Document:
            try:
                result, note = sparql_result(index, known, asked.query, asked.limit)
            except EngineError as error:
                status = 504 if isinstance(error, EngineTimeoutError) else 400
                raise ApiError(status, error.for_clients, reason=str(error)) from None
            found: Document = to_json(sparql_document(result, note, known.names))
            return found

        return JsonReply(await service.run_query(run))

    return router


class FeedbackRequest(BaseModel):
    """What a person says of an answer: its `question`, the `answer` with the texts of its `facts`, and `words` of their own.

    `right`: whether it is right; else it is reported as wrong. `answers`: the right ones; `sparql`: of a translation.
    """

    question: str = Field(min_length=1, max_length=10_000)
    answer: str = Field(max_length=20_000)
    facts: list[Annotated[str, Field(max_length=LONGEST)]] = Field(default=[], max_length=100)
    words: str = Field(default="", max_length=4000)
    right: bool = False
    answers: list[Annotated[str, Field(max_length=LONGEST)]] = Field(default=[], max_length=1000)
    sparql: str = Field(default="", max_length=20_000)


def feedback_router(service: TextService) -> APIRouter:
    router = APIRouter(route_class=JsonRoute)

    @router.post("/v1/feedback", response_class=JsonReply)
    async def feedback(given: FeedbackRequest) -> Response:
        """Keep what a person says of an answer, as a line of the file that the server was started with."""
        file = service.options.feedback
        if file is None:
            raise ApiError(404, "this server takes no feedback")
        about = {"time": datetime.now(UTC).isoformat(timespec="seconds"), "model": service.options.name}
        await run_in_threadpool(append_line, file, about | {"index": service.index_name} | given.model_dump())
        return JsonReply({"kept": True})

    return router


def append_line(file: Path, document: Document) -> None:
    """Append a line of JSON to a file, whole, whoever else appends to it. Raises ApiError (507) if there is no room."""
    text = f"{json.dumps(document, ensure_ascii=False)}\n".encode("utf-8", "replace")
    with file.open("ab", buffering=0) as opened:
        lock_file(opened, wait=True)  # until it is closed
        size = os.fstat(opened.fileno()).st_size
        try:
            if size + len(text) <= MOST_FEEDBACK and opened.write(text) == len(text):
                return
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
        if os.fstat(opened.fileno()).st_size > size:
            opened.truncate(size)
    raise ApiError(507, "there is no room for more feedback: tell the people who run this server")


class QueryRequest(BaseModel):
    """A question about sets of facts, in words or as a query. `run`: whether it is answered; `explain`: with what the model
    chose from."""

    question: str = Field(min_length=1, max_length=10_000)
    run: bool = True
    explain: bool = False
    limit: int = Field(default=100, ge=1, le=MOST_ROWS)


def query_router(service: TextService) -> APIRouter:
    router = APIRouter(route_class=JsonRoute)

    @router.post("/v1/query", response_class=JsonReply, responses={200: {"model": QueryReplyDocument}})
    async def query(asked: QueryRequest, request: Request) -> Response:
        """Answer a question for numbers, yes or no, the highest, or a list, by a query on the index."""
        service.availability.check()
        index = service.index
        if not isinstance(index, Index):
            raise ApiError(404, "the index of this server has no queries: it is in no database")

        line, asker = is_line(asked.question), None if isinstance(service.asker, CheckedAsker) else service.asker
        if asker is None and not line:
            said = f"a question in words needs a model that scores ids: write a query such as `{EXAMPLE}`"
            raise bad_request(said, "question")

        def answer(cancelled: Callable[[], bool]) -> Document:
            choose = None if asker is None else partial(asker.query, cancelled=cancelled)
            replies = Replies(index, choose, runs=asked.run, facts=asked.limit)
            found: Document = to_json(reply_document(replies.to(asked.question), asked.limit, explains=asked.explain))
            return found

        if service.options.logs_text:
            note(request, question=asked.question)
        if line:
            return JsonReply(await service.look_up(answer, lambda: False))
        return await _computed(service, request, answer)

    return router


async def _computed(service: TextService, request: Request, work: Callable[[Callable[[], bool]], Document]) -> Response:
    """Return the document that `work` makes when its turn has come; it is told when the client has gone."""
    slot = service.slots.take()

    async def events() -> AsyncGenerator[Document, None]:
        yield await service.compute(work, slot)

    found = await last_of(service, request, [slot], events())
    return gone(request) if found is None else JsonReply(found)


def check_router(service: TextService) -> APIRouter:
    router = APIRouter(route_class=JsonRoute)

    @router.post("/v1/check", response_class=JsonReply, responses={200: {"model": TextClaimsDocument}})
    async def check(asked: CheckRequest, request: Request) -> Response:
        """Return the claims of a text: those that facts of the index say, and those of which they say otherwise."""
        service.availability.check()
        index, asker = _judging(service)
        places_of(asked.text)  # reports a text that is empty or too long
        if service.options.logs_text:
            note(request, text=asked.text)

        def work(cancelled: Callable[[], bool]) -> Any:
            return to_json(claims_document(index, asker.check(asked.text, cancelled=cancelled)))

        return await _computed(service, request, work)

    @router.post("/v1/extract", response_class=JsonReply, responses={200: {"model": ExtractedFactsDocument}})
    async def extract(asked: ExtractRequest, request: Request) -> Response:
        """Return the facts that a text states, by names and predicates of the index, or by those of a schema."""
        service.availability.check()
        index, asker = _judging(service)
        places_of(asked.text)
        options = asked.options()
        if service.options.logs_text:
            note(request, text=asked.text)

        def work(cancelled: Callable[[], bool]) -> Any:
            return to_json(extracted_document(index, asker.extract(asked.text, options, cancelled=cancelled)))

        return await _computed(service, request, work)

    return router


def _judge_of(service: TextService) -> tuple[Index, Asker] | None:
    """Return what judges the sentences of a text; None if the server cannot."""
    index, asker = service.index, service.asker
    if not isinstance(index, Index) or isinstance(asker, CheckedAsker):
        return None
    return index, asker


def _judging(service: TextService) -> tuple[Index, Asker]:
    """Return what judges the sentences of a text. Raises ApiError if the server cannot."""
    if (found := _judge_of(service)) is None:
        said = "sentences are judged by a model that scores ids, with an index in a database: this server has none such"
        raise ApiError(404, said)
    return found


class TranslateRequest(BaseModel):
    """A question whose SPARQL is wanted. `agent`: plan, verify and explore as well; `run`: run the query to check it;
    `stream`: send each step as it ends."""

    question: str = Field(min_length=1, max_length=10_000)
    agent: bool = False
    run: bool = True
    stream: bool = False


def translate_router(service: TextService) -> APIRouter:
    router = APIRouter(route_class=JsonRoute)

    @cache
    def translator(agent: bool, runs: bool) -> "Translator":
        if service.translator is None:
            raise ApiError(404, "this server translates no questions")
        return service.translator.changed(agent=agent, runs=runs)

    @router.post(
        "/v1/translate", response_class=JsonReply, responses={200: {"model": TranslationReply} | STREAMED[200]}
    )
    async def translate(asked: TranslateRequest, request: Request) -> Response:
        """Write the SPARQL of a question for the endpoint of the server's pack, check it and repair it."""
        chosen = translator(asked.agent, asked.run)
        if service.options.logs_text:
            note(request, question=asked.question)
        slot = service.slots.take()
        events = _events(service, request, slot, chosen, asked.question)
        if asked.stream:
            return await streamed(service, request, [slot], _chunks(events))
        found = await last_of(service, request, [slot], _whole(events, "" if chosen.pack is None else chosen.pack.name))
        return gone(request) if found is None else JsonReply(found)

    return router


async def _events(
    service: TextService, request: Request, slot: RequestSlot, translator: "Translator", question: str
) -> AsyncGenerator["Event", None]:
    """Yield the steps of a translation, which is made when its turn has come."""

    def write(put: "Callable[[Event], None]", stops: Callable[[], bool]) -> None:
        for event in translator.stream(question, cancelled=stops):
            put(event)
            if stops():
                return

    work: Work[Event, None] = write
    async with service.live(work, slot) as live:
        async for burst in live.bursts():
            for event in burst:
                if event.translation is not None:
                    found = event.translation
                    service.metrics.record_translation(event.seconds, found.sparql, found.valid)
                    note(request, steps=event.number, tokens=event.tokens, valid=found.valid, rows=found.rows)
                yield event


async def _whole(events: AsyncGenerator["Event", None], pack: str) -> AsyncGenerator[Document, None]:
    """Yield the translation as one document, with its steps."""
    steps = list[Document]()
    async with aclosing(events):
        async for event in events:
            steps.append(step_json(replace(event, translation=None)))
            if event.translation is not None:
                found = translation_document(event.translation)
                yield to_json(TranslationReply(pack=pack, **vars(found), steps=steps))


async def _chunks(events: AsyncGenerator["Event", None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(events):
        async for event in events:
            yield sse(step_json(event))
    yield DONE


def page_router(folder: Path = PAGE, root: str = "") -> APIRouter:
    """Return the routes of the files in a folder: `index.html` is `/`, `explore.html` is `/explore`, others have their
    names. Nothing else on the disk can be asked for. `root`: what comes before the paths that pages name."""
    router = APIRouter(include_in_schema=False)
    for file in sorted(folder.rglob("*")) if folder.is_dir() else ():
        if file.is_file():
            router.add_api_route(_path(file.relative_to(folder)), _reply(file, root), response_class=FileResponse)
    return router


def _path(file: Path) -> str:
    """Return the path of a file's address.

    >>> _path(Path("index.html")), _path(Path("explore.html")), _path(Path("icons/a.svg"))
    ('/', '/explore', '/icons/a.svg')
    """
    if file.name == FIRST:
        return "/" if file.parent == Path() else f"/{file.parent.as_posix()}/"
    return f"/{(file.with_suffix('') if file.suffix == '.html' else file).as_posix()}"


def _reply(file: Path, root: str) -> Callable[[], Awaitable[Response]]:
    headers = {"Cache-Control": "no-cache"}

    async def reply() -> Response:
        if not root or file.suffix != ".html":
            return FileResponse(file, headers=headers)
        text = file.read_text(encoding="utf-8").replace('="/', f'="{root}/')
        return Response(text, media_type="text/html", headers=headers)

    return reply


def state_router(services: Sequence[TextService], drains: Callable[[], bool]) -> APIRouter:
    """Return the routes of a server's state. `drains`: whether it is about to stop."""
    router, options = APIRouter(), services[0].options

    def failure() -> RefactxError | None:
        return next((error for one in services if (error := one.availability.error) is not None), None)

    @router.head("/health", include_in_schema=False)
    @router.get("/health")
    async def health() -> Response:
        """Say whether the model writes and the database answers."""
        error = failure()
        found: Document = {"status": "ok" if error is None else "unavailable", "model": options.name}
        if options.feedback is not None:
            found["feedback"] = "taken"
        if options.max_upload:
            found["max_upload"] = options.max_upload
        found["database"] = "ok" if error is None else "away"
        return JSONResponse(found, 200 if error is None else 503)

    @router.head("/ready", include_in_schema=False)
    @router.get("/ready")
    async def ready() -> Response:
        """Say whether requests should be sent here: the model has read its prompt, and the server does not stop."""
        reasons = {
            "starting": not all(one.is_warm for one in services),
            "stopping": drains(),
            "unavailable": failure() is not None,
        }
        status = next((name for name, holds in reasons.items() if holds), "ready")
        return JSONResponse({"status": status}, 200 if status == "ready" else 503)

    @router.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> Response:
        """Return the figures of the server, as Prometheus reads them."""
        joined = JoinedMetrics([(one.metrics, one.slots, one.index) for one in services])
        return Response(generate_latest(joined), media_type=CONTENT_TYPE)

    return router


def assistants_app(
    service: TextService,
) -> "tuple[list[BaseRoute], Callable[[FastAPI], AbstractAsyncContextManager[None]] | None]":
    """Return the routes for assistants, and the lifespan that they need; none for an index that is in no database."""
    if not isinstance(service.index, Index) or service.facts is None:
        return [], None
    look_up, run_query = _safely(service, service.look_up), _safely(service, service.run_query)
    tools = fact_server(
        service.index,
        facts=service.facts,
        look_up=look_up,
        run_query=run_query,
        ask=_asks(service),
        check=_checks(service),
        writer=service.writer,
        may_write=may_write,
    )
    options = service.options
    app = http_app(tools, hosts=options.hosts, origins=options.origins, max_bytes=options.max_bytes)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with app.router.lifespan_context(app):
            yield

    return list(app.routes), lifespan


def _safely(service: TextService, call: Callable[..., Any]) -> Callable[..., Any]:
    async def called(read: Callable[..., Any], *arguments: Any) -> Any:
        with _safe():
            service.availability.check()
            return await call(read, *arguments)

    return called


def _asks(service: TextService) -> Callable[[str, str], Any]:
    async def ask(question: str, answer_language: str) -> AnswerForAssistants:
        options = Generation(max_new_tokens=service.options.max_tokens, answer_language=answer_language)
        order = GenerationOrder(question=question, generation=options)
        with _safe():
            (slot,) = service.take_slots([order])
            finished = None
            try:
                async with aclosing(service.write(order, slot)) as events:
                    async for event in events:
                        finished = event if isinstance(event, Finished) else None
            finally:
                if not slot.is_used:
                    slot.release()
        if finished is None:
            raise RefactxError("the text has no end")
        given = finished.answer, finished.text, finished.evidence, finished.queries
        return answer_for_assistants(*given, unknown=finished.unknown)

    return ask


def _checks(service: TextService) -> Callable[[str], Any] | None:
    judging = _judge_of(service)
    if judging is None:
        return None
    index, asker = judging

    async def check(text: str) -> TextClaimsDocument:
        with _safe():
            service.availability.check()
            slot = service.slots.take()
            try:
                return await service.compute(
                    lambda cancelled: claims_document(index, asker.check(text, cancelled=cancelled)), slot
                )
            finally:
                if not slot.is_used:
                    slot.release()

    return check


@contextmanager
def _safe() -> Iterator[None]:
    """Raise RefactxError with what a client may read of an error in the block; the log has the rest."""
    try:
        yield
    except Exception as error:
        found = api_error(error)
        if found.reason != str(found):
            trace = error if found.status == 500 else None
            _log.warning("a tool failed: %s", found.reason, exc_info=trace, extra={QUOTES: True})
        raise RefactxError(str(found)) from None
