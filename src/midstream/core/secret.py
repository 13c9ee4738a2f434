"""A value that is never shown: not by str, repr or format, not in a log, not among the locals of a traceback.

Only the code that sends a secret calls `reveal`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from .modules import late_module
from .patterns import late_pattern

if TYPE_CHECKING:
    import hmac
    import re
else:
    hmac = late_module("hmac", globals())

VEIL = "***"

# The user and password of a URL. A password should be percent-encoded and often is
# not, so the second half lets it contain a slash or a question mark. The lookahead
# keeps `host:8080/a@b` out: there the digits are a port and the `@` is in the path.
_USER_INFO = late_pattern(r"(?<=://)(?:[^/?#\s]*|[^/?#\s@]*:(?!\d+(?:[/?#]|$))[^\s@]*)@")
# Hosts that take the key in the query (`?key=`) make every URL of theirs a secret (field-guide/gemini.md#errors). The
# name of a parameter may be shown, its value never.
_QUERY_VALUE = late_pattern(r"([?&][^=&\s#]*=)[^&\s#]+")
PLAIN_QUERY = ("alt", "api-version", "beta")
"""Parameters of a query whose values are no keys; of any other the value may be one."""
# Every gateway and every client has another header for its key: what is named like a secret is taken for one. Not every header a provider asks for is secret: `anthropic-version` is not.
# Nor is what is left of a limit: `x-ratelimit-remaining-tokens` are tokens of another kind.
_SECRET_HEADER = late_pattern(
    r"(?i)^(?!.*rate-?limit[a-z-]*-tokens(?:-[a-z]+)?$).*?(?:auth|key|token|secret|cookie|session|credential|signature|password)"
)
# The same for parameters of a query, which have shorter names; and what no word or name looks like, whatever it is called.
_SECRET_PARAMETER = ("sig", "code", "pass", "pwd")
_RANDOM = late_pattern(r"(?i)(?<![a-z0-9])(?=[a-z]*[0-9])(?=[0-9]*[a-z])[a-z0-9]{16}")
# Headers with other names that carry a provider's key, because an endpoint says so. There are as many as in the configuration, and
# whoever shows headers has only their names, so they are known to the whole process.
_named_key_headers: set[str] = set()


class Secret:
    """Holds a key. Two are equal if their values are."""

    # Slots and a mangled name: no `__dict__` that a debugger or an error reporter would print.
    __slots__ = ("__value",)

    def __init__(self, value: str | Secret) -> None:
        self.__value: str = value.reveal() if isinstance(value, Secret) else value

    def reveal(self) -> str:
        return self.__value

    def __repr__(self) -> str:
        return VEIL

    def __str__(self) -> str:
        return VEIL

    def __format__(self, spec: str) -> str:
        return VEIL

    def __bool__(self) -> bool:
        return bool(self.__value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        # In constant time: how long it takes must not tell how much of a guess was right.
        return hmac.compare_digest(_bytes(self.__value), _bytes(other.__value))

    def __hash__(self) -> int:
        # A hash must agree with `==`. It is not shown anywhere, and Python salts it in each process.
        return hash(self.__value)

    def __reduce__(self) -> NoReturn:
        # Pickles and deep copies end up in files, caches and other processes.
        raise TypeError("a secret cannot be pickled or copied")

    def behind(self, prefix: str) -> Secret:
        """The secret with a public prefix (`Bearer `)."""
        return Secret(prefix + self.__value)


def hide(value: str | Secret | None) -> Secret | None:
    """For a function that gets a key as text: rebound at once, it is not among the locals a traceback shows."""
    return None if value is None else Secret(value)


class SecretText(str):
    """A secret where a library insists on text: its repr shows nothing, but it is the text."""

    __slots__ = ()

    def __repr__(self) -> str:
        return VEIL


class SecretHeaders(dict[str, Secret]):
    """Headers of which only the names are shown."""

    def __init__(self, headers: Mapping[str, str | Secret] | None = None) -> None:
        if type(headers) is SecretHeaders:
            # Copying by the constructor below would reveal and wrap each value again.
            super().__init__(headers)  # a secret never changes, so it may be shared
        else:
            super().__init__({name: Secret(value) for name, value in (headers or {}).items()})

    def __repr__(self) -> str:
        return f"<headers {sorted(self)}>"

    __str__ = __repr__

    def reveal(self) -> dict[str, str]:
        """The plain headers, for sending."""
        # A library that fails with its arguments in the traceback prints their repr.
        return {name: SecretText(value.reveal()) for name, value in self.items()}


def hidden_headers(headers: Mapping[str, str | Secret] | None) -> SecretHeaders:
    """Headers that are hidden: the same ones if they are so already."""
    return headers if type(headers) is SecretHeaders else SecretHeaders(headers)


class SecretEnvironment(Mapping[str, str]):
    """The environment, for frames that need it: none of its values is shown."""

    # Not a plain dict: a traceback with locals would print every value, and most keys come from the environment.
    __slots__ = ("__values",)

    def __init__(self, values: Mapping[str, str]) -> None:
        self.__values = values

    def __getitem__(self, name: str) -> str:
        return self.__values[name]

    def get(self, name: str, default: Any = None) -> Any:
        return self.__values.get(name, default)  # one step: Mapping's would try and catch

    def __iter__(self) -> Iterator[str]:
        return iter(self.__values)

    def __len__(self) -> int:
        return len(self.__values)

    def __repr__(self) -> str:
        return f"<environment of {len(self)} variables>"


def name_key_header(name: str) -> None:
    """From now on, hide the values of this header wherever headers are shown or recorded: it carries a key."""
    _named_key_headers.add(name.lower())


def is_secret_header(name: str) -> bool:
    """Whether the value of a header with this name must not be shown."""
    return name.lower() in _named_key_headers or _SECRET_HEADER.search(name) is not None


def is_key(name: str, value: str) -> bool:
    """Whether the value of a header or a parameter is to be kept out of every text, not only out of its own place: a region
    (`us-central1`) stands in many texts that have nothing to do with it."""
    return is_secret_header(name) or name.lower() in _SECRET_PARAMETER or _RANDOM.search(value) is not None


def hide_url_secrets(url: str, stand_in: str, shown: Collection[str] = ()) -> str:
    """The URL with something else for its user and password, and for the values in its query, but those of the names `shown`."""

    def hidden(pair: re.Match[str]) -> str:
        return pair[0] if pair[1][1:-1] in shown else pair[1] + stand_in

    return _QUERY_VALUE.sub(hidden, _USER_INFO.sub(f"{stand_in}@", url))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
