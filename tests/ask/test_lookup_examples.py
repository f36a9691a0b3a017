"""Example questions: they are about facts that the index has, and differ from each other."""

from collections.abc import Iterator

import pytest
from support.ingest.tiny import ingest_tiny

import refactx
from refactx.ask.examples import Examples
from refactx.ingest import Selection
from refactx.walks import TreeFacts

FACTS = [f"<n{n}> <p{n % 3}> <o{m}>" for n in range(6) for m in range(1 + n % 2)]
FACTS += ["<n0> <description> <o1>", "<n1> <instance of> <o2>", "<many> <p0> <x>"]
FACTS += [f"<many> <p1> <o{n}>" for n in range(9)]


@pytest.fixture(scope="module")
def examples(module_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Examples]:
    file = tmp_path_factory.mktemp("facts") / "facts.txt"
    file.write_text("".join(f"{fact} .\n" for fact in FACTS))
    ingest_tiny(module_url, file)
    with refactx.open_index(db=module_url) as index:
        yield Examples(index, TreeFacts(index))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("limit", [1, 2, 3, 20])
def test_each_is_about_few_facts_of_another_subject_and_property(examples: Examples, seed: int, limit: int) -> None:
    found = examples.some(limit, seed)
    asked = [(one.subject, one.predicate) for one in found]
    facts = [[fact for fact in FACTS if fact.startswith(f"<{s}> <{p}> <")] for s, p in asked]
    assert all(1 <= len(of_one) <= 3 for of_one in facts)
    assert not {predicate for _, predicate in asked} & {"description", "instance of"}
    assert len({s for s, _ in asked}) == len({p for _, p in asked}) == len(asked) == min(limit, 3)
    for one, of_one in zip(found, facts, strict=True):
        what = f"is the {one.predicate}" if len(of_one) == 1 else f"are the {one.predicate}s"
        assert one.question == f"What {what} of {one.subject}?"


def test_a_seed_chooses_the_same_and_others_do_not(examples: Examples) -> None:
    assert examples.some(3, 1) == examples.some(3, 1)
    assert len({tuple(examples.some(3, seed)) for seed in range(8)}) > 1


def test_names_in_another_language_have_no_english_questions(
    module_url: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("facts") / "fakten.txt"
    file.write_text("".join(f"{fact} .\n" for fact in FACTS))
    for number, languages in enumerate([("de",), ("mul", "fr"), ("en-gb", "mul"), ("mul", "en")]):
        ingest_tiny(module_url, file, f"names{number}", selection=Selection(languages=languages))
        with refactx.open_index(f"names{number}", module_url) as index:
            assert bool(Examples(index, TreeFacts(index)).some(3)) == ("de" not in languages and "fr" not in languages)
