"""The declarations of prefixes at the head of queries: left out in prompts, and added to what models write."""

import re
from collections.abc import Mapping

from refactx.sparql.syntax import tokens_of

_DECLARED = re.compile(r"\bPREFIX\s+([\w.-]*):\s*<([^<>\s]*)>\s*", re.IGNORECASE)


def with_prefixes(sparql: str, prefixes: Mapping[str, str]) -> str:
    """Return a query with declarations of those of some prefixes (IRIs by prefix) that it uses and does not declare.

    >>> with_prefixes("ASK { ex:a a ?b }", {"ex": "http://e.org/", "no": "http://n.org/"})
    'PREFIX ex: <http://e.org/>\\nASK { ex:a a ?b }'
    """
    tokens = tokens_of(sparql)
    declared = {name for name, _ in _DECLARED.findall("".join(t.text for t in tokens if t.kind != "comment"))}
    used = {token.text.partition(":")[0] for token in tokens if token.kind == "name"}
    missing = [name for name in prefixes if name in used - declared]
    return "".join(f"PREFIX {name}: <{prefixes[name]}>\n" for name in missing) + sparql


def without_prefixes(sparql: str, prefixes: Mapping[str, str]) -> str:
    """Return a query on one line, without comments, and without the declarations that some prefixes have as well.

    >>> without_prefixes("PREFIX ex: <http://e.org/> # of examples\\nASK {\\n  ex:a a '1  2' }", {"ex": "http://e.org/"})
    "ASK { ex:a a '1  2' }"
    """
    texts = [" " if token.is_space else token.text for token in tokens_of(sparql)]
    line = "".join(text for at, text in enumerate(texts) if text != " " or at == 0 or texts[at - 1] != " ")
    return _DECLARED.sub(lambda match: "" if prefixes.get(match[1]) == match[2] else match[0], line).strip()
