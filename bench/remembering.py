"""Random changes of single facts by several clients, some of which are killed, against a set of facts in memory.

`python -m bench.remembering` prints the figures. Each client is a process that reads two indexes as one and writes to one of
them. In a round each client changes facts of a subject that no other changes, all at once; one may be killed while it does,
and then its change is there as a whole or not at all. Then clients are asked for facts of any subject, in both directions.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles
from typing import Any

import click
from tqdm import tqdm

from refactx.fact import verbalise
from refactx.index.open import database, open_index
from refactx.index.verify import verify
from refactx.ingest import FactWriter, Resources, Selection, ingest
from refactx.models.loading import load_tokenizer
from refactx.walks import TreeFacts

BASE, MINE = "remembering-base", "remembering-mine"
LIKES, LIKED = "likes", "liked by"
SUBJECTS, OBJECTS = 24, 12
LONGEST_DELAY = 0.4
"""The most seconds from the beginning of a change to the kill."""
Triple = tuple[str, str, str]


def base_facts() -> set[Triple]:
    """The facts of the index that is only read; some are remembered too."""
    return {(f"person {n}", LIKES, f"dish {n % 5}") for n in range(0, SUBJECTS, 3)}


def with_inverses(facts: Iterable[Triple]) -> set[Triple]:
    return {one for s, p, o in facts for one in ((s, p, o), (o, LIKED, s))}


def build(url: str, folder: Path, tokenizer: str) -> None:
    """Build the index that is read and the one that is written."""
    loaded, name = load_tokenizer(tokenizer)
    selection = Selection(inverse=True, inverse_names=((LIKES, LIKED),))
    with database(url) as opened:
        for index, facts in ((BASE, base_facts()), (MINE, {("person 0", LIKES, "dish 11")})):
            file = folder / f"{index}.txt"
            file.write_text("".join(f"{verbalise(*one)} .\n" for one in sorted(facts)))
            given = {"index": index, "work": folder / "work", "replace": True, "selection": selection}
            quiet = Resources(workers=1, progress=False)
            ingest([file], opened, tokenizer=loaded, tokenizer_name=name, resources=quiet, **given)


def serve(url: str, work: Path) -> None:
    """Answer the requests of a client's pipe, a line of JSON each."""
    with open_index(f"{BASE},{MINE}", url) as index, database(url) as opened:
        facts = TreeFacts(index)
        writer = FactWriter(index, opened, MINE, work, facts)
        print(json.dumps("ready"), flush=True)
        for line in sys.stdin:
            action, *given = json.loads(line)
            started = time.perf_counter()
            if action == "ask":
                index.refresh()
                reply: Any = {one: [list(pair) for pair in facts.objects([one], how)] for one, how in given}
            elif action == "remember":
                reply = writer.remember(given[0], new=given[1], also=True).is_written
            elif action == "forget":
                reply = writer.forget(given[0]).is_written
            else:
                reply = writer.correct(*given[:2], new=given[2]).is_written
            print(json.dumps([reply, time.perf_counter() - started]), flush=True)


class Client:
    """A process that changes and reads facts."""

    def __init__(self, url: str, work: Path) -> None:
        self._command = [sys.executable, "-m", "bench.remembering", "--serve", url, str(work)]
        self.start()

    def start(self) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            self._command, stdin=pipe, stdout=pipe, text=True, cwd=Path(__file__).parent.parent
        )
        self.receive()

    def send(self, *request: object) -> None:
        print(json.dumps(request), file=self._process.stdin, flush=True)

    def receive(self) -> Any:
        """Return the next reply; None if the process has ended without one."""
        line = self._process.stdout.readline() if self._process.stdout else ""
        return json.loads(line) if line.endswith("\n") else None

    def kill(self) -> None:
        os.kill(self._process.pid, signal.SIGKILL)

    def restart(self) -> None:
        self.close()
        self.start()

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@dataclass
class Run:
    """A run of random operations. `facts`: what the written index should have; `wrong`: what was found to be otherwise."""

    url: str
    folder: Path
    clients: int
    chance: random.Random
    facts: set[Triple] = field(default_factory=lambda: {("person 0", LIKES, "dish 11")})
    counts: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def go(self, operations: int, kills: float) -> None:
        """Do at least so many operations; in `kills` of the rounds a client is killed."""
        clients = [Client(self.url, self.folder / f"work-{n}") for n in range(self.clients)]
        try:
            with tqdm(total=operations, unit=" operations", mininterval=10) as bar:
                while bar.n < operations:
                    self._round(clients, kills)
                    bar.set_postfix(wrong=len(self.wrong), refresh=False)
                    bar.update(sum(self.counts.values()) - self.counts["kill"] - bar.n)
        finally:
            for one in clients:
                one.close()
        self._check_whole()

    def _round(self, clients: list[Client], kills: float) -> None:
        subjects = self.chance.sample(range(SUBJECTS), len(clients))
        changes = [self._change(f"person {number}") for number in subjects]
        for client, (request, _, _) in zip(clients, changes, strict=True):
            client.send(*request)
        victim = self.chance.choice(clients) if self.chance.random() < kills else None
        if victim is not None:
            time.sleep(self.chance.uniform(0, LONGEST_DELAY))
            victim.kill()
            self.counts["kill"] += 1
        for client, (request, removed, added) in zip(clients, changes, strict=True):
            reply = client.receive()
            self.counts[str(request[0])] += 1
            after = (self.facts - removed) | added
            if reply is None:
                if client is not victim:
                    self.wrong.append(f"{request} failed")
                client.restart()
                self.facts = self._either(request, self.facts, after)
                continue
            self.seconds.append(reply[1])
            self.facts = after
            if client is victim:  # it was killed after its reply
                client.restart()
        for client in clients:
            self._ask(client)

    def _change(self, subject: str) -> tuple[tuple[object, ...], set[Triple], set[Triple]]:
        """Draw a change of a subject: the request, and the facts that it removes and adds."""
        own = sorted(one for one in self.facts if one[0] == subject)
        taken = {value for _, _, value in own}
        value = self.chance.choice([f"dish {n}" for n in range(OBJECTS) if f"dish {n}" not in taken])
        new = (subject, LIKES, value)
        kind = self.chance.choice(["remember", "forget", "correct"]) if own else "remember"
        if kind == "remember" and 2 * len(own) > OBJECTS:
            kind = "forget"
        if kind == "remember":
            return ("remember", _text(new), [subject, value]), set(), {new}
        old = self.chance.choice(own)
        if kind == "forget":
            return ("forget", _text(old)), {old}, set()
        return ("correct", _text(old), _text(new), [value]), {old}, {new}

    def _either(self, request: object, before: set[Triple], after: set[Triple]) -> set[Triple]:
        """Return which of two states a subject has after its client was killed."""
        (changed,) = {subject for subject, _, _ in before ^ after}
        with open_index(MINE, self.url) as index:
            found = sorted(value for _, value in TreeFacts(index).objects([changed], LIKES))
        for state in (before, after):
            if found == sorted(value for subject, _, value in state if subject == changed):
                return state
        self.wrong.append(f"after a kill during {request}: {found}")
        return before

    def _answers(self, client: Client, asked: list[tuple[str, str]]) -> dict[str, list[str]]:
        client.send("ask", *asked)
        reply, _ = client.receive()
        return {one: [value for _, value in pairs] for one, pairs in reply.items()}

    def _ask(self, client: Client) -> None:
        person, dish = f"person {self.chance.randrange(SUBJECTS)}", f"dish {self.chance.randrange(OBJECTS)}"
        self.counts["ask"] += 1
        there = with_inverses(self.facts | base_facts())
        for one, found in self._answers(client, [(person, LIKES), (dish, LIKED)]).items():
            expected = sorted(o for s, p, o in there if s == one and p in (LIKES, LIKED))
            if sorted(found) != expected:
                self.wrong.append(f"<{one}> has {sorted(found)}, expected {expected}")

    def _check_whole(self) -> None:
        with open_index(MINE, self.url) as index:
            found, expected = [fact.text for fact in index.all_facts()], with_inverses(self.facts)
            if sorted(found) != sorted(map(_text, expected)):
                self.wrong.append(f"at the end: {sorted({*found} ^ set(map(_text, expected)))}")
            self.wrong += verify(index).faults
            self.counts["segments"] = len(index.segments)


def _text(triple: Triple) -> str:
    return f"{verbalise(*triple).lstrip()} ."


@click.command()
@click.option("--operations", default=2000, show_default=True)
@click.option("--clients", default=8, show_default=True)
@click.option("--kills", default=0.1, show_default=True, help="The part of the rounds in which a client is killed.")
@click.option("--seed", default=1, show_default=True)
@click.option("--tokenizer", default="demo", show_default=True)
@click.option("--db", default=None)
@click.option("--serve", "served", nargs=2, default=None, hidden=True)
def main(
    operations: int,
    clients: int,
    kills: float,
    seed: int,
    tokenizer: str,
    db: str | None,
    served: tuple[str, str] | None,
) -> None:
    """Print how many answers were stale, lost or double."""
    if served is not None:
        return serve(served[0], Path(served[1]))
    with tempfile.TemporaryDirectory() as folder, database(db) as opened:
        build(opened.url, Path(folder), tokenizer)
        run = Run(opened.url, Path(folder), clients, random.Random(seed))
        run.go(operations, kills)
    for what, number in sorted(run.counts.items()):
        click.echo(f"{what:>24}  {number:,}")
    middle, *_, late = quantiles(run.seconds, n=20)[9:]
    click.echo(f"{'seconds of a change':>24}  {middle:.3f} (median), {late:.3f} (95%)")
    click.echo(f"{'wrong':>24}  {len(run.wrong):,}")
    for text in run.wrong[:20]:
        click.echo(f"  {text}")
    return None


if __name__ == "__main__":
    main()
