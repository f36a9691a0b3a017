"""`python -m bench.claims_in_text INDEX MODEL`: verdicts on sentences that are made of facts, by `refactx.Asker.check`.

A third of the sentences say a fact of the index; a third one with another object or subject of its predicate, or with both
exchanged; a third what is not there: of an invented name, or of a predicate that the subject does not have. Printed: the
verdicts by what they should be; the AUC of `holds` against `differs`; how often the right fact is shown, of sentences that
have one; how often `differs` and `holds` is said of what is not there; and the seconds of a sentence. `--out`: each sentence,
with what was said, as JSON.
"""

import json
import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import cycle, islice
from pathlib import Path

import click

from bench.walks import random_facts
from refactx.ask.asker import Asker
from refactx.ask.claims import TextClaim
from refactx.ask.examples import prompt_for
from refactx.engines.language_models import load_language_model
from refactx.english import Relation
from refactx.fact import ALIAS, split_fact
from refactx.index.index import Index
from refactx.index.open import open_index
from refactx.linking.names import bare_name
from refactx.walks.facts import TreeFacts

Parts = tuple[str, str, str]
HOLDS, DIFFERS, NOT_THERE = VERDICTS = "holds", "differs", "not in the index"
_NOUNS = ("The {p} of {s} is {o}.", "{o} is the {p} of {s}.", "{s}'s {p} is {o}.")
_SYLLABLES = ["zor", "vath", "quil", "mar", "dex", "lun", "pra", "tic", "bel", "gor", "nix", "sul"]
_LEFT_OUT = ("instance of", "image", "coordinate location", "given name", "family name", "sex or gender")
AT_ONCE, DRAWN, LONGEST = 10, 30, 50
"""Sentences of one text, facts drawn for each, and the most characters of an object."""


@dataclass(slots=True)
class Made:
    """A sentence. `fact`: that it says, or that stands there instead; `said`: the verdict, `shown`: the fact beside it."""

    text: str
    verdict: str
    fact: Parts | None
    said: str = "no claim"
    shown: str = ""
    confidence: float = 0.0

    @property
    def score(self) -> float:
        """How surely it holds: above those of other verdicts, and by the confidence."""
        side = {HOLDS: 1, DIFFERS: -1}.get(self.said, 0)
        return side * 1000 + (1 if side > 0 else -1) * self.confidence


def facts_of(index: Index, facts: TreeFacts, count: int, chance: random.Random) -> list[Parts]:
    """Return facts whose subjects and objects people can name, of one predicate after another."""
    by_predicate = defaultdict[str, list[Parts]](list)
    for ids in random_facts(index, DRAWN * count, chance.randrange(1 << 30)):  # type: ignore[arg-type]
        parts = split_fact(index.tokenizer.decode(list(ids)).strip().removesuffix(" ."))
        if parts is None or not "".join(parts).isascii() or parts[0].endswith(ALIAS):
            continue
        _, predicate, value = parts
        known = facts.describe([predicate]).get(predicate)
        if known is None or known.inverse or known.kind in ("text", "coordinates") or predicate in _LEFT_OUT:
            continue
        if len(bare_name(value)) <= LONGEST and not any(one in predicate for one in ("ID", "code", "identifier")):
            by_predicate[predicate].append(parts)
    order = sorted(by_predicate)
    chance.shuffle(order)
    return [some[n] for n in range(count) for some in map(by_predicate.__getitem__, order) if n < len(some)]


def sentence(parts: Parts, chance: random.Random) -> str:
    subject, predicate, value = bare_name(parts[0]), parts[1], bare_name(parts[2])
    form = chance.choice(_NOUNS) if Relation(predicate=predicate).is_noun else "{s} {p} {o}."
    return form.format(s=subject, p=predicate, o=value)


def invented(chance: random.Random) -> str:
    words = ("".join(chance.choices(_SYLLABLES, k=chance.randint(2, 3))).capitalize() for _ in range(2))
    return " ".join(words)


def made(index: Index, count: int, seed: int) -> Iterator[Made]:
    """Yield sentences about an index, at most `count`."""
    chance, facts = random.Random(seed), TreeFacts(index)
    drawn = facts_of(index, facts, 2 * count, chance)
    same = defaultdict[str, list[Parts]](list)
    for parts in drawn:
        same[parts[1]].append(parts)

    def objects(subject: str, predicate: str) -> list[str]:
        return sorted(value for _, value in facts.objects([subject], predicate))

    kinds = cycle(VERDICTS)
    kind = next(kinds)
    for subject, predicate, value in drawn:
        meant = facts.linker.entity(bare_name(subject))
        if meant is None or meant.name != subject:  # its name means another thing
            continue
        other = chance.choice(same[predicate])
        if kind == HOLDS:
            yield Made(sentence((subject, predicate, value), chance), HOLDS, (subject, predicate, value))
        elif kind == DIFFERS:
            exchanged = (value, predicate, subject)
            is_entity = facts.describe([predicate])[predicate].kind == "entity"
            ways = [(subject, predicate, other[2]), (other[0], predicate, value), *[exchanged] * is_entity]
            changed = chance.choice(ways)
            there = objects(changed[0], predicate)
            if bare_name(changed[2]) in map(bare_name, there):
                continue
            instead = (subject, predicate, value) if changed is exchanged else (changed[0], predicate, there[0])
            yield Made(sentence(changed, chance), DIFFERS, instead)
        elif chance.random() < 0.5:
            yield Made(sentence((invented(chance), predicate, value), chance), NOT_THERE, None)
        else:
            _, foreign, worth = chance.choice(drawn)
            if foreign in facts.predicates(subject):
                continue
            yield Made(sentence((subject, foreign, worth), chance), NOT_THERE, None)
        kind = next(kinds)


def judge(asker: Asker, sentences: Sequence[Made]) -> float:
    """Have sentences judged, some at a time. Return the seconds of one."""
    begun = time.monotonic()
    for low in range(0, len(sentences), AT_ONCE):
        some, places, text = sentences[low : low + AT_ONCE], dict[int, Made](), ""
        for one in some:
            places[len(text)] = one
            text += f"{one.text}\n\n"
        for claim in asker.check(text).claims:
            if (found := places.pop(claim.start, None)) is not None:
                note(found, claim)
    return (time.monotonic() - begun) / len(sentences)


def note(found: Made, claim: TextClaim) -> None:
    """Note what was said of a sentence, by its first claim."""
    fact = claim.fact or claim.instead
    found.said, found.shown, found.confidence = claim.verdict, fact.text if fact else "", claim.confidence or 0.0


def area(sentences: Sequence[Made]) -> float:
    """Return the share of pairs of a sentence that holds and one that differs in which the first has the higher score."""
    high, low = ([one.score for one in sentences if one.verdict == verdict] for verdict in (HOLDS, DIFFERS))
    pairs = [(a > b) + 0.5 * (a == b) for a in high for b in low]
    return sum(pairs) / len(pairs) if pairs else float("nan")


def shows(one: Made) -> bool:
    """Return whether the fact that is shown is about the right subject by the right predicate, or the inverse of that."""
    if one.fact is None or not one.shown:
        return False
    subject, predicate, _ = one.fact
    return one.shown.startswith(f"<{subject}> <{predicate}>") or one.shown.endswith(f" <{subject}> .")


@click.command()
@click.argument("index")
@click.argument("model")
@click.option("--count", default=300, show_default=True, help="Sentences.")
@click.option("--seed", default=7, show_default=True)
@click.option("--db")
@click.option("--out", type=click.Path(path_type=Path))
def main(index: str, model: str, count: int, seed: int, db: str | None, out: Path | None) -> None:
    """Print the figures of verdicts on sentences about an index."""
    with open_index(index, db) as opened:
        sentences = list(islice(made(opened, count, seed), count))
        loaded = load_language_model(model, opened)
        seconds = judge(Asker(loaded, loaded.tokenizer, opened, prompt_for(None, opened)), sentences)
    for (verdict, said), number in sorted(Counter((one.verdict, one.said) for one in sentences).items()):
        click.echo(f"{verdict} -> {said}: {number}")
    having, none = ([one for one in sentences if (one.fact is None) == is_none] for is_none in (False, True))
    click.echo(f"AUC of holds against differs: {area(sentences):.3f}")
    click.echo(f"the right fact shown: {sum(map(shows, having))} of {len(having)}")
    for said in (DIFFERS, HOLDS):
        click.echo(f"{said} said of what is not there: {sum(one.said == said for one in none)} of {len(none)}")
    click.echo(f"seconds a sentence: {seconds:.2f}")
    if out is not None:
        out.write_text("".join(f"{json.dumps(asdict(one), ensure_ascii=False)}\n" for one in sentences))


if __name__ == "__main__":
    main()
