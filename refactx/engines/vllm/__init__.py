"""Logits processors for vLLM, after which every request writes only facts of an index after the trigger.

| names | what they are |
|---|---|
| `FactLogitsProcessorV1` | for vLLM's V1 model runner, from vLLM 0.20 |
| `FactLogitsProcessorV2` | for vLLM's V2 model runner, from vLLM 0.31 |

`vllm serve MODEL --logits-processors refactx.engines.vllm:FactLogitsProcessorV1`, with the index in the environment
variables REFACTX_INDEX and REFACTX_DB. Options of a request are in its `extra_args` (`options.RequestOptions`).
"""

from refactx.lazy import lazy_exports

__all__ = ["FactLogitsProcessorV1", "FactLogitsProcessorV2"]

# Late, since each class needs its own part of vLLM, and older versions do not have both.
__getattr__ = lazy_exports("refactx.engines.vllm", {"v1": "FactLogitsProcessorV1", "v2": "FactLogitsProcessorV2"})
