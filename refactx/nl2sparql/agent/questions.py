"""Questions to the fast model about a question: its kinds, a plan, and whether a query asks the same.

What it replies is never run. Of a reply, only known names, a few short lines, or yes and no are taken.
"""

import re
from collections.abc import Mapping

from refactx.fact import clean_part, visible
from refactx.nl2sparql.agent.metered import Meter
from refactx.nl2sparql.attempt import Attempt
from refactx.nl2sparql.pack import Pack
from refactx.nl2sparql.prompting import filled, translation_texts, without_prefixes
from refactx.nl2sparql.prompting.texts import Asking
from refactx.sparql.engines import Term
from refactx.sparql.policies import TextModel
from refactx.writing.conversation import without_thoughts

STEPS, LONGEST = 4, 120
"""The most steps of a plan, and the most letters of one."""
SHOWN_ROWS = 5
_REPLY = 120
"""The most tokens of a reply."""
_NAMED = 0.5
"""The score of a pattern that the model names."""


class Questions:
    """Questions to a fast model about questions to a pack's endpoint."""

    def __init__(self, model: TextModel, pack: Pack) -> None:
        self._model, self._pack = model, pack

    def patterns(self, question: str, meter: Meter) -> Mapping[str, float]:
        """Return the patterns that the model names, of the pack's."""
        kinds = "\n".join(f"{one.name}: {one.about}" for one in self._pack.patterns.values())
        if not kinds:
            return {}
        reply = self._ask(translation_texts().analyse, meter, kinds=kinds, question=clean_part(question))
        return {name: _NAMED for name in self._pack.patterns if re.search(rf"\b{re.escape(name)}\b", reply)}

    def plan(self, question: str, meter: Meter) -> tuple[str, ...]:
        """Return the steps that the model plans, each a short line."""
        reply = self._ask(translation_texts().plan, meter, question=clean_part(question))
        lines = (re.sub(r"^\W*\d*[.)]?\s*", "", visible(line)).strip() for line in reply.splitlines())
        return tuple(line[:LONGEST] for line in lines if line)[:STEPS]

    def doubt(self, question: str, attempt: Attempt, meter: Meter) -> str:
        """Return why a query is not what the question asks, in the model's words; empty if it says that it is."""
        if attempt.sparql is None or attempt.report is None:
            return ""
        reply = self._ask(
            translation_texts().verify,
            meter,
            question=clean_part(question),
            sparql=without_prefixes(attempt.sparql, self._pack.prefixes),
            count=str(attempt.rows),
            rows="\n".join(" | ".join(_shown(term) for term in row) for row in attempt.report.rows[:SHOWN_ROWS]),
        )
        match = re.match(r"\W*no\b[\s,.:;-]*(.*)", reply.strip(), re.IGNORECASE | re.DOTALL)
        if match is None:
            return ""
        reason = visible(match[1]).partition("\n")[0].strip()[:LONGEST]
        return reason or "it does not ask what the question asks"

    def _ask(self, asking: Asking, meter: Meter, **parts: str) -> str:
        messages = [
            {"role": "system", "content": filled(asking.system, title=self._pack.title, **parts)},
            {"role": "user", "content": filled(asking.user, title=self._pack.title, **parts)},
        ]
        return without_thoughts(meter.generate(self._model, messages, _REPLY))


def _shown(term: Term | None) -> str:
    return "" if term is None else visible(str(term))[:80]
