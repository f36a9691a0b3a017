"""Options of a request: what they mean, and that wrong ones are refused with a reason."""

from typing import Any

import pytest
from support.vllm.twins import params

from refactx.engines.vllm.text import RequestOptions


@pytest.mark.parametrize(
    ("extra", "options"),
    [
        ({}, RequestOptions()),
        ({"another_processors": 3}, RequestOptions()),
        *[({"refactx_facts": value}, RequestOptions()) for value in (1, 1.0, True, "1", "true", "on")],
        *[({"refactx_facts": value}, RequestOptions(facts=False)) for value in (0, 0.0, False, "0", "False", "off")],
        ({"refactx_max_facts": 3}, RequestOptions(max_facts=3)),
        ({"refactx_max_facts": 3.0}, RequestOptions(max_facts=3)),
        ({"refactx_max_facts": 1, "refactx_after_facts": "So: "}, RequestOptions(max_facts=1, after_facts="So: ")),
    ],
)
def test_options_are_read_as_the_server_passes_them(extra: dict[str, Any], options: RequestOptions) -> None:
    assert RequestOptions.of(params(**extra)) == options


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ({"refactx_facts": 2}, "give 1 or 0"),
        ({"refactx_facts": "maybe"}, "give 1 or 0"),
        ({"refactx_facts": [1]}, "give 1 or 0"),
        ({"refactx_facts": None}, "give 1 or 0"),
        *[({"refactx_max_facts": value}, "at least 1") for value in (0, -1, 1.5, "3", True, [1], float("nan"))],
        ({"refactx_max_facts": float("inf")}, "at least 1"),
        ({"refactx_after_facts": "So"}, "give refactx_max_facts too"),
        ({"refactx_max_facts": 1, "refactx_after_facts": 7}, "give a text"),
        ({"refactx_maxfacts": 1}, "no option refactx_maxfacts"),
    ],
)
def test_wrong_options_are_refused(extra: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        RequestOptions.of(params(**extra))


def test_a_request_with_structured_outputs_has_no_facts() -> None:
    request = params()
    request.structured_outputs = object()
    assert RequestOptions.of(request) == RequestOptions(facts=False)
    request.extra_args = {"refactx_facts": 1}
    with pytest.raises(ValueError, match="exclude each other"):
        RequestOptions.of(request)
