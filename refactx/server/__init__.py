"""A server with OpenAI's API, whose answers cite facts of an index: `refactx serve`.

| names | what they are |
|---|---|
| `TextService`, `ServingOptions`, `Availability` | a model with its index, how it is served, and whether its database answers |
| `create_app` | the ASGI application of a service |
| `listen`, `serve` | the running of that application |
"""

from typing import TYPE_CHECKING

from refactx.lazy import lazy_exports

if TYPE_CHECKING:
    from refactx.server.app import create_app, listen, serve
    from refactx.server.service import Availability, DatabaseChecks, TextService
    from refactx.server.texts import ServingOptions

# fmt: off
__all__ = ["Availability", "DatabaseChecks", "ServingOptions", "TextService", "create_app", "listen", "serve"]
# fmt: on
__dir__ = __all__.copy
__getattr__ = lazy_exports(
    __name__,
    {"app": "create_app listen serve", "service": "Availability DatabaseChecks TextService", "texts": "ServingOptions"},
)
