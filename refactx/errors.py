"""The one family of errors that a user of ReFactX meets.

Each message says what was found, what was expected and what to do. The command line prints it as one line and exits
with 2; a library user catches :class:`RefactxError`.
"""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from refactx.decoding.partial import Partial


class RefactxError(Exception):
    """Base of every error that ReFactX raises on purpose.

    `partial`: what had been generated when it was raised in the middle of that; None elsewhere.
    """

    partial: "Partial | None" = None


class InputError(RefactxError):
    """A source, question or option that cannot be used."""


class DatabaseError(RefactxError):
    """PostgreSQL cannot be reached, or refused what was asked."""


class IndexNotFoundError(RefactxError):
    """No ready index has that name."""


class IndexExistsError(RefactxError):
    """The name is taken, or another ingest is writing it."""


class IndexChangedError(RefactxError):
    """Facts were retracted while one of them was being written."""


class TokenizerMismatchError(RefactxError):
    """The index was built for another tokenizer."""


class CorruptIndexError(RefactxError):
    """A row of an index is not what the index says it is."""


class ModelError(RefactxError):
    """A model or tokenizer cannot be loaded or used."""


_PASSWORD = re.compile(r"(?<=://)([^:/@\s]*):\S*@|(\b\w*password\s*=\s*)('(?:[^'\\]|\\.)*'|\S+)", re.IGNORECASE)


def without_password(text: str) -> str:
    """The text with the password of any database URL or connection string in it removed.

    >>> without_password("cannot reach postgresql://me:secret@db/kb")
    'cannot reach postgresql://me:***@db/kb'
    >>> without_password("host=db password=secret user=me")
    'host=db password=*** user=me'
    """
    return _PASSWORD.sub(lambda m: f"{m[2]}***" if m[2] else f"{m[1]}:***@", text)
