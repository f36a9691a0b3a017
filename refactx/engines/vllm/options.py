"""The options of one request, from `SamplingParams.extra_args` (`vllm_xargs` in a request to vLLM's server)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

_PREFIX = "refactx_"
_SWITCH = {"1": True, "true": True, "on": True, "0": False, "false": False, "off": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOptions:
    """The options of one request.

    `facts`: whether its facts are those of the index. `max_facts`: at most this many facts, after which the text
    continues with `after_facts` on a line of its own, and ends if it begins another fact; None: no limit.
    """

    facts: bool = True
    max_facts: int | None = None
    after_facts: str = ""

    @classmethod
    def of(cls, params: Any) -> Self:
        """Return the options in vLLM's `SamplingParams`: `refactx_facts`, `refactx_max_facts`, `refactx_after_facts`.

        A request with structured outputs has no facts, since the two could leave no token that both allow. Raises
        ValueError, as vLLM expects it, for a wrong value, for another name that begins with `refactx_`, and for facts
        with structured outputs.
        """
        extra: Mapping[str, Any] = getattr(params, "extra_args", None) or {}
        given = {name.removeprefix(_PREFIX): value for name, value in extra.items() if name.startswith(_PREFIX)}
        unknown = sorted(given.keys() - {"facts", "max_facts", "after_facts"})
        if unknown:
            raise ValueError(
                f"there is no option {_PREFIX}{unknown[0]}: give refactx_facts, refactx_max_facts or refactx_after_facts"
            )
        facts = _switch(given["facts"]) if "facts" in given else None
        if getattr(params, "structured_outputs", None) is not None:
            if facts:
                raise ValueError("structured outputs and refactx_facts exclude each other: leave one of them out")
            facts = False
        limit = _count(given["max_facts"]) if given.get("max_facts") is not None else None
        after = given.get("after_facts", "")
        if not isinstance(after, str):
            raise ValueError(f"refactx_after_facts is {after!r}: give a text")
        if after and limit is None:
            raise ValueError("refactx_after_facts is given without a limit of facts: give refactx_max_facts too")
        return cls(facts=facts is not False, max_facts=limit, after_facts=after)


def _switch(value: Any) -> bool:
    """Return a value as a switch. vLLM's server passes JSON's true and false as numbers."""
    found = _SWITCH.get(str(int(value) if value in (0, 1) else value).lower()) if not isinstance(value, list) else None
    if found is None:
        raise ValueError(f"refactx_facts is {value!r}: give 1 or 0")
    return found


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1 or value < 1:
        raise ValueError(f"refactx_max_facts is {value!r}: give a whole number of at least 1")
    return int(value)
