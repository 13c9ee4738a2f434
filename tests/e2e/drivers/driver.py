"""A client under test, in a process of its own: a line of JSON says what to do, a line of JSON says what the client saw.

Only the standard library and the client: each runs in the environment that holds it. Warnings are errors while a feature runs.
"""

from __future__ import annotations

import gc
import json
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

Outcome = dict[str, Any]


class Case(NamedTuple):
    """What a feature is given: where the host is, and what to say to it. `tools` is name -> description and JSON schema."""

    feature: str
    url: str
    model: str
    key: str
    prompt: str
    tools: dict[str, dict[str, Any]]
    image: str
    host: str = ""

    def run(self, name: str, arguments: Mapping[str, Any]) -> str:
        """A tool: what it answers is in its arguments, so that a mixed-up result shows."""
        return f"{name} says {arguments['path']}!"


def call(name: str, arguments: Any) -> Outcome:
    """A call as it is compared."""
    return {"name": name, "arguments": json.loads(arguments) if isinstance(arguments, str) else dict(arguments)}


def typed(value: Any) -> Any:
    """An SDK's own object, checked against its declared type: nothing missing, nothing of another type.

    The SDKs build most objects without looking, so that a wrong one shows only when it is used.
    """
    data = value.model_dump_json(by_alias=True, exclude_unset=True, warnings="error")
    type(value).model_validate_json(data)
    return value


def failing(act: Callable[[], object]) -> Outcome:
    """The error that a client makes of a refusal: its class, the status and the words."""
    try:
        act()
    except Exception as error:
        status = next(
            (
                found
                for name in ("status_code", "status", "code")
                if isinstance(found := getattr(error, name, None), int)
            ),
            None,
        )
        return {"error": type(error).__name__, "status": status, "message": str(error)}
    raise AssertionError("the host took it")


def serve(features: Mapping[str, Callable[[Case], Outcome]], *, warns: bool = False) -> None:
    """Answer until standard input ends. What a client prints goes to standard error. `warns`: it does so about itself."""
    out, sys.stdout = sys.stdout, sys.stderr
    # httpcore closes a stream that nobody read to its end when it is collected, and takes the lock of its pool for that. litellm
    # leaves such streams behind: collected while the next request held the lock, one of them locked up the process for good.
    gc.disable()
    for line in sys.stdin:
        case = Case(**json.loads(line))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("default" if warns else "error")
                warnings.simplefilter("ignore", ResourceWarning)
                said: Outcome = {"outcome": features[case.feature](case)}
        except Exception:
            said = {"failure": traceback.format_exc()}
        gc.collect()
        out.write(json.dumps(said) + "\n")
        out.flush()
