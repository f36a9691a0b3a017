"""Groups, sums, averages, differences and tables are candidates where the question's words ask for them, and only there."""

from functools import partial

import pytest
from support.query.world import FakeScore, WorldIndex, overlap, result_of

from refactx.ask.prompt import load_prompt
from refactx.engines.engine import TreeReading
from refactx.ranking.encoders import WordEncoder
from refactx.ranking.ranker import Ranker
from refactx.selection.mentions import QueryWords, widest_names
from refactx.selection.queries import QuerySearch
from refactx.selection.query_lines import LineScores
from refactx.selection.tables import TableSearch
from refactx.selection.weights import Weights
from refactx.walks.answered import answer_query
from refactx.walks.sets import WalkLimits

TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
STAFF = {  # department, city, salary, team
    "Ann": ("Sales", "Graz", "50", "Red Team"),
    "Bo": ("Sales", "Linz", "70", "Red Team"),
    "Cy": ("Finance", "Graz", "30", "Blue Team"),
}
FACTS = {
    *((name, "row of", "employees") for name in STAFF),
    *((name, "row of", "teams") for name in ("Red Team", "Blue Team")),
    *((name, "row of", "goods") for name in ("Chai", "Tofu")),
    *((name, "department", one[0]) for name, one in STAFF.items()),
    *((name, "city", one[1]) for name, one in STAFF.items()),
    *((name, "salary", one[2]) for name, one in STAFF.items()),
    *((name, "member of", one[3]) for name, one in STAFF.items()),
    *(("Chai", "price", "18"), ("Tofu", "price", "20"), ("Chai", "total weight", "3"), ("Tofu", "total weight", "4")),
}
PROPERTIES = {
    "row of": (TYPE, "entity", "has row"),
    "department": ("P1", "text", ""),
    "city": ("P2", "text", ""),
    "salary": ("P3", "quantity", ""),
    "member of": ("P4", "entity", "has member"),
    "price": ("P5", "quantity", ""),
    "total weight": ("P6", "quantity", ""),
}
ROWS = "<employees> <has row>"


def search_of(question: str, words: QueryWords, index: WorldIndex) -> QuerySearch:
    ranker, weights = Ranker(WordEncoder()), Weights()
    return QuerySearch(
        facts=index.facts,
        words=words,
        question=question,
        mentions=index.mentions(question, words),
        scores=LineScores(index.tokenizer, FakeScore(index.tokenizer, overlap(question)), TreeReading.ROWS, "Query:"),
        widest=partial(widest_names, index.machine),
        nearness=lambda names, called: weights.meaning * ranker.nearness(question, names),
    )


def likeliest(question: str) -> tuple[str, str]:
    """The line of the likeliest table, group or sum, and its answer; two empty texts if there is none."""
    words = load_prompt("domain").words
    assert words is not None
    index = WorldIndex(FACTS, PROPERTIES)  # type: ignore[arg-type]
    search = search_of(question, words.of_question(question), index)
    found = result_of(TableSearch(search, index.facts, WalkLimits()).candidates())
    return (found[0].line, answer_query(found[0].query, index.facts).answer) if found else ("", "")


@pytest.mark.parametrize(
    ("question", "line", "answer"),
    [
        (
            "What is the average salary per department?",
            f"average {ROWS} by <salary> per <department>",
            "Finance: 30; Sales: 60",
        ),
        ("How many employees has each city?", f"count {ROWS} per <city>", "Graz: 2; Linz: 1"),
        (
            "How many employees in Graz or Linz has each team?",
            f"count {ROWS} which <city> <Graz> or <Linz> per <member of>",
            None,
        ),
        ("number of employees by department", f"count {ROWS} per <department>", "Finance: 1; Sales: 2"),
        ("How many employees has every team?", f"count {ROWS} per <member of>", "Blue Team: 1; Red Team: 2"),
        ("departments with more than one employee", f"count {ROWS} per <department> over <1>", "Sales: 2"),
        ("departments with at least two employees", f"count {ROWS} per <department> from <2>", "Sales: 2"),
        (
            "cities with an average salary of at most 50",
            f"average {ROWS} by <salary> per <city> up to <50>",
            "Graz: 40",
        ),
        ("Which department has the most employees?", f"count {ROWS} per <department> most 1", "Sales: 2"),
        (
            "Which city has the lowest average salary?",
            f"average {ROWS} by <salary> per <city> least 1",
            "Graz: 40",
        ),
        ("cities with a total salary over 75", f"sum {ROWS} by <salary> per <city> over <75>", "Graz: 80"),
        ("the total salary of all employees", f"sum {ROWS} by <salary>", "150"),
        (
            "the sum of the salary of the employees with the department Sales and the city Graz",
            f"sum {ROWS} which <city> <Graz> which <department> <Sales> by <salary>",
            "50",
        ),
        (
            "the highest salary in each department",
            f"most {ROWS} by <salary> per <department>",
            "Finance: Cy, 30; Sales: Bo, 70",
        ),
        (
            "List the employees with their city and salary",
            f"list {ROWS} show <city> <salary>",
            "Bo: Linz, 70; Cy: Graz, 30; Ann: Graz, 50",
        ),
        (
            "What is the difference between the salary of Cy and of Bo?",
            "difference <Bo> <salary> and <Cy> <salary>",
            "40",
        ),
        ("How much more salary has Cy than Bo?", "difference <Cy> <salary> and <Bo> <salary>", "-40"),
        (
            "Wie hoch ist das durchschnittliche salary pro department?",
            f"average {ROWS} by <salary> per <department>",
            None,
        ),
        ("Quel est le salary moyen par department ?", f"average {ROWS} by <salary> per <department>", None),
        ("¿Cuál es el salary medio por department?", f"average {ROWS} by <salary> per <department>", None),
    ],
)
def test_words_ask_for_groups_sums_and_tables(question: str, line: str, answer: str | None) -> None:
    found, answered = likeliest(question)
    assert found == line
    assert answer is None or answered == answer


@pytest.mark.parametrize(
    "question",
    [
        "What is the salary of Ann?",
        "How many employees are there?",
        "Which employee has the highest salary?",
        "Who is managed by Ann?",
        "Which department has the most expensive employees?",
        "What is the total weight of Chai?",
        "In which city is the department of Ann?",
    ],
)
def test_other_questions_have_none(question: str) -> None:
    assert likeliest(question) == ("", "")


def test_words_of_names_ask_for_no_sum() -> None:
    words = QueryWords(tables={"sum": ["total"], "per": ["per"]})
    assert words.tables_of("total weight per box", [(0, 12)]) == {"per": [16]}


def test_numbers_in_words() -> None:
    words = load_prompt().words
    assert words is not None
    assert words.number_words_of("between two and Five") == ["2", "5"]
    assert words.of_question("?", "fr").number_words_of("plus de trois") == ["3"]
