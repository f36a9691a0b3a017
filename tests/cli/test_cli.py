"""The command line as a user types it: the contract of its output, and one clear line for each mistake."""

import json
import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner
from support.command import complains, run_refactx

import refactx
from refactx.cli.main import cli
from refactx.errors import DatabaseError, InputError, without_password
from refactx.index.file import FILE_VERSION
from refactx.index.open import open_index
from refactx.tree.codes import FORMAT_VERSION

FACTS = """\
<Ann Lee> <date of birth> <1970-01-02> .
<Ann Lee> <occupation> <painter> .
<Ann Lee>   <occupation>\t<painter> .
<Ann Lee> <occupation> <potter> .
<Bo Li> <spouse> <Ann Lee> .
this is not a fact
"""


@pytest.fixture
def facts_file(tmp_path: Path) -> Path:
    file = tmp_path / "facts.txt"
    file.write_text(FACTS)
    return file


def test_version() -> None:
    formats = f"(index format {FORMAT_VERSION}, file format {FILE_VERSION})"
    assert run_refactx("--version").stdout == f"refactx, version {refactx.__version__} {formats}\n"


@pytest.mark.long
def test_ingest_prints_one_document_whose_totals_add_up(db_url: str, smollm2_folder: Path, facts_file: Path) -> None:
    done = run_refactx("ingest", facts_file, "--tokenizer", smollm2_folder, "--db", db_url, "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["index"] == "default"
    assert (report["facts"], report["claims"], report["descriptions"], report["derived"]) == (4, 4, 0, 0)
    assert report["lines_read"] == 6 == report["kept"] + sum(report["dropped"].values())
    assert report["dropped"] == {"duplicate": 1, "malformed": 1}
    assert "facts.txt:6" in report["malformed"][0]
    assert report["bytes"] > 0
    assert report["seconds"] > 0


@pytest.mark.long
def test_facts_shows_continuations_also_inside_a_token(db_url: str, smollm2_folder: Path, facts_file: Path) -> None:
    assert run_refactx("ingest", facts_file, "--tokenizer", smollm2_folder, "--db", db_url).returncode == 0

    def follow(prefix: str) -> list[tuple[str, int]]:
        done = run_refactx("facts", prefix, "--db", db_url, "--json")
        return [(entry["text"], entry["leaves"]) for entry in json.loads(done.stdout)["completions"]]

    assert follow("<") == [("<Ann Lee>", 3), ("<Bo Li>", 1)]
    assert follow("<An") == [("<Ann Lee>", 3)]
    assert follow("<Ann Lee> <") == [("<Ann Lee> <occupation>", 2), ("<Ann Lee> <date of birth>", 1)]
    assert follow("<Ann Lee>") == follow("<Ann Lee> <")
    assert follow("<Ann Lee> <occ") == [("<Ann Lee> <occupation>", 2)]
    assert sorted(follow("<Ann Lee> <occupation> <p")) == [
        ("<Ann Lee> <occupation> <painter>", 1),
        ("<Ann Lee> <occupation> <potter>", 1),
    ]
    assert follow("<Ann Lee> <occupation> <potter> .") == [("<Ann Lee> <occupation> <potter> .", 1)]
    assert follow("<Ann Lee> <occupation> <king> .") == []


@pytest.mark.long
def test_index_list_show_verify_drop(db_url: str, smollm2_folder: Path, facts_file: Path) -> None:
    ingest = ("ingest", facts_file, "--tokenizer", smollm2_folder, "--index", "people", "--db", db_url)
    assert run_refactx(*ingest).returncode == 0
    assert "index 'people' exists: give --replace" in complains(*ingest)
    assert run_refactx(*ingest, "--replace").returncode == 0
    listed = json.loads(run_refactx("index", "list", "--db", db_url, "--json").stdout)
    assert [(entry["name"], entry["facts"]) for entry in listed] == [("people", 4)]
    shown = json.loads(run_refactx("index", "show", "people", "--db", db_url, "--json").stdout)
    assert shown["bytes"] == shown["table_bytes"] + shown["index_bytes"] + shown["toast_bytes"]
    assert shown["segments"] == 1
    verdict = json.loads(run_refactx("index", "verify", "people", "--db", db_url, "--json").stdout)
    assert verdict["sound"]
    assert verdict["facts"] == 4
    assert run_refactx("index", "drop", "people", "--db", db_url).returncode == 0
    assert run_refactx("index", "list", "--all", "--db", db_url).stdout == ""
    with psycopg.connect(db_url) as connection:
        tables = connection.execute("SELECT relname FROM pg_class WHERE relname ~ '^(pieces|names)_'").fetchall()
    assert tables == [], "nothing is left"


def output_of(*arguments: object) -> str:
    """The output of a command that succeeds, run in this process."""
    done = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


@pytest.mark.long
def test_an_index_lives_append_forget_compact_and_a_second_tokenizer(
    db_url: str, smollm2_folder: Path, facts_file: Path, tmp_path: Path
) -> None:
    more = tmp_path / "more.txt"
    more.write_text(facts_file.read_text().splitlines()[0] + "\n<Cy Roe> <occupation> <poet> .\n")
    assert output_of("ingest", facts_file, "--tokenizer", smollm2_folder, "--db", db_url).startswith(
        "index default: 4 facts"
    )
    shown = output_of("ingest", more, "--append", "--db", db_url)
    assert shown.startswith("index default: 1 fact appended, 1 was already there; it has 5 now\n")
    assert "<Cy Roe>" in output_of("facts", "<", "--db", db_url)
    shown = output_of("forget", facts_file, "--db", db_url, "--json")
    assert {key: json.loads(shown)[key] for key in ("facts", "passed_over", "total")} == {
        "facts": 4,
        "passed_over": 0,
        "total": 1,
    }
    compacted = output_of("index", "compact", "default", "--db", db_url)
    assert compacted.startswith("index default: 1 fact, of 3 segments and 1 table of names, in ")
    assert "nothing to do" in output_of("index", "compact", "default", "--db", db_url)
    second = ("ingest", "--kb", "default", "--tokenizer", smollm2_folder, "--index", "second", "--db", db_url)
    assert output_of(*second).startswith("index second: 1 fact (")


@pytest.mark.long
def test_the_demo_says_that_an_index_of_its_name_is_used(db_url: str, smollm2_folder: Path, facts_file: Path) -> None:
    output_of("ingest", facts_file, "--tokenizer", smollm2_folder, "--index", "demo", "--db", db_url)
    command, environment = [sys.executable, "-m", "refactx", "demo"], {**os.environ, "REFACTX_DB": db_url}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    said = "Index 'demo' is there and is used; `refactx index drop demo` removes it.\n"
    assert done.stdout.startswith(said)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--kb", "one", "--append"],
            "--kb one was given with --append: leave --append out, --kb takes the facts of that index",
        ),
        (["--kb", "one", "facts.txt"], "--kb one was given with sources"),
        (["facts.txt", "--append", "--replace"], "--append and --replace were both given: choose one"),
        (["facts.txt"], "Missing option '--tokenizer'"),
        (["--tokenizer", "demo"], "Missing argument 'SOURCE...'"),
        (["--kb", "one"], "Missing option '--tokenizer'"),
        (["--kb", "one", "--tokenizer", "demo", "--limit", "5"], "--limit was given with --kb, which takes all facts"),
        (["facts.txt", "--tokenizer", "demo", "--memory", "5apples"], "--memory '5apples' is not a size"),
    ],
)
def test_options_that_exclude_each_other_are_reported(arguments: list[str], message: str) -> None:
    done = CliRunner().invoke(cli, ["ingest", *arguments])
    assert done.exit_code != 0
    assert message in f"{done.output} {done.exception}"


@pytest.mark.long
def test_verify_finds_a_row_changed_by_hand(db_url: str, smollm2_folder: Path, facts_file: Path) -> None:
    run_refactx("ingest", facts_file, "--tokenizer", smollm2_folder, "--db", db_url)
    with psycopg.connect(db_url) as connection:
        found = connection.execute("SELECT relname FROM pg_class WHERE relname ~ '^pieces_[0-9]+$'").fetchone()
        assert found is not None
        connection.execute(
            f"UPDATE refactx.{found[0]} SET piece = set_byte(piece, 20, 255 - get_byte(piece, 20))".encode()
        )
    done = run_refactx("index", "verify", "default", "--db", db_url)
    assert done.returncode == 1
    assert "index 'default': row 00" in done.stdout
    assert "checksum" in done.stdout
    assert "row 00" in complains("facts", "<", "--db", db_url)


@pytest.mark.long
def test_the_sample_has_real_facts(sample_url: str) -> None:
    done = run_refactx("facts", "<Alaska", "--db", sample_url, "--json")
    (subject,) = json.loads(done.stdout)["completions"][:1]
    predicates = json.loads(
        run_refactx("facts", subject["text"] + " <", "--db", sample_url, "--json", "--limit", 500).stdout
    )
    assert sum(entry["leaves"] for entry in predicates["completions"]) == subject["leaves"]
    assert f"{subject['text']} <capital>" in [entry["text"] for entry in predicates["completions"]]


@pytest.mark.long
@pytest.mark.parametrize(
    ("content", "name", "expected"),
    [
        (None, "none.nt", "none.nt"),
        (b"", "empty.nt", "empty"),
        (b"hello\nworld\n", "hello.nt", "N-Triples"),
        (b"only words\n", "words.txt", "ready-made facts"),
    ],
)
def test_a_source_that_cannot_be_used(
    db_url: str, smollm2_folder: Path, tmp_path: Path, content: bytes | None, name: str, expected: str
) -> None:
    file = tmp_path / name
    if content is not None:
        file.write_bytes(content)
    assert expected in complains("ingest", file, "--tokenizer", smollm2_folder, "--db", db_url)
    assert run_refactx("index", "list", "--all", "--db", db_url).stdout == "", "nothing half-written"


def test_strict_stops_at_the_first_malformed_line(db_url: str, smollm2_folder: Path, facts_file: Path) -> None:
    said = complains("ingest", facts_file, "--tokenizer", smollm2_folder, "--db", db_url, "--strict")
    assert "facts.txt:6" in said


def test_a_wrong_selection_is_reported_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "names.tsv").write_text("P57 director of\n")
    ingest = ("ingest", tmp_path / "none.nt", "--tokenizer", tmp_path / "none")
    assert "'Q5' is neither a list of properties" in complains(*ingest, "--properties", "Q5")
    assert "names.tsv:1: 1 column" in complains(*ingest, "--inverse", "--inverse-names", tmp_path / "names.tsv")


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:s3cret@127.0.0.1:1/kb",
        "postgresql://me@127.0.0.1:1/kb?pass%77ord=s3cret",
        "postgresql://me@127.0.0.1:1/kb?sslpassword=s3cret&oauth_client_secret=s3cret&scram_client_key=s3cret",
        r"user=me host=127.0.0.1 port=1 password = 'it\'s s3cret' dbname=kb",
        "dbname=kb user=me password=s3cret host=127.0.0.1 passfile=/none port=1",
    ],
)
def test_of_the_address_of_a_database_only_user_host_port_and_name_are_shown(address: str) -> None:
    with pytest.raises(DatabaseError) as caught:
        open_index(db=address)
    assert "cannot reach the database postgresql://me@127.0.0.1:1/kb: " in str(caught.value)
    assert "s3cret" not in str(caught.value)
    assert "s3cret" not in without_password(f"the address {address} is wrong")


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:sec ret@127.0.0.1:1/kb",
        "postgresql://me:sec%zzret@127.0.0.1:1/kb",
        "postgresql://me:sec/ret@127.0.0.1:1/kb",
        "me:secret@127.0.0.1:1/kb",
        "postgresql:/me:secret@127.0.0.1/kb",
        "host=127.0.0.1 password=sec ret dbname=kb",
    ],
)
def test_an_invalid_database_url_is_reported_without_any_part_of_it(address: str) -> None:
    with pytest.raises(InputError, match="address cannot be read") as caught:
        open_index(db=address)
    assert "sec" not in str(caught.value)
    assert "ret" not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://127.0.0.1:{'9' * 5000}/kb",
        "host=127.0.0.1 port=²",
        "host=127.0.0.1\0 port=1",
        "postgresql://127.0.0.1:1/%00",
        "postgresql://127.0.0.1:1/\udcff",
        "postgresql://127.0.0.1:1/kb?application_name=%ff",
        "postgresql://127.0.0.1:1/kb?no_such_parameter=1",
        "postgresql://[::1/kb",
        "host=a..b",
        f"host={'a' * 64}.org",
        "host='127.0.0.1",
        "=",
    ],
)
def test_an_address_that_is_none_is_one_error(address: str) -> None:
    with pytest.raises(InputError, match="address cannot be read"):
        open_index(db=address)


def test_a_wrong_address_is_one_line_of_a_command() -> None:
    assert "address cannot be read" in complains("facts", "<", "--db", "postgresql://me:sec%zzret@127.0.0.1:1/kb")
    assert "127.0.0.1:1/kb: " in complains("facts", "<", "--db", "postgresql://\x1bme:secret@127.0.0.1:1/kb")


@pytest.mark.long
def test_an_unknown_index_is_reported_with_the_existing_ones(sample_url: str) -> None:
    said = complains("facts", "<", "--index", "nope", "--db", sample_url)
    assert "no index 'nope' in this database (there are: default)" in said
    assert "no index 'nope'" in complains("index", "verify", "nope", "--db", sample_url)
    assert "Did you mean 'default'?" in complains("index", "show", "--index=defalt", "--db", sample_url)
    assert "Did you mean 'index'?" in complains("indx", "list")
    assert "Missing argument 'NAME'" in complains("index", "drop", "--db", sample_url)
    assert "no index 'nope'" in complains("index", "drop", "nope", "--db", sample_url)


def test_a_database_without_an_index_is_reported_without_its_address(db_url: str) -> None:
    for told in (run_refactx("index", "list", "--db", db_url), run_refactx("facts", "Ann", "--db", db_url)):
        assert "no index" in told.stderr
        assert "postgres" not in told.stderr
    assert json.loads(run_refactx("index", "list", "--db", db_url, "--json").stdout) == []


def test_a_tokenizer_that_does_not_exist_is_reported(db_url: str, facts_file: Path, tmp_path: Path) -> None:
    assert "tokenizer" in complains("ingest", facts_file, "--tokenizer", tmp_path, "--db", db_url)


def test_a_question_of_white_space_is_reported_before_anything_is_loaded(sample_url: str) -> None:
    assert "question" in complains("ask", "  \n", "--model", "demo", "--db", sample_url)


@pytest.mark.long
def test_ask_answers_with_facts_of_the_index(sample_url: str, smollm2_folder: Path) -> None:
    command = ("ask", "What is the capital of Alaska?", "--model", smollm2_folder, "--db", sample_url)
    done = run_refactx(*command, "--max-new-tokens", 100, "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert set(answer) > {"question", "answer", "text", "facts", "tokens", "forward_passes", "seconds"}
    assert answer["facts"], answer["text"]
    for fact in answer["facts"]:
        confirmed = run_refactx("facts", fact["text"], "--db", sample_url, "--json")
        assert json.loads(confirmed.stdout)["completions"] == [{"text": fact["text"], "leaves": 1}]
        assert fact["subject"]["url"].startswith("https://www.wikidata.org/wiki/Q")
        assert fact["inverse"] is False
    plain = run_refactx(*command, "--max-new-tokens", 100)
    for fact in answer["facts"]:
        assert plain.stdout.splitlines().count(fact["text"]) == fact["proves"]


@pytest.mark.long
def test_free_asks_without_an_index(smollm2_folder: Path) -> None:
    done = run_refactx("ask", "Who are you?", "--model", smollm2_folder, "--free", "--max-new-tokens", 8, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["facts"] == []


@pytest.mark.long
def test_ask_refuses_an_index_of_another_tokenizer(
    db_url: str, smollm2_folder: Path, facts_file: Path, tmp_path: Path
) -> None:
    other = json.loads((smollm2_folder / "tokenizer.json").read_text())
    spaces = {"type": "Replace", "pattern": {"String": " "}, "content": " "}
    other["normalizer"] = spaces  # the same ids for this text, by another tokenizer
    (tmp_path / "tokenizer.json").write_text(json.dumps(other))
    assert run_refactx("ingest", facts_file, "--tokenizer", tmp_path, "--db", db_url).returncode == 0
    assert "tokenizer" in complains("ask", "Who?", "--model", smollm2_folder, "--db", db_url)
