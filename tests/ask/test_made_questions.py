"""Questions made of an index: each is answered by its facts, kinds and predicates come in turns, and runs repeat."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.command import complains, run_refactx

import refactx
from refactx.ask.teach.lessons import Taught, Teacher, TrainingOptions
from refactx.ask.teach.made_questions import KINDS, MadeQuestion, make_questions, part_of, rephrased
from refactx.eval.questions import read_questions
from refactx.fact import split_fact
from refactx.models.loading import load_chat_tokenizer
from refactx.walks.language import read_line

PEOPLE = [("Ann Lee", 34, "Acme"), ("Bo Berg", 51, "Acme"), ("Cy Roe", 28, "Zeta"), ("Di Fox", 45, "Zeta")]
GRAPH = """@prefix : <http://example.org/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
:Acme rdfs:label "Acme" ; a :Company ; :hasProduct :K7 , :K8 ; :country :Austria .
:Zeta rdfs:label "Zeta" ; a :Company ; :country :Peru ; :motto "to the last" .
:K7 rdfs:label "K7 gripper" . :K8 rdfs:label "K8 arm" . :Austria rdfs:label "Austria" . :Peru rdfs:label "Peru" .
""" + "".join(
    f':P{n} rdfs:label "{name}" ; a :Person ; :age {age} ; :employer :{employer} .\n'
    for n, (name, age, employer) in enumerate(PEOPLE)
)
MOST = 200


@pytest.fixture(scope="module")
def url(module_url: str, smollm2_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("graph") / "graph.ttl"
    file.write_text(GRAPH)
    done = run_refactx("ingest", file, "--inverse", "--tokenizer", smollm2_folder, "--db", module_url)
    assert done.returncode == 0, done.stderr
    return module_url


@pytest.fixture(scope="module")
def made(url: str) -> list[MadeQuestion]:
    with refactx.open_index(db=url) as index:
        found = list(make_questions(index, MOST, aside=0.4))
        assert found == list(make_questions(index, MOST, aside=0.4))
        other = [one.question for one in make_questions(index, 9, seed=1)]
        assert other != [one.question for one in found[:9]]
    return found


def answers_by_hand(walk: str, facts: set[tuple[str, str, str]]) -> list[str]:
    """The answer of a walk, by scans of all facts."""
    query = read_line(walk)
    if query.head == "ask":
        [one] = query.which
        [hop] = one.hops
        values = [o for s, p, o in facts if (s, p) == (query.start, hop.predicate)]
        holds = any(float(o) > float(one.value) for o in values) if one.operator == "over" else one.value in values
        return ["yes" if holds else "no"]
    found = {query.start}
    for hop in query.hops:
        found = {o for s, p, o in facts if s in found and p == hop.predicate}
    if query.head == "count":
        return [str(len(found))]
    if query.by is not None:
        values = {s: float(o) for s, p, o in facts if s in found and p == query.by.predicate}
        return [max(values, key=lambda name: values[name])]
    return sorted(found)


def test_answers_are_those_of_the_facts(url: str, made: list[MadeQuestion]) -> None:
    with refactx.open_index(db=url) as index:
        facts = {(fact.subject, fact.predicate, fact.object) for fact in index.all_facts()}
    assert {one.kind for one in made} == set(KINDS) - {"at", "since"}
    for one in made:
        assert set(one.facts) <= {f"<{s}> <{p}> <{o}>" for s, p, o in facts}
        if one.kind == "unanswerable":
            assert not [fact for fact in facts if fact[:2] == (one.subject, one.predicates[0])]
            assert (one.answers, one.walk) == ((), "")
        else:
            assert sorted(one.answers) == answers_by_hand(one.walk, facts), one
            assert one.facts or one.answers in (("no",), ("0",))


@pytest.mark.parametrize(
    ("kind", "question", "answers"),
    [
        ("single", "What is the age of Ann Lee?", {"34"}),
        ("multi", "Which products does Acme have?", {"K7 gripper", "K8 arm"}),
        ("multi", "What is the country of the employer of Cy Roe?", {"Peru"}),
        ("count", "How many products does Acme have?", {"2"}),
        ("superlative", "Which person has the highest age?", {"Bo Berg"}),
        ("unanswerable", "What is the motto of Acme?", set()),
    ],
)
def test_they_are_phrased_as_people_ask(made: list[MadeQuestion], kind: str, question: str, answers: set[str]) -> None:
    assert [(one.kind, set(one.answers)) for one in made if one.question == question] == [(kind, answers)]


def test_statements_are_asked_for_with_their_times(module_url: str, smollm2_folder: Path, tmp_path: Path) -> None:
    held = {"Ann Lee": ("1986", "1990"), "Bo Berg": ("1990", "1994"), "Cy Roe": ("1994", "2001")}
    facts = {name: f"<Graz> <mayor> <{name}> <start time> <{a}> <end time> <{b}>" for name, (a, b) in held.items()}
    file = tmp_path / "mayors.txt"
    file.write_text("".join(f"<Graz> <mayor> <{name}> .\n{fact} .\n" for name, fact in facts.items()))
    done = run_refactx("ingest", file, "--tokenizer", smollm2_folder, "--db", module_url, "--index", "mayors")
    assert done.returncode == 0, done.stderr
    with refactx.open_index("mayors", db=module_url) as index:
        made = list(make_questions(index, 40, kinds=["at", "since"]))
        asked = {one.question: one for one in made}
        for name, (start, _) in held.items():
            since = asked[f"Since when was {name} the mayor of Graz?"]
            assert (since.answers, since.facts) == ((start,), (facts[name],))
            at = asked[f"Who was the mayor of Graz in {start}?"]
            assert set(at.answers) == {one for one, (a, b) in held.items() if a <= start <= b}
            assert set(at.facts) == {facts[one] for one in at.answers}
        tokenizer = load_chat_tokenizer(str(smollm2_folder))
        options = TrainingOptions(max_length=4000)
        teacher = Teacher(index, refactx.load_prompt("taught"), tokenizer, end=tokenizer.eos_token_id, options=options)
        for one in made:
            known = Taught(line=1, question=one.question, answers=one.answers, facts=one.facts, walk=one.walk)
            text = index.tokenizer.decode(teacher.lesson(known).ids)
            whole = (
                f"Query: {one.walk} .\n" if len(one.facts) > 1 else ""
            )  # a longer list is a query after its first fact
            assert text.rstrip().endswith(f"Fact: {one.facts[0]} .\n{whole}Answer: {'; '.join(one.answers)}")


def test_parts_keep_subjects_and_predicates_aside(made: list[MadeQuestion]) -> None:
    assert {one.part for one in made} == {"train", "subjects", "predicates"}
    for one in made:
        assert one.part == part_of(one.subject, one.predicates, 0.4)
    aside = {one.subject for one in made if one.part == "subjects"}
    assert not aside & {one.subject for one in made if one.part == "train"}


def test_yes_and_no_are_both_asked_for(made: list[MadeQuestion]) -> None:
    assert {one.answers for one in made if one.kind == "ask"} == {("yes",), ("no",)}


class _Choice:
    def __init__(self, *lines: str) -> None:
        self.candidates = [type("Candidate", (), {"query": read_line(line)}) for line in lines]


@pytest.mark.parametrize(
    ("said", "read", "is_kept"),
    [
        ("How old is Ann Lee?", "list <Ann Lee> <age>", True),
        ("How old is Ann Lee?\nThat is it.", "list <Ann Lee> <age>", True),
        ("How old is Ann Lee?", "list <Ann Lee> <employer>", False),
        ("How old is she?", "list <Ann Lee> <age>", False),
        ("Ann Lee is 34.", "list <Ann Lee> <age>", False),
    ],
)
def test_other_words_are_kept_if_the_same_query_is_read_back(
    made: list[MadeQuestion], monkeypatch: pytest.MonkeyPatch, said: str, read: str, is_kept: bool
) -> None:
    class Said:
        def __init__(self, *_: Any) -> None: ...

        def ask(self, *_: Any, **__: Any) -> Any:
            return type("Answer", (), {"text": said})

        def query(self, text: str) -> _Choice:
            return _Choice(read)

    monkeypatch.setattr("refactx.ask.teach.made_questions.Asker", Said)
    one = next(one for one in made if one.question == "What is the age of Ann Lee?")
    [found] = rephrased(iter([one]), type("Model", (), {"tokenizer": None})(), None)  # type: ignore[arg-type]
    assert found.question == (said.partition("\n")[0] if is_kept else one.question)
    assert (found.rule, found.answers, found.walk) == (one.question, one.answers, one.walk)


def test_the_command_writes_what_eval_reads(url: str, tmp_path: Path) -> None:
    out = tmp_path / "made.jsonl"
    done = run_refactx("questions", "make", "--limit", 20, "--kinds", "single,ask", "--out", out, "--db", url)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert done.stderr.startswith("20 questions (")
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert {record["kind"] for record in records} == {"single", "ask"}
    assert [question.text for question in read_questions(out)] == [record["question"] for record in records]
    assert all(split_fact(fact) for record in records for fact in record["facts"])
    assert not list(tmp_path.glob("*.partial"))


def test_mistakes_are_one_line(url: str, tmp_path: Path) -> None:
    make = ("questions", "make", "--db", url)
    assert "no questions of kind chess" in complains(*make, "--kinds", "chess", "--out", tmp_path / "made.jsonl")
    assert not list(tmp_path.iterdir())
    assert "cannot write" in complains(*make, "--limit", 2, "--out", tmp_path / "none" / "made.jsonl")
