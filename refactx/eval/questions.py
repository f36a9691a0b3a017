"""The questions of a run: published question sets, which of them are asked, and their gold answers.

**The split.** A question belongs to `tune` if the last bit of the SHA-256 of its id (UTF-8) is 0, else to `report`:
each half is the same on every machine, for any order of the file and whatever other questions it has. Experiments use
`tune` alone. **The order** is that of the same hash, so that `--limit 200` always takes the same 200 questions of a
half. **The formats** are recognised by their content:

| format | file | recognised by | kind |
|---|---|---|---|
| ReFactX's own | lines of `id, source, question, answers, answer_ids, kind, sparql, first` | `question`, a text | `kind` |
| Mintaka | list, `id, question, answer: {answerType, answer, mention}, complexityType` | `complexityType` | that |
| 2WikiMultiHopQA | list, `_id, type, question, answer` (from v1.1 `answer_id`) | `_id` | `type` |
| WebQSP | `{"Version", "Questions": [{QuestionId, RawQuestion, Parses}]}` | `Questions` | relations in the chain |
| QALD, Text2SPARQL | `{"dataset", "questions": [{id, question, query, answers}]}` | `questions` | the SPARQL query |
| QALD's extended JSON | `{"questions": [{"question": {id, language, answers}}]}` | `language` | the SPARQL query |
| LC-QuAD 2.0 | list, `uid, question, NNQT_question, sparql_wikidata` | `sparql_wikidata` | the SPARQL query |
| LC-QuAD 1.0 | list, `_id, corrected_question, sparql_query` | `corrected_question` | the SPARQL query |
| KQA Pro | list, `question, answer, choices, program, sparql` | `program` | the SPARQL query |
| SimpleQuestions on Wikidata | lines of `Q1, P2 (R2: inverse), Q3, question`, with tabs | the first line | single |
| GrailQA | list, `qid, question, answer: [{answer_argument, entity_name}], level` | `s_expression` | `level` |

Gold answers are English labels if the set has them, else ids, for which `with_names` adds names. WebQSP's are the union
over all parses. The answer to a count in Mintaka is the number (`answerNum`), not the entities that are counted. LC-QuAD
has gold queries, and no answers; so have test sets of QALD, and lines with `sparql` alone, such as those of WDQL and
SPINACH. In records of our own form, the question, its id, its query and its answers may have the names that
ComplexWebQuestions, RuBQ, WikiWebQuestions, DBLP-QuAD and others give them, answers may be `results` of SPARQL, and the
number of the record is its id if it has none. The file `id_aliases.json` of 2WikiMultiHopQA, with other names of answers,
is read if it is in the same folder.
"""

import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote

from refactx.errors import InputError
from refactx.eval.answers import Gold, kind_of_answer, same
from refactx.fact import visible

Split = Literal["all", "tune", "report"]
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
MAX_BYTES = 2 << 30
"""More than any published set has: 2WikiMultiHopQA's training file, with its paragraphs, has some 700 MB."""
_TABLES = {
    "a table of SimpleQuestions on Freebase": re.compile(r"(?:www|fb)[.:][^\t\n]*\t[^\t\n]*\t[^\t\n]*\t"),
    "a table of MetaQA": re.compile(r"[^\t\n]*\[[^\]\n]+\][^\t\n]*\t[^\t\n]+\n"),
    "YAML": re.compile(r"(?:---\s*\n|- |[A-Za-z_]+:\s*(?:\n|$))"),
    "a table (CSV or TSV)": re.compile(r"[^\n{}\[\]]*[,;\t][^\n{}\[\]]*\n"),
}
"""What a file that is no JSON is, by its first line."""
_SIMPLE = re.compile(r"(Q\d+)\t([PR])(\d+)\t(Q\d+)\t([^\t\n]*)")
"""A line of SimpleQuestions on Wikidata."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question and its gold answers.

    `kind`: its category in the data set (`single`, `multi`, `count`, ...). `answer_ids`: ids of the answers, in any
    order, for answers whose `Gold` has none. `sparql`: the gold query, empty if there is none. `first`: the gold answer
    that comes first, if they have an order, as those of superlatives do; else empty. `key`: unique in a run;
    the id, `source/id` if several sources have it, or `id#2` if two questions of a source have it (see `assign_keys`).
    """

    id: str
    source: str
    text: str
    answers: tuple[Gold, ...]
    kind: str = "all"
    answer_ids: tuple[str, ...] = ()
    sparql: str = ""
    first: str = ""
    key: str = ""

    @property
    def answer_kind(self) -> str:
        """The kind of its answer: `generic`, `yes or no`, `enumeration` or `not given` (see `kind_of_answer`)."""
        return kind_of_answer(self.answers)

    def to_json(self) -> dict[str, Any]:
        """Return the question as a line of a file that is read again, without other names of its answers."""
        fields = {"id": self.key or self.id, "source": self.source, "question": self.text, "kind": self.kind}
        answers = {"answers": [gold.text for gold in self.answers if gold.text]}
        ids = [*self.answer_ids, *(gold.id for gold in self.answers if gold.id)]
        return (
            fields | answers | ({"answer_ids": ids} if ids else {}) | ({"sparql": self.sparql} if self.sparql else {})
        )


@dataclass(frozen=True, slots=True)
class StratifiedSample:
    """A sample of `size` questions in which each kind has the share that it has among all of them.

    `by`: what the kinds are of: `kind`, `answer_kind` or `source`; `seed`: another one takes other questions.
    """

    size: int
    by: str = "kind"
    seed: int = 0

    def of(self, questions: Sequence[Question]) -> list[Question]:
        """Return the sample; all questions if there are no more. What the shares leave over goes to the largest remainders.

        >>> some = [Question(id=f"{n}", source="s", text="Q?", answers=(), kind="ab"[n % 4 == 0]) for n in range(40)]
        >>> Counter(question.kind for question in StratifiedSample(10).of(some))
        Counter({'a': 8, 'b': 2})
        """
        strata = defaultdict[str, list[Question]](list)
        for question in questions:
            strata[getattr(question, self.by)].append(question)
        size, whole = min(self.size, len(questions)), max(len(questions), 1)
        counts = {name: size * len(some) // whole for name, some in strata.items()}
        most = sorted(strata, key=lambda name: (-(size * len(strata[name]) % whole), name))
        for name in most[: size - sum(counts.values())]:
            counts[name] += 1
        return [one for name, some in strata.items() for one in sorted(some, key=self._rank)[: counts[name]]]

    def _rank(self, question: Question) -> bytes:
        return sha256(f"{self.seed}:{question.source}/{question.id}/{question.text}".encode()).digest()


def hash_of(question: Question) -> bytes:
    """Return the SHA-256 of the id, which decides the order and the half."""
    return sha256(question.id.encode()).digest()


def half_of(question: Question) -> Split:
    """Return the half to which a question belongs.

    >>> half_of(Question(id="WebQTrn-13", source="wwq/train", text="Which countries border the US?", answers=()))
    'report'
    """
    return "tune" if hash_of(question)[-1] % 2 == 0 else "report"


def assign_keys(questions: Sequence[Question]) -> list[Question]:
    """Return the questions with their keys, a question that a file has twice only once.

    Published sets have ids that stand for two questions, as 20 in QALD-7's questions on Wikidata: later ones get a number.

    >>> ann, bo, other = (Question(id="20", source=s, text=t, answers=()) for s, t in ["aA", "aB", "bC"])
    >>> [question.key for question in assign_keys([ann, bo, ann, other])]
    ['a/20', 'a/20#2', 'b/20']
    """
    asked = list(dict.fromkeys(questions))
    sources = defaultdict[str, set[str]](set)
    for question in asked:
        sources[question.id].add(question.source)
    named = [q.id if len(sources[q.id]) == 1 else f"{q.source}/{q.id}" for q in asked]
    times = Counter[str]()
    keyed = []
    for question, key in zip(asked, named, strict=True):
        times[key] += 1
        keyed.append(replace(question, key=key if times[key] == 1 else f"{key}#{times[key]}"))
    return keyed


def questions_of(document: Any, path: Path, language: str | None = None) -> list[Question]:
    """Return the questions of a JSON document, also those without gold answers.

    `language`: of their texts, None: English; those that have texts in other languages alone are left out.

    Raises InputError for an unknown format, with the number of the first record that is not in it, and for a language that
    no question has.
    """
    name, reader, records = _recognised(document, path)
    questions = []
    for number, record in enumerate(records, 1):
        try:
            if not isinstance(record, dict):
                raise TypeError(f"expected an object, found {str(record)[:80]!r}")
            fields = {"id": number, **record}
            texts = {tag.lower(): text for tag, text in _texts_by_language(record).items()}
            has_english = not texts or isinstance(fields.get("question", fields.get("body")), str)
            if (language or "en").lower() not in texts and not (language is None and has_english):
                continue
            if language is not None:
                fields = {**_unfolded(fields), "question": texts[language.lower()]}
            questions.append(reader(fields, path))
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            what = f"it has no {error}" if isinstance(error, KeyError) else str(error)
            raise InputError(f"{path}: record {number} is not in the format of {name}: {what}") from error
    if records and not questions:
        there = sorted({tag for record in records for tag in _texts_by_language(record)})
        advice = "" if language is not None else ": give one with --language"
        which = f"are in {', '.join(there)}" if there else "do not say their language, so leave out --language"
        raise InputError(f"{path} has no question in {visible(language or 'en')!r}: its questions {which}{advice}")
    return questions


def count_left_out(path: Path, language: str | None) -> int:
    """Return how many questions of a file lack a text in a language (None: English). Raise InputError as `read_questions`."""
    document = _documents(_content(path), path)
    return len(_recognised(document, path)[2]) - len(questions_of(document, path, language))


def _texts_by_language(record: Any) -> dict[str, str]:
    """Return the texts of a record's question by language; empty if it does not say that.

    >>> _texts_by_language({"question": [{"language": "de", "string": "Wer?"}]})
    {'de': 'Wer?'}
    >>> _texts_by_language({"question": "Who?", "translations": {"de": "Wer?"}, "complexityType": "generic"})
    {'de': 'Wer?', 'en': 'Who?'}
    """
    if not isinstance(record, dict):
        return {}
    asked = record.get("question", record.get("body"))
    if isinstance(asked, dict) and isinstance(asked.get("language"), list):
        asked = asked["language"]
    if isinstance(asked, list):
        entries = [one for one in asked if isinstance(one, dict)]
        asked = {one.get("language"): one.get("string") or one.get("question") for one in entries}
    elif not isinstance(asked, dict) or "string" in asked:
        others = record.get("translations", record.get("questions"))
        asked = dict(others) if isinstance(others, dict) else {}
        if "complexityType" in record:  # Mintaka
            asked["en"] = record.get("question")
        elif "question_eng" in record:  # RuBQ
            asked = {"ru": record.get("question_text"), "en": record["question_eng"]}
    return {tag: text for tag, text in asked.items() if isinstance(tag, str) and isinstance(text, str) and text.strip()}


def _unfolded(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record in QALD's extended form as the usual one: the fields of its question, and its query."""
    asked = record.get("question")
    if not isinstance(asked, dict) or not isinstance(asked.get("language"), list):
        return record
    sparql = next((one["SPARQL"] for one in asked["language"] if one.get("SPARQL")), "")
    return {**record, **asked, "query": sparql, "question": asked["language"]}


def _recognised(document: Any, path: Path) -> tuple[str, Callable[[Any, Path], Question], list[Any]]:
    """Return the name of a document's format, its reader, and its records. Raise InputError if the format is unknown."""
    if isinstance(document, dict):
        for field, name, of_set in (("Questions", "WebQSP", _webqsp), ("questions", "QALD", _qald)):
            records = document.get(field)
            if isinstance(records, list) and not (records and _is_own(records[0])):
                return name, of_set, records
            if isinstance(records, list):
                return "ReFactX", _own, records
        document = [document]
    first = document[0] if isinstance(document, list) and document else None
    if isinstance(first, dict):
        for field, (name, reader) in _BY_FIELD.items():
            if field in first:
                return name, reader, document
        if "_id" in first and "type" in first:
            aliases = _aliases(path.with_name("id_aliases.json"))
            return "2WikiMultiHopQA", _with_aliases(aliases), document
        if _is_own(first):
            return "ReFactX", _own, document
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
    golds = map(_gold, answers) if given is not None else _results(record.get("results"))
    return Question(
        id=_text(next(record[field] for field in _IDS if record.get(field) is not None)),
        source=_text(record.get("source") or path.stem),
        text=_question(_text_of(record)),
        answers=_golds(golds),
        kind=_text(record.get("kind") or (kind_of(sparql) if given is None else "all")),
        answer_ids=tuple(_text(number) for number in record.get("answer_ids") or ()),
        sparql=sparql,
        first=_text(record.get("first") or ""),
    )


def _made(
    source: str, id_: Any, text: Any, golds: Iterable[Gold] = (), sparql: Any = "", *, kind: Any = None
) -> Question:
    """Return a question of a published set. `kind`: by default that of the query."""
    query = _text(sparql or "")
    return Question(
        id=_text(id_),
        source=source,
        text=_question(text),
        answers=_golds(golds),
        kind=kind_of(query) if kind is None else _text(kind),
        sparql=query,
    )


def _grailqa(record: Any, path: Path) -> Question:
    golds = [Gold(_text(one.get("entity_name") or one["answer_argument"])) for one in record.get("answer") or ()]
    kind = record.get("level") or "all"
    return _made("grailqa", record["qid"], record["question"], golds, record.get("sparql_query"), kind=kind)


def _mintaka(record: Any, path: Path) -> Question:
    given, kind = record["answer"], record["complexityType"]
    if kind == "count" and given.get("answerNum") is not None:
        golds = [Gold(_text(given["answerNum"]))]
    elif given["answer"] is None:
        golds = [Gold(_text(given.get("mention") or ""))]
    else:
        golds = []
        for answer in given["answer"]:
            if isinstance(answer, dict):
                label = answer.get("label")  # a text, or texts by language
                label = label.get("en") if isinstance(label, dict) else label
                golds.append(Gold(_text(label or ""), _text(answer["name"])))
            else:
                golds.append(Gold(("yes" if answer else "no") if isinstance(answer, bool) else _text(answer)))
    return _made("mintaka", record["id"], record["question"], golds, kind=kind)


def _with_aliases(aliases: dict[str, tuple[str, ...]]) -> Callable[[Any, Path], Question]:
    def two_wiki(record: Any, path: Path) -> Question:
        number = record.get("answer_id")
        answer = record.get("answer")  # the test set has none
        gold = Gold(_text(answer), number, aliases.get(number, ())) if answer is not None else Gold("")
        return _made("2wikimultihopqa", record["_id"], record["question"], [gold], kind=record["type"])

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
    return _made(
        "webqsp",
        record["QuestionId"],
        record.get("RawQuestion") or record["ProcessedQuestion"],
        golds,
        parses[0].get("Sparql") if parses else "",
        kind="single" if min(hops, default=1) <= 1 else "multi",
    )


def _qald(record: Any, path: Path) -> Question:
    asked = record.get("question", record.get("body"))  # QALD-5 has a body; Text2SPARQL has texts by language
    if asked is None:
        raise KeyError("question")
    if not isinstance(asked, str):
        record = _unfolded(record)
        texts = _texts_by_language(record)
        if not texts.get("en"):
            raise ValueError(f"it has no English question, only {', '.join(sorted(texts))}")
        asked = texts["en"]
    return _made("qald", record["id"], asked, _results(record.get("answers")), _query_of(record))


def _results(results: Any) -> list[Gold]:
    """Return the gold answers in results of SPARQL, of any depth: documents of `head` and `results`, their bindings, or
    texts. Test sets have none.

    >>> _results([{"x": {"type": "uri", "value": "http://www.wikidata.org/entity/Q3"}}]), _results({"boolean": False})
    ([Gold(text='', id='Q3', aliases=())], [Gold(text='no', id=None, aliases=())])
    """
    if isinstance(results, list):
        return [gold for result in results for gold in _results(result)]
    if isinstance(results, bool):
        return [_gold(results)]
    if not isinstance(results, dict):
        return [] if results is None else [_qald_gold(_text(results))]
    if isinstance(results.get("boolean"), bool):
        return [_gold(results["boolean"])]
    if "results" in results or "bindings" in results:
        return _results(results.get("results", results.get("bindings")))
    if isinstance(results.get("string"), str):  # QALD-5
        return [_qald_gold(results["string"])]
    return [_qald_gold(_text(term["value"])) for term in results.values() if isinstance(term, dict)]


def _qald_gold(value: str) -> Gold:
    if match := _ENTITY.fullmatch(value):
        return Gold("", match[1])
    if match := _RESOURCE.fullmatch(value):
        return Gold(unquote(match[1]).replace("_", " "))
    return Gold(value)


def _lcquad(record: Any, path: Path) -> Question:
    asked = (record.get(field) for field in ("question", "paraphrased_question", "NNQT_question"))
    texts = [text for text in asked if isinstance(text, str) and text.strip().casefold() not in _NO_QUESTION]
    return _made("lcquad2", record["uid"], texts[0] if texts else "", (), record["sparql_wikidata"])


_BY_FIELD: dict[str, tuple[str, Callable[[Any, Path], Question]]] = {
    "complexityType": ("Mintaka", _mintaka),
    "sparql_wikidata": ("LC-QuAD 2.0", _lcquad),
    "corrected_question": (
        "LC-QuAD 1.0",
        lambda one, _: _made("lcquad1", one["_id"], one["corrected_question"], (), one["sparql_query"]),
    ),
    "s_expression": ("GrailQA", _grailqa),
    "program": (
        "KQA Pro",
        lambda one, path: replace(_own(one, path), source="kqapro", kind=kind_of(_text(one.get("sparql") or ""))),
    ),
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


def choose_questions(
    questions: Sequence[Question],
    split: Split = "all",
    kinds: Collection[str] = (),
    limit: int | None = None,
    sample: StratifiedSample | None = None,
) -> list[Question]:
    """Return at most `limit` questions of a half and of some kinds (none given: all), in the order of their hashes.

    `sample`: of those, this one is taken.

    Raises InputError for an unknown kind, or if no question is left.
    """
    unknown = sorted(set(kinds) - {question.kind for question in questions})
    if unknown:
        there = ", ".join(f"{kind} ({n})" for kind, n in Counter(q.kind for q in questions).most_common())
        raise InputError(f"there are no questions of kind {', '.join(unknown)}: give some of {there}")
    kept = [q for q in questions if split in ("all", half_of(q)) and (not kinds or q.kind in kinds)]
    if not kept:
        raise InputError("no question is left: give another --split or --kinds")
    taken = kept if sample is None else sample.of(kept)
    return sorted(taken, key=lambda q: (hash_of(q), q.key))[:limit]


def with_names(question: Question, names: dict[str, tuple[str, ...]]) -> Question:
    """Return the question with the knowledge base's names of its answers, which `names` has by id, as their aliases.

    An id in `answer_ids` belongs to the answer that has one of its names; if one id and one answer are left, they
    belong together.
    """
    golds = [replace(g, aliases=(*g.aliases, *names.get(g.id, ()))) if g.id else g for g in question.answers]
    ids = [number for number in question.answer_ids if number in names]
    free = {at for at, gold in enumerate(golds) if gold.id is None}
    left = []
    for number in ids:
        at = next((a for a in sorted(free) if any(same(n, golds[a].text) for n in names[number])), None)
        if at is None:
            left.append(number)
        else:
            golds[at] = replace(golds[at], id=number, aliases=(*golds[at].aliases, *names[number]))
            free.remove(at)
    if len(left) == len(free) == 1 and len(question.answer_ids) == len(question.answers):
        at = free.pop()
        golds[at] = replace(golds[at], id=left[0], aliases=(*golds[at].aliases, *names[left[0]]))
    return replace(question, answers=tuple(golds))


def read_questions(path: Path, language: str | None = None) -> list[Question]:
    """Return the questions of a file, in its order, without those that have no gold answer.

    The format is recognised by the content, see `refactx.eval.questions`. `language`: of the texts; questions
    without one in it are left out; None: English. Raises InputError if the file cannot be read or has no such question.
    """
    questions = _questions(path, language)
    asked = [question for question in questions if question.answers]
    if not asked:
        has_queries = any(question.sparql.strip() for question in questions)
        advice = "score its gold queries with --sparql" if has_queries else "give a train or dev file, which has them"
        raise InputError(f"{path} has {len(questions)} questions but no gold answers: {advice}")
    return assign_keys(asked)


def read_queries(path: Path, language: str | None = None) -> list[Question]:
    """Return the questions of a file that have a gold query, in its order, with gold answers or without.

    `language`: as in `read_questions`. Raises InputError if the file cannot be read or has no such question.
    """
    questions = _questions(path, language)
    asked = [question for question in questions if question.sparql.strip()]
    if not asked:
        raise InputError(
            f"{path} has {len(questions)} questions but no gold SPARQL: give QALD, LC-QuAD 2.0, or lines with `sparql`"
        )
    return assign_keys(asked)


def kinds_of(path: Path, language: str | None = None) -> dict[str, dict[str, int]]:
    """Return how many questions of a file are of each kind and kind of answer, the most first. Raise InputError as above."""
    found = defaultdict[str, Counter[str]](Counter)
    for question in assign_keys(_questions(path, language)):
        found[question.kind][question.answer_kind] += 1
    return {kind: dict(found[kind].most_common()) for kind in sorted(found, key=lambda kind: -found[kind].total())}


def read_texts(path: Path) -> list[str]:
    """Return the texts of the questions in a file; `-`: standard input.

    A line is a question, or a JSON object with a `question`; or the file is in a format that `read_questions` reads.
    Raises InputError if the file cannot be read or has no questions.
    """
    content = _content(path)
    if content.lstrip()[:1] not in ("{", "["):
        texts: list[Any] = [line.strip() for line in content.splitlines() if line.strip()]
    else:
        document = _documents(content, path)
        records = [document] if isinstance(document, dict) else document
        texts = [record.get("question") for record in records if isinstance(record, dict)]
        if len(texts) < len(records) or not all(isinstance(text, str) and text.strip() for text in texts):
            texts = [question.text for question in questions_of(document, path)]
    if not texts:
        raise InputError(f"{path} has no questions: write one a line, or one JSON object with a question a line")
    return texts


def read_records(path: Path) -> list[tuple[Question, dict[str, Any]]]:
    """Return all questions of a file, each with its record, which may have fields of other programs.

    Raises InputError if the file cannot be read.
    """
    document = _documents(_content(path), path)
    return list(zip(questions_of(document, path), _recognised(document, path)[2], strict=True))


def _questions(path: Path, language: str | None) -> list[Question]:
    return questions_of(_documents(_content(path), path), path, language)


def _content(path: Path) -> str:
    is_typed = str(path) == "-"
    try:
        if is_typed:
            return sys.stdin.buffer.read().decode("utf-8-sig")
        if path.stat().st_size > MAX_BYTES:
            raise InputError(f"{path} has more than {MAX_BYTES >> 30} GiB: give a file of questions")
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"cannot read the questions in {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        what = f"standard input is not text in UTF-8: {error}" if is_typed else f"{path} is not UTF-8 text"
        raise InputError(f"{what}: give a file of questions") from error


def _documents(text: str, path: Path) -> Any:
    """Return the JSON document in a text, or the list of the documents in its lines."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as whole:
        if not text.strip():
            raise InputError(f"{path} is empty: give a file of questions") from None
        if _SIMPLE.match(text):
            return _simple_questions(text, path)
        lines = []
        for number, line in enumerate(text.split("\n"), 1):
            try:
                if line.strip():
                    lines.append(json.loads(line))
            except (ValueError, RecursionError) as error:
                table = next((name for name, first in _TABLES.items() if not lines and first.match(text[:500])), None)
                if table:
                    raise InputError(
                        f"{path} is {table}, not JSON: write one JSON object a line, with question and answers or sparql"
                    ) from error
                where = f"line {number}" if lines else str(whole)
                raise InputError(
                    f"{path} is neither JSON nor one JSON object a line ({where}): give a file of questions"
                ) from error
        return lines


def _simple_questions(text: str, path: Path) -> list[dict[str, Any]]:
    """Return the lines of SimpleQuestions on Wikidata as records of our own form."""
    records = []
    for number, line in enumerate(text.splitlines(), 1):
        match = _SIMPLE.fullmatch(line)
        if match is None:
            raise InputError(
                f"{path}, line {number}: expected subject, property, object and question with tabs between"
            )
        subject, way, property_, object_, question = match.groups()
        path_of = ("^" if way == "R" else "") + f"wdt:P{property_}"
        answer = {"value": f"http://www.wikidata.org/entity/{object_}"}
        query = f"SELECT ?x {{ wd:{subject} {path_of} ?x }}"
        records.append({"id": number, "question": question, "answers": [answer], "sparql": query, "kind": "single"})
    return records
