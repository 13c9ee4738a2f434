"""The public names: how many, which, where they live, and what importing the package costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import midstream

NAMES = """
Agent Client Conversation Event Media MidstreamError Note Options ProviderError Session Text Thinking ToolCall ToolResponse
ToolSpec Toolbox Turn Usage complete complete_sync decode_response decode_stream encode_request human reduce resolve
stream stream_sync tool_result
""".split()


def test_the_public_names_are_these_and_fewer_than_thirty() -> None:
    assert midstream.__all__ == NAMES
    assert len(NAMES) < 30


@pytest.mark.parametrize("name", [*NAMES, "Opaque", "Request", "make_decoder", "mint_turn_key"])
def test_every_name_is_there_and_listed(name: str) -> None:
    assert getattr(midstream, name) is getattr(midstream, name)
    assert name in dir(midstream)


def test_a_name_that_is_not_there_says_so() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = midstream.nonsense  # type: ignore[attr-defined]


def test_importing_the_package_pulls_in_nothing_heavy() -> None:
    program = (
        "import sys; import midstream; from midstream import Conversation, encode_request\n"
        "print([name for name in ('aiohttp', 'asyncio', 'click', 'rich') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_importing_the_package_alone_loads_none_of_its_modules() -> None:
    program = "import sys, midstream; print(sorted(n for n in sys.modules if n.startswith('midstream.')))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
