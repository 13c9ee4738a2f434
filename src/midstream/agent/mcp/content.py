"""What a server sends back (results of calls, resources, messages of prompts) as content for a model.

Images and sounds become Media, which a wire sends where the model reads them and notes where it does not. An embedded
resource is its text under its address, or Media. What has no place in a conversation is named instead of being lost.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from typing import Any

import msgspec

from ...core.blocks import Media, Text
from ...core.errors import ToolFailed
from ..tool import Content, encodable

MAX_MEDIA = 20 << 20
"""Bytes of one image, sound or file, in base64; more than that no host takes inside a request."""
_READ = ("image/", "audio/", "video/", "application/pdf")


def result_content(result: Any) -> Content:
    """The content of a call's result; ToolFailed if the server says that the call failed."""
    content = content_of_blocks(result.content)
    structured = getattr(result, "structured_content", None)
    if not content and structured is not None:
        content = (Text(msgspec.json.encode(structured).decode()),)
    if result.is_error:
        raise ToolFailed("\n".join([part.text for part in content if isinstance(part, Text)]) or "the tool failed")
    return content or (Text("(no output)"),)


def content_of_blocks(blocks: Iterable[Any]) -> Content:
    """Blocks of any kind that the protocol knows."""
    return tuple([_block(each) for each in blocks])


def prompt_content(messages: Iterable[Any]) -> Content:
    """The messages of a prompt, one after the other; each under its speaker if the server puts words in the model's mouth."""
    said = list(messages)
    spoken = any(message.role != "user" for message in said)
    parts: list[Text | Media] = []
    for message in said:
        if spoken:
            parts.append(Text(f"[{encodable(str(message.role))}]"))
        parts.append(_block(message.content))
    return tuple(parts)


def resource_content(contents: Iterable[Any]) -> Content:
    """What reading a resource gave."""
    return tuple([_resource(each) for each in contents])


def _block(block: Any) -> Text | Media:
    kind = block.type
    if kind == "text":
        return Text(encodable(block.text))
    if kind in ("image", "audio"):
        return _media(block.data, block.mime_type, None)
    if kind == "resource":
        return _resource(block.resource)
    if kind == "resource_link":
        named = f" ({block.name})" if block.name else ""
        return Text(encodable(f"[link to a resource: {block.uri}{named}]"))
    return Text(f"[a block of an unknown kind was left out: {kind}]")


def _resource(resource: Any) -> Text | Media:
    uri = str(resource.uri)
    text = getattr(resource, "text", None)
    if text is not None:
        return Text(encodable(f"[resource: {uri}]\n{text}"))
    return _media(resource.blob, resource.mime_type or "", uri)


def _media(data: str, mime: str, uri: str | None) -> Text | Media:
    where = f" {uri}" if uri else ""
    if len(data) > MAX_MEDIA:
        return Text(f"[left out:{where} {mime} of {len(data):,} bytes; at most {MAX_MEDIA:,} can be sent]")
    try:
        raw = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return Text(f"[left out:{where} {mime}, because its data is not valid base64]")
    if not mime.startswith(_READ):
        try:
            return Text(encodable(f"[resource:{where}]\n{raw.decode('utf-8')}"))
        except UnicodeDecodeError:
            return Text(
                f"[left out:{where} {mime or 'a file of an unknown type'}, {len(raw):,} bytes, which no model reads]"
            )
    return Media(mime, data, name=uri)
