"""Questions with gold SPARQL, from the files in which they are published.

| format | file | question | query |
|---|---|---|---|
| LC-QuAD 2.0 | list of records | `question`, else `paraphrased_question` | `sparql_wikidata` |
| QALD 9, 10 | `{"questions": [...]}` | the English `string` of `question` | `query.sparql` |
| ReFactX's own | JSON lines, or a list | `question` | `sparql` |
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refactx.errors import InputError

NO_TEXT = ("", "n/a", "na", "none")
"""What LC-QuAD has in place of some questions."""


@dataclass(frozen=True, slots=True)
class Example:
    """A question with its gold query, or with an empty text for what its record lacks."""

    id: str
    question: str
    sparql: str


def read_examples(path: Path) -> list[Example]:
    """Return the examples of a file. Raises InputError if the file cannot be read or has none."""
    try:
        text = path.read_text(encoding="utf-8")
        documents = list(_documents(text))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as JSON or JSON lines: {error}") from error
    examples = list[Example]()
    for number, record in enumerate(documents, 1):
        reader = _reader(record)
        if reader is None:
            fields = ", ".join(sorted(record)[:8]) if isinstance(record, dict) else type(record).__name__
            raise InputError(
                f"{path}: record {number} has {fields}: expected LC-QuAD 2.0 (sparql_wikidata), QALD (query), "
                "or documents with question and sparql"
            )
        examples.append(reader(record, number))
    if not examples:
        raise InputError(f"{path} has no questions")
    return examples


def _documents(text: str) -> Iterator[Any]:
    try:
        document = json.loads(text)
    except ValueError:
        document = [json.loads(line) for line in text.split("\n") if line.strip()]
    if isinstance(document, dict) and isinstance(document.get("questions"), list):
        document = document["questions"]
    yield from document if isinstance(document, list) else [document]


def _reader(record: Any) -> Callable[[dict[str, Any], int], Example] | None:
    if not isinstance(record, dict):
        return None
    if "sparql_wikidata" in record:
        return _lcquad
    if isinstance(record.get("query"), dict) and isinstance(record.get("question"), list):
        return _qald
    return _own if "sparql" in record and "question" in record else None


def _lcquad(record: dict[str, Any], number: int) -> Example:
    texts = [_text(record.get(field)) for field in ("question", "paraphrased_question")]
    question = next((text for text in texts if text.lower() not in NO_TEXT), "")
    return Example(str(record.get("uid", number)), question, _text(record["sparql_wikidata"]))


def _qald(record: dict[str, Any], number: int) -> Example:
    texts = {entry.get("language"): _text(entry.get("string")) for entry in record["question"]}
    return Example(str(record.get("id", number)), texts.get("en", ""), _text(record["query"].get("sparql")))


def _own(record: dict[str, Any], number: int) -> Example:
    return Example(str(record.get("id", number)), _text(record["question"]), _text(record["sparql"]))


def _text(value: Any) -> str:
    return " ".join(value.split()) if isinstance(value, str) else ""
