"""The options of a server."""

from dataclasses import dataclass

from refactx.asking.options import MAX_NEW_TOKENS
from refactx.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """How a server answers.

    `name`: the name of its model; `keys`: the API keys that it accepts, none: everybody may ask; `hosts`: the names under
    which browsers may reach it, None: any. `max_running`: the most texts that are written at once; `max_waiting`: the most
    requests that wait for their turn. `max_tokens`: the most tokens of a text; `max_bytes`: of the body of a request.
    `grace`: for how many seconds running texts may continue after SIGTERM; `keep_alive`: after how many seconds of silence
    a stream has a comment; `refresh`: after how many it shows what was appended to the index and forgotten. `logs_text`:
    whether logs have questions and answers.

    Raises InputError for values out of range.
    """

    name: str
    keys: tuple[str, ...] = ()
    hosts: tuple[str, ...] | None = None
    max_running: int = 16
    max_waiting: int = 64
    max_tokens: int = MAX_NEW_TOKENS
    max_bytes: int = 1 << 20
    grace: float = 30.0
    keep_alive: float = 15.0
    refresh: float = 2.0
    logs_text: bool = False

    def __post_init__(self) -> None:
        if self.max_running < 1 or self.max_waiting < 0 or self.max_tokens < 1 or self.max_bytes < 1:
            raise InputError(
                f"max_running is {self.max_running}, max_waiting {self.max_waiting}, max_tokens {self.max_tokens} and "
                f"max_bytes {self.max_bytes}: give at least 1, and for max_waiting at least 0"
            )
