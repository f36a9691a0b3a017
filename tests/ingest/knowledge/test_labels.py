"""Odd labels: each gives a fact of clean text in one line that is found, completed, and never a special token."""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.command import run_refactx
from support.servers import DatabaseServer, database
from support.stored_trees import agree, build

from refactx.fact import MAX_PART_CHARACTERS, split_fact, verbalise
from refactx.index.index import Index
from refactx.index.open import open_index
from refactx.index.verify import verify
from refactx.ingest.segment.cutting import Shape

Parts = tuple[str, str, str]

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"  # three people joined by ZWJ into one picture
PERSIAN = "می\u200cخواهم"  # spelled with a zero-width non-joiner
# An object as it is written, and as it is in the fact.
OBJECTS = {
    "angle brackets": ("a <b> c", "a ‹b› c"),
    "only brackets": ("<<>>", "‹‹››"),
    "comparison": ("x < y > z", "x ‹ y › z"),
    "quotes": ("\"double\" 'single' “curly”", "\"double\" 'single' “curly”"),
    "backslash": ("C:\\new\\table", "C:\\new\\table"),
    "tab": ("one\ttwo", "one two"),
    "control characters": ("bell\x07 null\x00end \x1b[31mred\x7f", "bell null end [31mred"),
    "zero width": ("in\u200bvis\ufeffible\u2060", "invisible"),
    "no-break space": ("no\u00a0break\u2003space", "no break space"),
    "line separators": ("one\u2028two\u0085three", "one two three"),
    "direction marks": ("\u202eevil\u202c", "evil"),
    "right to left": ("القدس", "القدس"),
    "hebrew": ("\u200fירושלים\u200e", "ירושלים"),
    "non-joiner": (PERSIAN, PERSIAN),
    "emoji": (f"{FAMILY} family", f"{FAMILY} family"),
    "two code points": ("cafe\u0301", "café"),
    "combining mark first": ("\u0338slash", "slash"),
    "full stop": ("Inc.", "Inc."),
    "fact inside": ("> . <", "› . ‹"),
    "terminator": (" .", "."),
    "special token": ("<|im_end|>", "‹|im_end|›"),
    "special token without brackets": ("|im_end|", "|im_end|"),
    "end of text": ("|endoftext|", "|endoftext|"),
    "another special token": ("repo_name", "repo_name"),
    "trigger": ("Fact: me", "Fact: me"),
    "very long": ("x" * 99_997 + "end", "x" * (MAX_PART_CHARACTERS - 1) + "…"),
    "long words": ("word " * 300, "word " * 199 + "word…"),
    "long emoji": (FAMILY * 4_000, FAMILY * 199 + FAMILY[:4] + "…"),
}
EMPTY = ["", " ", "\t", "\u200b", "\ufeff\u2060", "\u00a0", "\x00\x01"]


@dataclass(frozen=True)
class IngestRun:
    """A finished ingest: its report, its open index, and the database."""

    report: dict[str, Any]
    index: Index
    url: str


def run_ingest(url: str, source: Path, tokenizer: Path, name: str) -> dict[str, Any]:
    done = run_refactx("ingest", source, "--tokenizer", tokenizer, "--index", name, "--db", url, "--json")
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@pytest.fixture(scope="module")
def labels_url(database_server: DatabaseServer) -> Iterator[str]:
    with database(database_server, f"refactx_labels_{os.getpid()}") as url:
        yield url


@pytest.fixture(scope="module")
def ready(labels_url: str, smollm2_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[IngestRun]:
    """All objects, in ready-made facts; one fact in six forms; and facts with an empty part in each place."""
    lines = [f"<{kind}> <is> <{written}> ." for kind, (written, _) in OBJECTS.items()]
    lines += ["<Ann  Lee> <born in> <York> .", "<Ann Lee>\t<born in>   <York>.", " <Ann Lee> <born\u00a0in> <York>"]
    lines += [
        "<Ann\tLee> <born in> < York > .  ",
        "<Ann\u200b Lee> <born in> <York> .\r",
        "<Ann Lee> <born in> <York> .",
    ]
    for empty in EMPTY:
        lines += [f"<{empty}> <is> <o> .", f"<s> <{empty}> <o> .", f"<s> <is> <{empty}> ."]
    source = tmp_path_factory.mktemp("ready") / "facts.txt"
    source.write_bytes("".join(line + "\n" for line in lines).encode())
    report = run_ingest(labels_url, source, smollm2_folder, "ready")
    with open_index("ready", labels_url) as index:
        yield IngestRun(report, index, labels_url)


def escape(text: str) -> str:
    """Return a literal as N-Triples writes it."""
    return "".join(f"\\{c}" if c in '"\\' else c if " " <= c < "\x7f" else f"\\U{ord(c):08X}" for c in text)


ENTITY, DIRECT = "http://www.wikidata.org/entity/", "http://www.wikidata.org/prop/direct/"


@pytest.fixture(scope="module")
def triples(labels_url: str, smollm2_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[IngestRun]:
    """All objects, as literals and as labels of entities, in N-Triples; one triple in three forms; empty ones."""
    label = "<http://www.w3.org/2000/01/rdf-schema#label>"
    lines = [
        f'<{ENTITY}Q1> {label} "thing"@en .',
        f'<{ENTITY}P1> {label} "says"@en .',
        f'<{ENTITY}P2> {label} "knows"@en .',
    ]
    for number, (written, _) in enumerate(OBJECTS.values(), 10):
        lines += [
            f'<{ENTITY}Q1> <{DIRECT}P1> "{escape(written)}" .',
            f'<{ENTITY}Q{number}> {label} "{escape("L " + written)}"@en .',
            f"<{ENTITY}Q1> <{DIRECT}P2> <{ENTITY}Q{number}> .",
        ]
    lines += [f'<{ENTITY}Q1> <{DIRECT}P1> "two\\nlines" .', f'<{ENTITY}Q1>\t<{DIRECT}P1>   "two lines". # again']
    lines += [f'<{ENTITY}Q1> <{DIRECT}P1> "two \\u200b\\r\\n lines"@en .']
    lines += [f'<{ENTITY}Q1> <{DIRECT}P1> "{escape(empty)}" .' for empty in EMPTY]
    source = tmp_path_factory.mktemp("triples") / "facts.nt"
    source.write_text("".join(line + "\n" for line in lines))
    report = run_ingest(labels_url, source, smollm2_folder, "triples")
    with open_index("triples", labels_url) as index:
        yield IngestRun(report, index, labels_url)


def check_fact(index: Index, parts: Parts) -> None:
    """Check that the fact of these parts is in the index, completes its beginnings, and splits into its parts."""
    fact = verbalise(*parts).lstrip() + " ."
    assert fact in index
    assert fact.removesuffix(" .") in index
    assert split_fact(fact) == parts
    assert index.complete(fact) == [(fact, 1)]
    subject, predicate, object_ = parts
    start = f"<{subject}> <{predicate}> <"
    for beginning in (start, start + object_[: len(object_) // 2], start + object_):
        assert fact.removesuffix(" .") in [text for text, _ in index.complete(beginning, limit=500)], beginning[-50:]
    tokens = index.tokenizer.encode_after(index.trigger, verbalise(*parts))
    assert index.children(tokens).terminal == 1
    assert split_fact(index.tokenizer.decode(tokens)) == parts


@pytest.mark.parametrize("kind", OBJECTS)
def test_a_part_of_a_ready_made_fact(ready: IngestRun, kind: str) -> None:
    check_fact(ready.index, (kind, "is", OBJECTS[kind][1]))


@pytest.mark.parametrize("kind", OBJECTS)
def test_a_literal_and_a_label_of_n_triples(triples: IngestRun, kind: str) -> None:
    check_fact(triples.index, ("thing", "says", OBJECTS[kind][1]))
    written, clean = OBJECTS[kind]
    if kind == "combining mark first":  # it is not first in a label that begins with an L
        clean = written
    label = f"L {clean}" if len(written) < MAX_PART_CHARACTERS else f"L {clean}"[: MAX_PART_CHARACTERS - 1] + "…"
    check_fact(triples.index, ("thing", "knows", label))


@pytest.mark.parametrize(
    "kind", [kind for kind, (written, _) in OBJECTS.items() if not set(written) & set("<>") and len(written) < 5_000]
)
def test_a_fact_is_also_found_as_it_was_written(ready: IngestRun, kind: str) -> None:
    assert f"<{kind}> <is> <{OBJECTS[kind][0]}> ." in ready.index


def test_a_fact_in_any_white_space_counts_once(ready: IngestRun, triples: IngestRun) -> None:
    assert ready.report["dropped"]["duplicate"] == 5
    assert ready.index.complete("<Ann Lee> <") == [("<Ann Lee> <born in>", 1)]
    for asked in ("<Ann   Lee>\t<born in>\n<York>", "<Ann\u200b Lee> <born\u00a0in> < York > ."):
        assert asked in ready.index
    assert triples.report["dropped"]["duplicate"] == 2
    check_fact(triples.index, ("thing", "says", "two lines"))


def test_a_fact_with_an_empty_part_is_left_out_and_counted(ready: IngestRun, triples: IngestRun) -> None:
    assert ready.report["dropped"]["empty part"] == 3 * len(EMPTY)
    assert triples.report["dropped"]["empty part"] == len(EMPTY)
    assert ready.index.complete("<s>") == []


@pytest.mark.parametrize("nothing", ["\u200d", "\u200c\u200d", "\ufe0f"])
def test_a_part_of_nothing_but_joiners_is_empty(nothing: str) -> None:
    from refactx.fact import clean_part

    assert clean_part(nothing) == ""


def test_lines_add_up_and_long_parts_are_counted_as_cut(ready: IngestRun, triples: IngestRun) -> None:
    for report, lines in (
        (ready.report, len(OBJECTS) + 6 + 3 * len(EMPTY)),
        (triples.report, 3 + 3 * len(OBJECTS) + 3 + len(EMPTY)),
    ):
        assert report["lines_read"] == lines == report["kept"] + sum(report["dropped"].values())
        assert report["malformed"] == []
    assert ready.report["cut"] == 3
    assert triples.report["cut"] == 6
    assert ready.report["facts"] == len(OBJECTS) + 1 == len(ready.index)
    assert triples.report["facts"] == 2 * len(OBJECTS) + 1 == len(triples.index)


def all_tokens(index: Index, prefix: Sequence[int] = ()) -> set[int]:
    """Return the ids of all tokens in the tree."""
    found: set[int] = set()
    waiting = [tuple(prefix)]
    while waiting:
        path = waiting.pop()
        tokens = index.children(path).tokens.tolist()
        found.update(tokens)
        waiting += [(*path, token) for token in tokens]
    return found


@pytest.mark.parametrize("name", ["ready", "triples"])
def test_the_id_of_a_special_token_never_occurs(
    name: str, request: pytest.FixtureRequest, smollm2_folder: Path
) -> None:
    index = request.getfixturevalue(name).index
    special = {entry["id"] for entry in json.loads((smollm2_folder / "tokenizer.json").read_text())["added_tokens"]}
    assert special
    assert not all_tokens(index) & special


@pytest.mark.parametrize("name", ["ready", "triples"])
def test_the_index_verifies(name: str, request: pytest.FixtureRequest) -> None:
    ingest = request.getfixturevalue(name)
    assert verify(ingest.index).faults == []
    done = run_refactx("index", "verify", name, "--db", ingest.url, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["sound"]


@pytest.mark.parametrize("facts", [1, 2, 256])
def test_a_fact_that_is_a_token_prefix_of_another_ends_and_continues(facts: int) -> None:
    sequences = [(1, 2), (1, 2, 3), (1, 2, 3, 4), (1, 2, 5), (1,), (6, 7, 8), (6, 7)]
    stored, _ = build(sequences, Shape(facts=facts, inner=2, root=2))
    agree(stored, sequences)
    below = stored.children((1, 2))
    assert (below.tokens.tolist(), below.leaves.tolist(), below.terminal) == ([3, 5], [2, 1], 1)
