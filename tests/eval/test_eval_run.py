"""A run that is stopped and gone on with; the judge; why answers fail; the report; the generation-time experiment."""

import json
import re
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from conftest import run_refactx
from support.tiny_model import tiny_index, tiny_model, tiny_tokenizer
from transformers import PreTrainedTokenizerFast

from refactx.asking.answer import Answer
from refactx.asking.options import Generation
from refactx.asking.prompt import Prompt
from refactx.errors import InputError, ModelError
from refactx.eval.answers import Gold
from refactx.eval.evaluation import Options, evaluate, write_reports
from refactx.eval.judge import Case, judge_all, load_judge_prompt, remote_judge
from refactx.eval.log import AnswerLog
from refactx.eval.questions import Question, chosen, keyed
from refactx.eval.results import Result, result
from refactx.eval.run import Ask, ask_all, missing, open_run, read_answers
from refactx.eval.throughput import TriggerForcer, throughput, write_throughput
from refactx.postgres.database import Database
from refactx.tokenizer import FactTokenizer


def questions(n: int) -> list[Question]:
    return keyed([Question(f"q{i}", "set", f"Question {i}?", (Gold("Bern"),), kind="single") for i in range(n)])


def answer(question: str, said: str = "Bern") -> Answer:
    return Answer(question, said, f"So.\nAnswer: {said}", (), (), 10, 10, 0.5)


def one_by_one(ask: Callable[[str], Answer]) -> Ask:
    """As `Asker.ask_all`: a question that cannot be asked has its error in place of an answer."""

    def answers(questions: Sequence[str]) -> Iterator[Answer | InputError]:
        for question in questions:
            try:
                yield ask(question)
            except InputError as error:
                yield error

    return answers


def test_a_run_stopped_between_questions_goes_on_where_it_was(tmp_path: Path) -> None:
    asked: list[str] = []

    def ask(question: str) -> Answer:
        if len(asked) == 3:
            raise KeyboardInterrupt
        asked.append(question)
        return answer(question)

    five = questions(5)
    with pytest.raises(KeyboardInterrupt):
        ask_all(tmp_path, five, {"grounded": one_by_one(ask), "free": one_by_one(ask)})
    assert asked == ["Question 0?", "Question 0?", "Question 1?"], "both ways, one behind the other"
    assert missing(tmp_path, five, ("grounded", "free")) == 7
    with (tmp_path / "answers.jsonl").open("a") as file:
        file.write('{"key": "q2", "answer": {"ques')  # killed within a line
    again: list[str] = []
    for way in ("grounded", "free"):
        ask_all(tmp_path, five, {way: one_by_one(lambda question: again.append(question) or answer(question))})
    assert again == [f"Question {i}?" for i in (2, 3, 4, 1, 2, 3, 4)]
    assert [record["answer"]["answer"] for record in read_answers(tmp_path, five, "grounded")] == ["Bern"] * 5
    assert len((tmp_path / "answers.jsonl").read_text().splitlines()) == 5


def test_a_question_that_cannot_be_asked_is_recorded_and_the_run_goes_on(tmp_path: Path) -> None:
    def ask(question: str) -> Answer:
        if question == "Question 0?":
            raise InputError("too long")
        return answer(question)

    ask_all(tmp_path, questions(2), {"grounded": one_by_one(ask)})
    assert [record.get("error") for record in read_answers(tmp_path, questions(2), "grounded")] == ["too long", None]


def test_text_with_line_ends_of_all_kinds_is_one_line(tmp_path: Path) -> None:
    with AnswerLog(tmp_path / "a.jsonl") as log:
        log.add("k", {"text": "a\nb\u2028c\x85d"})
    with AnswerLog(tmp_path / "a.jsonl") as log:
        assert log.records["k"]["text"] == "a\nb\u2028c\x85d"


def test_a_file_of_answers_has_one_writer_and_whole_lines(tmp_path: Path) -> None:
    with AnswerLog(tmp_path / "a.jsonl"), pytest.raises(InputError, match="being written by another run"):
        AnswerLog(tmp_path / "a.jsonl")
    (tmp_path / "a.jsonl").write_text('{"key": "a"}\nnonsense\n{"key": "b"}\n')
    with pytest.raises(InputError, match="line 2 is no record"):
        AnswerLog(tmp_path / "a.jsonl")
    with pytest.raises(InputError, match="cannot write"):
        AnswerLog(tmp_path / "none" / "a.jsonl")


def test_other_options_than_those_recorded_are_refused(tmp_path: Path) -> None:
    open_run(tmp_path / "run", {"model": "a", "limit": 2})
    open_run(tmp_path / "run", {"model": "a", "limit": 2})
    with pytest.raises(InputError, match="limit 2, now 3"):
        open_run(tmp_path / "run", {"model": "a", "limit": 3})
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "answers.jsonl").touch()
    with pytest.raises(InputError, match=r"answers.jsonl but no run.json"):
        open_run(tmp_path / "old", {})
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot use the folder"):
        open_run(tmp_path / "file", {})


class Judge(BaseHTTPRequestHandler):
    """An OpenAI-compatible server: right if the answer's line has `Bern`. Fails once with 503 before it answers."""

    seen: list[dict[str, Any]]
    keys: set[str | None]

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.keys.add(self.headers["Authorization"])  # type: ignore[attr-defined]
        self.server.seen.append(request)  # type: ignore[attr-defined]
        if self.path != "/v1/chat/completions" or request["model"] == "nope":
            return self.say(404, {"error": {"message": "no such model"}})
        if len(self.server.seen) == 1:  # type: ignore[attr-defined]
            return self.say(503, {"error": {"message": "busy"}})
        said = request["messages"][-1]["content"].partition("\nAnswer: ")[2]
        reply = "It is hard to say." if "Zug" in said else "RIGHT" if "Bern" in said else "wrong."
        message = {"role": "assistant", "content": reply}
        return self.say(
            200,
            {
                "id": "1",
                "object": "chat.completion",
                "created": 0,
                "model": "judge",
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            },
        )

    def say(self, status: int, document: Any) -> None:
        content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Retry-After-Ms", "1")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Silent."""


@pytest.fixture
def server() -> Iterator[Any]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Judge) as running:
        running.seen, running.keys = [], set()  # type: ignore[attr-defined]
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def test_a_judge_behind_a_url(server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFACTX_JUDGE_KEY", "secret")
    monkeypatch.setenv("OPENAI_API_KEY", "another server's")
    url = f"http://127.0.0.1:{server.server_port}/v1"
    cases = [Case(str(n), "Capital?", ("Bern", "Berne"), said) for n, said in enumerate(["Bern", "Basel $gold", "Zug"])]
    prompt = load_judge_prompt()
    found = judge_all(tmp_path, cases, "m", prompt, lambda: remote_judge("m", url))
    assert found == {"0": True, "1": False, "2": None}, "the third reply is no verdict"
    assert len(server.seen) == 4, "one was tried again"
    assert server.keys == {"Bearer secret"}
    message = server.seen[-2]["messages"][-1]["content"]
    assert "Reference answers: Bern; Berne\n" in message
    assert "Answer: Basel $gold\n" in message, "an answer is data"
    judge_all(tmp_path, [*cases, Case("3", "Q", ("a",), "Bern")], "m", prompt, lambda: remote_judge("m", url))
    assert len(server.seen) == 5, "verdicts are kept"
    with pytest.raises(InputError, match="verdicts of another judge"):
        judge_all(tmp_path, cases, "other", prompt, lambda: remote_judge("other", url))


def test_a_judge_that_cannot_be_used_is_told_without_the_key(server: Any) -> None:
    with pytest.raises(InputError, match="not the address of a server"):
        remote_judge("m", "localhost:8000")
    asked = Prompt("Judge.")
    with pytest.raises(ModelError, match=r"refused the request for model 'nope': .*no such model"):
        remote_judge("nope", f"http://user:secret@127.0.0.1:{server.server_port}/v1")(asked, "Q")
    with socket.socket() as closed:  # a port that nobody listens on
        closed.bind(("127.0.0.1", 0))
        url = f"http://user:secret@127.0.0.1:{closed.getsockname()[1]}/v1"
        with pytest.raises(ModelError, match="cannot be reached") as told:
            remote_judge("m", url, retries=0)(asked, "Q")
    assert "secret" not in str(told.value)


def test_a_judges_prompt_that_is_none_is_told(tmp_path: Path) -> None:
    for content in ("system = 1", "system = 'a'\nuser = '$who'\nright = 'R'\nwrong = 'W'", "[", "system = 'a'"):
        (tmp_path / "p.toml").write_text(content)
        with pytest.raises(InputError, match="no prompt of a judge"):
            load_judge_prompt(tmp_path / "p.toml")


def fact(subject: str, predicate: str, said: str, object_id: str | None = None) -> dict[str, Any]:
    object_ = {"label": said, "id": object_id, "url": None} if object_id else {"literal": said}
    part = {
        "subject": {"label": "S", "id": subject, "url": None},
        "predicate": {"label": "p", "id": predicate, "url": None},
    }
    return {"text": f"<S> <p> <{said}> .", **part, "object": object_, "inverse": False}


GOLD = Question(
    "1", "set", "Q?", (Gold("Bern"), Gold("Zug")), "single", ("Q70",), "SELECT ?x WHERE { wd:Q39 wdt:P36 ?x }", "1"
)


def judged(
    said: str, facts: list[dict[str, Any]], tokens: int = 10, grounded: bool = True, text: str | None = None
) -> Result:
    written = text if text is not None else f"So.\nAnswer: {said}"
    record = {
        "answer": {
            "answer": said,
            "text": written,
            "facts": facts,
            "tokens": tokens,
            "forward_passes": 5,
            "seconds": 1.0,
            "finish_reason": "length" if tokens == 100 else "stop",
        }
    }
    return result(GOLD, record, grounded=grounded, unknown="I don't know.")


@pytest.mark.parametrize(
    ("said", "facts", "reason"),
    [
        ("Bern and Zug", [], None),
        ("Bern", [], "list incomplete"),
        ("Bern, Zug, Basel", [], "more than asked"),
        ("It is Bern", [], "more than asked"),
        ("I don't know.", [fact("Q39", "P36", "Bern")], "I don't know"),
        ("", [], "no final answer"),
        ("Basel", [], "no fact"),
        ("Basel", [fact("Q39", "P36", "Bern")], "fact not used"),
        ("Basel", [fact("Q39", "P36", "Berna", "Q70")], "fact not used"),
        ("Basel", [fact("Q40", "P36", "Wien")], "wrong subject"),
        ("Basel", [fact("Q40", "P36", "Wien"), fact("Q39", "P6", "x")], "wrong predicate"),
        ("Basel", [fact("Q39", "P36", "Basel")], "wrong object"),
    ],
)
def test_why_an_answer_fails(said: str, facts: list[dict[str, Any]], reason: str | None) -> None:
    assert judged(said, facts).reason == reason


def test_what_is_cut_off_is_not_given_unless_the_answer_was_whole_before() -> None:
    cut = judged("Bern", [], tokens=100)
    assert (cut.outcome, cut.reason, cut.score.hit) == ("cut off", "cut off", False)
    assert judged("", [], tokens=100).outcome == "cut off"
    whole = judged("Bern", [], tokens=100, text="Answer: Bern\nAnd I go on and on")
    assert (whole.outcome, whole.score.hit) == ("given", True)
    assert judged("Basel", [], grounded=False).reason == "wrong answer"


def test_a_question_that_was_not_asked_counts_as_wrong() -> None:
    failed = result(GOLD, {"error": "too long"}, grounded=True, unknown="")
    assert (failed.outcome, failed.reason, failed.given) == ("failed", "not asked", False)


SETTINGS = {
    "questions": "q.jsonl", "model": "m<b>", "index": "i", "split": "all", "kinds": [], "limit": None, "num_beams": 1,
    "temperature": 0.0, "max_new_tokens": 100,
}  # fmt: skip
HOSTILE = "x</pre><script>alert(1)</script>\"'|`*\x1b[31m"


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str, str]:
    facts = [fact("Q39", "P36", "Bern"), fact("Q40", "P36", "Wien")]
    facts[1]["object"] = {"label": "Wien", "id": "Q1741", "url": "javascript:alert(1)"}
    facts[1]["subject"] |= {"url": "https://www.wikidata.org/wiki/Q40"}
    text = f"{HOSTILE}\nFact: {facts[0]['text']}\nFact: {facts[1]['text']}\nAnswer: {HOSTILE}"
    grounded = [
        judged("Bern, Zug", []),
        judged("Bern", []),
        judged(HOSTILE, facts, text=text),
        judged("", [], tokens=100),
    ]
    free = [judged("Bern", [], grounded=False), *(judged("Basel", [], grounded=False) for _ in range(3))]
    folder = tmp_path_factory.mktemp("report")
    document = write_reports(folder, SETTINGS, {"grounded": grounded, "free": free}, None)
    assert json.loads((folder / "report.json").read_text()) == json.loads(json.dumps(document))
    return document, (folder / "report.md").read_text(), (folder / "report.html").read_text()


def test_the_figures_of_a_report(reported: tuple[dict[str, Any], str, str]) -> None:
    document, _, _ = reported
    overall = document["runs"]["grounded"]["overall"]
    assert (overall["accuracy"]["value"], overall["accuracy"]["of"]) == (0.5, 4)
    assert (overall["precision"]["value"], overall["precision"]["of"]) == (0.6667, 3)
    assert overall["exact_accuracy"]["value"] == 0.25
    assert overall["f1"]["value"] == round((1 + 2 / 3) / 4, 4)
    assert overall["facts"]["value"] == 0.5
    assert overall["judge_accuracy"] is None
    assert document["runs"]["free"]["overall"]["accuracy"]["value"] == 0.25
    assert document["comparison"]["gain"]["accuracy"]["value"] == 0.25
    assert (document["comparison"]["only_grounded"], document["comparison"]["only_free"]) == (1, 0)
    failures = {f["reason"]: f["count"] for f in document["runs"]["grounded"]["failures"]}
    assert failures == {"cut off": 1, "list incomplete": 1, "fact not used": 1}
    assert set(document["runs"]["grounded"]["by_kind"]) == {"single"}
    assert len(document["results"]) == 8


class Page(HTMLParser):
    """Tags, addresses and marked texts of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.marked: list[str] = []
        self.shown = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("href", "src", "xlink:href")]
        if tag == "mark":
            self.marked.append("")

    def handle_data(self, data: str) -> None:
        self.shown += data
        if self.tags[-1:] == ["mark"] and not self.marked[-1]:
            self.marked[-1] = data


def test_the_page_needs_nothing_else_and_holds_no_script(reported: tuple[dict[str, Any], str, str]) -> None:
    page = Page(reported[2])
    assert "script" not in page.tags
    assert "b" in page.tags
    assert page.tags.count("svg") == 5
    outside = [address for address in page.addresses if not address.startswith("#")]
    assert outside == ["https://www.wikidata.org/wiki/Q40"]
    assert "\x1b" not in reported[2]
    assert "m<b> on q.jsonl" in page.shown
    assert "</pre><script>alert(1)</script>" in page.shown, "shown as text"
    assert page.marked == ["<S> <p> <Bern> .", "<S> <p> <Wien> ."]


def test_the_plots_take_their_colours_from_the_page(reported: tuple[dict[str, Any], str, str]) -> None:
    plots = re.findall(r"<svg.*?</svg>", reported[2], flags=re.DOTALL)
    for plot in plots:
        ElementTree.fromstring(plot)
        assert not re.findall(r"#[0-9a-f]{6}\b", plot), "no colour of its own"
    assert any("var(--grounded)" in plot and "var(--free)" in plot for plot in plots)


def test_markdown_has_no_markup_of_the_models(reported: tuple[dict[str, Any], str, str]) -> None:
    markdown = reported[1]
    assert "| Accuracy | 0.50 (0.15 to 0.85) | 0.25 (0.05 to 0.70) |" in markdown
    for line in markdown.splitlines():
        assert "<script>" not in line or line.startswith("    ")
    assert r"\|\`\*" in markdown


TINY_FACTS = ["<Ann> <p> <b>", "<Ann> <p> <c>", "<Bé> <p> <in>"]


def test_throughput_is_constrained_all_the_way(tmp_path: Path) -> None:
    facts = [f"<Ann> <p> <{chr(97 + i)}{chr(97 + j)}>" for i in range(8) for j in range(8)]
    timed = throughput(tiny_model(), tiny_tokenizer(), tiny_index(facts), 200)
    assert timed["grounded"].tokens == timed["free"].tokens == 200
    assert timed["grounded"].facts > 8, "a fact has some twelve tokens, a forced trigger two"
    assert timed["free"].forward_passes == 200
    assert timed["grounded"].points[-1][0] == 200
    seconds = [at for _, at in timed["grounded"].points]
    assert seconds == sorted(seconds)
    document = write_throughput(tmp_path / "t", {"model": "tiny", "index": "i"}, timed)
    assert document["runs"]["grounded"]["facts"] == timed["grounded"].facts
    ElementTree.parse(tmp_path / "t" / "throughput.svg")
    with pytest.raises(InputError, match="give --tokens"):
        throughput(tiny_model(), tiny_tokenizer(), tiny_index(facts), 5000)


def test_the_trigger_is_forced_behind_a_fact_and_nowhere_else() -> None:
    tokenizer = tiny_tokenizer()
    forcer = TriggerForcer(tokenizer, "Fact:")
    trigger = tokenizer.encode("\nFact:", add_special_tokens=False)
    done = tokenizer.encode("Fact: <Ann> <p> <b> .", add_special_tokens=False)
    assert forcer.forced(done[:-1]) is None
    for written in range(len(trigger)):
        assert forcer.forced([*done, *trigger[:written]]) == trigger[written]
    assert forcer.forced([*done, *trigger]) is None


@pytest.fixture
def tiny_folder(tmp_path: Path) -> Path:
    """The tiny model with a chat template that ends in the question, so that `Fact:` begins a fact."""
    folder = tmp_path / "tiny"
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=tiny_tokenizer().backend_tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )
    tokenizer.chat_template = "{{ messages[-1]['content'] + ' ' }}"
    tokenizer.save_pretrained(folder)
    tiny_model().save_pretrained(folder)
    return folder


def test_the_whole_command(db_url: str, tmp_path: Path, tiny_folder: Path) -> None:
    from refactx.ingest.new_index import Options as IngestOptions
    from refactx.ingest.new_index import ingest

    facts, file, out = tmp_path / "facts.txt", tmp_path / "q.jsonl", tmp_path / "out"
    facts.write_text("".join(f"{text} .\n" for text in TINY_FACTS))
    made = [{"id": f"q{i}", "question": "Fact:", "answers": ["b"], "kind": "single"} for i in range(3)]
    file.write_text("".join(json.dumps(record) + "\n" for record in made))
    database = Database(db_url)
    try:
        tokenizer = FactTokenizer.from_file(tiny_folder / "tokenizer.json")
        ingest([facts], database, tmp_path / "work", IngestOptions("default", tokenizer, "tiny"))
    finally:
        database.close()
    options = Options(
        file, str(tiny_folder), db=db_url, free=True, generation=Generation(max_new_tokens=20), limit=2, out=out
    )
    document = evaluate(options)
    assert document["questions"] == 2
    assert document["runs"]["grounded"]["overall"]["facts"]["value"] > 0
    assert document["runs"]["free"]["overall"]["tokens"]["value"] == 20
    lines = (out / "answers.jsonl").read_text()
    assert [json.loads(line)["key"] for line in lines.splitlines()] == [
        q.key for q in chosen(keyed(questions(3)), limit=2)
    ]
    again = run_refactx(
        "eval", file, "--model", tiny_folder, "--db", "postgresql://nobody@127.0.0.1:1/none", "--free",
        "--max-new-tokens", 20, "--limit", 2, "--out", out, "--json",
    )  # fmt: skip
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout) == json.loads((out / "report.json").read_text()), (
        "all is there: no database, no model"
    )
    assert (out / "answers.jsonl").read_text() == lines
    with pytest.raises(InputError, match="limit 2, now 3"):
        evaluate(replace(options, limit=3))


def test_a_judges_url_without_its_model_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="give its model's name with --judge"):
        evaluate(Options(tmp_path / "q.jsonl", "m", judge_url="http://127.0.0.1:1/v1"))
