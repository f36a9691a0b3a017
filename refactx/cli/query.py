"""The command `refactx query`."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from refactx.ask.queries import QueryReply, check_text
from refactx.cli import options as common
from refactx.cli.help import GroupedCommand
from refactx.cli.sparql import Cell, cells_of, links_by_id
from refactx.documents import LiteralValue, named, reply_document, rounded, to_json
from refactx.errors import InputError
from refactx.fact import Link, LinkedFact, counted, line, visible
from refactx.index.index import Index
from refactx.linking.names import bare_name
from refactx.options import option
from refactx.sparql.engines import Rows
from refactx.sparql.packs.prompt import STEERED, WRITERS, load_sparql_prompt, writer_named
from refactx.sparql.placeholders.entry import PAPER, MemoryEntry, MentionChoice, Thresholds
from refactx.walks import AnsweredQuery, QueryError, read_line, resolve, to_sparql, write_line
from refactx.walks.evaluate import DEFAULT_LIMITS
from refactx.walks.facts import TreeFacts
from refactx.walks.language import is_line

if TYPE_CHECKING:
    from refactx.ask.asker import Asker
    from refactx.ask.prompt import Prompt
    from refactx.models.options import EngineOptions
    from refactx.sparql.engines import Result, SparqlEngine
    from refactx.sparql.packs.prompt import WriterName
    from refactx.sparql.packs.translation import Attempt
    from refactx.sparql.packs.translator import Translator


SHOWN = 20
"""The most rows, facts and candidates that are shown as text by default."""

_CONFIDENCES = ((4.0, "low"), (10.0, "medium"))
"""Below which confidence an answer is what, as the page says: below the first, the usual prompts do not answer."""

_ENGINES = ("auto", "tree", "store")

_OLD = {"strict": "from-walk", "direct": "ids", "open": "open"}
"""Names of policies in earlier releases. What `open` means depends on other options."""

_SPARQL = "SPARQL of policies"


def print_reply(reply: QueryReply, *, as_json: bool, explains: bool, limit: int | None) -> None:
    """Print a reply, with at most `limit` rows, facts and candidates each."""
    for note in reply.notes:
        click.echo(f"refactx: {note}", err=True)
    if as_json:
        return common.print_json(to_json(reply_document(reply, limit, explains=explains)))
    shown, is_terminal = limit or SHOWN, sys.stdout.isatty()
    _print_lines(_lines(reply, shown, explains=explains, has_facts=not is_terminal))
    if is_terminal and reply.answered is not None and reply.answered.facts:
        from refactx.cli.views import fact_tree, terminal

        console = terminal()
        console.print()
        console.print(fact_tree(reply.answered.facts[:shown], console.width))
        for text in _more_facts(reply.answered, shown):
            click.echo(text)
    click.echo()
    return None


def _print_lines(texts: Iterable[str]) -> None:
    is_terminal = sys.stdout.isatty()
    for text in texts:
        is_bold = is_terminal and text.startswith(("Question: ", "Answer: "))
        click.echo(click.style(text, bold=True) if is_bold else text)


def _lines(reply: QueryReply, shown: int, *, explains: bool, has_facts: bool) -> Iterator[str]:
    """Yield the lines of a reply. `has_facts`: with its facts."""
    answered = reply.answered
    if reply.choice is not None:
        yield f"Question: {line(reply.question)}"
    yield f"Query: {line(reply.line)}"
    if answered is not None:
        yield f"Answer: {_answer(answered, shown)}"
        if not answered.result.is_complete:
            yield f"(incomplete: {answered.result.reason})"
    if reply.confidence is not None:
        yield f"Confidence: {confidence_words(reply.confidence)}"
    if reply.sparql is not None:
        yield from ("SPARQL:", *(f"  {visible(text)}" for text in reply.sparql.strip().splitlines()))
    if answered is not None:
        yield from _rows(answered, shown)
        if has_facts:
            yield from (fact_line(fact) for fact in answered.facts[:shown])
            yield from _more_facts(answered, shown)
    if explains and reply.choice is not None:
        yield from _explanation(reply, shown)


def _answer(answered: AnsweredQuery, shown: int) -> str:
    names = dict.fromkeys(map(bare_name, answered.result.values))
    return _some(map(line, names), shown) if len(names) > shown else line(answered.answer) or "(nothing)"


def _some(names: Iterable[str], shown: int) -> str:
    """Return at most `shown` names, each once, and how many more there are."""
    distinct = list(dict.fromkeys(names))
    left = f"; (and {len(distinct) - shown:,} more)" if len(distinct) > shown else ""
    return "; ".join(distinct[:shown]) + left or "(nothing)"


def _rows(answered: AnsweredQuery, shown: int) -> Iterator[str]:
    result = answered.result
    sorted_by: Sequence[str] = result.sorted_by or [""] * len(answered.rows)
    for at, (row, by) in enumerate(list(zip(answered.rows, sorted_by, strict=True))[:shown]):
        cells = ["; ".join(map(_label, cell)) or "-" for cell in answered.cells[at]] if answered.cells else []
        named = [f"{column}: {cell}" for column, cell in zip(result.columns, cells, strict=True)]
        parts = [_label(row), by, *named, (isinstance(row, Link) and row.url) or ""]
        yield f"Row: {'  '.join(line(part) for part in parts if part)}"
    yield from more(len(answered.rows), shown, "row")


def more(count: int, shown: int, what: str) -> Iterator[str]:
    """Yield how many of some things are not shown. `what`: one of them."""
    if count > shown:
        yield f"(and {counted(count - shown, f'more {what}')}: see --limit)"


def _more_facts(answered: AnsweredQuery, shown: int) -> Iterator[str]:
    """Yield how many facts are not shown: there may be more than were asked for."""
    if len(answered.facts) < DEFAULT_LIMITS.facts:
        yield from more(len(answered.facts), shown, "fact")
    elif len(answered.facts) >= shown:
        yield "(there may be more facts: see --limit)"


def _explanation(reply: QueryReply, shown: int) -> Iterator[str]:
    """Yield what the question's words name, and the candidates for its query."""
    choice = reply.choice
    if choice is None:
        return
    yield f"Asks for: {', '.join(choice.heads)}"
    for one in choice.mentions.entities:
        words = line(choice.question[one.start : one.stop])
        yield f"Names: {words!r} <{line(one.name)}>, {one.share:.0%} of the facts of all entities of its name"
    yield from (f"Names: predicate <{line(name)}>" for name in sorted(choice.mentions.predicates))
    yield from (f"Names: number {number}" for number in choice.mentions.numbers)
    for candidate in choice.candidates[:shown]:
        confidence = choice.confidence(candidate)
        yield f"Candidate: {candidate.score:8.2f} (confidence {confidence:6.2f})  {line(write_line(candidate.query))}"
    yield from more(len(choice.candidates), shown, "candidate")


def confidence_words(confidence: float) -> str:
    """Return a confidence on a scale, with its number.

    >>> confidence_words(12.34), confidence_words(3.1)
    ('high (12.3)', 'low (3.1)')
    """
    word = next((word for below, word in _CONFIDENCES if confidence < below), "high")
    return f"{word} ({confidence:.1f})"


def fact_line(fact: LinkedFact) -> str:
    """Return a fact as text, without control characters."""
    return " ".join(f"<{line(_label(part))}>" for part in (fact.subject, fact.predicate, fact.object))


def _label(part: Link | str) -> str:
    return part if isinstance(part, str) else part.label


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyOptions:
    """The options of policies. `model`, `model_url`: what writes; `run_on`: what runs the query; `tau`: the least
    similarity of names; `grammar`: without it, constrained text becomes placeholders."""

    model: str | None = option(None, "For questions in words: id, folder, GGUF; or demo.", metavar="MODEL")
    policy: str = option(
        "from-walk",
        "harvest, constrained, [rag-]placeholders, ids, rag; default: from-walk.",
        choices=WRITERS,
        old=_OLD,
        metavar="POLICY",
    )
    model_url: str | None = option(None, "OpenAI-compatible server of the model.", metavar="URL", group=_SPARQL)
    sparql_prompt: str = option("sparql", "sparql or a .toml file.", metavar="PROMPT", group=_SPARQL)
    grammar: bool = option(True, "constrained: only SPARQL with names; default: on.", group=_SPARQL)
    tau: Thresholds | None = option(
        None,
        "Similarity that names need; or entity=X,...",
        kinds=tuple(PAPER),
        least=0,
        most=1,
        metavar="X",
        group=_SPARQL,
    )
    run_on: str | None = option(
        None, "tree, store or URL; auto: store if there is one.", metavar="WHERE", group=_SPARQL
    )
    timeout: float = option(60.0, "At most so long.", above=0, metavar="SECONDS", group=_SPARQL)

    @property
    def writer(self) -> "WriterName":
        """The writer of queries that the policy is."""
        return writer_named(self.policy, constrained=self.grammar and (self.policy != "open" or self.model_url is None))

    def check(self) -> None:
        """Raise InputError for options that exclude each other."""
        if self.model_url is not None and self.writer in STEERED:
            raise InputError(
                f"--policy {self.policy} needs a model whose choices can be steered, which no server offers: give --policy "
                "placeholders, rag or ids, or leave out --model-url"
            )
        if self.model_url is not None and self.model is None:
            raise InputError("--model-url needs the name of a model there: give --model NAME")
        if self.tau is not None and self.policy not in ("placeholders", "rag-placeholders", "open"):
            raise InputError(
                f"--tau is of names that a memory resolves, as --policy placeholders does, not {self.policy}"
            )


@dataclass(frozen=True, slots=True)
class PolicyReply:
    """What was written for a question, and what it gave.

    `written`: the query, or why there is none; `result`: None if the query was refused or not to be run, or if the engine
    could not answer it, and then `failure` says why; `engine`: the engine's name, empty if it was not asked.
    """

    question: str
    written: "Attempt"
    result: "Result | None" = None
    engine: str = ""
    failure: str = ""


class PolicyReplies:
    """Replies by a writer of queries on one index. Models and engines are loaded when they are first needed, until `stack`
    closes.

    `prompt`: of answers, for from-walk and harvest; `limit`: the most rows, None for all.
    """

    def __init__(
        self,
        index: Index,
        options: PolicyOptions,
        machine: "EngineOptions",
        prompt: "Prompt",
        stack: ExitStack,
        *,
        runs: bool,
        limit: int | None,
    ) -> None:
        self._index, self._options, self._machine, self._prompt = index, options, machine, prompt
        self._stack, self._runs, self._limit = stack, runs, limit
        self.facts = TreeFacts(index)

    def to(self, text: str) -> PolicyReply:
        """Return the reply to a question, or to a walk line. Raises as the policy does, and EngineError if the engine
        cannot be asked."""
        from refactx.sparql.engines import EngineTimeoutError, QueryRefusedError, SparqlSyntaxError

        question, options = text.strip(), self._options
        check_text(text, options.model is not None)
        written = self._of_line(question) if is_line(text) else self._translator.translate(question).attempts[0]
        if written.sparql is None or not self._runs:
            return PolicyReply(question, written)
        engine = self._engine
        try:
            result = engine.run(written.sparql, limit=self._limit, seconds=options.timeout)
        except (EngineTimeoutError, QueryRefusedError, SparqlSyntaxError) as error:
            return PolicyReply(question, written, engine=engine.name, failure=str(error))
        return PolicyReply(question, written, result, engine.name)

    def _of_line(self, text: str) -> "Attempt":
        from refactx.sparql.packs.translation import Attempt

        query, _ = resolve(read_line(text), self.facts)
        try:
            return Attempt(writer="from-walk", text=text, sparql=to_sparql(query, self.facts))
        except QueryError as error:  # a name without an id
            return Attempt(writer="from-walk", text=text, reason=str(error))

    @cached_property
    def _translator(self) -> "Translator":
        from refactx.sparql.packs.translator import Translator
        from refactx.sparql.packs.writers import open_writers

        options = self._options
        prompt = load_sparql_prompt(options.sparql_prompt)  # before the model, which takes longer
        writers = open_writers(
            [options.writer],
            self._index,
            options.model or "",
            url=options.model_url,
            machine=self._machine,
            answers=self._prompt,
            prompt=prompt,
            tau=options.tau,
        )
        return Translator(writer=writers[options.writer])

    @cached_property
    def _engine(self) -> "SparqlEngine":
        from refactx.sparql.engines import engine_at

        engine = engine_at(self._options.run_on or "auto", lambda _: self._index)
        self._stack.callback(engine.close)
        return engine


def check_place(place: str | None) -> None:
    """Raise InputError for what is neither an engine of an index nor the URL of an endpoint."""
    if place is not None and place not in _ENGINES:
        if "://" not in place:
            raise InputError(f"--run-on {place} is no engine: give tree, store, auto or the URL of an endpoint")
        from refactx.sparql.engines.endpoint import read_address

        read_address(place)


WRITING = common.groups_of(PolicyOptions)[_SPARQL]


@click.command(cls=GroupedCommand, groups={_SPARQL: WRITING, "Database and machine": common.MACHINE})
@click.argument("questions", nargs=-1, metavar="[QUESTION]...")
@common.declared(PolicyOptions)
@common.INDEX
@click.option("--run/--no-run", default=True, help="Answer the query; default: on.")
@click.option("--explain", is_flag=True, help="Print candidates, or what the model wrote.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="At most N rows and facts; default: 20, JSON: all.")
@common.PROMPT
@common.WEIGHTS
@common.JSON
@common.DB
@common.engine_options
def query(
    questions: tuple[str, ...],
    model: str | None,
    index: str,
    db: str | None,
    run: bool,
    explain: bool,
    limit: int | None,
    prompt: str | None,
    weights: Path | None,
    ranker: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Answer questions about sets of facts: how many, which ones, whether, the highest.

    A QUESTION in words needs --model, which chooses the query that it asks, or with another --policy writes one. A query
    such as `count <Louisiana> <nickname>` needs no model; a label or an alias in it stands for the entity with most
    facts. Without QUESTION, lines are read from the terminal, where Tab completes names; with - or from a pipe, each
    line is one question or query.
    """
    from refactx.ask.examples import prompt_for
    from refactx.ask.prompt import load_prompt
    from refactx.cli.typing import read_piped, read_typed_queries, run_typed
    from refactx.index.open import open_index

    machine = common.engine_options_of(given, texts=1, beams=1)
    options = PolicyOptions(model=model, **given)
    load_prompt(prompt or "wikidata").weighted(weights, ranker)  # reports a wrong name before anything is opened
    options.check()
    check_place(options.run_on)
    reads = not questions or questions == ("-",)
    for text in () if reads else questions:
        check_text(text, model is not None)
    with open_index(index, db) as opened, ExitStack() as stack:
        template = prompt_for(prompt, opened).weighted(weights, ranker)
        shown: dict[str, Any] = {"as_json": as_json, "explains": explain, "limit": limit}
        if options.writer == "from-walk" and options.run_on is None:
            answer = _walks(opened, model, machine, template, runs=run, **shown)
        else:
            most = limit if as_json else limit or SHOWN
            replies = PolicyReplies(opened, options, machine, template, stack, runs=run, limit=most)

            def answer(text: str) -> None:
                print_policy_reply(replies.to(text), replies.facts, **shown)

        if not reads:
            for text in questions:
                answer(text)
        elif not questions and sys.stdin.isatty():
            run_typed(read_typed_queries(opened), answer)
        else:
            _answer_each(read_piped(), answer, as_json)


def _walks(
    index: "Index", model: str | None, machine: "EngineOptions", prompt: "Prompt", *, runs: bool, **shown: Any
) -> Callable[[str], None]:
    """Return what answers a text by a walk of the fact tree, and prints the reply."""
    from refactx.ask.queries import Replies

    @cache
    def load() -> "Asker":
        from refactx.ask.asker import Asker
        from refactx.engines.language_models import load_language_model

        loaded = load_language_model(model or "", index, machine)
        return Asker(loaded, loaded.tokenizer, index, prompt)

    choose = None if model is None else (lambda text: load().query(text))
    replies = Replies(index, choose, runs=runs, facts=shown["limit"])
    return lambda text: print_reply(replies.to(text), **shown)


def _answer_each(texts: Iterable[str], answer: Callable[[str], None], as_json: bool) -> None:
    """Answer texts one after the other. Those that cannot be answered are reported, and raise an error at the end."""
    given, failed = list[str](), list[tuple[str, InputError]]()
    for text in texts:
        given.append(text)
        try:
            answer(text)
        except InputError as error:
            failed.append((text, error))
            if as_json:
                common.print_json({"question": text, "error": str(error)})
            else:
                click.echo(f"refactx: {error}", err=True)
    if not given:
        raise InputError("there is no question: give one in quotes, or lines on standard input")
    if failed:
        raise InputError(f"{len(failed)} of {len(given)} questions cannot be answered; the first is {failed[0][0]!r}")


def print_policy_reply(
    reply: PolicyReply, facts: TreeFacts, *, as_json: bool, explains: bool, limit: int | None
) -> None:
    """Print a reply, with at most `limit` rows."""
    rows: list[list[Cell]] = []
    if isinstance(reply.result, Rows):
        rows = cells_of(reply.result.rows, partial(links_by_id, facts))
    if as_json:
        return common.print_json(_document(reply, rows[:limit], explains))
    _print_lines(_policy_lines(reply, rows, limit or SHOWN, explains))
    click.echo()
    return None


def _policy_lines(reply: PolicyReply, rows: Sequence[Sequence[Cell]], shown: int, explains: bool) -> Iterator[str]:
    written, result = reply.written, reply.result
    yield f"Question: {line(reply.question)}"
    if explains:  # what the model was given, and what it wrote
        yield f"Policy: {written.writer}"
        yield from (f"Fact: {fact_line(fact)}" for fact in written.facts)
        yield from (f"Given: {one.id} {line(one.text)}" for one in written.given)
        if written.text:
            yield from ("Text:", *(f"  {visible(text)}" for text in written.text.splitlines()))
    if written.confidence is not None:
        yield f"Confidence: {confidence_words(written.confidence)}"
    if written.sparql is None:
        yield f"Refused: {line(written.reason)}"
        return
    if reply.failure:
        yield f"Not answered: {line(reply.failure)}"
    elif reply.engine:
        found = _some((line(_label(row[0])) for row in rows if row), shown)
        yield f"Answer: {('yes' if result else 'no') if isinstance(result, bool) else found}"
    yield from ("SPARQL:", *(f"  {visible(text)}" for text in written.sparql.strip().splitlines()))
    yield from (_name(name, choice) for name, choice in written.choices.items())
    for id_ in written.made_up:
        yield f"Made up: {id_}, which the index does not have"
    for row in rows[:shown]:
        yield f"Row: {'  '.join(filter(None, map(_cell, row)))}"
    yield from more(len(rows), shown, "row")
    if isinstance(result, Rows) and result.truncated and len(rows) <= shown:
        yield f"({line(result.reason) or 'there are more rows: see --limit'})"


def _name(name: str, choice: MentionChoice) -> str:
    """Return what a name of the text was resolved to."""
    entry, is_matched = choice.entry, choice.feasible is not False
    unmatched = "" if is_matched else ", in a pattern that no fact matches"
    said = "" if name.startswith("<") else f" {line(str(choice.mention))}"
    return f"Name: {line(name)}{said} is {entry.id} {line(entry.text)} (similarity {choice.similarity:.2f}{unmatched})"


def _cell(cell: Cell) -> str:
    return line(cell) if isinstance(cell, str) else f"{line(cell.label)}  {cell.url or cell.id}"


def _document(reply: PolicyReply, rows: Sequence[Sequence[Cell]], explains: bool) -> dict[str, Any]:
    written, result = reply.written, reply.result
    cells = to_json([[LiteralValue(one) if isinstance(one, str) else named(one) for one in row] for row in rows])
    document: dict[str, Any] = {
        "question": reply.question,
        "policy": written.writer,
        "sparql": written.sparql,
        "refused": written.reason or None,
        "names": [
            {
                "placeholder": name,
                "label": choice.mention.label,
                "description": choice.mention.description,
                **_entry(choice.entry),
                "similarity": round(choice.similarity, 4),
                "how": choice.how,
                "feasible": choice.feasible,
            }
            for name, choice in written.choices.items()
        ],
        "made_up": list(written.made_up),
        "confidence": rounded(written.confidence),
        "engine": reply.engine or None,
        "failure": reply.failure or None,
        "truth": result if isinstance(result, bool) else None,
        "variables": list(result.variables) if isinstance(result, Rows) else None,
        "rows": cells if isinstance(result, Rows) else None,
        "truncated": result.truncated if isinstance(result, Rows) else None,
    }
    if explains:
        document |= {
            "text": written.text,
            "given": [_entry(one) for one in written.given],
            "facts": [fact_line(fact) for fact in written.facts],
        }
    return document


def _entry(entry: MemoryEntry) -> dict[str, str]:
    return {"id": entry.id, "name": entry.text}
