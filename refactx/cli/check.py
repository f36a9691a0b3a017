"""The command `refactx check`: a text with the claims that the facts of an index can judge."""

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from refactx.ask.answer import statement_url
from refactx.ask.claims import TextClaims
from refactx.ask.sentences import places_of
from refactx.cli.help import GroupedCommand
from refactx.cli.options import (
    DB,
    INDEX,
    JSON,
    MACHINE,
    MODEL,
    PROMPT,
    SERVED,
    WEIGHTS,
    engine_options,
    engine_options_of,
    print_json,
    server_options,
)
from refactx.errors import InputError, ModelError
from refactx.fact import Fact, LinkedFact, counted, line, visible

_COLOURS = {"holds": "green", "differs": "red", "not in the index": "yellow"}


@click.command(cls=GroupedCommand, groups={"Database and machine": (*MACHINE, *SERVED)})
@click.argument("text", required=False)
@MODEL
@INDEX
@click.option("--cite", is_flag=True, help="Print the text with footnotes.")
@PROMPT
@WEIGHTS
@server_options
@JSON
@DB
@engine_options
@click.pass_context
def check(
    context: click.Context,
    /,
    text: str | None,
    model: str,
    index: str,
    cite: bool,
    prompt: str | None,
    weights: Path | None,
    ranker: str | None,
    as_json: bool,
    db: str | None,
    **given: Any,
) -> None:
    """Check the claims of a text by the facts of an index.

    TEXT is a text, a file with one, or - or nothing for standard input: plain text, Markdown, or JSON of a chat, of which
    the assistant's messages are checked. A claim holds, differs from a fact, or is not in the index, and may then be right.
    The exit code is 1 if a claim differs, else 0.
    """
    from refactx.ask.checked import CheckedAsker, asker_of
    from refactx.ask.examples import prompt_for
    from refactx.ask.prompt import load_prompt, prompt_of
    from refactx.documents import cited, claims_document, linked_claims, to_json
    from refactx.index.open import open_index

    if cite and as_json:
        raise InputError("--cite was given with --json: leave one of them out")
    asked = prompt or prompt_of(given["adapter"], model)
    load_prompt(asked or "wikidata").weighted(weights, ranker)  # reports a wrong name before anything is opened
    engine, content = engine_options_of(given, texts=1, beams=1), said_in(_read(text))
    places_of(content)  # reports a text that is empty or too long
    with open_index(index, db) as opened:
        template = prompt_for(asked, opened).weighted(weights, ranker)
        asker, _ = asker_of(model, opened, engine, template, lambda _: None)
        if isinstance(asker, CheckedAsker):
            raise ModelError("claims need a model that scores ids, and this server only chats: leave out --model-url")
        found = asker.check(content)
        if as_json:
            print_json(to_json(claims_document(opened, found)))
        elif cite:
            click.echo(visible(cited(opened, content, found)))
        else:
            for shown in _lines(found, linked_claims(opened, found)):
                click.echo(shown)
    context.exit(1 if any(one.verdict == "differs" for one in found.claims) else 0)


def _read(text: str | None) -> str:
    """Return the text of an argument: a text, the content of a file, or for - or nothing that of standard input."""
    from refactx.cli.views import standard_input

    if text is None and sys.stdin.isatty():
        raise InputError("there is no text: give one in quotes, a file, or - for standard input")
    if text in (None, "-"):
        return "".join(standard_input())
    with suppress(OSError, ValueError):  # a text may be too long for a path
        if Path(text).is_file():
            try:
                return Path(text).read_text(encoding="utf-8-sig")
            except UnicodeDecodeError:
                raise InputError(f"{text} is not text in UTF-8: give a file of plain text, Markdown or JSON") from None
    if len(text.split()) == 1:
        raise InputError(f"{text} is no sentence, and no file that can be read: give a text, a file, or -")
    return text


def said_in(content: str) -> str:
    """Return what is checked of a text: all of it, or of the JSON of a chat the assistant's messages.

    >>> said_in('{"messages": [{"role": "user", "content": "Who?"}, {"role": "assistant", "content": "Ann."}]}')
    'Ann.'
    """
    if content.lstrip()[:1] not in ("{", "["):
        return content
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return content
    texts = list(_messages(document))
    if not texts:
        raise InputError("the JSON has no message of an assistant: give that of a chat, or plain text")
    return "\n\n".join(texts)


def _messages(document: Any) -> Iterator[str]:
    """Yield the texts of an assistant in a list of messages, a conversation, or a reply of OpenAI's API."""
    if isinstance(document, dict):
        choices = document.get("choices")
        some = document.get("messages") or document.get("output")
        some = some or [one.get("message") for one in choices or () if isinstance(one, dict)]
    else:
        some = document
    for message in some if isinstance(some, list) else ():
        if isinstance(message, dict) and message.get("role") == "assistant":
            content = message.get("content")
            parts = [content] if isinstance(content, str) else content if isinstance(content, list) else []
            texts = (one if isinstance(one, str) else one.get("text") for one in parts if isinstance(one, str | dict))
            yield from (one for one in texts if isinstance(one, str))


def _lines(found: TextClaims, linked: Mapping[Fact, LinkedFact]) -> Iterator[str]:
    """Yield the lines of the claims of a text, each with its fact and the page of that, and how many there are."""
    for one in found.claims:
        verdict = click.style(one.verdict, fg=_COLOURS[one.verdict]) if sys.stdout.isatty() else one.verdict
        yield f"{verdict}: {line(one.text)}"
        if (fact := one.fact or one.instead) is not None:
            yield f"  {'instead: ' if one.instead else ''}{line(fact.text)}"
            if (page := statement_url(linked[fact])) is not None:
                yield f"    {line(page)}"
    counts = Counter[str](one.verdict for one in found.claims)
    verdicts = ", ".join(f"{counts[name]} {name}" for name in _COLOURS)
    none = f"{found.without_claim} of {counted(found.sentences, 'sentence')} without a claim"
    yield f"({counted(len(found.claims), 'claim')}: {verdicts}; {none})"
