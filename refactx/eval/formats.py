"""The formats of published question sets, recognised by their content.

| format | file | recognised by | kind |
|---|---|---|---|
| ReFactX's own | lines of `id, source, question, answers, answer_ids, kind, sparql, first` | `question`, a text | `kind` |
| Mintaka | list, `id, question, answer: {answerType, answer, mention}, complexityType` | `complexityType` | that |
| 2WikiMultiHopQA | list, `_id, type, question, answer` (from v1.1 `answer_id`) | `_id` | `type` |
| WebQSP | `{"Version", "Questions": [{QuestionId, RawQuestion, Parses}]}` | `Questions` | relations in the chain |
| QALD, Text2SPARQL | `{"dataset", "questions": [{id, question, query, answers}]}` | `questions` | the SPARQL query |
| LC-QuAD 2.0 | list, `uid, question, NNQT_question, sparql_wikidata` | `sparql_wikidata` | the SPARQL query |
| LC-QuAD 1.0 | list, `_id, corrected_question, sparql_query` | `corrected_question` | the SPARQL query |
| KQA Pro | list, `question, answer, choices, program, sparql` | `program` | the SPARQL query |
| GrailQA | list, `qid, question, answer: [{answer_argument, entity_name}], level` | `s_expression` | `level` |

Gold answers are English labels if the set has them, else ids, for which `refactx.eval.questions.with_names` adds names.
WebQSP's are the union over all parses. The answer to a count in Mintaka is the number (`answerNum`), not the entities
that are counted. LC-QuAD has gold queries, and no answers; so have test sets of QALD, and lines with `sparql` alone, such
as those of WDQL and SPINACH. In records of our own form, the question, its id, its query and its answers may have the names
that ComplexWebQuestions, RuBQ, WikiWebQuestions, DBLP-QuAD and others give them, and the number of the record is its id if
it has none. The file `id_aliases.json` of 2WikiMultiHopQA, with
other names of answers, is read if it is in the same folder.
"""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from refactx.errors import InputError
from refactx.eval.answers import Gold
from refactx.eval.question import Question

_EXPECTED = (
    "expected Mintaka, 2WikiMultiHopQA, WebQSP, GrailQA, KQA Pro, QALD, Text2SPARQL, LC-QuAD, or one object a line with "
    "question and answers or sparql"
)
_IDS = ("ID", "_id", "uid", "qid", "QuestionId", "id")
"""Names of an id: the last is there always, see `questions_of`."""
_TEXTS = ("question", "question_eng", "utterance", "RawQuestion", "paraphrased_question", "question_text", "Query")
_QUERIES = ("sparql", "sparql_query", "query")
_ANSWERS = ("entity_name", "answer", "label", "name", "text", "value", "answer_argument")
"""Names of the text of an answer that is an object."""
_ENTITY = re.compile(r"https?://www\.wikidata\.org/entity/([QPL]\d+)")
_RESOURCE = re.compile(r"https?://(?:[a-z]+\.)?dbpedia\.org/resource/(.+)")
_NO_QUESTION = ("", "n/a", "na", "none")
"""What LC-QuAD has in place of some questions."""
_MID = re.compile(r"[mg]\.[0-9a-z_]+")
_PATTERN = re.compile(  # a property, as a prefixed name or as an IRI
    r"\b(?:wdt|p|ps|dbo|dbp|rdf):[A-Za-z]\w*"
    r"|<https?://(?:dbpedia\.org/(?:ontology|property)|www\.wikidata\.org/prop(?:/direct|/statement)?)/[^<>\s/]+>"
    r"|<http://www\.w3\.org/1999/02/22-rdf-syntax-ns#type>"
)


def questions_of(document: Any, path: Path) -> list[Question]:
    """Return the questions of a JSON document, also those without gold answers.

    Raises InputError for an unknown format, or with the number of the first record that is not in it.
    """
    reader, records = _recognised(document, path)
    questions = []
    for number, record in enumerate(records, 1):
        try:
            if not isinstance(record, dict):
                raise TypeError(f"expected an object, found {str(record)[:80]!r}")
            questions.append(reader({"id": number, **record}, path))
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            what = f"it has no {error}" if isinstance(error, KeyError) else str(error)
            name = reader.__name__.removeprefix("_")
            raise InputError(f"{path}: record {number} is not in the format of {_NAMES[name]}: {what}") from error
    return questions


_NAMES = {
    "own": "ReFactX",
    "mintaka": "Mintaka",
    "two_wiki": "2WikiMultiHopQA",
    "webqsp": "WebQSP",
    "qald": "QALD",
    "lcquad": "LC-QuAD 2.0",
    "lcquad_1": "LC-QuAD 1.0",
    "kqa_pro": "KQA Pro",
    "grailqa": "GrailQA",
}


def _recognised(document: Any, path: Path) -> tuple[Callable[[Any, Path], Question], list[Any]]:
    """Return the reader of a document's format, and its records. Raise InputError if the format is unknown."""
    if isinstance(document, dict):
        for field, of_set in (("Questions", _webqsp), ("questions", _qald)):
            records = document.get(field)
            if isinstance(records, list) and not (records and _is_own(records[0])):
                return of_set, records
            if isinstance(records, list):
                return _own, records
        document = [document]
    first = document[0] if isinstance(document, list) and document else None
    if isinstance(first, dict):
        for field, reader in _BY_FIELD.items():
            if field in first:
                return reader, document
        if "_id" in first and "type" in first:
            aliases = _aliases(path.with_name("id_aliases.json"))
            return _with_aliases(aliases), document
        if _is_own(first):
            return _own, document
        raise InputError(f"{path} has records with the fields {', '.join(sorted(map(str, first))[:8])}: {_EXPECTED}")
    raise InputError(f"{path} has no questions: {_EXPECTED}")


def _is_own(record: Any) -> bool:
    """Return whether a record has a question under one of its names, and answers or a query, but not in QALD's form."""
    if not isinstance(record, dict) or "Parses" in record or isinstance(record.get("question"), list):
        return False
    return bool(record.keys() & set(_TEXTS)) and bool(record.keys() & {"answers", "answer", *_QUERIES})


def _text_of(record: Any) -> Any:
    """Return the English question of a record: a text, `{"en": text}` or `{"string": text}`."""
    texts = [record[field] for field in _TEXTS if record.get(field)]
    if not texts:
        raise KeyError("question")
    if isinstance(texts[0], dict):
        english = texts[0].get("en") or texts[0].get("string")
        if not english:
            raise ValueError(f"it has no English question, only {', '.join(sorted(texts[0]))}")
        return english
    return texts[0]


def _query_of(record: Any) -> str:
    query = next((record[field] for field in _QUERIES if record.get(field)), "")
    return _text((query.get("sparql") if isinstance(query, dict) else query) or "")


def _gold(answer: Any) -> Gold:
    if isinstance(answer, bool):
        return Gold("yes" if answer else "no")
    if not isinstance(answer, dict):
        return Gold(_text(answer))
    names = [_text(answer[field]) for field in _ANSWERS if answer.get(field)]
    if not names:
        raise ValueError(f"expected an answer, found {str(answer)[:80]}")
    ids, aliases = [match[1] for name in names if (match := _ENTITY.fullmatch(name))], answer.get("aliases")
    return Gold(_qald_gold(names[0]).text, next(iter(ids), None), tuple(map(_text, aliases or ())))


def _own(record: Any, path: Path) -> Question:
    given, sparql = record.get("answers", record.get("answer")), _query_of(record)
    answers = given if isinstance(given, list) else [] if given is None else [given]
    return Question(
        id=_text(next(record[field] for field in _IDS if record.get(field) is not None)),
        source=_text(record.get("source") or path.stem),
        text=_question(_text_of(record)),
        answers=_golds(map(_gold, answers)),
        kind=_text(record.get("kind") or (kind_of(sparql) if given is None else "all")),
        answer_ids=tuple(_text(number) for number in record.get("answer_ids") or ()),
        sparql=sparql,
        first=_text(record.get("first") or ""),
    )


def _kqa_pro(record: Any, path: Path) -> Question:
    return replace(_own(record, path), source="kqapro", kind=kind_of(_text(record.get("sparql") or "")))


def _grailqa(record: Any, path: Path) -> Question:
    golds = [Gold(_text(one.get("entity_name") or one["answer_argument"])) for one in record.get("answer") or ()]
    return Question(
        id=_text(record["qid"]),
        source="grailqa",
        text=_question(record["question"]),
        answers=_golds(golds),
        kind=_text(record.get("level") or "all"),
        sparql=_text(record.get("sparql_query") or ""),
    )


def _mintaka(record: Any, path: Path) -> Question:
    given, kind = record["answer"], record["complexityType"]
    if kind == "count" and given.get("answerNum") is not None:
        golds = [Gold(_text(given["answerNum"]))]
    elif given["answer"] is None:
        golds = [Gold(_text(given.get("mention") or ""))]
    else:
        golds = [_mintaka_gold(answer) for answer in given["answer"]]
    return Question(
        id=_text(record["id"]),
        source="mintaka",
        text=_question(record["question"]),
        answers=_golds(golds),
        kind=_text(kind),
    )


def _mintaka_gold(answer: Any) -> Gold:
    if not isinstance(answer, dict):
        return Gold(("yes" if answer else "no") if isinstance(answer, bool) else _text(answer))
    label = answer.get("label")  # a text, or texts by language
    return Gold(_text((label.get("en") if isinstance(label, dict) else label) or ""), _text(answer["name"]))


def _with_aliases(aliases: dict[str, tuple[str, ...]]) -> Callable[[Any, Path], Question]:
    def two_wiki(record: Any, path: Path) -> Question:
        number = record.get("answer_id")
        answer = record.get("answer")  # the test set has none
        gold = Gold(_text(answer), number, aliases.get(number, ())) if answer is not None else Gold("")
        return Question(
            id=_text(record["_id"]),
            source="2wikimultihopqa",
            text=_question(record["question"]),
            answers=_golds([gold]),
            kind=_text(record["type"]),
        )

    return two_wiki


def _aliases(path: Path) -> dict[str, tuple[str, ...]]:
    """Return aliases by id, from lines such as `{"Q_id": "Q1", "aliases": [...], "demonyms": [...]}`."""
    if not path.is_file():
        return {}
    try:
        with path.open(encoding="utf-8") as lines:
            records = [json.loads(line) for line in lines if line.strip()]
        return {record["Q_id"]: (*record["aliases"], *record.get("demonyms", ())) for record in records}
    except (OSError, ValueError, RecursionError, KeyError, TypeError) as error:
        raise InputError(
            f"{path} is not 2WikiMultiHopQA's file of aliases ({error}): repair it or move it away"
        ) from error


def _webqsp(record: Any, path: Path) -> Question:
    parses = record["Parses"]
    golds = []
    for parse in parses:
        for answer in parse["Answers"]:
            argument = _text(answer["AnswerArgument"])
            if answer["AnswerType"] == "Entity":
                golds.append(Gold(_text(answer.get("EntityName") or ("" if _MID.fullmatch(argument) else argument))))
            else:
                golds.append(Gold(argument))
    chains = [parse.get("InferentialChain") or [] for parse in parses]
    hops = [len(chain) + len(parse.get("Constraints") or []) for chain, parse in zip(chains, parses, strict=True)]
    return Question(
        id=_text(record["QuestionId"]),
        source="webqsp",
        text=_question(record.get("RawQuestion") or record["ProcessedQuestion"]),
        answers=_golds(golds),
        kind="single" if min(hops, default=1) <= 1 else "multi",
        sparql=_text(parses[0].get("Sparql") or "") if parses else "",
    )


def _qald(record: Any, path: Path) -> Question:
    asked = record["question"]  # Text2SPARQL: by language
    texts = asked if isinstance(asked, dict) else {entry["language"]: entry.get("string") for entry in asked}
    if not texts.get("en"):
        raise ValueError(f"it has no English question, only {', '.join(sorted(texts))}")
    golds = []
    answers = record.get("answers") or ()  # test sets have none
    for result in [answers] if isinstance(answers, dict) else answers:
        if "boolean" in result:
            golds.append(Gold("yes" if result["boolean"] else "no"))
        for binding in result.get("results", {}).get("bindings", ()):
            golds += [_qald_gold(_text(term["value"])) for term in binding.values()]
    sparql = _query_of(record)
    return Question(
        id=_text(record["id"]),
        source="qald",
        text=_question(texts["en"]),
        answers=_golds(golds),
        kind=kind_of(sparql),
        sparql=sparql,
    )


def _qald_gold(value: str) -> Gold:
    if match := _ENTITY.fullmatch(value):
        return Gold("", match[1])
    if match := _RESOURCE.fullmatch(value):
        return Gold(unquote(match[1]).replace("_", " "))
    return Gold(value)


def _lcquad(record: Any, path: Path) -> Question:
    asked = (record.get(field) for field in ("question", "paraphrased_question", "NNQT_question"))
    texts = [text for text in asked if isinstance(text, str) and text.strip().casefold() not in _NO_QUESTION]
    sparql = _text(record["sparql_wikidata"])
    return Question(
        id=_text(record["uid"]),
        source="lcquad2",
        text=_question(texts[0] if texts else ""),
        answers=(),
        kind=kind_of(sparql),
        sparql=sparql,
    )


def _lcquad_1(record: Any, path: Path) -> Question:
    sparql = _text(record["sparql_query"])
    return Question(
        id=_text(record["_id"]),
        source="lcquad1",
        text=_question(record["corrected_question"]),
        answers=(),
        kind=kind_of(sparql),
        sparql=sparql,
    )


_BY_FIELD: dict[str, Callable[[Any, Path], Question]] = {
    "complexityType": _mintaka,
    "sparql_wikidata": _lcquad,
    "corrected_question": _lcquad_1,
    "s_expression": _grailqa,
    "program": _kqa_pro,
}


def kind_of(sparql: str) -> str:
    """Return the kind of a SPARQL query: `ask`, `count`, `superlative`, `single` (one triple pattern) or `multi`; `all`
    if it is empty.

    >>> kind_of("SELECT DISTINCT ?x WHERE { wd:Q761383 wdt:P138 ?x. }"), kind_of("ASK { wd:Q1 wdt:P1 wd:Q2 }")
    ('single', 'ask')
    >>> kind_of("SELECT ?x WHERE { ?x wdt:P31 wd:Q5; wdt:P569 ?d } ORDER BY ?d LIMIT 1")
    'superlative'
    >>> kind_of("SELECT ?country WHERE { wd:Q1 wdt:P17 ?country }"), kind_of("SELECT (COUNT(?x) AS ?n) { ?x wdt:P17 wd:Q1 }")
    ('single', 'count')
    """
    upper = sparql.upper()
    if not sparql.strip():
        return "all"
    if re.search(r"\bASK\b", upper):
        return "ask"
    if re.search(r"\bCOUNT\s*\(", upper):  # not ?country
        return "count"
    if re.search(r"\bORDER\s+BY\b|\bMAX\s*\(|\bMIN\s*\(", upper):
        return "superlative"
    return "single" if len(_PATTERN.findall(sparql)) <= 1 else "multi"


def _golds(golds: Iterable[Gold]) -> tuple[Gold, ...]:
    """Return the distinct gold answers, without those that have neither text nor id."""
    return tuple(dict.fromkeys(gold for gold in golds if gold.text.strip() or gold.id))


def _text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise TypeError(f"expected a text, found {value!r}")
    return str(value).encode("utf-8", "replace").decode()  # JSON may have half a pair of surrogates


def _question(value: Any) -> str:
    text = _text(value).strip()
    if not text:
        raise ValueError("its question is empty")
    return text
