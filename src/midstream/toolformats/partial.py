"""Arguments that are still on their way, as far as they can be shown.

For display only, and never raises: a string cut short is shown as far as it came; a key without a value, and a number or a
literal that may yet become another, are left out until they are whole. What runs is parsed strictly, once, by
`core.tools.parse_arguments`. Each call reads the whole text: a display asks at its own pace, not at every delta.
"""

from __future__ import annotations

from typing import Any


def partial_arguments(text: str) -> dict[str, Any]:
    """The arguments so far; empty as long as there is nothing to show."""
    value = partial_value(text)
    return value if isinstance(value, dict) else {}


def partial_value(text: str) -> Any:
    """Any JSON value that `text` begins; None where it begins none."""
    from jiter import from_json  # a compiled package that only a display needs

    try:
        # `trailing-strings`: half a sentence is worth showing, half a
        # number is wrong. NaN is not JSON, and no display should teach it.
        return from_json(text.encode(), partial_mode="trailing-strings", allow_inf_nan=False)
    except ValueError:
        return None
