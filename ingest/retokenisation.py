"""An index's facts encoded for another tokenizer, without the sources.

A knowledge base stores its facts only as the token sequences of an index. These decode to the very texts that were
encoded, so stored texts would be a second copy. The new index shares the name tables.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from refactx.errors import InputError, TokenizerMismatchError
from refactx.fact import DESCRIPTIONS
from refactx.index.database import DatabaseSource
from refactx.index.index import Index
from refactx.ingest.build import Build, CopyOptions
from refactx.ingest.encoding import EncodedFacts, decode_texts, encode_facts
from refactx.ingest.knowledge.knowledge_base import write_facts
from refactx.ingest.publish import IngestResult, publish_index
from refactx.ingest.report import ProgressBars, Report
from refactx.ingest.work import Resources, names_of, open_work_database, work_folder
from refactx.postgres.catalogue import knows_hubs, read_hubs
from refactx.postgres.database import Database
from refactx.postgres.entry import CatalogueEntry
from refactx.postgres.locks import name_lock
from refactx.postgres.writing import changing, check_free, check_name, writing
from refactx.tokenizer import FactTokenizer
from refactx.tree.bulk import from_matrix, surviving
from refactx.tree.codes import Offsets
from refactx.tree.tree import Tokens

_CACHE_BYTES = 16 << 20  # each row is read once
_PARTS = ("subject", "predicate", "object")


def retokenise(base: str, database: Database, **options: Unpack[CopyOptions]) -> IngestResult:
    """Build an index for another tokenizer from the facts that a ready index, `base`, has.

    The result is that of an ingest of the same facts, with the trigger, the terminator and the names of `base`. The
    other arguments are those of `refactx.ingest.ingest`.

    Raises:
        InputError: `base` has no fact, or the name or the folder cannot be used.
        IndexNotFoundError: there is no index `base`.
        IndexExistsError: `index` exists and `replace` is not set, or another process is writing one of the two.
        TokenizerMismatchError: one of the two tokenizers loses characters, so that ids do not decode to the texts that
            were encoded.
        DatabaseError: PostgreSQL refused a statement (because its disk is full, say).
    """
    build = Build(**options)
    check_name(build.index)
    with (
        writing(database, build.index, build.work) as connection,
        name_lock(connection, build.index),
        changing(connection, database, base) as entry,
    ):
        check_free(connection, build.index, build.replace)
        opened = Index(DatabaseSource(database, entry), cache_bytes=_CACHE_BYTES)
        if not opened.facts:
            raise InputError(
                f"index {base!r} is empty, so {build.index!r} cannot be built from it: append facts to it first"
            )
        check_lossless(opened.tokenizer, opened.tokenizer_name)
        check_lossless(build.tokenizer, build.tokenizer_name)
        with work_folder(build.work, *names_of(connection), build.index, "kb") as folder:
            build = replace(build, work=folder, trigger=opened.trigger, terminator=opened.terminator)
            facts, descriptions = _encode_again(opened, build)
            hubs = read_hubs(connection, entry.id)
            return publish_index(
                connection,
                build,
                facts,
                _report(entry, len(facts), descriptions, len(hubs) if knows_hubs(entry) else None),
                sources=entry.source,
                knowledge_base=entry.knowledge_base,
                hubs=hubs,
            )


def _encode_again(index: Index, build: Build) -> tuple[EncodedFacts, int]:
    """Return the facts of an index for the tokenizer of a build, and how many are descriptions. Raises as `retokenise`."""
    bars = build.bars()

    def encode(name: str, tokenizer: FactTokenizer) -> EncodedFacts:
        folder = build.work / name
        folder.mkdir()
        return encode_facts(
            build.work, tokenizer, build.trigger, folder, resources=build.resources, advance=bars.advance
        )

    with build.clock.step("read"), bars:
        descriptions = _write_texts(index, build.work, build.resources, bars)
    with build.clock.step("check"), bars:
        _check_read_back(index, encode("check", index.tokenizer))
    with build.clock.step("encode"), bars:
        return encode("encoded", build.tokenizer), descriptions


def _report(base: CatalogueEntry, facts: int, descriptions: int, hubs: int | None) -> Report:
    kept = ("selection", "inverse_properties", "property_aliases", "units", "prompt")
    statements = base.report.get("statements", 0)
    return Report(
        facts=facts,
        claims=facts - descriptions - statements,
        statements=statements,
        descriptions=descriptions,
        derived=0,
        lines_read=facts,
        kept=facts,
        notes=(f"read from index {base.name!r}",),
        hubs=hubs,
        **{name: base.report.get(name, {}) for name in kept},
    )


def _write_texts(index: Index, folder: Path, resources: Resources, bars: ProgressBars) -> int:
    """Write the texts of all facts as a knowledge base without names; return how many facts are descriptions."""
    with open_work_database(folder, resources) as database:
        database.execute("CREATE TABLE stored (subject VARCHAR, predicate VARCHAR, object VARCHAR, tail VARCHAR)")
        for tokens, offsets in _read_facts(index):
            database.insert("stored", _decode_parts(index.tokenizer, tokens, offsets))
            bars.advance("read", len(offsets) - 1, index.facts)
        write_facts(database, "stored", folder)
        described = ", ".join(f"'{predicate}'" for predicate in DESCRIPTIONS)
        return database.number(f"SELECT count(*) FROM stored WHERE predicate IN ({described})")


def _read_facts(index: Index) -> Iterator[tuple[Tokens, Offsets]]:
    return (from_matrix(block) for block in surviving(index.segments))


def _decode_parts(tokenizer: FactTokenizer, tokens: Tokens, offsets: Offsets) -> pa.Table:
    """Return the subjects, predicates, objects and tails of facts as texts."""
    try:
        texts = decode_texts(tokenizer, tokens, offsets).cast(pa.large_string())
    except pa.ArrowInvalid as error:
        raise _mismatch_error(f"a text is not UTF-8 ({error})") from error
    # ` <s> <p> <o>` without its ends; `_check_read_back` finds a text of another form.
    inner = pc.utf8_slice_codeunits(texts, 2, -1)
    count = pc.count_substring(inner, "> <")
    if not pc.all(pc.and_(pc.greater(count, 1), pc.equal(pc.bit_wise_and(count, 1), 0))).as_py():
        raise _mismatch_error("a text does not have three parts, or those and pairs of more")
    ended = pc.replace_substring_regex(inner, "$", "> <")  # so that each has a fourth part, if an empty one
    parts = pc.split_pattern(ended, "> <", max_splits=3)
    columns = {name: pc.list_element(parts, at) for at, name in enumerate(_PARTS)}
    return pa.table({**columns, "tail": pc.replace_substring_regex(pc.list_element(parts, 3), "> <$", "")})


def _check_read_back(index: Index, again: EncodedFacts) -> None:
    """Raise TokenizerMismatchError unless the texts encode to the very ids that they were decoded from."""
    done = 0
    for tokens, offsets in _read_facts(index):
        count = len(offsets) - 1
        if done + count <= len(again):
            tokens_again, offsets_again = again.read_tokens(done, done + count)
            if np.array_equal(tokens, tokens_again) and np.array_equal(offsets, offsets_again):
                done += count
                continue
        raise _mismatch_error("a text does not encode to the ids that it was decoded from")
    if done != len(again):
        raise _mismatch_error("two facts have the same text")


def _mismatch_error(why: str) -> TokenizerMismatchError:
    return TokenizerMismatchError(
        f"the facts cannot be read back from the index's token ids: {why}. Ingest the sources again instead of --kb"
    )


def check_lossless(tokenizer: FactTokenizer, name: str) -> None:
    """Raise TokenizerMismatchError unless a text with all kinds of characters can be decoded from its ids."""
    if tokenizer.loss:
        raise TokenizerMismatchError(
            f"the tokenizer {name} does not keep every text ({tokenizer.loss}), so facts cannot be read back from its token "
            "ids: ingest the sources again instead of --kb"
        )
