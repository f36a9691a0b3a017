"""A reader whose server dies reads the standby: what it has read already, or more, and never less."""

import threading
from pathlib import Path

import pytest
from support.ingest.living_index import FIRST, MORE, LivingIndex, same
from support.postgres.replicas import address, replicated

import refactx
from refactx.errors import DatabaseError
from refactx.postgres.entry import Limits

pytestmark = pytest.mark.slow
AFTER = [*FIRST[3:], *MORE]


def test_after_a_failover_a_standby_that_is_behind_is_waited_for(tmp_path: Path) -> None:
    with replicated() as pair:
        living = LivingIndex(pair.primary.url, tmp_path)
        living.ingest(*FIRST)
        living.append(*MORE)
        pair.catch_up()
        with (
            refactx.open_index(db=address(pair.primary, pair.standby), cache_bytes=0) as index,
            refactx.open_index(db=address(pair.primary, pair.standby), limits=Limits(outage=0.2)) as impatient,
        ):
            pair.pause()
            living.forget(*FIRST[:3])
            living.compact()
            assert index.refresh()
            assert impatient.refresh()
            pair.receive()
            pair.primary.kill()
            with pytest.raises(DatabaseError, match="the server that answers is behind"):
                impatient.children([])
            threading.Timer(1, pair.resume).start()
            same(index, living.sequences(AFTER), living.sequences(FIRST))
            pair.promote()
            changed = LivingIndex(pair.standby.url, tmp_path)
            changed.append("new new new")
            assert index.refresh()
            same(index, living.sequences([*AFTER, "new new new"]), living.sequences(FIRST))


def test_changes_that_a_failover_has_lost_are_an_error_and_not_other_facts(tmp_path: Path) -> None:
    with replicated() as pair:
        living = LivingIndex(pair.primary.url, tmp_path)
        living.ingest(*FIRST)
        pair.catch_up()
        with refactx.open_index(db=address(pair.primary, pair.standby), cache_bytes=0) as index:
            pair.standby.stop()
            living.append(*MORE)
            assert index.refresh()
            pair.primary.kill()
            pair.standby.start()
            pair.promote()
            LivingIndex(pair.standby.url, tmp_path).ingest("other other other", replace=False, index="other")
            with pytest.raises(DatabaseError, match="has lost changes of index 'default'"):
                index.children(living.sequences(FIRST)[0])
