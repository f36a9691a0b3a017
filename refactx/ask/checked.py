"""Answers of models that can only chat: the model writes facts itself, and each is checked against the index.

OpenAI's API and those like it tell nothing of given ids, so facts cannot be chosen here. The model gets tools to look at
the index: to complete names, to read the facts of a thing, to count and list by a query, and to check a fact. Then it
writes its answer. A fact that does not exist is taken back, with the nearest ones that do, and the answer is asked for
again. What is still wrong then is marked in the text, and is no fact of the answer.
"""

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, cast
from urllib.parse import urlsplit

import numpy as np

from refactx.ask.answer import NOT_FOUND, Answer, final_answer
from refactx.ask.asker import Asker
from refactx.ask.browse import Checked, browse, check_text
from refactx.ask.chat_server import SAMPLING, ChatReply, ChatServer, ServerRole
from refactx.ask.prompt import GREEDY, Example, Generation, Prompt
from refactx.decoding.stream import TextPiece
from refactx.decoding.thoughts import without_thoughts
from refactx.engines.engine import LanguageModel
from refactx.engines.language_models import ChatOnlyError, load_language_model
from refactx.engines.served.connection import KEY, Usage
from refactx.errors import InputError, RefactxError
from refactx.fact import counted
from refactx.index.index import Index
from refactx.models.options import EngineOptions
from refactx.walks import TreeFacts, answer_query, read_line

ROUNDS = 8
"""The most replies with calls of tools."""
CORRECTIONS = 2
"""The most times that an answer with facts that do not exist is asked for again."""
SHOWN = 20
"""The most completions and facts that a tool returns."""
ONLY_CHATS = "{} was given, and this server only chats: leave it out, or use a server that scores ids"
"""The error of an option that needs the scores of ids."""

INSTRUCTIONS = """

The facts are in a knowledge base, and each that you write is checked there. Its names are longer than usual ones, such as \
<Alaska (state of the United States of America)>: take them from the tools, and copy them exactly, with the brackets < and >."""
_FACT_LINE = re.compile(r"[\s>*_#\d.()-]*facts?[\s*_]*:|.*?\bfacts?[\s*_]*:(?=[\s*_]*<)", re.IGNORECASE)
"""The beginning of a line that claims a fact, also in a list, in Markdown, and after other text."""


def _tool(name: str, about: str, **parameters: str) -> dict[str, Any]:
    """Return a tool as OpenAI's API describes one; `parameters`: texts, with what they are."""
    given = {key: {"type": "string", "description": text} for key, text in parameters.items()}
    schema = {"type": "object", "properties": given, "required": [key for key in given if key != "predicate"]}
    return {"type": "function", "function": {"name": name, "description": about, "parameters": schema}}


TOOLS = (
    _tool(
        "complete",
        "How facts that begin with a text continue: `<Dan` finds subjects, `<Danny Boyle> <` the predicates of one.",
        prefix="The beginning of a fact.",
    ),
    _tool(
        "facts",
        "The facts of a thing, maybe with one predicate. It may be called by a label or an alias.",
        subject="Its name.",
        predicate="A predicate of it, or nothing.",
    ),
    _tool(
        "query",
        "Count, list or ask by a walk from a thing: `count <Brad Pitt> <child>`, "
        "`list <Tom Hanks> <cast member of> which <instance of> <film>`, `ask <Alan Turing> <occupation> <mathematician>`.",
        line="The query.",
    ),
    _tool("check", "Whether a fact exists, and the nearest ones if not.", fact="<subject> <predicate> <value>"),
)


@dataclass(frozen=True, slots=True)
class _Reviewed:
    """The pieces of a text with the marks of what is wrong, the facts in it that exist, and those that do not with what is
    near them."""

    pieces: list[TextPiece]
    right: list[Checked]
    wrong: list[str]


@dataclass(frozen=True, slots=True)
class CheckedText:
    """An answer, the pieces of its text, each of its facts one of them, and what was asked of the model for it."""

    answer: Answer
    pieces: list[TextPiece]
    usage: Usage


class CheckedAsker:
    """A model behind a chat API, a prompt and an index together, which answers questions.

        chat = ChatServer("gpt-5", "https://api.openai.com/v1", role)
        CheckedAsker(chat, index, prompt).ask("What is the capital of Alaska?")

    `usage`: what was asked of the model so far.
    """

    streams = False
    """Whether a text can be shown while it is written: here, after its facts were checked."""
    can_think = False
    """Whether a thought can be asked for: a chat API thinks as it wants, and thoughts are left out."""

    def __init__(self, chat: ChatServer, index: Index, prompt: Prompt) -> None:
        self._chat, self._index, self._prompt = chat, index, prompt
        self._facts = TreeFacts(index)

    @property
    def usage(self) -> Usage:
        """What was asked of the model so far."""
        return self._chat.usage

    def stream(self, on_piece: object, free: bool = False, *, think: int | None = 0) -> None:
        """Return no streamer, see `streams`."""

    def count_facts(self, ids: Sequence[int], prompt_length: int) -> int:
        """Return 0: nothing is known of a text before its end."""
        return 0

    def ask(
        self,
        question: str,
        options: Generation = GREEDY,
        *,
        history: Sequence[Example] = (),
        free: bool = False,
        streamer: object = None,
        until: Callable[[Any], bool] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> Answer:
        """Ask one question and return its answer, whose facts exist. `free`: without tools and checks.

        `streamer`: gets nothing, see `stream`. `until`, `cancelled`: called after each reply, the first with no ids of
        it; once it returns True, the answer is what there is. Raises as `write` does.
        """
        stops = cancelled if until is None else lambda: until(np.zeros((1, 1), np.int64))
        return self.write(question, options, history=history, free=free, cancelled=stops).answer

    def write(
        self,
        question: str,
        options: Generation = GREEDY,
        history: Sequence[Example] = (),
        system: str = "",
        *,
        free: bool = False,
        cancelled: Callable[[], bool] | None = None,
    ) -> CheckedText:
        """Ask one question as `ask` does. `system`: a text after the system message of the prompt; `cancelled`: asked after
        each reply; once it returns True, the answer is what there is.

        Raises InputError for a question without visible text, and for options of how facts and ids are chosen, which a
        chat API does not take; ModelServerError as `ChatServer.reply` does, and as `Index.children` does.
        """
        if name := unsupported_option(options, free=free):
            raise InputError(ONLY_CHATS.format(name))
        started, spent = time.time(), Usage()
        messages: list[dict[str, Any]] = [*self._prompt.messages(question, history, system)]
        if not free:
            messages[0] = {**messages[0], "content": messages[0]["content"] + INSTRUCTIONS}
        for left in range(CORRECTIONS, -1, -1):
            reply = self._reply(messages, options, () if free else TOOLS, spent)
            text = without_thoughts(reply.text).strip()
            reviewed = _Reviewed([TextPiece(text)], [], []) if free else self._review(text)
            stopped = cancelled is not None and cancelled()
            if not reviewed.wrong or not left or stopped:
                break
            wrong = "\n".join(reviewed.wrong)
            objection = (
                f"{counted(len(reviewed.wrong), 'fact')} of yours cannot be found in the knowledge base:\n{wrong}\n"
                "Write the whole answer again, with facts that exist alone, copied exactly."
            )
            messages += [{"role": "assistant", "content": text}, {"role": "user", "content": objection}]
        facts, written = tuple(one.fact for one in reviewed.right), "".join(piece.text for piece in reviewed.pieces)
        said = final_answer(written, self._prompt.marker, facts, "")
        if not (free or facts or stopped or reply.is_cut or said == self._prompt.unknown) and self._prompt.unknown:
            said, line = (
                self._prompt.unknown,
                f"\n{self._prompt.marker} {self._prompt.unknown}",
            )  # no fact proves another
            reviewed.pieces.append(TextPiece(line))
            written += line
        answer = Answer(
            question=question.strip(),
            answer=said,
            unknown=bool(said) and said == self._prompt.unknown,
            text=written,
            facts=facts,
            links=tuple(one.linked for one in reviewed.right),
            tokens=spent.written,
            forward_passes=spent.requests,
            seconds=time.time() - started,
            finish_reason="interrupted" if stopped else "length" if reply.is_cut else "stop",
        )
        return CheckedText(answer, reviewed.pieces, spent)

    def ask_all(
        self,
        questions: Sequence[str],
        options: Generation = GREEDY,
        *,
        batch_size: int = 1,
        free: bool = False,
        until: Callable[[Any], bool] | None = None,
    ) -> Iterator[Answer | InputError]:
        """Yield the answers to questions, one after the other, with an InputError in place of one that cannot be asked."""
        for question in questions:
            try:
                answer = self.ask(question, options, free=free, until=until)
            except InputError as error:
                yield error
                continue
            yield answer
            if answer.finish_reason == "interrupted":
                return

    def _reply(
        self, messages: list[dict[str, Any]], options: Generation, tools: Sequence[dict[str, Any]], spent: Usage
    ) -> ChatReply:
        """Return the first reply without calls of tools; `messages` gets those before it, with what the tools returned, and
        `spent` what all of them took."""
        given = {name: getattr(options, name) for name in SAMPLING}
        sampling = {name: value for name, value in given.items() if value is not None}
        for left in range(ROUNDS, -1, -1):
            reply = self._chat.reply(messages, options.max_new_tokens, tools if left else (), sampling)
            spent += reply.usage
            if not reply.calls or not left:
                return reply
            messages.append(dict(reply.message))
            for call in reply.calls:
                messages.append(
                    {"role": "tool", "tool_call_id": call.id, "content": self._look(call.name, call.arguments)}
                )
        raise AssertionError("the last round has no tools")

    def _look(self, name: str, arguments: str) -> str:
        """Return what a tool returns, as JSON: an error for one that cannot be called so, which the model reads."""
        try:
            given = json.loads(arguments or "{}")
            found = self._call(name, {key: str(value) for key, value in given.items()})
        except (RefactxError, ValueError, AttributeError, KeyError, RecursionError) as error:
            found = {"error": " ".join(str(error).split())}
        return json.dumps(found, ensure_ascii=False)

    def _call(self, name: str, given: dict[str, str]) -> Any:
        match name:
            case "complete":
                found = browse(self._index, self._facts, prefix=given["prefix"] or "<", limit=SHOWN)
                return {"completions": [text for text, _ in found.completions], "more": found.truncated}
            case "facts":
                predicate = given.get("predicate", "")
                found = browse(self._index, self._facts, subject=given["subject"], predicate=predicate, limit=SHOWN)
                properties = [one.predicate.label for one in found.properties]
                facts = [fact.text for fact, _ in found.facts]
                return {
                    "facts": facts,
                    "predicates": properties,
                    "near": [one.name for one in found.near],
                    "more": found.truncated,
                }
            case "query":
                answered = answer_query(read_line(given["line"]), self._facts)
                return {"answer": answered.answer}
            case "check":
                return [_shown(one) for one in check_text(self._index, self._facts, given["fact"])]
        raise KeyError(f"there is no tool {name!r}")

    def _review(self, text: str) -> _Reviewed:
        """Check the lines of a text that begin as facts. Those with more than a fact, or none, are wrong."""
        reviewed = _Reviewed([], [], [])
        pieces, wrong = reviewed.pieces, reviewed.wrong
        for number, line in enumerate(text.splitlines()):
            begin, before = _FACT_LINE.match(line), "\n" if number else ""
            found = check_text(self._index, self._facts, line) if begin else []
            if begin is None:
                pieces.append(TextPiece(before + line))
            elif len(found) != 1 or re.search("[<>]", line[begin.end() : found[0].start] + line[found[0].stop :]):
                pieces.append(TextPiece(f"{before}{line} {NOT_FOUND}"))
                wrong.append(f"{line.strip()} - write one fact a line: Fact: <subject> <predicate> <value> .")
            elif not found[0].exists:
                pieces.append(TextPiece(f"{before}{line} {NOT_FOUND}"))
                near = "; ".join(fact.text for fact, _ in found[0].nearest) or "none"
                wrong.append(f"{found[0].fact.text} - the nearest facts that exist: {near}")
            else:
                fact = found[0].fact
                pieces.append(TextPiece(before + line[: found[0].start]))
                pieces.append(TextPiece(fact.text, in_fact=True, completes=True, fact=fact))
                pieces.append(TextPiece(line[found[0].stop :]))
                reviewed.right.append(found[0])
        return reviewed


def unsupported_option(options: Generation, *, free: bool) -> str:
    """Return the name of the first option of how facts and ids are chosen that is given; "" for none.

    >>> unsupported_option(Generation(top_k=1, temperature=1), free=False)
    'top_k'
    >>> unsupported_option(Generation(temperature=1), free=False)
    ''
    """
    of_language = ("language", *(("answer_language",) if options.answer_language in ("question", "index") else ()))
    taken = {name: getattr(options, name) for name in ("max_new_tokens", *of_language, *SAMPLING)}
    usual = replace(GREEDY.free if free else GREEDY, **taken)
    return next((one.name for one in fields(options) if getattr(options, one.name) != getattr(usual, one.name)), "")


def load_any(
    name: str, index: Index | None, engine: EngineOptions, say: Callable[[str], object]
) -> LanguageModel | ChatServer:
    """Return a model of ours or on a server, which may only chat. `say`: told of the last.

    Raises as `load_language_model` does; ModelError for a server that only chats, without an index.
    """
    try:
        return load_language_model(name, index, engine)
    except ChatOnlyError:
        if index is None or engine.server is None or engine.server.model_url is None:
            raise
    url = engine.server.model_url
    say(f"{url.rpartition('@')[2]} only chats: its facts are checked")
    role = ServerRole(name="the model", option="--model-url", key=KEY, extra="client")
    return ChatServer(name, url if urlsplit(url).path.strip("/") else f"{url.rstrip('/')}/v1", role)


def asker_of(
    name: str, index: Index | None, engine: EngineOptions, prompt: Prompt, say: Callable[[str], object]
) -> tuple[Asker | CheckedAsker, Usage | None]:
    """Return what asks a model, which may be on a server, and what is asked of that server. `say`: told if it only chats.

    Raises as `load_any` and `Asker` do.
    """
    loaded = load_any(name, index, engine, say)
    if isinstance(loaded, ChatServer):
        return CheckedAsker(loaded, cast(Index, index), prompt), loaded.usage
    return Asker(loaded, loaded.tokenizer, index, prompt), getattr(loaded, "usage", None)


def _shown(one: Checked) -> dict[str, Any]:
    return {"fact": one.fact.text, "exists": one.exists, "nearest": [fact.text for fact, _ in one.nearest]}
