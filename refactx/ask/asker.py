"""The asker: prompt → text → answer, with facts of an index as proof, or without facts.

The same question with and without an index differs in nothing but the constraint, and the names of things that the index
knows by the ids in the question.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from refactx.ask.answer import Answer, AnswerLine, FinishReason, RepeatedAnswer, final_answer, unlinked, untranslated
from refactx.ask.channels import Channels, facts_of, labelled
from refactx.ask.claims import TextClaims, check_claims
from refactx.ask.conversation import thinking_of
from refactx.ask.examples import prompt_for
from refactx.ask.extraction import ExtractedFacts, ExtractionOptions, FactReader, extract_facts
from refactx.ask.prompt import GREEDY, Example, Generation, Prompt
from refactx.ask.queries import QueryChoice, choose_query
from refactx.ask.writer import BatchWriter, TextRequest, Writer, WritingError, WritingOptions, WrittenText, share
from refactx.decoding.machine import Machine
from refactx.decoding.states import Constraint, FactSource, check_open
from refactx.decoding.stream import FactStream, Partial, TextPiece
from refactx.decoding.thoughts import ThoughtReader, ThoughtTokens
from refactx.engines.engine import LanguageModel, TreeReading
from refactx.engines.language_models import load_language_model
from refactx.engines.writer import common_length
from refactx.errors import InputError, ModelError, RefactxError
from refactx.fact import Fact, LinkedFact
from refactx.index.open import opened
from refactx.models.loading import check_chat_template
from refactx.selection.beams import FactBeams
from refactx.selection.channel import QuerySources
from refactx.selection.query_answers import OwnQueries
from refactx.walks.decoding import QueryGrammar

if TYPE_CHECKING:
    from refactx.index.index import Index

LONGEST_PREFIX = 2000
"""The most ids of a prefix with a system message of a caller's: the engine keeps several."""


@dataclass(frozen=True, slots=True)
class EncodedQuestion:
    """A question and the `ids` of its prompt; `named`: the question there, with names in place of ids; `left_out`: how many
    earlier turns the prompt does not have; `most`: the most ids that may follow; `thought`: how many of these a thought may
    take, which the prompt then opens; `earlier`: the texts of the turns that the prompt has."""

    question: str
    named: str
    ids: list[int]
    left_out: int = 0
    most: int = 0
    thought: int = 0
    earlier: tuple[str, ...] = ()


class PromptInputs:
    """The inputs of one model for questions with one prompt. `room`: the most ids that the model takes, if known;
    `thoughts`: the marks of its thoughts, if it thinks; `with_names`: returns a question with names in place of ids."""

    def __init__(
        self,
        tokenizer: Any,
        prompt: Prompt,
        room: int | None,
        thoughts: ThoughtTokens | None = None,
        with_names: Callable[[str], str] = str,
    ) -> None:
        self._tokenizer, self._prompt, self._room, self._with_names = tokenizer, prompt, room, with_names
        self._closing = 0 if thoughts is None else len(thoughts.closing)
        self._prefixes: dict[tuple[str, bool], list[int]] = {}  # by the caller's system message, and whether they think

    def encode(
        self, question: str, options: Generation, history: Sequence[Example] = (), system: str = ""
    ) -> EncodedQuestion:
        """Return the prompt with the latest turns of the history that fit.

        They leave room for the ids of the answer and of a thought before it, or at least for half of the ids that the
        model takes; of these, an answer comes first up to their half. Raises InputError for a question that has no
        visible text or is too long for the model.
        """
        room, left_out, wanted, named = self._room, 0, options.max_new_tokens, self._with_names(question)
        history = [replace(turn, question=self._with_names(turn.question)) for turn in history]
        if options.think:
            wanted += max(options.think, self._closing + 1)

        def ids_of(turns: Sequence[Example]) -> list[int]:
            return self._prompt.ids(self._tokenizer, named, turns, system, think=options.think > 0)

        def fits(ids: Sequence[int]) -> bool:
            return room is None or len(ids) + min(wanted, room // 2) <= room

        ids = ids_of(history)
        if history and not fits(ids):
            prompts = [history[count:] for count in range(len(history))]
            left_out = bisect_left(prompts, True, key=lambda turns: fits(ids_of(turns)))
            ids = ids_of(history[left_out:])
        if room is not None and len(ids) >= room:
            raise InputError(
                f"question and prompt have {len(ids)} tokens, but the model takes at most {room}: ask more briefly"
            )
        most = wanted if room is None else min(wanted, room - len(ids))
        left = min(options.think, most - min(options.max_new_tokens, most // 2)) - self._closing
        thought = max(1, left) if options.think else 0
        earlier = tuple(f"{turn.question}\n{turn.answer}" for turn in history[left_out:])
        return EncodedQuestion(question.strip(), named.strip(), ids, left_out, most, thought, earlier)

    def prefix(self, system: str = "", *, think: bool = False) -> list[int]:
        """Return the ids with which nearly all prompts begin: a first token of a question may include text before it.

        `system`: the caller's system message; with a long one there is no prefix. `think`: as in `Prompt.ids`.
        """
        found = self._prefixes.get((system, think))
        if found is None:
            one, other = (self._prompt.ids(self._tokenizer, text, system=system, think=think) for text in ("0", "?"))
            length = common_length(one, other)
            found = [] if system and length > LONGEST_PREFIX else one[:length]
            kept = {key: self._prefixes[key] for key in self._prefixes if not key[0]}
            self._prefixes = kept | {(system, think): found}
        return found


def check(index: "Index", text: str, model: LanguageModel | str) -> TextClaims:
    """Return the claims of a text: which the facts of an index say, and of which they say otherwise.

        with refactx.open_index("demo") as index:
            refactx.check(index, "The capital of Alaska is Nome.", "demo").claims[0].verdict  # "differs"

    `model`: what `refactx.load_language_model` returns for the index, or the name of a model, which is loaded for this text.
    For many texts, `Asker.check` is faster. Raises as that and `refactx.load_language_model` do.
    """
    loaded = load_language_model(model, index) if isinstance(model, str) else model
    return Asker(loaded, loaded.tokenizer, index).check(text)


def extract(
    index: "Index",
    text: str,
    model: LanguageModel | str,
    options: ExtractionOptions = ExtractionOptions(),  # noqa: B008
) -> ExtractedFacts:
    """Return the facts that a text states, by names and predicates of an index, or of a schema.

        with refactx.open_index("demo") as index:
            refactx.extract(index, "Juneau is the capital of Alaska.", "demo").facts

    `model`: as for `check`. For many texts, `Asker.extract` is faster. Raises as that and `refactx.load_language_model` do.
    """
    loaded = load_language_model(model, index) if isinstance(model, str) else model
    return Asker(loaded, loaded.tokenizer, index).extract(text, options)


def own_queries(index: FactSource, prompt: Prompt, ends: Collection[int]) -> OwnQueries | None:
    """Return the queries that a model writes by itself: those of a prompt that has queries and no channel, else None."""
    if prompt.channel.strip() or not prompt.has_queries or (facts := facts_of(index)) is None:
        return None
    grammar = QueryGrammar(facts, index)
    return OwnQueries(grammar=grammar, facts=facts, marker=prompt.marker, unknown=prompt.unknown, end=sorted(ends)[:1])


def language_model(model: Any, tokenizer: Any) -> LanguageModel:
    """Return a model of Transformers with its tokenizer as a language model; another language model as it is."""
    if hasattr(model, "engine") and hasattr(model, "ends"):
        found: LanguageModel = model
        return found
    from refactx.engines.transformers.rows import TransformersModel  # imports torch and transformers: seconds

    return TransformersModel(model, tokenizer)


def generate_writer(model: LanguageModel, index: FactSource | None) -> Writer:
    """Return the writer that calls Transformers' `generate`. Raise ModelError for a model of another library."""
    if not model.has_generate:
        raise ModelError(
            "beams over the whole text need the engine Transformers: leave out num_beams, use fact_beams, or give a GGUF file "
            "with --engine transformers"
        )
    from refactx.ask.grounded import GenerateWriter

    return GenerateWriter(cast(Any, model), index)


class FactIndex(FactSource, Protocol):
    """An index that also knows the ids of a fact's parts."""

    def links(self, fact: Fact) -> LinkedFact:
        """Return the parts of a fact of this index with their ids."""
        ...


class Asker:
    """A model, a prompt and an index (or None) together, which answers questions. It has no state between questions.

        model, tokenizer = refactx.load_model("demo")
        with refactx.open_index("demo") as index:
            answer = refactx.Asker(model, tokenizer, index).ask("What is the capital of Alaska?")
        print(answer.answer, answer.facts)

    `model`: of Transformers, with its tokenizer, or any `refactx.engines.engine.LanguageModel`. `index`: an
    open one, or what `refactx.open_index` takes. `prompt`: by default the index's own. Threads may share it: what
    they ask at a time is written together.

    Raises ModelError for a tokenizer without a chat template, InputError for an index without facts, and as
    `refactx.ground` does for a model that does not fit the index.
    """

    streams = True
    """Whether a text can be shown while it is written."""

    def __init__(
        self, model: Any, tokenizer: Any, index: FactIndex | str | Path | None, prompt: Prompt | None = None
    ) -> None:
        check_chat_template(tokenizer)
        found: FactIndex | None = opened(index)
        check_open(found)
        if found is not None and not found.children(()).total:
            raise InputError("the index has no facts to answer with: add some with `refactx ingest --append`")
        self._model = language_model(model, tokenizer)
        if found is not None:
            self._model.check_tokenizer(found)
        self._tokenizer, self._index, self._prompt = tokenizer, found, prompt or prompt_for(None, found)
        self._lock, self._generates = Lock(), cast("Writer | None", None)
        self._reading, self._reader = Lock(), cast("FactReader | None", None)
        self._thoughts = thinking_of(tokenizer).tokens(tokenizer)
        self._channels = None if found is None else Channels(found, self._prompt, self._model.ends)
        names = str if self._channels is None else self._channels.with_names
        self._inputs = PromptInputs(tokenizer, self._prompt, self._model.room, self._thoughts, names)
        self._queries = None if found is None else own_queries(found, self._prompt, self._model.ends)
        grammar = None if self._queries is None else self._queries.grammar
        self._writer = (
            self._beam_writer if self._model.engine is None else BatchWriter(self._model, found, queries=grammar)
        )

    @property
    def can_think(self) -> bool:
        """Whether the model can think before it answers (`Generation.think`), as its chat template shows."""
        return self._thoughts is not None and self._model.engine is not None

    def stream(
        self, on_piece: Callable[[TextPiece], object], free: bool = False, *, think: int | None = 0
    ) -> FactStream:
        """Return a streamer for one call of `ask`, which calls `on_piece` with pieces of text and of facts.

        `free`: as in that call; `think`: as in its options; None: no text is a thought, as where a prompt is continued.
        """
        thoughts = None
        if self._thoughts is not None and think is not None:
            thoughts = ThoughtReader(self._thoughts, is_open=think > 0)
        return FactStream(self._token_bytes, None if free else self._writer.machine, on_piece, thoughts)

    def count_facts(self, ids: Sequence[int], prompt_length: int) -> int:
        """Return how many facts a sequence has completed after its prompt."""
        machine = self._writer.machine
        return 0 if machine is None else len(machine.facts(ids, prompt_length))

    def ask(
        self,
        question: str,
        options: Generation = GREEDY,
        *,
        history: Sequence[Example] = (),
        free: bool = False,
        streamer: Any = None,
        until: Callable[[Any], bool] | None = None,
        system: str = "",
        cancelled: Callable[[], bool] | None = None,
        **changes: Any,
    ) -> Answer:
        """Ask one question and return its answer.

        `options`, and `changes` to them by name: how to write, see `Generation`. `history`: earlier turns of the
        conversation; the oldest are left out if the model has no room for them, and their facts may be written again.
        `free`: without constraint, and so without facts; if greedy text would end without a final answer, `Answer:`
        follows. `streamer`: a Transformers streamer, not together with `num_beams`. `until`: called with the ids so far,
        int64[rows, length], after each id; the generation ends once it returns True. `cancelled`: the same, but asked
        before each pass of the model, in any thread. `system`: a text after the system message of the prompt.

        The beginning of the prompt is the same for all questions, and computed with the first question alone.

        Raises InputError for a question that has no visible text or is too long for the model, for options that exclude
        each other, and without an index unless `free`. Errors of the index have the answer so far as `partial`.
        """
        options = replace(options, **changes)
        self._check(options, free, streamer)
        asked = self._inputs.encode(question, options, history, system)
        return next(
            self._answers(
                [asked], options, free=free, streamer=streamer, until=until, cancelled=cancelled, system=system
            )
        )

    def ask_all(
        self,
        questions: Sequence[str],
        options: Generation = GREEDY,
        *,
        batch_size: int = 1,
        free: bool = False,
        until: Callable[[Any], bool] | None = None,
        **changes: Any,
    ) -> Iterator[Answer | InputError]:
        """Ask many questions, `batch_size` at a time. Yield their answers in order.

        The next question begins when an answer is finished, and passes of the model read for all that are being written.
        Greedy answers are the same as those of `ask`. A question that cannot be asked has its InputError in place of an
        answer. The other arguments are those of `ask`. After `until` has returned True, no other question is begun.
        """
        options = replace(options, **changes)
        self._check(options, free, None)
        if batch_size < 1:
            raise InputError(f"batches of {batch_size} questions: give a batch_size of at least 1")
        outcomes: list[EncodedQuestion | InputError] = []
        for question in questions:
            try:
                outcomes.append(self._inputs.encode(question, options))
            except InputError as error:
                outcomes.append(error)
        asked = [outcome for outcome in outcomes if isinstance(outcome, EncodedQuestion)]
        answers = self._answers(asked, options, free=free, until=until, at_once=batch_size)
        for outcome in outcomes:
            answer = next(answers, None) if isinstance(outcome, EncodedQuestion) else outcome
            if answer is None:  # it was not begun
                return
            yield answer

    def follow_up(
        self,
        request: str,
        answer: Answer,
        constraint: Constraint[Any],
        options: Generation,
        *,
        history: Sequence[Example] = (),
        system: str = "",
        streamer: Any = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> WrittenText:
        """Write the reply to a further request of the user after an answer, held to a constraint: it ends with that.

        The other arguments are those of `ask`. Raises InputError if there is no room for it, ModelError for a model without
        an engine.
        """
        turn, room = Example(answer.question, answer.text or "..."), self._model.room
        turns = [*history[answer.turns_left_out :], turn]
        ids = self._prompt.ids(self._tokenizer, request, turns, system)
        if room is not None and len(turns) > 1 and len(ids) + min(options.max_new_tokens, room // 2) > room:
            ids = self._prompt.ids(self._tokenizer, request, [turn], system)
        if room is not None and len(ids) >= room:
            raise InputError(
                f"the answer and what was asked for after it have {len(ids)} tokens, but the model takes at most {room}: ask "
                "for less"
            )
        most = options.max_new_tokens if room is None else min(options.max_new_tokens, room - len(ids))
        writing = WritingOptions(
            is_end=lambda _: True,
            answer_line=lambda _, __: (),
            prefix=self._inputs.prefix(system),
            sampling=options.sampling,
            cancelled=cancelled,
            streamer=streamer,
        )
        writer = BatchWriter(self._model, constraint=constraint)
        return writer.write_one(TextRequest(prompt=ids, max_new_tokens=most), writing)

    def query(self, question: str, *, cancelled: Callable[[], bool] | None = None) -> QueryChoice:
        """Return the queries on the index that a question may ask, the likeliest first, without writing a text.

            asker.query("How many nicknames does Louisiana have?").answer()

        `cancelled`: as in `ask`; the choice then ends with an InputError.

        Raises InputError for a question without visible text, and as `refactx.ask.queries.choose_query` does.
        """
        self._prompt.messages(question)
        if self._channels is None or self._writer.machine is None:
            raise InputError("there is no index to query: give one")
        channel = self._channels.of(self._channels.with_names(question))
        return choose_query(question.strip(), channel, self._writer.machine, self._model, cancelled)

    def check(self, text: str, *, cancelled: Callable[[], bool] | None = None) -> TextClaims:
        """Return the claims of a text: which the facts of the index say, and of which they say otherwise.

            asker.check("The capital of Alaska is Nome.").claims[0].verdict  # "differs"

        `cancelled`: as in `ask`. Raises as `refactx.ask.claims.check_claims` does, and ModelError for a model that cannot
        score claims.
        """
        channels, machine = self._scoring()
        return check_claims(text, channels.of_sentence, machine, share(self._model), cancelled)

    def extract(
        self,
        text: str,
        options: ExtractionOptions = ExtractionOptions(),  # noqa: B008 - it cannot be changed
        *,
        cancelled: Callable[[], bool] | None = None,
    ) -> ExtractedFacts:
        """Return the facts that a text states, by names and predicates of the index, or of a schema.

            asker.extract("Juneau is the capital of Alaska.").facts[0].fact.text

        Which predicates are usual for things of the index is found out with the first text, in some seconds. `cancelled`: as
        in `ask`. Raises as `refactx.ask.extraction.extract_facts` does, and ModelError as `check` does.
        """
        channels, machine = self._scoring()

        def reader_of(sources: QuerySources) -> FactReader:
            with self._reading:
                self._reader = self._reader or FactReader(machine, sources)
                return self._reader

        shared = share(self._model)
        return extract_facts(
            text, channels.of_sentence, reader_of, machine, shared, options=options, cancelled=cancelled
        )

    def _scoring(self) -> tuple["Channels", Machine]:
        """Return what judges sentences. Raises InputError without an index, ModelError for a model that cannot."""
        if self._channels is None or self._writer.machine is None:
            raise InputError("there is no index for the sentences of the text: give one")
        if self._model.engine is None or self._model.engine.trees < TreeReading.ROWS:
            raise ModelError(
                "sentences are judged by a decoder-only model whose state is in a cache that can be copied: give another"
            )
        return self._channels, self._writer.machine

    def _answers(
        self,
        asked: Sequence[EncodedQuestion],
        options: Generation,
        *,
        free: bool,
        until: Callable[[Any], bool] | None,
        streamer: Any = None,
        at_once: int = 1,
        cancelled: Callable[[], bool] | None = None,
        system: str = "",
    ) -> Iterator[Answer]:
        """Yield the answers to questions, in order."""
        repeated, marker = RepeatedAnswer(self._tokenizer, self._prompt.marker), self._prompt.marker
        beams = (
            FactBeams(options.fact_beams, length_penalty=options.fact_length_penalty) if options.fact_beams else None
        )
        writing = WritingOptions(
            is_end=repeated.is_end,
            answer_line=AnswerLine(self._tokenizer, marker, self._model.ends).after,
            prefix=self._inputs.prefix(system, think=options.think > 0),
            free=free,
            sampling=options.sampling,
            num_beams=options.num_beams,
            until=until,
            cancelled=cancelled,
            streamer=streamer,
            fact_beams=beams,
            max_facts=options.max_facts,
            after_facts=marker,
            thoughts=self._thoughts,
        )
        orders = [
            TextRequest(
                prompt=one.ids,
                max_new_tokens=one.most,
                thought=one.thought,
                channel=self._channels.of(
                    one.named,
                    options.min_confidence,
                    one.most - one.thought,
                    one.earlier,
                    language=options.language,
                    answer_language=options.answer_language,
                )
                if options.uses_channel and not free and self._channels
                else None,
                queries=None if free or self._queries is None else replace(self._queries, answered=[]),
            )
            for one in asked
        ]
        writer, done = self._writer if options.num_beams == 1 else self._beam_writer, 0
        try:
            for one, order, text in zip(asked, orders, writer.write(orders, writing, at_once), strict=False):
                answer = self._answer(one, text, self._finish(text, repeated), order=order)
                yield answer if free else self._proven(answer)
                done += 1
        except WritingError as failed:
            answers = list[Answer]()
            for one, text in zip(asked[done:], failed.texts, strict=False):
                cut: FinishReason = (
                    "stop" if self._has_ended(text) else "interrupted"
                )  # by the error, maybe after its end
                reason = self._finish(text, repeated) if text.is_whole else cut
                answers.append(self._answer(one, text, reason, linked=False))
            if isinstance(failed.error.partial, Partial):
                failed.error.partial = replace(failed.error.partial, answers=tuple(answers))
            raise failed.error from None

    def _finish(self, text: WrittenText, repeated: RepeatedAnswer) -> FinishReason:
        """Return the reason why a text ended."""
        if self._has_ended(text) or repeated.is_end(text.answer_ids):
            return "stop"
        return "interrupted" if text.is_interrupted else "length"

    def _has_ended(self, text: WrittenText) -> bool:
        return bool(text.ids) and text.ids[-1] in self._model.ends

    def _answer(
        self,
        asked: EncodedQuestion,
        written: WrittenText,
        reason: FinishReason,
        linked: bool = True,
        order: TextRequest | None = None,
    ) -> Answer:
        """Return the answer that a text is. `linked`: with the ids of its facts' parts, which need the database."""
        channel = None if order is None else order.channel
        chosen = channel or (None if order is None else order.queries)
        marks = () if self._thoughts is None else self._thoughts.names
        text = self._tokenizer.decode(
            [number for number in written.answer_ids if number not in marks],
            skip_special_tokens=True,
            clean_up_tokenization_spaces=False,
        ).strip()
        trigger = "" if self._index is None else self._index.trigger
        start = len(asked.ids) + written.thought_ids
        own_facts = [fact for fact in written.facts if fact.token_span[0] >= start]
        if written.facts and trigger and reason == "stop":  # it began one fact more than `max_facts`
            text = text.removesuffix(trigger).rstrip()
        answer = Answer(
            question=asked.question,
            answer=final_answer(text, self._prompt.marker, own_facts, trigger),
            text=text,
            thought=written.thought,
            thought_tokens=written.thought_ids,
            facts=written.facts,
            links=tuple(map(unlinked, written.facts)),
            tokens=len(written.ids),
            forward_passes=written.passes,
            seconds=written.seconds,
            finish_reason=reason,
            turns_left_out=asked.left_out,
            queries=() if chosen is None else tuple(chosen.answered),
            confidence=None if channel is None else channel.confidence,
            forced_tokens=written.forced,
        )
        named = "" if channel is None else untranslated(answer.answer, channel.translated)
        unknown = bool(self._prompt.unknown) and (named or answer.answer) == self._prompt.unknown
        answer = replace(answer, named=named, unknown=unknown)
        if not linked or self._index is None:
            return answer
        try:
            return replace(answer, links=tuple(map(self._index.links, written.facts)))
        except RefactxError as error:
            ids = np.array([[*asked.ids, *written.ids]])
            error.partial = error.partial or Partial(ids=ids, lengths=(ids.shape[1],), facts=(written.facts,))
            raise WritingError(error, [written]) from error

    def _proven(self, answer: Answer) -> Answer:
        """Return an answer, or that it is unknown if it has no fact: with beams, and with prompts that choose nothing by the
        question, a model may write one without."""
        has_proof = bool(answer.facts or answer.queries) or answer.finish_reason != "stop"
        return (
            answer
            if has_proof or not self._prompt.unknown
            else replace(answer, answer=self._prompt.unknown, unknown=True)
        )

    @property
    def _beam_writer(self) -> Writer:
        """The writer for beams over the whole text, which Transformers has alone."""
        with self._lock:
            if self._generates is None:
                self._generates = generate_writer(self._model, self._index)
            return self._generates

    @cached_property
    def _token_bytes(self) -> Sequence[bytes]:
        return self._model.token_bytes if self._index is None else self._index.tokenizer.token_bytes

    def _check(self, options: Generation, free: bool, streamer: Any) -> None:
        if options.think and not self.can_think:
            lacks = "its chat template has no marks of thoughts" if self._thoughts is None else "it has no engine"
            raise InputError(
                f"the model cannot think before it answers, since {lacks}: leave out think, or give another"
            )
        if streamer is not None and options.num_beams > 1:
            raise InputError("beam search cannot stream, since it decides at the end: leave out streamer or num_beams")
        has_beams = options.num_beams > 1 or options.fact_beams is not None
        if self._queries is not None and not free and (self._model.engine is None or has_beams):
            raise InputError(
                "with this prompt, the model writes queries by itself, which are answered in greedy and sampled text of an "
                "engine alone: leave out beams, or give a prompt without `queries`"
            )
        if free and replace(options, channel=False) != options.free:  # `channel` is True by default
            raise InputError("free text has no facts: leave out free, or leave out fact_beams and max_facts")
        if not free and options.answer_language not in (None, "question", "index"):
            index = labelled(self._index)
            known = [code for code in index.languages if code != "mul"] if index is not None else []
            if options.answer_language not in known:
                raise InputError(
                    f"the index has no labels in {options.answer_language!r}, only in {', '.join(known) or 'no language'}: "
                    "give one of them, or ingest it with --languages"
                )
        if not free and self._index is None:
            raise InputError("there is no index to take facts from: give one, or ask without facts (free=True)")
