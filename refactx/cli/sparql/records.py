"""Files of queries: lines of text, JSON lines, or one query with several lines."""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

import click

from refactx.cli.options import print_json
from refactx.errors import InputError
from refactx.fact import visible

Convert = Callable[[Sequence[str], bool], Iterable[str | InputError]]
"""A function that returns what texts become, or why not. The flag: results have to be on one line each."""


@dataclass(frozen=True, slots=True)
class _Record:
    """A query of a file: the number of its line, its text, and the document whose field it is; or an error."""

    line: int
    text: str
    document: dict[str, Any] | None = None
    error: InputError | None = None


def file_options(source: str, target: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add FILE, and how it is read and written, to a command: the arguments of `convert_file`.

    `source`, `target`: defaults of the fields of JSON lines.
    """
    options = (
        click.argument("file", type=click.File(encoding="utf-8-sig"), default="-"),
        click.option("--whole", is_flag=True, help="FILE is one query with several lines."),
        click.option(
            "--from", "source", default=source, show_default=True, metavar="FIELD", help="Field of JSON lines to read."
        ),
        click.option(
            "--to", "target", default=target, show_default=True, metavar="FIELD", help="Field of JSON lines to add."
        ),
    )

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def convert_file(file: TextIO, convert: Convert, *, whole: bool, source: str, target: str) -> None:
    """Print what each query of a file becomes: a line, or its document with the field `target`.

    A query that is not converted has an empty line, or a document with `error`; the error is printed on standard error.
    Raises InputError at the end if there was one, and before if the file cannot be read or has no query.
    """
    from tqdm import tqdm

    records = _read(file, whole, source, target)
    shown = visible if sys.stdout.isatty() else str  # a text must not control a terminal; in a file it is exact
    are_lines = not whole and all(record.document is None for record in records)
    results = iter(convert([record.text for record in records if record.text], are_lines))
    failed = list[_Record]()
    for record in tqdm(records, unit=" queries", disable=sys.stdout.isatty() or None, leave=False):
        result = next(results) if record.text else (record.error or "")
        if isinstance(result, InputError):
            if whole:
                raise result
            failed.append(record)
            click.echo(f"refactx: line {record.line}: {result}", err=True)
        if record.document is not None:
            added = {"error": str(result)} if isinstance(result, InputError) else {target: result}
            print_json(record.document | added)
        else:
            click.echo("" if isinstance(result, InputError) else shown(result))
    if failed:
        count = sum(record.text != "" or record.error is not None for record in records)
        hint = "; a query with several lines needs --whole" if are_lines else ""
        raise InputError(
            f"{len(failed)} of {count} queries are not converted, the first on line {failed[0].line}{hint}"
        )


def _read(file: TextIO, whole: bool, source: str, target: str) -> list[_Record]:
    """Return the queries of a file. It has JSON lines if it begins with a brace, with which no SPARQL begins."""
    name = getattr(file, "name", "<stdin>")  # a wrapper of a stream may have none
    name = "standard input" if name == "<stdin>" else name
    try:
        text = file.read()
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is not text in UTF-8: {error}") from error
    if not text.strip():
        raise InputError(f"{name} has no query: expected one on each line, or JSON lines with the field {source}")
    if whole:
        return [_Record(1, text.strip())]
    if text.lstrip().startswith("["):
        raise InputError(f"{name} is one array of JSON: expected a document on each line, such as `jq -c '.[]'` writes")
    lines = list(
        enumerate(text.removesuffix("\n").split("\n"), 1)
    )  # a document may have other line ends within a string
    if text.lstrip().startswith("{"):
        return [_read_document(number, line, source, target) for number, line in lines if line.strip()]
    return [_Record(number, line.strip()) for number, line in lines]


def _read_document(number: int, line: str, source: str, target: str) -> _Record:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError) as error:
        return _Record(number, "", {}, InputError(f"this is no line of JSON: {error}"))
    if not isinstance(document, dict):
        return _Record(number, "", {}, InputError("this is no document of JSON: expected one in braces"))
    text = document.get(source)
    if not isinstance(text, str) or not text.strip():
        return _Record(
            number, "", document, InputError(f"the document has no text {source}: name its field with --from")
        )
    if target in document:
        raise InputError(f"line {number}: the document has a field {target} already: name another with --to")
    return _Record(number, text.strip(), document)
