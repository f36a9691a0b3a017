"""A real vLLM on a real PostgreSQL: no fact is made up, requests without facts are free, an outage ends requests.

Run by `make test-vllm`, in an environment that has vLLM.
"""

import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from support.vllm.engine import ROWS, Count, engine, prompts

import refactx

vllm = pytest.importorskip("vllm")
pytestmark = pytest.mark.slow

AWAY = "\n[refactx: the database of the facts cannot be reached]"
FACTS = 1_000


@pytest.fixture(scope="module")
def environment(sample_url: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REFACTX_DB", sample_url)
        patch.setenv("REFACTX_OUTAGE_SECONDS", "1")
        yield


@pytest.fixture(scope="module")
def llm(environment: None, smollm2_folder: object) -> Any:
    return engine(str(smollm2_folder), "V1", disable_log_stats=False)


@pytest.fixture(scope="module")
def known(sample_url: str) -> frozenset[str]:
    with refactx.open_index(db=sample_url) as index:
        return frozenset(fact.text for fact in index.all_facts())


def sampled(tokens: int, **options: Any) -> Any:
    return vllm.SamplingParams(temperature=1.0, max_tokens=tokens, **options)


def test_an_outage_ends_requests_and_not_the_engine(llm: Any, sample_url: str, known: frozenset[str]) -> None:
    """It comes first, as long as the engine's process has no piece of the index in memory."""
    name = re.search(r"///(\w+)", sample_url)
    assert name is not None
    texts = prompts(sorted(known), 8, seed=0)
    free = [{"refactx_facts": n % 2} for n in range(8)]
    with psycopg.connect(sample_url.replace(name[1], "postgres"), autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name[1]} ALLOW_CONNECTIONS false".encode())
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name[1]])
        try:
            out = llm.generate(
                texts, [sampled(30, extra_args=extra, ignore_eos=True) for extra in free[:-1]] + [sampled(30)]
            )
        finally:
            connection.execute(f"ALTER DATABASE {name[1]} ALLOW_CONNECTIONS true".encode())
    for request, extra in zip(out[:-1], free, strict=False):
        text = request.outputs[0].text
        assert (text.startswith(AWAY)) == bool(extra["refactx_facts"]), text
    assert (out[-1].outputs[0].text, out[-1].outputs[0].finish_reason) == (AWAY, "stop")
    count = Count()
    for request in llm.generate(texts, sampled(120)):
        count.add(request.outputs[0].text, request.outputs[0].finish_reason == "length", known)
    assert count.facts
    assert not count.unknown + count.other


def test_facts_that_do_not_exist_in_1000_sampled_facts_24_requests_at_once(llm: Any, known: frozenset[str]) -> None:
    word = llm.get_tokenizer().encode("Fact", add_special_tokens=False)[0]
    count, seed = Count(), 1
    while count.facts < FACTS:
        texts = prompts(sorted(known), 4 * ROWS, seed)
        for request in llm.generate(texts, sampled(200, logit_bias={word: 5.0}), use_tqdm=False):
            count.add(request.outputs[0].text, request.outputs[0].finish_reason == "length", known)
        seed += 1
        print(f"{count}", flush=True)
    preempted = sum(metric.value for metric in llm.get_metrics() if metric.name == "vllm:num_preemptions")
    print(f"facts that do not exist in {count.facts:,} sampled facts, {ROWS} requests at once: {count.unknown}")
    print(f"triggers before anything else: {count.other}; requests preempted: {preempted}")
    assert not count.unknown + count.other
    assert preempted


def test_a_request_without_facts_is_free(llm: Any, known: frozenset[str]) -> None:
    """The model continues a fact that does not exist as it likes, beside a request that may not."""
    prompt = "Fact: <Atlantis> <capital> <Poseidonis> .\nFact: <Atlantis> <language> <Atlantean> .\nFact:"
    greedy = vllm.SamplingParams(temperature=0.0, max_tokens=60)
    free = vllm.SamplingParams(temperature=0.0, max_tokens=60, extra_args={"refactx_facts": 0})
    held, own = (request.outputs[0].text for request in llm.generate([prompt] * 2, [greedy, free]))
    assert own.startswith(" <Atlantis>")
    assert any(f" {fact}".startswith(held[:20]) for fact in known)


def test_a_limit_of_facts_and_the_text_after_them(llm: Any, known: frozenset[str]) -> None:
    extra = {"refactx_max_facts": 1, "refactx_after_facts": "Answer:"}
    (request,) = llm.generate(prompts(sorted(known), 1, seed=3), sampled(200, extra_args=extra))
    assert re.match(r"\s<[^\n]*> \.\s?\nAnswer:", request.outputs[0].text)


def test_wrong_options_are_refused_when_a_request_is_sent(llm: Any) -> None:
    with pytest.raises(vllm.exceptions.VLLMValidationError, match="refactx_max_facts is 0"):
        llm.generate("a", sampled(1, extra_args={"refactx_max_facts": 0}))
    assert llm.generate("a", sampled(1))[0].outputs[0].token_ids
