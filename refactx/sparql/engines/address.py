"""The address of an endpoint: what requests are sent to, and what messages show of it."""

from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from refactx.errors import InputError
from refactx.writing.chat_server import is_here

EXAMPLE = "https://query.wikidata.org/sparql"


@dataclass(frozen=True, slots=True)
class Address:
    """An endpoint's address. `url`: without user and password; `user`: None if there is none; `shown`: for messages,
    without all that may be secret: user, password, and the parameters after `?`."""

    url: str
    host: str
    shown: str
    user: tuple[str, str] | None = None

    def __repr__(self) -> str:
        return f"Address({self.shown!r})"

    @property
    def is_local(self) -> bool:
        """Whether the host is this machine, by its name."""
        return is_here(self.host)

    def may_redirect_to(self, other: "Address") -> bool:
        """Return whether requests, with their password, may be sent on to another address: of the same host and port,
        or from http to https at the same port or the usual ones.

        >>> old = read_address("http://kb.example/sparql")
        >>> [old.may_redirect_to(read_address(f"{start}/new")) for start in ("https://kb.example", "http://kb.example:81")]
        [True, False]
        """
        usual = {"http": 80, "https": 443}
        (old, old_port), (new, new_port) = (
            (parts.scheme, parts.port or usual[parts.scheme]) for parts in map(urlsplit, (self.url, other.url))
        )
        is_upgrade = (old, new) == ("http", "https") and new_port in (old_port, 443 if old_port == 80 else old_port)
        return self.host == other.host and ((old, old_port) == (new, new_port) or is_upgrade)


def read_address(url: str) -> Address:
    """Return the address that a URL is.

    >>> address = read_address("https://me:secret@kb.example:8080/sparql?key=1")
    >>> address.shown, address.url, address.user
    ('https://kb.example:8080/sparql', 'https://kb.example:8080/sparql?key=1', ('me', 'secret'))

    Raises InputError, which does not repeat a password, if it is no http or https URL.
    """
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname, parts.port
    except ValueError:
        parts, host, port = SplitResult("", "", "", "", ""), None, None
    if parts.scheme not in ("http", "https") or not host or any(letter.isspace() for letter in url.strip()):
        raise InputError(f"the address of an endpoint begins with http:// or https:// and a host, as in {EXAMPLE}")
    place = (f"[{host}]" if ":" in host else host) + (f":{port}" if port is not None else "")
    path = parts.path or "/"
    user = (unquote(parts.username or ""), unquote(parts.password or "")) if "@" in parts.netloc else None
    return Address(
        url=urlunsplit((parts.scheme, place, path, parts.query, "")),
        host=host.lower(),
        shown=urlunsplit((parts.scheme, place, path, "", "")),
        user=user,
    )
