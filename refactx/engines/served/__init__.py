"""Models on servers that score given ids (vLLM, SGLang, llama-server), as they are: the facts are chosen here."""

from typing import TYPE_CHECKING

from refactx.lazy import lazy_exports

if TYPE_CHECKING:
    from refactx.engines.served.connection import Usage
    from refactx.engines.served.engine import ServedEngine
    from refactx.engines.served.model import ServedModel, load_served

__all__ = ["ServedEngine", "ServedModel", "Usage", "load_served"]
__getattr__ = lazy_exports(
    __name__, {"engine": "ServedEngine", "model": "ServedModel load_served", "connection": "Usage"}
)
