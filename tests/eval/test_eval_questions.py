"""Question sets in their published formats, and which questions a run asks."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from refactx.errors import InputError
from refactx.eval.answers import Gold
from refactx.eval.names import gold_names
from refactx.eval.questions import (
    Question,
    assign_keys,
    choose_questions,
    count_left_out,
    half_of,
    kind_of,
    questions_of,
    read_queries,
    read_questions,
    with_names,
)
from refactx.index.names import Named

SETS = Path(__file__).parent / "questions"


def read(name: str) -> dict[str, Question]:
    return {question.key: question for question in read_questions(SETS / name)}


def golds(question: Question) -> list[str]:
    return [gold.text for gold in question.answers]


def test_mintaka() -> None:
    found = read("mintaka.json")
    assert found["9ace9041"].answers == (Gold("Breaking Dawn", "Q53945"),)
    assert (found["9ace9041"].kind, found["9ace9041"].source) == ("ordinal", "mintaka")
    assert golds(found["88bdb808"]) == ["6"], "a count is asked for, not what is counted"
    assert golds(found["a9011ddf"]) == ["Mount Lucania"], "labels by language: the newer form"
    assert golds(found["0a1b2c3d"]) == ["yes"]
    assert golds(found["0a1b2c3e"]) == ["1967-01-15"]
    assert golds(found["0a1b2c3f"]) == ["nobody in Wikidata"]


def test_two_wiki_with_the_aliases_beside_it() -> None:
    found = read("2wikimultihopqa.json")
    mother = found["8813f87c0bdd11eba7f7acde48001122"]
    assert mother.answers == (
        Gold("Małgorzata Braunek", "Q274277", ("Malgorzata Braunek", "Małgorzata Braunek-Mainka")),
    )
    assert mother.kind == "compositional"
    assert golds(found["228546780bdd11eba7f7acde48001122"]) == ["The Mask Of Fu Manchu"]


def test_webqsp_takes_the_answers_of_all_parses_once() -> None:
    found = read("webqsp.json")
    assert golds(found["WebQTest-0"]) == ["Jamaican English", "Jamaican Creole English Language"]
    assert golds(found["WebQTest-1"]) == ["1956-10-20"]
    assert [question.kind for question in found.values()] == ["single", "multi"]
    assert "WebQTest-2" not in found, "it has no answer"


def test_qald_10_gives_ids_and_literals_and_truth() -> None:
    found = read("qald10.json")
    assert found["0"].text == "After whom is the Riemannian geometry named?"
    assert found["0"].answers == (Gold("", "Q42299"),)
    assert golds(found["8"]) == ["yes"]
    assert golds(found["9"]) == ["99.9839"]
    assert [question.kind for question in found.values()] == ["single", "ask", "multi"]
    assert "5" not in found


def test_qald_9_names_resources_of_dbpedia() -> None:
    assert golds(read("qald9.json")["99"]) == ["Mountain Time Zone"]


def test_the_kind_of_a_query_with_full_iris() -> None:
    to, wiki = "<http://dbpedia.org/resource/X> <http://dbpedia.org/", "<http://www.wikidata.org/"
    assert kind_of(f"SELECT ?uri WHERE {{ {to}ontology/a> ?uri }}") == "single"
    assert kind_of(f"SELECT ?uri WHERE {{ {to}ontology/a> ?y . ?y <http://dbpedia.org/property/b> ?uri }}") == "multi"
    assert (
        kind_of(f"SELECT ?x WHERE {{ {wiki}entity/Q1> {wiki}prop/direct/P1> ?x . ?x {wiki}prop/direct/P2> ?y }}")
        == "multi"
    )
    assert kind_of("PREFIX dbo: <http://dbpedia.org/ontology/> SELECT ?x WHERE { ?x dbo:country ?country }") == "single"
    assert kind_of(f"PREFIX wdt: {wiki}prop/direct/> SELECT ?x WHERE {{ ?x wdt:P17 ?y }}") == "single"


def test_our_own_format_and_an_id_that_occurs_twice() -> None:
    found = read("own.jsonl")
    assert list(found) == ["WebQTrn-13", "qald10/train/train_0", "qald7/train/train_0", "only"]
    assert golds(found["WebQTrn-13"]) == ["Canada", "Mexico"]
    assert (found["only"].source, found["only"].kind) == ("own", "all")


def test_a_question_that_a_file_has_twice_is_asked_once_and_two_of_one_id_are_two(tmp_path: Path) -> None:
    file = tmp_path / "own.jsonl"
    lines = [{"id": "20", "question": text, "answers": ["a"]} for text in ("Who?", "What?", "Who?")]
    file.write_text("\n".join(map(json.dumps, lines)))
    found = [(question.key, question.text) for question in read_questions(file)]
    assert found == [("20", "Who?"), ("20#2", "What?")]


BINDINGS = [{"x": {"type": "uri", "value": "http://www.wikidata.org/entity/Q3"}}]
RESULTS = {
    "bindings": BINDINGS,
    "document": {"head": {"vars": ["x"]}, "results": {"bindings": BINDINGS}},
    "documents": [{"head": {"vars": ["x"]}, "results": {"bindings": BINDINGS}}],
    "texts": [{"string": "http://www.wikidata.org/entity/Q3"}],
    "ids": ["http://www.wikidata.org/entity/Q3"],
}
OF_SETS = {
    "wikiwebquestions": lambda results: [{"id": "7", "utterance": "Who?", "sparql": "ASK {}", "results": results}],
    "qald": lambda results: {
        "questions": [{"id": 7, "question": [EN], "query": {"sparql": "ASK {}"}, "answers": results}]
    },
    "qald-5": lambda results: {"questions": [{"id": 7, "body": [EN], "query": "ASK {}", "answers": results}]},
    "extended": lambda results: {
        "questions": [{"question": {"id": "7", "language": [{**EN, "SPARQL": "ASK {}"}], "answers": results}}]
    },
}
EN = {"language": "en", "string": "Who?", "question": "Who?"}


@pytest.mark.parametrize("form", OF_SETS)
@pytest.mark.parametrize("name", RESULTS)
def test_published_sets_have_answers_as_results_of_queries(tmp_path: Path, form: str, name: str) -> None:
    file = tmp_path / "set.json"
    file.write_text(json.dumps(OF_SETS[form](RESULTS[name])))
    (found,) = read_questions(file)
    assert (found.id, found.text, found.sparql, found.answers) == ("7", "Who?", "ASK {}", (Gold("", "Q3"),))


@pytest.mark.parametrize("form", OF_SETS)
def test_yes_and_no_as_results_of_queries(tmp_path: Path, form: str) -> None:
    file = tmp_path / "set.json"
    file.write_text(json.dumps(OF_SETS[form]({"head": {}, "boolean": False})))
    assert read_questions(file)[0].answers == (Gold("no"),)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "is empty"),
        ("hello", "neither JSON nor one JSON object a line"),
        ('{"id": "1", "question": "Q?", "answers": ["a"]}\n{"id": \n', "line 2"),
        ("[]", "has no questions: expected Mintaka"),
        ("7", "has no questions"),
        ('[{"title": "x", "paragraphs": []}]', "has records with the fields paragraphs, title: expected Mintaka"),
        (
            '{"id": "1", "question": "Q?", "answers": ["a"]}\n{"id": "2", "answers": ["a"]}',
            "record 2 .* it has no 'question'",
        ),
        ('{"id": "1", "question": " ", "answers": ["a"]}', "record 1 .* its question is empty"),
        ('{"id": "1", "question": "Q?", "answers": [["a"]]}', r"record 1 .* expected a text, found \['a'\]"),
        (
            '{"questions": [{"id": 1, "question": [{"language": "de", "string": "Wer?"}]}]}',
            "no question in 'en': its questions are in de: give one with --language",
        ),
        ('{"id": "1", "question": "Q?", "answers": []}', "no gold answer"),
        ('[{"_id": "1", "type": "comparison", "question": "Q?", "context": []}]', "no gold answer"),
        ("[" * 100_000, "neither JSON"),
        ('[{"question": "Q?", "sparql": "ASK {}"}, 7]', "record 2 .*: expected an object, found '7'"),
        ('{"id": 1, "question": "Q?", "sparql": "ASK {}"}', "no gold answers: score its gold queries with --sparql"),
        ("www.freebase.com/m/0\twww.freebase.com/x\twww.freebase.com/m/1\twhat\n", "a table of SimpleQuestions"),
        ("Q1\tP2\tQ3\tWho?\nQ1 P2 Q3 Who?\n", "line 2: expected subject, property, object and question"),
        ("what does [Ann] act in\tx|y\n", "a table of MetaQA"),
        ("dataset:\n  id: x\n", "is YAML"),
        ("id,question\n1,Who?\n", "is a table"),
    ],
)
def test_a_file_that_cannot_be_used_is_reported(tmp_path: Path, content: str, expected: str) -> None:
    file = tmp_path / "questions.json"
    file.write_text(content)
    with pytest.raises(InputError, match=expected):
        read_questions(file)


def test_simple_questions_on_wikidata_are_read(tmp_path: Path) -> None:
    file = tmp_path / "annotated_wd_data_test.txt"
    file.write_text("Q7\tR57\tQ3\twhat did Ann direct\nQ9\tP19\tQ4\twhere was Bo born\n")
    first, second = read_questions(file)
    assert (first.text, first.sparql, first.kind) == (
        "what did Ann direct",
        "SELECT ?x { wd:Q7 ^wdt:P57 ?x }",
        "single",
    )
    assert (second.sparql, [gold.id for gold in second.answers]) == ("SELECT ?x { wd:Q9 wdt:P19 ?x }", ["Q4"])


OTHERS = {
    "cwq": {"ID": "7", "question": "Who?", "sparql": "ASK {}",
            "answers": [{"answer_id": "m.0", "answer": "Ann", "aliases": ["A."]}]},
    "rubq": {"uid": 7, "question_text": "Кто?", "question_eng": "Who?", "query": "ASK {}",
             "answers": [{"type": "uri", "label": "Ann", "value": "http://www.wikidata.org/entity/Q3"}]},
    "wikiwebquestions": {"id": "7", "utterance": "Who?", "sparql": "ASK {}"},
    "dblp": {"id": "7", "question": {"string": "Who?"}, "query": {"sparql": "ASK {}"}},
    "simple": {"QuestionId": "7", "question": {"en": "Who?"}, "sparql_query": "ASK {}", "answer": {"name": "Ann"}},
}  # fmt: skip
OTHER_GOLD = {"cwq": (Gold("Ann", None, ("A.",)),), "rubq": (Gold("Ann", "Q3"),), "simple": (Gold("Ann"),)}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("form", ["list", "lines", "questions"])
def test_other_sets_call_the_same_things_by_other_names(tmp_path: Path, name: str, form: str) -> None:
    record = json.dumps(OTHERS[name])
    text = {"list": f"[{record}]", "lines": f"\ufeff{record}\r\n", "questions": f'{{"questions": [{record}]}}'}[form]
    (path := tmp_path / f"{name}.json").write_text(text, encoding="utf-8")
    (found,) = read_queries(path)
    assert (found.id, found.text, found.sparql, found.answers) == ("7", "Who?", "ASK {}", OTHER_GOLD.get(name, ()))


def test_half_a_pair_of_surrogates_is_a_question_mark(tmp_path: Path) -> None:
    (path := tmp_path / "q.json").write_text('{"id": "\\ud800", "question": "Who\\udc00", "answers": ["a"]}')
    (found,) = read_questions(path)
    assert (found.id, found.text) == ("?", "Who?")


def test_missing_files_and_files_without_text(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read the questions"):
        read_questions(tmp_path / "none.json")
    (tmp_path / "b.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not UTF-8"):
        read_questions(tmp_path / "b.json")
    (tmp_path / "q.json").write_text((SETS / "2wikimultihopqa.json").read_text())
    (tmp_path / "id_aliases.json").write_text("[1]")
    with pytest.raises(InputError, match="file of aliases"):
        read_questions(tmp_path / "q.json")


def many(n: int) -> list[Question]:
    made = [
        Question(id=f"q{i}", source="s", text="Q?", answers=(Gold("a"),), kind="single" if i % 3 else "multi")
        for i in range(n)
    ]
    return assign_keys(made)


def test_the_split_is_fixed_and_takes_each_question_once() -> None:
    questions = many(200)
    tune, report = choose_questions(questions, "tune"), choose_questions(questions, "report")
    assert {q.id for q in tune} | {q.id for q in report} == {q.id for q in questions}
    assert not {q.id for q in tune} & {q.id for q in report}
    assert 70 < len(tune) < 130
    # by hand: sha256sum of "WebQTrn-13" ends in 9, that of "WebQTrn-3582" in an even digit
    assert [half_of(replace(questions[0], id=name)) for name in ("WebQTrn-13", "WebQTrn-3582")] == ["report", "tune"]


def test_a_limit_takes_the_same_questions_whatever_the_order_of_the_file() -> None:
    questions = many(200)
    first = choose_questions(questions, "report", ("single",), 20)
    assert first == choose_questions(questions[::-1], "report", ("single",), 50)[:20]
    assert {q.kind for q in first} == {"single"}


def test_a_choice_without_questions_is_reported() -> None:
    with pytest.raises(InputError, match=r"no questions of kind count: give some of single \(6\), multi \(4\)"):
        choose_questions(many(10), kinds=("count",))
    one = many(1)
    with pytest.raises(InputError, match="no question is left"):
        choose_questions(one, "tune" if half_of(one[0]) == "report" else "report")


class Names:
    """Two blocks of names."""

    def name_rows(self) -> list[tuple[bytes, bytes]]:
        return [(b"a", b""), (b"b", b"")]

    def unpack_names(self, key: bytes, block: bytes) -> dict[str, Named]:
        blocks = {
            b"a": {"Bern (capital of Switzerland)": Named("Q70", None), "Berne": Named("Q70", None)},
            b"b": {"Bernhard Riemann": Named("Q42299", None), "spouse": Named("P26", "entity")},
        }
        return blocks[key]


def test_the_names_of_gold_answers_come_from_the_index() -> None:
    names = gold_names(Names(), {"Q70", "Q42299", "Q1"})
    assert names == {"Q70": ("Bern (capital of Switzerland)", "Berne"), "Q42299": ("Bernhard Riemann",)}
    (riemann,) = with_names(read("qald10.json")["0"], names).answers
    assert riemann.names == ("Bernhard Riemann",)


def test_an_id_finds_the_answer_that_has_its_name_or_the_one_that_is_left() -> None:
    names = {"Q70": ("Bern (capital)",), "Q72": ("Zürich",), "Q1": ("something else",)}
    question = Question(
        id="1",
        source="s",
        text="Q?",
        answers=(Gold("Zurich"), Gold("Bern"), Gold("Other")),
        answer_ids=("Q1", "Q70", "Q72"),
    )
    assert [gold.id for gold in with_names(question, names).answers] == ["Q72", "Q70", "Q1"]
    two_left = replace(question, answers=(Gold("x"), Gold("y"), Gold("Bern")))
    assert [gold.id for gold in with_names(two_left, names).answers] == [None, None, "Q70"]


ASK = "ASK { wd:Q1 wdt:P1 wd:Q2 }"
PUBLISHED: dict[str, Any] = {
    "wdql": {"id": "t1", "question": "What?", "sparql": ASK, "paraphrases": [], "info": {}},
    "spinach": [{"question": "What?", "sparql": ASK, "results": []}],
    "lcquad1": [{"_id": "1", "corrected_question": "What?", "sparql_query": ASK, "sparql_template_id": 1}],
    "kqapro": [{"question": "What?", "answer": "y", "sparql": ASK, "choices": [], "program": []}],
    "kqapro_test": [{"question": "What?", "sparql": ASK, "choices": [], "program": []}],
    "text2sparql": {"questions": [{"id": 1, "question": {"en": "What?", "de": "Was?"}, "query": {"sparql": ASK}}]},
    "qald_test": {
        "questions": [{"id": "1", "question": [{"language": "en", "string": "What?"}], "query": {"sparql": ASK}}]
    },
    "grailqa": [
        {
            "qid": 1,
            "question": "What?",
            "answer": [{"answer_type": "Entity", "answer_argument": "m.1", "entity_name": "y"}],
            "s_expression": "",
            "sparql_query": ASK,
            "level": "i.i.d.",
        }
    ],
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_sets_are_read_as_published_with_answers_or_without(name: str, tmp_path: Path) -> None:
    file = tmp_path / f"{name}.json"
    file.write_text(f"\ufeff{json.dumps(PUBLISHED[name])}\n")
    (question,) = read_queries(file)
    assert question.text == "What?"
    assert question.sparql.startswith("ASK {")
    assert golds(question) == (["y"] if name in ("kqapro", "grailqa") else [])
    if not question.answers:
        with pytest.raises(InputError, match="no gold answers"):
            read_questions(file)


def test_an_answer_may_be_a_text() -> None:
    (question,) = questions_of([{"question": "What?", "answer": "y"}], Path("mine.jsonl"))
    assert (question.id, question.source, golds(question)) == ("1", "mine", ["y"])


def test_a_number_of_5000_digits_is_refused(tmp_path: Path) -> None:
    (tmp_path / "q.json").write_text(f'{{"id": {"1" * 5000}, "question": "What?", "answers": []}}')
    with pytest.raises(InputError, match="neither JSON nor one JSON object a line"):
        read_questions(tmp_path / "q.json")


DE = {"language": "de", "string": "Wer?", "question": "Wer?"}
WIKI = "http://www.wikidata.org/entity/Q3"
IN_LANGUAGES = {
    "qald": {
        "questions": [{"id": 7, "question": [EN, DE], "answers": [WIKI]}, {"id": 8, "question": [EN], "answers": ["x"]}]
    },
    "extended": {
        "questions": [
            {"question": {"id": "7", "language": [{**EN, "SPARQL": "ASK {}"}, DE], "answers": [WIKI]}},
            {"question": {"id": "8", "language": [EN], "answers": ["x"]}},
        ]
    },
    "text2sparql": {
        "dataset": {"id": "x"},
        "questions": [
            {"id": 7, "question": {"en": "Who?", "de": "Wer?"}, "answers": [WIKI]},
            {"id": 8, "question": {"en": "Who?"}, "answers": ["x"]},
        ],
    },
    "mintaka": [
        {
            "id": id_,
            "question": "Who?",
            "translations": others,
            "complexityType": "generic",
            "answer": {"answerType": "entity", "answer": [{"name": "Q3", "label": {"en": "x"}}], "mention": "x"},
        }
        for id_, others in (("7", {"de": "Wer?"}), ("8", {"fr": "Qui ?"}))
    ],
    "own": [
        {"id": 7, "question": "Who?", "questions": {"en": "Who?", "de": "Wer?"}, "answers": ["x"]},
        {"id": 8, "question": "Who?", "questions": {"en": "Who?"}, "answers": ["x"]},
    ],
}


@pytest.mark.parametrize("form", IN_LANGUAGES)
def test_questions_of_a_language_are_asked_and_the_others_counted(tmp_path: Path, form: str) -> None:
    file = tmp_path / "set.json"
    file.write_text(json.dumps(IN_LANGUAGES[form]))
    (found,) = read_questions(file, "DE")
    assert (found.id, found.text, len(found.answers)) == ("7", "Wer?", 1)
    assert count_left_out(file, "de") == 1
    assert [question.text for question in read_questions(file, "en")] == ["Who?", "Who?"]
    assert read_questions(file, "en") == read_questions(file)
    with pytest.raises(InputError, match=r"has no question in 'xx': its questions are in de, en"):
        read_questions(file, "xx")


def test_questions_that_do_not_say_their_language(tmp_path: Path) -> None:
    file = tmp_path / "own.json"
    file.write_text(json.dumps([{"id": 7, "question": "Wer?", "answers": ["x"]}]))
    with pytest.raises(InputError, match="its questions do not say their language, so leave out --language"):
        read_questions(file, "de")
