"""The command `refactx translate`."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from threading import Event as Flag
from typing import TYPE_CHECKING, Any, Literal

import click

from refactx.cli.help import MODELS, GroupedCommand, OrderedGroup
from refactx.cli.options import (
    DB,
    JSON,
    MACHINE,
    declared,
    engine_options,
    engine_options_of,
    groups_of,
    index_opener,
    print_json,
)
from refactx.documents import step_json, to_json, translation_document
from refactx.errors import InputError
from refactx.fact import counted
from refactx.options import option

if TYPE_CHECKING:
    from refactx.ask.chat_server import TextModel
    from refactx.engines.engine import LanguageModel
    from refactx.index.index import Index
    from refactx.models.options import EngineOptions
    from refactx.sparql.engines import SparqlEngine
    from refactx.sparql.packs.pack import Pack
    from refactx.sparql.packs.translation import Translation
    from refactx.sparql.packs.translator import Event, Translator
    from refactx.sparql.packs.writers import PolicyWriter


PolicyName = Literal["text", "from-walk"]
_WRITING, _RUNNING = "What writes", "What runs, and bounds"

SHOWN = 10
"""The most rows that are printed below a query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslatorOptions:
    """What a translator is made of. `model`, `model_url`, `fast_model`: what writes; `policy`: `text` of a model,
    or `from-walk`, of an `index`; `run_on`: a URL, a file of RDF, an index, `store`, `tree`, `invented`, None for the
    pack's own; `runs`: whether queries are run; `encoder`: of examples, None for none; the others as `TranslateOptions` has
    them."""

    model: str | None = option(None, "Hugging Face id, folder, GGUF; demo; a server's name for it.", metavar="MODEL")
    model_url: str | None = option(None, "OpenAI-compatible server of the model.", metavar="URL", group=_WRITING)
    fast_model: str | None = option(
        None, "For the agent's short questions; default: the same.", metavar="MODEL", group=_WRITING
    )
    grammar: bool = option(True, "Own engines: only the pack's SPARQL; default: on.", group=_WRITING)
    policy: PolicyName = option(
        "text",
        "text, or from-walk: queries of an index.",
        choices=("text", "from-walk"),
        old={"strict": "from-walk"},
        metavar="POLICY",
        group=_WRITING,
    )
    index: str = option("default", "For from-walk, store, tree.", metavar="NAME", group=_WRITING)
    examples: int = option(5, "Show N examples.", least=0, group=_WRITING)
    encoder: str | None = option(
        None, "Compare questions by embeddings too, such as minilm.", metavar="MODEL", group=_WRITING
    )
    run_on: str | None = option(
        None, "URL, RDF file, index, store, tree, invented; default: the pack's own.", metavar="WHERE", group=_RUNNING
    )
    attempts: int = option(4, "Write N queries at most.", least=1, group=_RUNNING)
    steps: int = option(40, "At most N steps.", least=4, group=_RUNNING)
    tokens: int = option(4000, "Models write at most N.", least=1, group=_RUNNING)
    seconds: float = option(300.0, "After S seconds, no step begins.", above=0, metavar="S", group=_RUNNING)
    db: str | None = None
    agent: bool = False
    validates: bool = True
    runs: bool = True

    def check(self) -> None:
        """Raise InputError for options that exclude each other, or if one is missing."""
        if self.model is None:
            raise InputError(f"what writes the query? Give --model ({MODELS}), and --model-url for one on a server")
        if self.policy == "from-walk" and self.model_url is not None:
            raise InputError(
                "--policy from-walk needs a model whose choices can be steered, which no server offers: leave out --model-url"
            )
        if self.fast_model is not None and not self.agent:
            raise InputError("--fast-model answers the agent's questions: add --agent")


translator_options = declared(TranslatorOptions)
TRANSLATOR_GROUPS = groups_of(TranslatorOptions)


class Models:
    """Language models, each loaded once. `stopped`: set it to end the texts that they write, with a ModelError.

    `machine`: how they are loaded, None for the usual way; `loaded`: those that are already, by name.
    """

    def __init__(
        self, machine: "EngineOptions | None" = None, loaded: "Mapping[str, LanguageModel] | None" = None
    ) -> None:
        self._machine, self.stopped = machine, Flag()
        self._loaded = dict(loaded or {})

    def load(self, name: str, index: "Index | None" = None) -> "LanguageModel":
        """Return a model. `index`: whose tokenizer it has to have."""
        from refactx.engines.language_models import load_language_model

        if name not in self._loaded:
            self._loaded[name] = load_language_model(name, index, self._machine)
        return self._loaded[name]


def open_translator(pack: "Pack", options: TranslatorOptions, models: Models, stack: ExitStack) -> "Translator":
    """Return a translator. Indexes and engines are closed with `stack`. Raises as what it opens does."""
    from refactx.ranking.encoders import load_encoder
    from refactx.sparql.packs.retrieval import Retriever
    from refactx.sparql.packs.translation import confidence_of
    from refactx.sparql.packs.translator import Bounds, TranslateOptions, Translator

    options.check()
    index = index_opener(stack, options.index, options.db)(None) if options.policy == "from-walk" else None
    engine = engine_of(pack, options, stack, index) if options.runs else None
    model, writer = _writer(pack, options, models, index)
    return Translator(
        pack,
        model,
        fast=_fast(options, models, index) if options.agent else None,
        engine=engine,
        retriever=Retriever(pack, None if options.encoder is None else load_encoder(options.encoder)),
        writer=writer,
        confidence=confidence_of(pack, options.model or ""),
        options=TranslateOptions(
            agent=options.agent,
            validates=options.validates,
            examples=options.examples,
            bounds=Bounds(
                attempts=options.attempts, steps=options.steps, tokens=options.tokens, seconds=options.seconds
            ),
        ),
    )


def engine_of(
    pack: "Pack", options: TranslatorOptions, stack: ExitStack, index: "Index | None" = None
) -> "SparqlEngine | None":
    """Return what runs queries; None if the pack has no place of its own and none is given. It is closed with `stack`."""
    from refactx.sparql.packs.invented import engine_for

    opened = index_opener(stack, options.index, options.db)
    engine = engine_for(pack, options.run_on, lambda name: index if index and not name else opened(name))
    if engine is not None:
        stack.callback(engine.close)
    return engine


def _writer(
    pack: "Pack", options: TranslatorOptions, models: Models, index: "Index | None"
) -> "tuple[TextModel | None, PolicyWriter | None]":
    """Return what writes queries: a model by the pack, or a writer."""
    if options.model_url is not None:
        return _at_url(options.model, options.model_url), None
    if options.policy == "from-walk":
        return None, _walks(models.load(options.model or "", index), index)
    loaded = models.load(options.model or "")
    if not options.grammar:
        return _free(loaded, models), None
    from refactx.sparql.packs.constrained import constrained_model

    return constrained_model(loaded, pack, models.stopped.is_set), None


def _fast(options: TranslatorOptions, models: Models, index: "Index | None") -> "TextModel":
    """Return the model that replies to the agent's questions, in free text."""
    name = options.fast_model or options.model or ""
    if options.model_url is not None:
        return _at_url(name, options.model_url)
    is_same = name == options.model and options.policy == "from-walk"
    return _free(models.load(name, index if is_same else None), models)


def _at_url(name: str | None, url: str) -> "TextModel":
    from refactx.sparql.packs.writers import model_at

    return model_at(name or "", url)


def _free(loaded: "LanguageModel", models: Models) -> "TextModel":
    from refactx.ask.chat_text import ChatModel

    return ChatModel(loaded, cancelled=models.stopped.is_set)


def _walks(loaded: "LanguageModel", index: Any) -> "PolicyWriter":
    """Return what writes the likeliest walk of an index that was not tried before."""
    from refactx.ask.asker import Asker
    from refactx.sparql.packs.writers import WalkWriter
    from refactx.walks.facts import TreeFacts

    asker = Asker(loaded, loaded.tokenizer, index)
    return WalkWriter(asker.query, TreeFacts(index), asker.ask)


@click.command(cls=GroupedCommand, groups={**TRANSLATOR_GROUPS, "Database and machine": MACHINE})
@click.argument("questions", nargs=-1, required=True, metavar="QUESTION...")
@click.option("--pack", "pack_name", required=True, metavar="PACK", help="liita, wikidata, or a folder.")
@click.option("--agent", is_flag=True, help="Plan, verify and explore as well.")
@click.option("--stream", is_flag=True, help="Print each step as it ends.")
@click.option("--validate/--no-validate", "validates", default=True, help="Check and repair; default: on.")
@click.option("--run/--no-run", "runs", default=True, help="Run the query to check it; default: on.")
@JSON
@translator_options
@DB
@engine_options
def translate(questions: tuple[str, ...], pack_name: str, stream: bool, as_json: bool, **given: Any) -> None:
    """Write the SPARQL of questions for the endpoint of a domain pack.

    The model is shown examples of the pack that are like the question, and its rules. What it writes is checked (syntax,
    rules, names, and by running it), and written again with what was wrong.
    """
    from refactx.sparql.packs.pack import load_pack

    models = Models(engine_options_of(given, texts=1, beams=1))
    options = TranslatorOptions(**given)
    options.check()
    with ExitStack() as stack:
        translator = open_translator(load_pack(pack_name), options, models, stack)
        for question in questions:
            last = None
            for event in translator.stream(question):
                last = event
                if stream and as_json:
                    print_json(step_json(event))
                elif stream and event.node != "output":
                    click.echo(f"[{event.node}] {_line_of(event)}", err=True)
            if last is not None and last.translation is not None and not (stream and as_json):
                _print_translation(last.translation, translator, as_json)


def _line_of(event: "Event") -> str:
    detail = event.detail
    match event.node:
        case "analyse":
            return f"{', '.join(detail.get('patterns', ())) or 'no pattern'} ({detail.get('complexity', 'simple')})"
        case "plan":
            return "; ".join(detail.get("plan", ())) or "no steps"
        case "retrieve":
            return ", ".join(f"{name} {score:.2f}" for name, score in detail.get("examples", ())) or "no examples"
        case "generate":
            return " ".join((detail.get("sparql") or "no query").split())
        case "execute":
            found = "; ".join(detail.get("problems", ()))
            return found or ("right" if detail.get("rows") is None else f"right, {counted(detail['rows'], 'row')}")
        case "verify":
            return detail.get("doubt") or "it asks what the question asks"
        case "explore":
            return " ".join(detail.get("properties", ())) or "nothing found"
        case _:
            return "; ".join(detail.get("problems", ()))


def _print_translation(found: "Translation", translator: "Translator", as_json: bool) -> None:
    from refactx.cli.sparql import table_at

    if as_json:
        print_json(to_json(translation_document(found)))
        return
    if found.sparql is None:
        click.echo(f"no query: {found.reason or 'the model wrote none'}")
        return
    click.echo(found.sparql)
    rows = "" if found.rows is None else f", {counted(found.rows, 'row')}"
    sure = "" if found.confidence is None else f", confidence {found.confidence:.2f}"
    tried = f", {len(found.attempts)} attempts" if len(found.attempts) > 1 else ""
    click.echo(f"# {'valid' if found.valid else 'not valid'}{rows}{sure}{tried}")
    best = found.best
    report = None if best is None else best.report
    if report is not None and report.answer is not None:
        click.echo(f"#   {'yes' if report.answer else 'no'}")
    if report is not None and report.rows:
        languages = () if translator.pack is None else translator.pack.languages
        for text in table_at(translator.engine, report.variables, report.rows[:SHOWN], languages):
            click.echo(f"#   {text}")
        click.echo("#   ...") if len(report.rows) > SHOWN else None
    for problem in () if best is None else best.problems:
        click.echo(f"# {problem}")
    if found.reason:
        click.echo(f"# {found.reason}")


@click.group(cls=OrderedGroup)
def agent() -> None:
    """Show how questions are translated."""


@agent.command()
def graph() -> None:
    """Print the steps and the ways between them as a Mermaid flow chart."""
    from refactx.sparql.packs.translator import mermaid

    click.echo(mermaid())
