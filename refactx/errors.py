"""The errors that ReFactX raises: one family, `RefactxError`.

Each message says what was found, what was expected and what to do. The command line prints it as one line and exits
with status 2; a program catches `RefactxError` or one of its subclasses.
"""

import re
from typing import Any, Protocol

__all__ = ["CorruptIndexError", "DatabaseError", "IndexChangedError", "IndexExistsError", "IndexNotFoundError"]
__all__ += ["InputError", "ModelError", "ModelServerError", "RefactxError", "TokenizerMismatchError"]

_LONGEST = 1000
"""Characters of an error that a reader can take in; the longest list of choices in one has some 700."""

_SECRET = re.compile(
    r"(?<=://)([^:/@\s]*):\S*@|(\b\w*(?:password|secret|scram_\w+_key)\s*=\s*)('(?:[^'\\]|\\.)*'|\S+)", re.IGNORECASE
)
_QUERY = re.compile(r"(?<=[?&])(?!(?:user|host|port|dbname)=)[^\s?&=]+=[^\s&]*")
_ADDRESS = re.compile(r"\bpostgres(?:ql)?://\S+")


class PartialOutput(Protocol):
    """The output so far of a generation that an error ended: a `refactx.Partial`, which documents the fields."""

    @property
    def ids(self) -> Any: ...
    @property
    def lengths(self) -> tuple[int, ...]: ...
    @property
    def facts(self) -> tuple[tuple[Any, ...], ...]: ...
    @property
    def answers(self) -> tuple[Any, ...]: ...


class RefactxError(Exception):
    """Base of every error that ReFactX raises on purpose.

    `partial`: the output so far if the error ended a generation, else None. `command`: how the message goes on for who
    typed a command, such as with an option; clients of a server, who cannot give one, do not read it (`for_clients`).
    `clients`: how it goes on for them instead.

    >>> error = RefactxError("the query took too long: bind more", command=", or give it more time (--timeout)")
    >>> str(error), error.for_clients
    ('the query took too long: bind more, or give it more time (--timeout)', 'the query took too long: bind more')
    """

    partial: PartialOutput | None = None

    def __init__(self, message: str = "", *, command: str = "", clients: str = "") -> None:
        super().__init__(f"{message}{command}")
        self.for_clients = f"{message}{clients}"


class InputError(RefactxError):
    """A source, question or option that cannot be used."""


class DatabaseError(RefactxError):
    """PostgreSQL cannot be reached, or refused a command."""


class IndexNotFoundError(RefactxError):
    """No ready index has that name."""


class IndexExistsError(RefactxError):
    """An index has that name already, or another ingest is writing one."""


class IndexChangedError(RefactxError):
    """Facts were retracted while a model was writing one of them."""


class TokenizerMismatchError(RefactxError):
    """The index was built for another tokenizer than the model's."""


class CorruptIndexError(RefactxError):
    """A row of an index is damaged, or does not belong to the index."""


class ModelError(RefactxError):
    """A model or tokenizer cannot be loaded or used."""


class ModelServerError(ModelError):
    """A server that has the model did not answer, or refused. `answered`: its status, None if it gave none.

    `status`: the one with which a server in front of it answers.
    """

    def __init__(self, message: str, answered: int | None = None) -> None:
        super().__init__(message)
        self.status = {400: 400, 408: 504, 413: 400, 422: 400, 429: 429, 503: 503, 504: 504}.get(answered or 0, 502)


def brief(message: str) -> str:
    """Return an error on one line, without the middle if it quotes a long text: its end says what to do.

    >>> brief("cannot read\\n" + "x" * 9000 + ": correct the file")[-40:]
    'xxxxxxxxxxxxxxxxxxxxxx: correct the file'
    """
    text = " ".join(message.split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} … {text[-_LONGEST // 2 :]}"


def text_for_clients(error: RefactxError) -> str:
    """Return what clients of a server may read of an error: nothing of where its database is, which the log has, and no command
    line."""
    if isinstance(error, IndexNotFoundError):
        return "the index of this server was replaced or removed: ask again in some seconds"
    if isinstance(error, DatabaseError):
        return "the database does not answer: ask again in some seconds"
    if isinstance(error, ModelServerError):
        why = {
            400: "refused the request, which may be too long for it: ask more briefly",
            504: "took too long: ask again",
        }
        busy = {429: "has too many requests: ask again in some seconds"}
        return f"the model's server {(why | busy).get(error.status, 'cannot answer now: ask again in some seconds')}"
    return brief(without_password(error.for_clients))


def without_password(text: str) -> str:
    """Return the text with `***` for each password and secret in a database's URL or connection string, and for all
    parameters of such a URL but user, host, port and database.

    It is for texts of others. Of an address that is known, show only `refactx.postgres.connections.shown_address`.

    >>> without_password("cannot reach postgresql://me:secret@db/kb?pass%77ord=secret")
    'cannot reach postgresql://me:***@db/kb?***'
    >>> without_password("host=db password=secret user=me")
    'host=db password=*** user=me'
    """
    shown = _ADDRESS.sub(lambda m: _QUERY.sub("***", m[0]), text)
    return _SECRET.sub(lambda m: f"{m[2]}***" if m[2] else f"{m[1]}:***@", shown)
