"""`python -m bench.extraction INDEX MODEL`: facts out of sentences that are made of facts, by `refactx.Asker.extract`.

Each sentence says one to three facts of a subject in words that are not those of the predicates, such as `was born in`, with
names as the index has them; no fact of a sentence is looked up in the index to find it. Printed: names that do not exist;
precision, recall and F1 over all facts (`micro`); and, with `--rival`, those of the same model that writes JSON, whose names are
matched afterwards. `--out`: each sentence, with its facts and those that were found, as JSON.
"""

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from bench.walks import random_facts
from refactx.fact import ALIAS, split_fact
from refactx.index.index import Index
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
MONTHS = "January February March April May June July August September October November December".split()
LONGEST, DRAWN = 40, 400
"""The most characters of an object, and facts that are drawn for each sentence."""


@dataclass(slots=True)
class Made:
    """A sentence with the facts that it says, and those that were found in it, by two methods."""

    text: str
    facts: list[Parts]
    found: list[Parts] = field(default_factory=list)
    rival: list[Parts] = field(default_factory=list)


def said(value: str) -> str:
    """Return a value as a sentence has it.

    >>> said("1956-10-20"), said("1717854"), said("Juneau (city in Alaska)")
    ('20 October 1956', '1,717,854', 'Juneau')
    """
    if parse_time(value) is not None and value.count("-") == 2 and value[0] != "-":
        year, month, day = value.split("-")
        return f"{int(day)} {MONTHS[int(month) - 1]} {int(year)}"
    number = parse_quantity(value) if parse_time(value) is None or len(value) > 4 else None
    return bare_name(value) if number is None or number != int(number) else f"{int(number):,}"


def made(index: Index, count: int, seed: int) -> Iterator[Made]:
    """Yield `count` sentences about an index."""
    chance, facts = random.Random(seed), TreeFacts(index)
    by_predicate = defaultdict[str, list[str]](list)
    for ids in random_facts(index, DRAWN * count // 4, seed):  # type: ignore[arg-type]
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
