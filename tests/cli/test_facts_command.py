"""`refactx facts --all`: every fact of an index as text that an ingest reads again, and as JSON lines."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from support.command import complains, run_refactx
from support.ingest.statement_world import Amount, Moment, Statement, json_lines

REFACTX = str(Path(sys.executable).with_name("refactx"))
FACTS = [f"<Ann Lee> <child> <Bé {number}> ." for number in range(30)] + ["<Bo Li> <spouse> <Ann Lee> ."]


def run(*arguments: object) -> str:
    done = run_refactx(*arguments)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.mark.long
def test_the_text_of_an_index_can_be_ingested_again(db_url: str, smollm2_folder: Path, tmp_path: Path) -> None:
    def export(index: str) -> list[str]:
        return run("facts", "--all", "--index", index, "--db", db_url).splitlines()

    file, more, gone = (tmp_path / f"{name}.txt" for name in ("facts", "more", "gone"))
    file.write_text("".join(f"{fact}\n" for fact in FACTS))
    more.write_text("<Cy Roe> <occupation> <poet> .\n")
    gone.write_text(f"{FACTS[3]}\n")
    ingest = ("ingest", "--tokenizer", smollm2_folder, "--db", db_url)
    assert run_refactx(*ingest, file).returncode == 0
    first = export("default")
    assert sorted(first) == sorted(FACTS)
    assert run_refactx("ingest", more, "--append", "--db", db_url).returncode == 0
    assert run_refactx("forget", gone, "--db", db_url).returncode == 0
    changed = export("default")
    assert sorted(changed) == sorted([*FACTS[:3], *FACTS[4:], "<Cy Roe> <occupation> <poet> ."])
    again = tmp_path / "again.txt"
    again.write_text("".join(f"{fact}\n" for fact in changed))
    assert run_refactx(*ingest, again, "--index", "again").returncode == 0
    assert export("again") == changed, "in the same order"


@pytest.mark.long
def test_json_lines_have_the_ids_of_an_answer(sample_url: str) -> None:
    texts = run("facts", "--all", "--db", sample_url).splitlines()
    documents = [json.loads(line) for line in run("facts", "--all", "--json", "--db", sample_url).splitlines()]
    assert [document["text"] for document in documents] == texts
    (capital,) = [d for d in documents if d["text"].startswith("<Alaska (") and d["predicate"]["label"] == "capital"]
    assert capital["subject"]["id"] == "Q797"
    assert capital["predicate"] == {
        "label": "capital",
        "id": "P36",
        "url": "https://www.wikidata.org/wiki/Property:P36",
    }
    assert capital["inverse"] is False


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_closed_pipe_ends_it_without_an_error(sample_url: str, options: list[str]) -> None:
    command = [REFACTX, "facts", "--all", *options, "--db", sample_url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.readline()
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait(60) == 0


def test_prefix_and_all_exclude_each_other(sample_url: str) -> None:
    assert "PREFIX and --all were given" in complains("facts", "<", "--all", "--db", sample_url)
    assert "neither PREFIX nor --all nor --predicates was given" in complains("facts", "--db", sample_url)


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_full_disk_is_one_line(sample_url: str, options: list[str]) -> None:
    command = [sys.executable, "-m", "refactx", "facts", "--all", "--db", sample_url, *options]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "No space left on device" in line


@pytest.mark.long
def test_a_name_is_taken_as_people_write_it(sample_url: str) -> None:
    for written in ("alaska", "ALASKA", "<alaska> <"):
        done = run_refactx("facts", written, "--db", sample_url)
        assert "  <Alaska (state of the United States of America)> <language used>\n" in done.stdout
        assert f"<{written.strip('<> ')}> is taken as <Alaska (state of the United States of America)>" in done.stderr
    found = json.loads(run_refactx("facts", "alaska", "--json", "--db", sample_url).stdout)
    assert found["resolved"]["name"] == "Alaska (state of the United States of America)"


def test_a_name_that_means_nothing_has_names_like_it(sample_url: str) -> None:
    done = run_refactx("facts", "Alasca", "--db", sample_url)
    assert done.stdout == ""
    assert "did you mean <Alaska (state of the United States of America)>" in done.stderr


@pytest.mark.long
def test_the_predicates_have_their_numbers_of_facts_and_a_fact(sample_url: str) -> None:
    facts = [json.loads(line) for line in run("facts", "--all", "--json", "--db", sample_url).splitlines()]
    listed = json.loads(run("facts", "--predicates", "--json", "--db", sample_url))["predicates"]
    assert {one["label"]: one["facts"] for one in listed} == Counter(fact["predicate"]["label"] for fact in facts)
    assert [one["facts"] for one in listed] == sorted((one["facts"] for one in listed), reverse=True)
    assert {f"{one['example']} ." for one in listed} <= {fact["text"] for fact in facts}
    first = run("facts", "--predicates", "--limit", "1", "--db", sample_url)
    assert first.split()[:4] == ["facts", "predicate", "such", "as"]
    assert first.split()[4:] == [f"{listed[0]['facts']:,}", *listed[0]["label"].split(), *listed[0]["example"].split()]


def test_one_of_the_three_is_given(sample_url: str) -> None:
    assert "neither PREFIX nor --all nor --predicates was given" in complains("facts", "--db", sample_url)
    assert "--all and --predicates were given" in complains("facts", "--all", "--predicates", "--db", sample_url)


@pytest.mark.long
def test_the_statements_of_a_subject_are_below_its_facts(db_url: str, smollm2_folder: Path, tmp_path: Path) -> None:
    """From Wikidata's JSON to the facts of a subject with their qualifiers; without qualifiers, facts are plain."""
    start, end = ("P580", Moment(1990, 5, 3, 11, False)), ("P582", Moment(1994, 1, 1, 9, False))
    mayor = Statement("Q1", "P10", "Q2", "preferred", (end, start), 1)
    before = Statement("Q1", "P10", "Q3", "normal", (("P582", Moment(1990, 5, 1, 10, False)),), 2)
    height = Statement("Q1", "P11", Amount("+4478", "Q9"), "normal", (), 3)
    source = tmp_path / "latest-all.json"
    source.write_text("\n".join(json_lines([mayor, before, height])))
    ingest = ("ingest", source, "--tokenizer", smollm2_folder, "--db", db_url, "--no-store")
    report = run(*ingest)
    assert "4 facts (2 claims, 0 descriptions, 0 inverse, 2 with qualifiers)" in report
    assert run("facts", "springfield", "Mayor", "--db", db_url).splitlines() == [
        "<Springfield> <mayor> <Bob> <end time> <1990-05> .",
        "<Springfield> <mayor> <Ann Lee> .",
        "    <start time> <1990-05-03> <end time> <1994> .",
    ]
    first, *_ = json.loads(run("facts", "Springfield", "mayor", "--json", "--db", db_url))["facts"][2]["qualifiers"]
    assert (first["predicate"]["id"], first["value"]) == ("P580", {"literal": "1990-05-03"})
    assert run("facts", "<Springfield> <height> <", "--db", db_url).splitlines()[1].split(None, 1)[1] == (
        "<Springfield> <height> <4478 metre>"
    )
    run(*ingest, "--replace", "--qualifiers", "none")
    plain = run("facts", "--all", "--db", db_url).splitlines()
    assert sorted(plain) == ["<Springfield> <height> <4478> .", "<Springfield> <mayor> <Ann Lee> ."]
    error = complains(*ingest, "--replace", "--qualifiers", "when")
    assert "--qualifiers has 'when', which is no group of qualifiers" in error
