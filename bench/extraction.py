"""`python -m bench.extraction INDEX MODEL`: facts out of sentences that are made of facts, by `refactx.Asker.extract`.

Each sentence says one to three facts of a subject in words that are not those of the predicates, such as `was born in`, with
names as the index has them; no fact of a sentence is looked up in the index to find it. Printed: names that do not exist;
precision, recall and F1 over all facts (`micro`); and, with `--rival`, those of the same model that writes JSON, whose names
are matched afterwards. `--out`: each sentence, with its facts and those that were found, as JSON.
"""

import json
import random
import re
from calendar import month_name
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

import click

from bench.walks import random_facts
from refactx.ask.asker import Asker
from refactx.ask.examples import prompt_for
from refactx.ask.extraction import ExtractionOptions
from refactx.ask.writer import BatchWriter, TextRequest, WritingOptions
from refactx.engines.engine import LanguageModel
from refactx.engines.language_models import load_language_model
from refactx.fact import ALIAS, split_fact
from refactx.index.index import Index
from refactx.index.open import open_index
from refactx.linking.names import bare_name
from refactx.walks.facts import TreeFacts
from refactx.walks.values import parse_quantity, parse_time

Parts = tuple[str, str, str]
PHRASES = {
    "date of birth": ("was born on {o}", "came into the world on {o}"),
    "date of death": ("died on {o}", "passed away on {o}"),
    "place of birth": ("was born in {o}", "came from {o}, where the family lived"),
    "place of death": ("died in {o}", "spent the last days in {o}"),
    "educated at": ("studied at {o}", "graduated from {o}"),
    "employer": ("worked for {o}", "was on the staff of {o}"),
    "occupation": ("worked as a {o}", "earned a living as a {o}"),
    "spouse": ("was married to {o}", "wed {o}"),
    "child": ("had a child, {o}", "was a parent of {o}"),
    "father": ("was the child of his or her father {o}",),
    "sibling": ("grew up with a sibling, {o}",),
    "residence": ("lived in {o}", "had a home in {o}"),
    "country of citizenship": ("was a citizen of {o}", "held a passport of {o}"),
    "award received": ("won the {o}", "was honoured with the {o}"),
    "nominated for": ("was a nominee for the {o}", "was up for the {o}"),
    "member of political party": ("belonged to the party {o}", "stood for the {o}"),
    "position held": ("served as {o}",),
    "member of sports team": ("played for {o}",),
    "position played on team / speciality": ("played as {o}",),
    "instrument": ("played the {o}",),
    "genre": ("is a work or artist in the style of {o}",),
    "religion": ("followed {o}", "practised {o}"),
    "cause of death": ("died of {o}",),
    "place of burial": ("lies buried in {o}", "was laid to rest at {o}"),
    "influenced by": ("drew on the ideas of {o}",),
    "languages spoken, written or signed": ("spoke {o}",),
    "director": ("was directed by {o}", "is a film made by {o}"),
    "cast member": ("starred {o}", "featured the actor {o}"),
    "composer": ("had music by {o}", "was scored by {o}"),
    "screenwriter": ("was written for the screen by {o}",),
    "producer": ("was produced by {o}",),
    "author": ("was written by {o}",),
    "publication date": ("came out on {o}", "was released on {o}"),
    "filming location": ("was shot in {o}",),
    "narrative location": ("is set in {o}",),
    "original broadcaster": ("first aired on {o}",),
    "production company": ("was made by the company {o}",),
    "developer": ("was created by the software makers {o}",),
    "manufacturer": ("is built by {o}",),
    "capital": ("has {o} as its seat of government", "is governed from {o}"),
    "shares border with": ("borders {o}", "lies next to {o}"),
    "continent": ("lies in {o}", "is a land in {o}"),
    "country": ("is found in {o}", "is in {o}"),
    "located in the administrative territorial entity": ("lies in the district or region of {o}",),
    "population": ("has {o} inhabitants", "is home to {o} people"),
    "area": ("covers {o} square kilometres",),
    "elevation above sea level": ("rises {o} metres above the sea",),
    "official language": ("conducts its official business in {o}",),
    "currency": ("pays with the {o}",),
    "head of government": ("is led by {o}",),
    "twinned administrative body": ("is a twin town of {o}",),
    "inception": ("was founded on {o}", "began on {o}"),
    "founded by": ("was founded by {o}", "was set up by {o}"),
    "headquarters location": ("has its head office in {o}", "is run from {o}"),
    "owned by": ("belongs to {o}",),
    "named after": ("takes its name from {o}",),
    "located in time zone": ("keeps the clock of {o}",),
    "sport": ("is about {o}",),
}
"""What a sentence says of a subject for a predicate, with the object as `{o}`."""
RIVAL = """\
Text: Danny Boyle came into the world on 20 October 1956 and made the film Trainspotting.
Facts: [{"subject": "Danny Boyle", "predicate": "date of birth", "object": "20 October 1956"}, \
{"subject": "Trainspotting", "predicate": "director", "object": "Danny Boyle"}]
Text: In Japan people pay with the yen.
Facts: [{"subject": "Japan", "predicate": "currency", "object": "yen"}]
Text: Churchill went to Harrow School and wed Clementine Hozier.
Facts: [{"subject": "Churchill", "predicate": "educated at", "object": "Harrow School"}, \
{"subject": "Churchill", "predicate": "spouse", "object": "Clementine Hozier"}]
"""
"""What the model that writes JSON reads before a sentence."""
MOST_WRITTEN = 160
LONGEST, DRAWN = 40, 40
"""The most characters of an object, and facts that are drawn for each sentence."""


@dataclass(slots=True)
class Made:
    """A sentence with the facts that it says, and those that were found in it, by two methods."""

    text: str
    facts: list[Parts]
    found: list[Parts] = field(default_factory=list)
    rival: list[Parts] = field(default_factory=list)
    confidences: list[float] = field(default_factory=list)


def said(value: str) -> str:
    """Return a value as a sentence has it.

    >>> said("1956-10-20"), said("1717854"), said("Juneau (city in Alaska)")
    ('20 October 1956', '1,717,854', 'Juneau')
    """
    if parse_time(value) is not None and value.count("-") == 2 and value[0] != "-":
        year, month, day = value.split("-")
        return f"{int(day)} {month_name[int(month)]} {int(year)}"
    number = parse_quantity(value) if parse_time(value) is None or len(value) > 4 else None
    return bare_name(value) if number is None or number != int(number) else f"{int(number):,}"


def made(index: Index, count: int, seed: int) -> Iterator[Made]:
    """Yield `count` sentences about an index."""
    chance, facts = random.Random(seed), TreeFacts(index)
    by_predicate = defaultdict[str, list[str]](list)
    for ids in random_facts(index, DRAWN * count, seed):
        parts = split_fact(index.tokenizer.decode(list(ids)).strip().removesuffix(" ."))
        if parts is not None and parts[1] in PHRASES and "".join(parts).isascii() and not parts[0].endswith(ALIAS):
            by_predicate[parts[1]].append(parts[0])
    order, used = sorted(by_predicate), set[str]()
    chance.shuffle(order)
    while count and any(by_predicate.values()):
        for predicate in order:
            if not by_predicate[predicate] or not count:
                continue
            subject = by_predicate[predicate].pop()
            chosen = _facts_of(facts, subject, predicate, chance) if subject not in used else []
            if chosen:
                used.add(subject)
                count -= 1
                yield Made(_sentence(chosen, chance), chosen)


def _facts_of(facts: TreeFacts, subject: str, predicate: str, chance: random.Random) -> list[Parts]:
    """Return one to three facts of a subject by different predicates, of which one is given, whose names mean what they are
    meant to."""
    if not _means(facts, subject):
        return []
    others = [one for one in facts.predicates(subject) if one in PHRASES and one != predicate]
    chance.shuffle(others)
    wanted, found, names = chance.randint(1, 3), list[Parts](), {bare_name(subject)}
    for one in [predicate, *others]:
        values = sorted(value for _, value in facts.objects([subject], one))
        value = chance.choice(values) if values else ""
        kind = facts.describe([one])[one].kind
        name = bare_name(value)
        fits = value and value.isascii() and len(name) <= LONGEST and name not in names and name == name.strip("'\"")
        if kind == "entity":
            fits = fits and _means(facts, value)
        elif kind == "time":
            fits = fits and parse_time(value) is not None and value.count("-") == 2 and value[0] != "-"
        else:
            fits = fits and (number := parse_quantity(value)) is not None and number == int(number)
        if fits:
            found.append((subject, one, value))
            names.add(name)
        elif one == predicate:
            return []
        if len(found) == wanted:
            break
    return found


def _means(facts: TreeFacts, name: str) -> bool:
    meant = facts.linker.entity(bare_name(name))
    return meant is not None and meant.name == name


def _sentence(facts: Sequence[Parts], chance: random.Random) -> str:
    said_of = [chance.choice(PHRASES[predicate]).format(o=said(value)) for _, predicate, value in facts]
    *first, last = said_of
    return f"{bare_name(facts[0][0])} {', '.join(first)}{' and ' * bool(first)}{last}."


class JsonRival:
    """The same model, which writes the facts of a sentence as JSON; names and predicates are then matched with the index."""

    def __init__(self, model: LanguageModel, facts: TreeFacts) -> None:
        self._model, self._facts = model, facts

    def facts_of(self, sentence: str) -> list[Parts]:
        ids = self._model.tokenizer.encode(f"{RIVAL}Text: {sentence}\nFacts:")
        decode = self._model.tokenizer.decode
        writing = WritingOptions(is_end=lambda ids: "\n" in decode(ids.tolist()), answer_line=lambda _, __: ())
        written = BatchWriter(self._model).write_one(TextRequest(prompt=ids, max_new_tokens=MOST_WRITTEN), writing)
        text = decode(list(written.ids))
        found = list[Parts]()
        for one in re.findall(r"\{[^{}]*\}", text.split("\n")[0]):
            with suppress(ValueError, KeyError, TypeError, AttributeError):
                given = json.loads(one)
                matched = self._matched(given["subject"], given["predicate"], given["object"])
                found += [matched] if matched is not None else []
        return found

    def _matched(self, subject: str, predicate: str, value: str) -> Parts | None:
        linker = self._facts.linker
        meant, named = linker.entity(subject), linker.predicate(predicate)
        name = (
            named.name if named is not None else next((one.name for one in linker.near_predicates(predicate, 1)), None)
        )
        if meant is None or name is None:
            return None
        kind = self._facts.describe([name])[name].kind
        if kind == "entity":
            other = linker.entity(value)
            return None if other is None else (meant.name, name, other.name)
        return meant.name, name, _as_value(value)


def _as_value(value: str) -> str:
    """Return a value that the model wrote as facts have it: a date of words as numbers, a number without commas."""
    found = re.fullmatch(r"(\d\d?) (\w+) (\d{4})", value.strip())
    if found is not None and found[2] in month_name:
        return f"{found[3]}-{list(month_name).index(found[2]):02}-{int(found[1]):02}"
    return value.strip().replace(",", "")


def invented(index: Index, found: Sequence[Made]) -> int:
    """Return how many names of the facts that were found the index does not have."""
    facts = TreeFacts(index)
    known = {name for one in found for name in (part for fact in one.found for part in fact[:2])}
    kinds = facts.describe([fact[1] for one in found for fact in one.found])
    objects = {fact[2] for one in found for fact in one.found if kinds[fact[1]].kind == "entity"}
    return sum(not facts.linker.is_name(name) and name not in kinds for name in known | objects)


def same(facts: TreeFacts, fact: Parts) -> frozenset[Parts]:
    """Return a fact in both directions."""
    subject, predicate, value = fact
    inverse = facts.inverse_of(predicate)
    return frozenset([fact, *([(value, inverse, subject)] if inverse else [])])


def scores(facts: TreeFacts, pairs: Sequence[tuple[Sequence[Parts], Sequence[Parts]]]) -> tuple[float, float, float]:
    """Return precision, recall and F1 of facts that were found, over all sentences: pairs of what is right and what was
    found."""
    right = found = hits = 0
    for gold, given in pairs:
        wanted, got = {same(facts, one) for one in gold}, {same(facts, one) for one in given}
        right, found, hits = right + len(wanted), found + len(got), hits + len(wanted & got)
    precision, recall = (hits / found if found else 0.0), hits / right if right else 0.0
    return precision, recall, 2 * hits / (found + right) if found + right else 0.0


@click.command()
@click.argument("index")
@click.argument("model")
@click.option("--count", default=200, show_default=True, help="Sentences.")
@click.option("--seed", default=7, show_default=True)
@click.option("--verify", is_flag=True)
@click.option("--rival", is_flag=True, help="Also the model that writes JSON.")
@click.option("--db")
@click.option("--out", type=click.Path(path_type=Path))
def main(
    index: str, model: str, count: int, seed: int, verify: bool, rival: bool, db: str | None, out: Path | None
) -> None:
    """Print the figures of facts out of sentences about an index."""
    with open_index(index, db) as opened:
        sentences, facts = list(made(opened, count, seed)), TreeFacts(opened)
        loaded = load_language_model(model, opened)
        asker, writer = Asker(loaded, loaded.tokenizer, opened, prompt_for(None, opened)), JsonRival(loaded, facts)
        file = None if out is None else out.open("w", encoding="utf-8")
        for number, one in enumerate(sentences, 1):
            stated = asker.extract(one.text, ExtractionOptions(verify=verify)).facts
            one.found = [(found.fact.subject, found.fact.predicate, found.fact.object) for found in stated]
            one.confidences = [round(found.confidence, 2) for found in stated]
            if rival:
                one.rival = writer.facts_of(one.text)
            if file is not None:
                file.write(f"{json.dumps(asdict(one), ensure_ascii=False)}\n")
                file.flush()
            if number % 10 == 0 or number == len(sentences):
                done = sentences[:number]
                click.echo(f"{number} sentences, {sum(len(one.facts) for one in done)} facts")
                click.echo(f"names that do not exist: {invented(opened, done)}")
                for name in ("found", "rival") if rival else ("found",):
                    given = scores(facts, [(one.facts, getattr(one, name)) for one in done])
                    click.echo(f"{name}: precision {given[0]:.3f}, recall {given[1]:.3f}, micro F1 {given[2]:.3f}")


if __name__ == "__main__":
    main()
