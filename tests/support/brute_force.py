"""The facts of a file of N-Triples, computed by brute force in plain Python: the twin with which the ingest is compared.

It shares no code with the package. Everything is in memory, a line is one regular expression, and there is no report.
"""

import gzip
import json
import re
import unicodedata
from collections import Counter, defaultdict
from decimal import Decimal
from pathlib import Path

LINE = re.compile(r'<([^>]*)> <([^>]*)> (?:<([^>]*)>|"((?:[^"\\]|\\.)*)"(?:@([\w-]+)|\^\^<([^>]*)>)?) \.')
ENTITY = re.compile(r"http://www\.wikidata\.org/entity/([QP]\d+)")
DIRECT = "http://www.wikidata.org/prop/direct/"
RANKS = {"en": 0, "mul": 2}
KINDS = {"http://www.w3.org/2000/01/rdf-schema#label": "label", "http://schema.org/description": "description"}
INVISIBLE = re.compile("[\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]")


def clean(text: str) -> str:
    text = re.sub(r"[\s\x00-\x1f\x7f-\x9f]+", " ", INVISIBLE.sub("", text)).replace("<", "‹").replace(">", "›")
    text = unicodedata.normalize("NFC", text).strip()
    while text and unicodedata.category(text[0]) in ("Mn", "Mc", "Me", "Cf"):
        text = text[1:].lstrip()
    return text if len(text) <= 1000 else text[:999].rstrip() + "…"


def number(text: str, exact: bool = True) -> str:
    digits = text.lstrip("+-").replace(".", "").lstrip("0")
    if not exact or "e" in text.lower() or ("." in text and len(digits) > 17):
        short = repr(float(text))
        text = short if 0 < abs(float(text)) < 1e-4 or abs(float(text)) >= 1e16 else format(Decimal(short), "f")
        text = text.removesuffix(".0")
    return "0" if not text.strip("+-0.") and "." not in text else text.removeprefix("+")


def value(text: str, datatype: str | None) -> str | None:
    kind = (datatype or "").rpartition("#")[2]
    if kind in ("", "string"):
        return text
    if kind in ("decimal", "integer"):
        return number(text)
    if kind == "double":
        return number(text, exact=False)
    if kind == "dateTime":
        sign, year, month, day = re.fullmatch(r"([+-]?)(\d+)-(\d\d)-(\d\d)T00:00:00Z", text).groups()
        before = sign == "-" or int(year) == 0
        if before:
            year = str(int(year) + 1)
        if month == "00" or (before and month == day == "01"):
            return str(int(year)) + (" BCE" if before else "")
        return f"{year}-{month}" + (f"-{day}" if day != "00" else "") + (" BCE" if before else "")
    if kind == "wktLiteral":
        east, north = (number(part) for part in re.fullmatch(r"(?i)point\((\S+) (\S+)\)", text).groups())
        sides = ((north, "NS"), (east, "EW"))
        return ", ".join(f"{n.lstrip('-')}°{side[n[0] == '-']}" for n, side in sides)
    return None


def facts_of(path: Path) -> set[tuple[str, str, str]]:
    terms: dict[str, dict[str, list[tuple[int, str]]]] = defaultdict(lambda: defaultdict(list))
    claims = []
    for line in gzip.decompress(path.read_bytes()).decode().split("\n")[:-1]:
        subject, predicate, node, text, language, datatype = LINE.fullmatch(line).groups()
        entity = ENTITY.fullmatch(subject)[1]
        rank = 0 if language is None else RANKS.get(language, 1 if language.startswith("en-") else None)
        if text is not None and "\\" in text:
            text = json.loads(f'"{text}"')
        if predicate in KINDS and rank is not None and clean(text):
            terms[entity][KINDS[predicate]].append((rank, clean(text)))
        elif predicate.startswith(DIRECT):
            if node is not None and ENTITY.fullmatch(node):
                claims.append((entity, predicate.removeprefix(DIRECT), ENTITY.fullmatch(node)[1], None))
            elif node is None and rank is not None and (text := value(text, datatype)) and clean(text):
                claims.append((entity, predicate.removeprefix(DIRECT), None, clean(text)))
    best = {entity: {kind: min(found)[1] for kind, found in kinds.items()} for entity, kinds in terms.items()}
    names = {
        e: f"{b['label']} ({b['description']})" if e[0] == "Q" and "description" in b else b["label"]
        for e, b in best.items()
        if "label" in b
    }
    used, properties = Counter(names.values()), Counter(name for e, name in names.items() if e[0] == "P")
    ambiguous = [e for e, name in names.items() if used[name] > 1 and (e[0] == "Q" or properties[name] > 1)]
    names |= {e: f"{names[e]} ({e})" for e in ambiguous}
    facts = {(names[e], "description", b["description"]) for e, b in best.items() if e in names and "description" in b}
    for entity, property_, target, text in claims:
        part = names.get(target) if text is None else text
        if entity in names and property_ in names and part is not None:
            facts.add((names[entity], names[property_], part))
    return facts
