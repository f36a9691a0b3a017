"""What happens while a text is written, and what it was when it has ended.

Pieces go in, and come out. What may be the beginning of a stop text, white space that may be the last of the text, and
a trigger after which no fact may come, are held back until more is known. Stop texts count outside of facts alone.
"""

import asyncio
import uuid
from codecs import getincrementaldecoder
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from threading import Event as Flag
from typing import Any, Generic, Literal, TypeVar

from refactx.ask.answer import MARKUP, marker_start, statement_url, unlinked
from refactx.ask.evidence import Evidence, evidence_of, parts_of
from refactx.ask.prompt import MAX_NEW_TOKENS, THINK_WORDS
from refactx.decoding.states import State
from refactx.decoding.stream import FactStream, FormPiece, TextPiece
from refactx.documents import (
    PlacedEvidence,
    PlacedFact,
    TextDocument,
    evidence_document,
    fact_fields,
    query_document,
    rounded,
    to_json,
)
from refactx.engines.writer import Score, ScoreLog
from refactx.fact import Fact, LinkedFact
from refactx.options import check_options, option
from refactx.walks import AnsweredQuery

VARIANTS = ("", "answer", "free")
"""What a model writes: facts and the answer after them, the answer alone, or text without facts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingOptions:
    """How a server answers.

    `name`: the name of its model; `short`: a name of several models, of which the first is meant. `keys`: the API keys
    that it accepts, none: everybody may ask; `write_keys`: those with which facts are written too; `hosts`: the names
    under which browsers may reach it, None: any; `origins`: the sites whose pages may ask it, `*`: any. `root`: the
    path of its addresses behind a proxy, such as `/kb`. `grace`: for how many seconds running texts may continue after
    SIGTERM; `keep_alive`: after how many seconds of silence a stream has a comment; `refresh`: after how many it shows
    what was appended to the index and forgotten. `think`: as in `refactx.Generation`, for requests that do not say.
    `logs_text`: whether logs have questions and answers. `feedback`: the file of what people say of answers, None: they
    are not asked. `max_upload`: bytes of a file that becomes an index, 0: none does.

    Raises InputError for values out of range.
    """

    name: str
    short: str = ""
    keys: tuple[str, ...] = ()
    write_keys: tuple[str, ...] = ()
    hosts: tuple[str, ...] | None = None
    origins: tuple[str, ...] = ()
    root: str = ""
    max_running: int = option(16, "Write N texts at once.", least=1, group="Limits")
    max_waiting: int = option(64, "Let N requests wait.", least=0, group="Limits")
    max_tokens: int = option(MAX_NEW_TOKENS, "At most N tokens per answer.", least=1, group="Limits")
    max_bytes: int = option(1 << 20, "Of a request's body.", least=1, group="Limits")
    max_upload: int = option(0, "Of a file to make an index of; 0: none.", least=0, metavar="BYTES", group="Limits")
    grace: float = option(30.0, "At SIGTERM, let answers finish.", least=0, metavar="SECONDS", group="Limits")
    keep_alive: float = 15.0
    think: int = option(
        0, "off; on; or N tokens of thought, unless asked.", least=0, words=THINK_WORDS, metavar="on|off|N"
    )
    refresh: float = 2.0
    logs_text: bool = False
    feedback: Path | None = None

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def variants(self) -> dict[str, str]:
        """The variant of `VARIANTS` that is meant, by each name that a request may give.

        >>> list(ServingOptions(name="demo").variants.items())
        [('demo', ''), ('demo:answer', 'answer'), ('demo:free', 'free')]
        """
        names = [name for name in (self.name, self.short) if name]
        return {f"{name}:{variant}" if variant else name: variant for name in names for variant in VARIANTS}


@dataclass(frozen=True, slots=True, kw_only=True)
class CitedFact(TextPiece):
    """The piece of text with which a `fact` ends, with its ids as `linked`.

    `start`, `stop`: where it stands in the text, or `in_thought`, in code points: from the trigger before it to the end of
    its terminator.
    """

    fact: Fact
    linked: LinkedFact
    start: int
    stop: int

    @property
    def title(self) -> str:
        """The fact in words.

        >>> from refactx.fact import Link
        >>> parts = Link("Alaska", "Q797"), Link("capital", "P36"), Link("Juneau", "Q29445")
        >>> fact = Fact("Alaska", "capital", "Juneau", "<Alaska> <capital> <Juneau> .", (0, 9))
        >>> CitedFact(fact.text, fact=fact, linked=LinkedFact(*parts), start=0, stop=29).title
        'Alaska: capital: Juneau'
        """
        return ": ".join((self.fact.subject, self.fact.predicate, self.fact.object))

    @property
    def url(self) -> str | None:
        """The statement on the page of its subject on Wikidata; None without ids.

        >>> from refactx.fact import Link
        >>> parts = Link("Alaska", "Q797"), Link("capital", "P36"), Link("Juneau", "Q29445")
        >>> fact = Fact("Alaska", "capital", "Juneau", "<Alaska> <capital> <Juneau> .", (0, 9))
        >>> CitedFact(fact.text, fact=fact, linked=LinkedFact(*parts), start=0, stop=29).url
        'https://www.wikidata.org/wiki/Q797#P36'
        """
        return statement_url(self.linked)

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of its documents."""
        place = {"span": (self.start, self.stop), "in_thought": self.in_thought, "statement_url": self.url}
        return {**fact_fields(self.linked, self.fact.text), **place}


@dataclass(frozen=True, slots=True, kw_only=True)
class CalledTool:
    """A call of a tool. `arguments`: JSON."""

    name: str
    arguments: str
    id: str = field(default_factory=lambda: f"call_{uuid.uuid4().hex[:24]}")

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "type": "function",
            "function": {"name": self.name, "arguments": self.arguments},
        }


@dataclass(frozen=True, slots=True)
class TokenScore:
    """How likely a token of a text was, as `refactx.engines.writer.Score`: the bytes of its `token`, and of others.

    `offset`: where it begins in the text, in code points.
    """

    token: bytes
    offset: int
    logprob: float
    top: tuple[tuple[bytes, float], ...]
    is_picked: bool

    def to_json(self) -> dict[str, Any]:
        """Return it as OpenAI's chats have it; `refactx.forced`: the model did not pick the token."""
        top = [_token_json(token, logprob) for token, logprob in self.top]
        forced = {} if self.is_picked else {"refactx": {"forced": True}}
        return {**_token_json(self.token, self.logprob), "top_logprobs": top, **forced}


def _token_json(token: bytes, logprob: float) -> dict[str, Any]:
    return {"token": token.decode("utf-8", "replace"), "logprob": logprob, "bytes": [*token]}


def scores_of(scores: Sequence[Score], token_bytes: Sequence[bytes], text: str) -> tuple[TokenScore, ...]:
    """Return the scores of the tokens of a text. `scores`: with those of tokens before and after it.

    >>> scores = [Score(0), Score(1, -0.5, ((1, -0.5),), True), Score(2)]
    >>> [(one.token, one.offset) for one in scores_of(scores, [b" ", b" Yes", b""], "Yes")]
    [(b' Yes', 0)]
    """

    def piece(token: int) -> bytes:
        return token_bytes[token] if token < len(token_bytes) else b""

    decoder, whole, starts = getincrementaldecoder("utf-8")("replace"), "", list[int]()
    for one in scores:
        starts.append(len(whole))
        whole += decoder.decode(piece(one.token))
    whole += decoder.decode(b"", final=True)
    begin, ends = max(0, whole.find(text)), [*starts[1:], len(whole)]
    return tuple(
        TokenScore(
            own,
            max(0, at - begin),
            one.logprob,
            tuple((piece(token), logprob) for token, logprob in one.top),
            one.is_picked,
        )
        for one, at, end in zip(scores, starts, ends, strict=False)
        if (own := piece(one.token)) and at < begin + len(text) and max(end, at + 1) > begin
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A text that has ended. (What writes it leaves what a stream knows of it, such as its text and facts, at their defaults.)

    `text`: all of it after the `thought`, which took `thought_tokens`; `answer`: its final answer, empty if there is
    none; `answer_start`: where the marker before it begins; `facts`: those in it; `queries`: those in it with their
    answers; `unknown`: whether the answer is that the facts do not tell; `confidence`, `named`: as in `refactx.Answer`;
    `form`: the answer in the form that was asked for, such as JSON, None if none was; `calls`: those of tools, after the text;
    `scores`: how likely the tokens of the text were, None if that was not asked for; `unheld`: what is not held of the
    arguments of tools, by their names.
    """

    reason: Literal["stop", "length", "tool_calls"]
    forced_tokens: int
    forward_passes: int
    text: str = ""
    answer: str = ""
    named: str = ""
    answer_start: int = 0
    facts: tuple[CitedFact, ...] = ()
    queries: tuple[AnsweredQuery, ...] = ()
    unknown: bool = False
    confidence: float | None = None
    prompt_tokens: int = 0
    tokens: int = 0
    turns_left_out: int = 0
    thought: str = ""
    thought_tokens: int = 0
    form: str | None = None
    calls: tuple[CalledTool, ...] = ()
    scores: tuple[TokenScore, ...] | None = None
    unheld: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def content(self) -> str:
        """The answer alone, in the form that was asked for."""
        return self.answer if self.form is None else self.form

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """The facts of the text and of its query, each once: those that prove the answer first."""
        return evidence_of(
            self.named or self.answer, [one.linked for one in self.facts], self.queries, unknown=self.unknown
        )

    @property
    def proof(self) -> list[CitedFact]:
        """The facts in the text that prove the answer, in the order of the text; all of them if there is none."""
        proof = {parts_of(one.fact) for one in self.evidence if one.proves}
        return [one for one in self.facts if not self.answer or parts_of(one.linked) in proof]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of what the text says beside what OpenAI's API has fields for."""
        placed = {parts_of(one.linked): one for one in reversed(self.facts)}
        found = [(one, placed.get(parts_of(one.fact))) for one in self.evidence]
        facts = [
            evidence_document(one) if place is None else PlacedEvidence(**place.fields, proves=one.proves)
            for one, place in found
        ]
        document = TextDocument(
            answer=self.answer,
            unknown=self.unknown,
            confidence=rounded(self.confidence),
            facts=facts,
            queries=[query_document(query) for query in self.queries],
            forward_passes=self.forward_passes,
            turns_left_out=self.turns_left_out,
        )
        return {**to_json(document), **({"unheld": to_json(self.unheld)} if self.unheld else {})}


Citation = dict[str, Any]


def _citations(fact: CitedFact, span: tuple[int, int] | None = None) -> list[Citation]:
    """Return a fact as flat `url_citation`s, as the API of responses has them: of its page, if it has one, and its references.

    `span`: where it stands, by default in the whole text.
    """
    start, stop = span or (fact.start, fact.stop)
    urls = [url for url in (fact.url, *fact.linked.references) if url is not None]
    place = {"type": "url_citation", "start_index": start, "end_index": stop}
    return [{**place, "url": url, "title": fact.title} for url in urls]


def nested(flat: Citation) -> Citation:
    """Return a citation as the API of chat completions has it.

    >>> nested({"type": "url_citation", "url": "https://example.org"})
    {'type': 'url_citation', 'url_citation': {'url': 'https://example.org'}}
    """
    return {"type": flat["type"], flat["type"]: {name: value for name, value in flat.items() if name != "type"}}


def citations_of(finished: Finished, *, answer_alone: bool) -> list[Citation]:
    """Return the citations of a text that has ended: its facts that prove the answer, all of them if it has none.

    Facts that stand before the content, which is the answer alone or follows a thought, prove all of it.
    """
    content, proof = finished.content if answer_alone else finished.text, finished.proof
    inside = [found for one in proof if not (answer_alone or one.in_thought) for found in _citations(one)]
    before = [(one, (0, len(content))) for one in proof if content and (answer_alone or one.in_thought)]
    return [*inside, *(found for one, span in before for found in _citations(one, span))]


def about_facts(piece: TextPiece | FormPiece) -> dict[str, Any]:
    """Return the field that the document of a piece has if it is part of a fact, and the fact that ends with it; else none."""
    if isinstance(piece, FormPiece) or not piece.in_fact:
        return {}
    fact = {"fact": to_json(PlacedFact(**piece.fields))} if isinstance(piece, CitedFact) else {}
    return {"refactx": {"in_fact": True, **fact}}


def reasoning_of(finished: Finished, *, answer_alone: bool) -> str:
    """Return the thought, and for the answer alone the text before that too: all of it, if there is no answer."""
    before = finished.text[: finished.answer_start].rstrip() if answer_alone else ""
    return "\n\n".join(part for part in (finished.thought, before) if part)


Event = TextPiece | FormPiece | Finished
"""What happens to a text that is written: a piece of it (with which a fact ends, if it is a `CitedFact`), a piece of its form,
or its end."""


class CountedStream:
    """A streamer for one text, which counts and passes on what it is given.

    `prompt_tokens`, `tokens`: how many ids the prompt had, and the text so far; `scores`: how likely these were, if that is
    asked for.
    """

    def __init__(self, scores: ScoreLog | None = None) -> None:
        self.scores = scores
        self.prompt_tokens = self.tokens = 0
        self._stream: FactStream | None = None
        self._has_ended = False

    def begin(self, stream: FactStream) -> None:
        """Begin to pass on to a stream."""
        self._stream = stream

    def put(self, value: Any) -> None:
        """Take the ids of the prompt, then each id."""
        self._count(value)
        if self._stream is not None:
            self._stream.put(value)

    def put_in_state(self, value: Any, state: State) -> None:
        """Take ids as `put` does, with the state after them."""
        self._count(value)
        if self._stream is not None:
            self._stream.put_in_state(value, state)

    def _count(self, value: Any) -> None:
        if self.prompt_tokens:
            self.tokens += len(value.flatten())
        else:
            self.prompt_tokens = int(value.shape[-1])

    def end(self) -> None:
        """Pass on what is left of the text."""
        if self._stream is not None and not self._has_ended:
            self._has_ended = True
            self._stream.end()


Piece = TypeVar("Piece")
Value = TypeVar("Value")
Work = Callable[[Callable[[Piece], None], Callable[[], bool]], Value]
"""A function that is given what takes its pieces, and what says whether to end; it returns what came of it."""


class ThreadedStream(Generic[Piece, Value]):
    """Work that is done in a thread of `pool`. `on_end`: called in the event loop when the thread has ended."""

    def __init__(self, pool: Executor, work: Work[Piece, Value], on_end: Callable[[], object] = lambda: None) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), Flag()
        self._queue: asyncio.Queue[Piece | None] = asyncio.Queue()
        self._on_end = on_end
        self._future: Future[Value] = pool.submit(work, partial(self._call, self._queue.put_nowait), self._stop.is_set)
        self._future.add_done_callback(lambda _: self._call(self._end))

    async def bursts(self) -> AsyncIterator[list[Piece]]:
        """Yield the pieces, those that came at a time together. Raise what the thread raised."""
        while True:
            burst = [await self._queue.get()]
            while not self._queue.empty():
                burst.append(self._queue.get_nowait())
            pieces = [piece for piece in burst if piece is not None]
            if pieces:
                yield pieces
            if len(pieces) < len(burst):
                self._future.result()
                return

    @property
    def value(self) -> Value:
        """What the work returned, after the last piece."""
        return self._future.result()

    def cancel(self) -> None:
        """Let the work end: a text does before the next pass of the model."""
        self._stop.set()

    def _end(self) -> None:
        self._queue.put_nowait(None)
        self._on_end()

    def _call(self, function: Callable[..., object], *arguments: object) -> None:
        with suppress(RuntimeError):  # the loop was closed: nobody reads
            self._loop.call_soon_threadsafe(function, *arguments)


class Transcript:
    """The text so far. `trigger`: the text before facts, empty if there are none; `stop`: texts that end it; `strips`:
    whether it is without white space around it.

    >>> transcript = Transcript("Fact:", ["END"])
    >>> [passed.text for piece in (" a", " E", "N", "D b") for passed in transcript.add(TextPiece(piece))]
    ['a']
    >>> transcript.text, transcript.is_stopped
    ('a', True)
    """

    def __init__(self, trigger: str, stop: Sequence[str] = (), *, strips: bool = True) -> None:
        self._strips, self._trigger, self._stop = strips, trigger, [text for text in stop if text]
        self.text, self.is_stopped = "", False
        """What was passed on; whether a stop text has ended it."""
        self._held = ""
        self._begin: int | None = None  # where the fact that is being written begins
        self._fact_end = 0

    @property
    def after_facts(self) -> tuple[int, int]:
        """Where the text after the last fact begins, and where it ends: at a fact that is not finished, if there is one."""
        return self._fact_end, len(self.text) if self._begin is None else self._begin

    def add(self, piece: TextPiece) -> list[TextPiece]:
        """Take the next piece of the generation."""
        if self.is_stopped:
            return []
        return self._in_fact(piece) if piece.in_fact else self._free(piece.text)

    def end(self, *, is_whole: bool) -> list[TextPiece]:
        """Take note that nothing follows. `is_whole`: the text was not cut off: a trigger at its end is left out."""
        if self.is_stopped:
            return []
        held = self._held.rstrip() if self._strips else self._held
        if is_whole and self._strips and self._trigger and self.text and held.endswith(self._trigger):
            held = held.removesuffix(self._trigger).rstrip()
        self._held = ""
        return self._passed(held)

    def _free(self, text: str) -> list[TextPiece]:
        held = self._held + text
        if not self.text and self._strips:
            held = held.lstrip()
        ends = [at for at in (held.find(stop) for stop in self._stop) if at >= 0]
        if ends:
            self._held, self.is_stopped = "", True
            held = held[: min(ends)]
            return self._passed(held.rstrip() if self._strips else held)
        keep = min(self._safe(held, stop) for stop in (self._trigger, *self._stop))
        keep = min(keep, len(held[:keep].rstrip()))
        self._held = held[keep:]
        return self._passed(held[:keep])

    def _in_fact(self, piece: TextPiece) -> list[TextPiece]:
        passed = self._passed(self._held)
        self._held = ""
        text = piece.text if self.text or not self._strips else piece.text.lstrip()
        if self._begin is None:
            before = self.text.rstrip()
            is_after_trigger = bool(self._trigger) and before.endswith(self._trigger)
            self._begin = len(before) - len(self._trigger) if is_after_trigger else len(self.text)
        self.text += text
        if piece.fact is None:
            return [*passed, TextPiece(text, in_fact=True)]
        start, self._begin, self._fact_end = self._begin, None, len(self.text)
        fact, linked = piece.fact, unlinked(piece.fact)
        cited = CitedFact(text, in_fact=True, fact=fact, linked=linked, start=start, stop=self._fact_end)
        return [*passed, cited]

    def _passed(self, text: str) -> list[TextPiece]:
        self.text += text
        return [TextPiece(text)] if text else []

    @staticmethod
    def _safe(held: str, wanted: str) -> int:
        """Return the length of `held` without what may be the beginning of `wanted`, or `wanted` itself, at its end."""
        stripped = held.rstrip() if wanted and held.rstrip().endswith(wanted) else held
        for size in range(min(len(wanted), len(stripped)), 0, -1):
            if stripped.endswith(wanted[:size]):
                return len(stripped) - size
        return len(held)


class Transcripts:
    """A text with a thought before it. `thought`, `answer`: the transcripts of the two; stop texts end the answer alone.

    >>> both = Transcripts("Fact:", ["END"])
    >>> pieces = TextPiece("so END ", in_thought=True), TextPiece(" a"), TextPiece(" END b")
    >>> [(passed.text, passed.in_thought) for piece in pieces for passed in both.add(piece)]
    [('so END', True), ('a', False)]
    """

    def __init__(self, trigger: str, stop: Sequence[str] = (), *, strips: bool = True) -> None:
        self.thought, self.answer = Transcript(trigger), Transcript(trigger, stop, strips=strips)
        self._thinks = False

    def add(self, piece: TextPiece | FormPiece) -> list[TextPiece | FormPiece]:
        """Take the next piece of the generation. Before a form, the text ends."""
        if isinstance(piece, FormPiece):
            return [*self.end(is_whole=True), piece]
        if piece.in_thought:
            self._thinks = True
            return [*self._of_thought(self.thought.add(piece))]
        return [*self._end_of_thought(), *self.answer.add(piece)]

    def end(self, *, is_whole: bool) -> list[TextPiece]:
        """Take note that nothing follows, as `Transcript.end` does."""
        return [*self._end_of_thought(), *self.answer.end(is_whole=is_whole)]

    def _end_of_thought(self) -> list[TextPiece]:
        thinks, self._thinks = self._thinks, False
        return self._of_thought(self.thought.end(is_whole=False)) if thinks else []

    @staticmethod
    def _of_thought(passed: Sequence[TextPiece]) -> list[TextPiece]:
        return [replace(one, in_thought=True) for one in passed]


def joined(pieces: Iterable[TextPiece | FormPiece]) -> list[TextPiece | FormPiece]:
    """Return the same text in as few pieces as possible: a piece ends with each fact.

    >>> [one.text for one in joined([TextPiece("a"), TextPiece("b"), TextPiece("c", in_fact=True)])]
    ['ab', 'c']
    """
    found: list[TextPiece | FormPiece] = []
    for one in pieces:
        last = found[-1] if found else None
        if last is not None and not isinstance(last, CitedFact) and _kind(last) == _kind(one):
            found[-1] = replace(one, text=last.text + one.text)
        else:
            found.append(one)
    return found


def _kind(piece: TextPiece | FormPiece) -> tuple[bool, bool] | None:
    return None if isinstance(piece, FormPiece) else (piece.in_fact, piece.in_thought)


async def answer_alone(events: AsyncGenerator[Event, None], marker: str | None) -> AsyncGenerator[Event, None]:
    """Yield the text before the last `marker` that begins a line as reasoning, and after it the final answer as content.

    Without a marker, the content is the answer in the form that was asked for, and all before it is reasoning. A marker
    inside a fact does not count. A thought comes first, and two line ends before other reasoning.
    """
    line, held, gap = "", "", ""  # of the current line: what was yielded; what is held from there on

    def reasoning(piece: TextPiece) -> TextPiece:
        nonlocal gap
        text, gap = gap + piece.text, ""
        return replace(piece, text=text, before_answer=True)

    async with aclosing(events):
        async for event in events:
            if isinstance(event, FormPiece):
                yield event
            elif isinstance(event, Finished):
                if marker and marker_start(line + held, marker) is None and held.strip():
                    yield reasoning(TextPiece(held.rstrip()))
                if event.answer and event.form is None:
                    yield TextPiece(event.answer)
                yield event
                return
            elif event.in_thought:
                gap = "\n\n"
                yield event
            elif event.in_fact:
                if held:
                    yield reasoning(TextPiece(held))
                line, held = "<", ""  # no marker follows in this line
                yield reasoning(event)
            else:
                whole = line + held + event.text
                at = len(whole) if marker is None else _where(whole, marker)
                if at > len(line):
                    yield reasoning(TextPiece(whole[len(line) : at]))
                line, held = whole[whole.rfind("\n", 0, at) + 1 : at], whole[at:]


def _where(text: str, marker: str) -> int:
    """Return where the last marker that begins a line begins, or what may become one at the end of the text.

    >>> _where("so\\nAnswer: x", "Answer:"), _where("so\\n**Ans", "Answer:"), _where("so Ans", "Answer:")
    (3, 5, 6)
    """
    at = marker_start(text, marker)
    if at is not None:
        return at
    line = text[text.rfind("\n") + 1 :].lstrip(MARKUP)
    return len(text) - (len(line) if marker.startswith(line) else 0)
