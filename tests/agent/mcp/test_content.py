"""What servers send back, as content for a model: every kind of block, and what cannot be one."""

from __future__ import annotations

import base64
from types import SimpleNamespace as Thing
from typing import Any

import pytest

from midstream import Media, Text
from midstream.agent.mcp.content import MAX_MEDIA, content_of_blocks, prompt_content, resource_content, result_content
from midstream.core.errors import ToolFailed

from .servers import TINY

WORDS = base64.b64encode("grüße".encode()).decode()
BYTES = base64.b64encode(b"\xff\xfe\x00").decode()


def resource(**given: Any) -> Thing:
    return Thing(type="resource", resource=Thing(**{"uri": "memo://a", "mime_type": None, **given}))


BLOCKS = [
    ("text", Thing(type="text", text="hello"), Text("hello")),
    ("an image", Thing(type="image", data=TINY, mime_type="image/png"), Media("image/png", TINY)),
    ("a sound", Thing(type="audio", data=TINY, mime_type="audio/wav"), Media("audio/wav", TINY)),
    ("a resource of text", resource(text="milk"), Text("[resource: memo://a]\nmilk")),
    ("a resource that is an image", resource(blob=TINY, mime_type="image/png"), Media("image/png", TINY, name="memo://a")),
    ("a PDF", resource(blob=TINY, mime_type="application/pdf"), Media("application/pdf", TINY, name="memo://a")),
    ("bytes that are words", resource(blob=WORDS), Text("[resource: memo://a]\ngrüße")),
    ("bytes", resource(blob=BYTES), Text("[left out: memo://a a file of an unknown type, 3 bytes, which no model reads]")),
    ("a link", Thing(type="resource_link", uri="memo://b", name="B"), Text("[link to a resource: memo://b (B)]")),
    ("half of a character", Thing(type="text", text="a\ud800b"), Text("a?b")),
    ("no base64", Thing(type="image", data="???", mime_type="image/png"), Text("[left out: image/png, because its data is not valid base64]")),
    ("a block of next year", Thing(type="hologram"), Text("[a block of an unknown kind was left out: hologram]")),
]  # fmt: skip


@pytest.mark.parametrize(("block", "made"), [row[1:] for row in BLOCKS], ids=[row[0] for row in BLOCKS])
def test_every_kind_of_block(block: Any, made: Text | Media) -> None:
    assert content_of_blocks([block]) == (made,)
    if block.type == "resource":
        assert resource_content([block.resource]) == (made,)


def test_media_that_no_host_takes_are_named() -> None:
    (part,) = content_of_blocks([Thing(type="image", data="A" * (MAX_MEDIA + 4), mime_type="image/png")])
    assert isinstance(part, Text) and part.text.startswith("[left out: image/png of 20,971,524 bytes")


def test_results() -> None:
    def result(*blocks: Any, is_error: bool = False, structured: Any = None) -> Any:
        return Thing(content=blocks, is_error=is_error, structured_content=structured)

    assert result_content(result(structured={"a": 1})) == (Text('{"a":1}'),)
    assert result_content(result()) == (Text("(no output)"),)
    with pytest.raises(ToolFailed, match=r"^the tool failed$"):
        result_content(result(is_error=True))
    with pytest.raises(ToolFailed, match=r"^broken$"):
        result_content(result(Thing(type="text", text="broken"), is_error=True))


def test_a_prompt_says_who_speaks_if_it_speaks_for_the_model() -> None:
    def message(role: str, text: str) -> Thing:
        return Thing(role=role, content=Thing(type="text", text=text))

    assert prompt_content([message("user", "a"), message("user", "b")]) == (Text("a"), Text("b"))
    assert prompt_content([message("user", "a"), message("assistant", "b")]) == (
        Text("[user]"), Text("a"), Text("[assistant]"), Text("b"),
    )  # fmt: skip
