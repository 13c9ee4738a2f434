"""The key and the address that a program gives for its requests, and the one provider that they are for.

Both belong together, and to one provider at one address: that of the first model that was named. Another model of a chain, a
switch or a summary finds its own key, as if none had been given, or a key of one vendor would be sent to the next. To an
address that the program gave goes the program's key or none, never one that the environment or the configuration has for the
provider's own address.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec.structs import replace

from ..core.blocks import Value
from ..core.secret import Secret, hide, is_key
from ..dialects.registry import Resolved
from ..transport.target import origin_of
from .catalog import at_address

Home: TypeAlias = tuple[str, str]
"""A provider, and its address without what a program gave."""


class Access(Value, frozen=True):
    """A key and an address that were given. `home` is where they belong: by default to the first model of each request."""

    api_key: Secret | None = None
    base_url: str = ""
    home: Home | None = None
    is_shared: bool = True
    """Whether the key is everybody's. With one of its own, a request's failures say nothing about the host for others."""

    @classmethod
    def given(cls, api_key: str | Secret | None, base_url: str | None, *, is_shared: bool = True) -> Access | None:
        """None if neither was given; LocalError for an address that cannot be one."""
        api_key = hide(api_key)
        if api_key is None and not base_url:
            return None
        if base_url:
            origin_of(base_url)
        return cls(api_key, base_url or "", is_shared=is_shared)

    def is_for(self, target: Resolved, first: Home) -> bool:
        """Whether it may be used for this target; `first` is the home of the first model that was named."""
        provider, address = self.home or first
        return target.provider == provider and (bool(self.base_url) or target.endpoint.base_url == address)

    def reach(self, target: Resolved) -> Resolved:
        """The target at the address that was given, if one was."""
        if not self.base_url:
            return target
        endpoint = at_address(self.base_url, target.endpoint)
        # Keys that the user configured for the provider's own address stay there.
        endpoint = replace(endpoint, headers=_public(endpoint.headers), query=_public(endpoint.query))
        if endpoint.auth == "none" and self.api_key:
            endpoint = replace(
                endpoint, auth="bearer"
            )  # whoever gives a key for a host without any means it to be sent
        return replace(target, endpoint=endpoint)


def home_of(target: Resolved) -> Home:
    return target.provider, target.endpoint.base_url


def _public(values: dict[str, str] | None) -> dict[str, str] | None:
    return {name: value for name, value in values.items() if not is_key(name, value)} or None if values else None
