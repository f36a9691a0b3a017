"""The command `refactx extract`: the facts that documents state."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from refactx.cli.help import GroupedCommand
from refactx.cli.options import (
    DB,
    INDEX,
    MACHINE,
    MODEL,
    PROMPT,
    SERVED,
    WEIGHTS,
    WRITABLE,
    Number,
    engine_options,
    engine_options_of,
    server_options,
)
from refactx.errors import InputError, ModelError
from refactx.fact import counted, line, written_part

if TYPE_CHECKING:
    from refactx.ask.extraction import ExtractedFacts
    from refactx.extraction.files import Document
    from refactx.extraction.runs import FactFormat
    from refactx.ingest import FactWriter

_FORMATS: "Mapping[str, FactFormat]" = {".nt": "nt", ".jsonl": "jsonl"}


@click.command(cls=GroupedCommand, groups={"Database and machine": (*MACHINE, *SERVED)})
@click.argument("documents", nargs=-1, required=True)
@MODEL
@INDEX
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), help="A file for the facts; continues a stopped run."
)
@click.option(
    "--format", "format_", type=click.Choice(["table", "nt", "jsonl"]), help="Default: by --out, else a table."
)
@click.option("--append", is_flag=True, help="Also write the facts into the index.")
@WRITABLE
@click.option("--also", is_flag=True, help="With --append: beside another value of a predicate.")
@click.option("--schema", type=click.Path(path_type=Path), help="Predicates with domain, range and most, in TOML.")
@click.option("--new-names", type=click.Choice(["none", "typed", "any"]), default="none", show_default=True,
              help="Names that the index does not have.")  # fmt: skip
@click.option("--verify", is_flag=True, help="Look at each fact again; the doubtful are left out.")
@click.option("--min-confidence", type=Number(), default=1.0, show_default=True, help="Of a fact, in nats.")
@PROMPT
@WEIGHTS
@server_options
@DB
@engine_options
@click.pass_context
def extract(
    context: click.Context,
    /,
    documents: tuple[str, ...],
    model: str,
    index: str,
    out: Path | None,
    format_: Any,
    append: bool,
    writable: str | None,
    also: bool,
    schema: Path | None,
    new_names: Any,
    verify: bool,
    min_confidence: float,
    prompt: str | None,
    weights: Path | None,
    ranker: str | None,
    db: str | None,
    **given: Any,
) -> None:
    """Read the facts that documents state, by names and predicates of an index.

    DOCUMENTS are text, Markdown, HTML, PDF or lines of JSON (.jsonl), or folders of these. Each fact has its sentence and
    its document. The exit code is 1 if a document could not be read, else 0.
    """
    from refactx.ask.checked import CheckedAsker, asker_of
    from refactx.ask.examples import prompt_for
    from refactx.ask.extraction import ExtractionOptions
    from refactx.ask.prompt import load_prompt, prompt_of
    from refactx.ask.schema import FactSchema
    from refactx.build import fact_writer
    from refactx.extraction.files import documents_of, files_of
    from refactx.extraction.runs import run, run_file, writer_of
    from refactx.index.open import open_index
    from refactx.progress import progress_bar

    if (writable or also) and not append:
        raise InputError("--writable and --also are about what is written with --append: give that, or leave them out")
    options = ExtractionOptions(
        schema=None if schema is None else FactSchema.read(schema),
        new_names=new_names,
        verify=verify,
        min_confidence=min_confidence,
    )
    form: FactFormat = format_ or _FORMATS.get("" if out is None else out.suffix.lower(), "table")
    asked = prompt or prompt_of(given["adapter"], model)
    load_prompt(asked or "wikidata").weighted(weights, ranker)  # reports a wrong name before anything is opened
    files, engine = files_of(documents), engine_options_of(given, texts=1, beams=1)
    settings = {
        **asdict(options),
        "index": index,
        "writable": writable,
        "append": append,
        "model": model,
        "format": form,
    }
    with ExitStack() as stack:
        file = stack.enter_context(run_file(out, settings, sys.stdout))
        opened = stack.enter_context(open_index(index, db))
        writer = stack.enter_context(fact_writer(index, db, writable, opened)) if append else None
        asker, _ = asker_of(model, opened, engine, prompt_for(asked, opened).weighted(weights, ranker), lambda _: None)
        if isinstance(asker, CheckedAsker):
            raise ModelError(
                "facts are read by a model that scores ids, and this server only chats: leave out --model-url"
            )
        write, bar = writer_of(form, opened, begins=file.is_new), stack.enter_context(progress_bar("files", len(files)))

        def each() -> Iterator["Document"]:
            for path in files:
                yield from documents_of(path)
                bar.update()

        def written(document: "Document", found: "ExtractedFacts") -> Iterable[str]:
            if writer is not None:
                _remember(writer, document, found, also=also)
            return write(document, found)

        counts = run(each(), lambda text: asker.extract(text, options), written, file, _say)
    known, doubted = (f"{counts.known:,} known", f", {counts.doubted:,} doubted" if verify else "")
    read = f"{counted(counts.documents, 'document')}, {counted(counts.sentences, 'sentence')}"
    _say(f"({read}: {counted(counts.facts, 'fact')}, {known}{doubted}; {counts.failed:,} not read)")
    context.exit(1 if counts.failed else 0)


def _say(text: str) -> None:
    click.echo(f"refactx: {text}", err=True)


def _remember(writer: "FactWriter", document: "Document", found: "ExtractedFacts", *, also: bool) -> None:
    """Write facts into the index, each with its reference. One that contradicts another is said, and not written."""
    from refactx.extraction.runs import reference_of

    for one in found.facts:
        reference = tuple((name, written_part(value)) for name, value in reference_of(document, one))
        try:
            done = writer.remember(one.fact.text, new=one.new_names, also=also, reference=reference)
        except InputError as error:
            _say(f"{line(one.fact.text)} is not written: {line(str(error))}")
            continue
        if done.contradicts:
            _say(f"{line(one.fact.text)} is not written: it contradicts {line('; '.join(done.contradicts))}")
