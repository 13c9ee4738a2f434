"""Tools that a host runs itself (web search, code execution), on their way from one wire to another.

A client asks for its own wire's; the model behind the gateway may have the same thing under another name, or none. What the
reader has is requested in its own format; what it lacks is dropped with a note. If nothing else was requested, the request is
refused: an answer without the search would only look like one. Where the client's wire has words for a search that failed, they are
the answer, and no model is asked.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec.structs import replace

from ..core.blocks import Block, Opaque, Origin, Text, ToolSpec
from ..core.dialect import Dialect
from ..core.errors import BadRequest
from ..core.events import Event
from ..core.handoff import Note
from ..core.reduce import TurnBuilder
from .request import ParsedRequest

_SEARCH = "web_search"
_KINDS = (
    (re.compile(r"\$?(?:web_?search|google_?search)"), _SEARCH),
    (re.compile(r"code_?(?:execution|interpreter)"), "code_execution"),
)


def server_tool(tool: ToolSpec) -> tuple[str, str] | None:
    """The name of a tool that its host runs, and what kind of tool it is (or "", if it is a kind of its own); None for a tool
    that the client runs."""
    extra = tool.extra or {}
    inner = extra.get("tool")
    name = tool.builtin or (str(inner.get("type") or next(iter(inner), "")) if isinstance(inner, dict) else "")
    if not name:
        return None
    # `googleSearch`, `web_search_20250305` and `$web_search` are one kind under three spellings.
    lowered = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    for pattern, kind in _KINDS:
        if pattern.match(lowered):
            return name, kind
    return name, ""


def without_server_tools(parsed: ParsedRequest, wire: str, reader: Dialect) -> tuple[ParsedRequest, list[Note]]:
    """The request with the server tools that its reader has, in the reader's words."""
    if not any(tool.builtin or (tool.extra and "tool" in tool.extra) for tool in parsed.tools):
        return parsed, []
    if reader.wire == wire and (reader.server_tools or reader.builtin_prefix):
        return parsed, []  # they are its own
    own_tools = reader.server_tools or {}
    # Some hosts take their own tools only if there are no others; the client's own count more.
    if reader.server_tools_alone and any(server_tool(tool) is None for tool in parsed.tools):
        own_tools = {}
    kept: list[ToolSpec] = []
    gone: list[str] = []
    notes: list[Note] = []
    for tool in parsed.tools:
        found = server_tool(tool)
        if found is None:
            kept.append(tool)
            continue
        name, kind = found
        own = own_tools.get(kind)
        if own is not None:
            kept.append(_spoken(own, reader))
            notes.append(Note("adapted", "tool", "foreign_builtin", f"{name}: sent as this model's own {kind} tool"))
        else:
            gone.append(tool.name)
            notes.append(
                Note("dropped", "tool", "foreign_builtin", f"{name}: this model has no equivalent for this request")
            )
    if gone and not kept:
        raise BadRequest(
            f"this model has no {' and no '.join(dict.fromkeys(gone))}, and the request has no other tool: "
            "ask a model that has it, or leave it out",
            status=400,
        )
    choice = parsed.options.tool_choice
    # A choice of a tool that is not sent would be refused.
    options = replace(parsed.options, tool_choice=None) if choice in gone else parsed.options
    return replace(parsed, tools=tuple(kept), options=options), notes


def answer_search(
    parsed: ParsedRequest, wire: str, reader: Dialect, answer_id: str
) -> tuple[list[Event], list[Note]] | None:
    """The answer to a request whose only tool is a web search that the reader lacks: that there is none. None for any other request,
    and on wires without words for it."""
    block_pair = _FAILED_SEARCHES.get(wire)
    if (
        block_pair is None
        or not parsed.tools
        or (reader.wire == wire and (reader.server_tools or reader.builtin_prefix))
    ):
        return None
    kinds = {found[1] if (found := server_tool(tool)) is not None else "" for tool in parsed.tools}
    if kinds != {_SEARCH} or _SEARCH in (reader.server_tools or {}):
        return None
    turns = parsed.conversation.turns
    origin = Origin("midstream", wire)
    builder = TurnBuilder(answer_id, origin)
    for block in block_pair(answer_id, turns[-1].text if turns else ""):
        builder.whole(Opaque(block["type"], block, origin))
    builder.text("Web search is not available: the model behind this gateway has none. Nothing was searched.")
    builder.finish("end_turn")
    names = ", ".join([tool.builtin or tool.name for tool in parsed.tools])
    why = f"{names}: this model has no equivalent, and the request has no other tool; the model was not asked"
    return builder.take(), [Note("dropped", "tool", "foreign_builtin", why)]


def _failed_messages_search(answer_id: str, query: str) -> tuple[dict[str, Any], ...]:
    """A search that failed, as Anthropic's host tells it (field-guide/anthropic-messages.md#server-tools)."""
    call_id = f"srvtoolu_{answer_id}"
    failure = {"type": "web_search_tool_result_error", "error_code": "unavailable"}
    return (
        {"type": "server_tool_use", "id": call_id, "name": _SEARCH, "input": {"query": query[:_LONGEST_QUERY]}},
        {"type": "web_search_tool_result", "tool_use_id": call_id, "content": failure},
    )


_FAILED_SEARCHES = {"anthropic": _failed_messages_search}
_LONGEST_QUERY = 500


def sources_as_text(parsed: ParsedRequest, reader: Dialect) -> ParsedRequest:
    """A history whose search results another wire's host gave: for a reader that cannot read them, titles and addresses stay as
    text, so that the model keeps its sources. The blocks themselves are dropped by the encoder, with a note."""
    turns = list(parsed.conversation.turns)
    changed = False
    for place, turn in enumerate(turns):
        if turn.speaker != "ai" or not any(type(block) is Opaque for block in turn.blocks):
            continue
        blocks = [_sources(block, reader) if type(block) is Opaque else block for block in turn.blocks]
        if any(new is not old for new, old in zip(blocks, turn.blocks, strict=True)):
            turns[place] = replace(turn, blocks=tuple(blocks))
            changed = True
    return replace(parsed, conversation=replace(parsed.conversation, turns=tuple(turns))) if changed else parsed


def _sources(block: Opaque, reader: Dialect) -> Block:
    if block.origin is None or block.origin.wire == reader.wire or not isinstance(block.data, dict):
        return block
    action = block.data.get("action")
    found = block.data.get("content") if block.kind == "web_search_tool_result" else None
    if block.kind == "web_search_call" and isinstance(action, dict):
        found = action.get("sources")
    lines = [
        f"- {str(each.get('title') or each['url'])[:300]}: {str(each['url'])[:500]}"
        for each in (found if isinstance(found, list) else ())
        if isinstance(each, dict) and isinstance(each.get("url"), str)
    ]
    return Text("\n".join(["Search results:", *lines[:50]])) if lines else block


def _spoken(own: dict[str, Any], reader: Dialect) -> ToolSpec:
    """A reader's own tool as its encoder takes it."""
    builtin = own.get("builtin")
    if builtin is not None:
        rest = {key: value for key, value in own.items() if key not in ("builtin", "name")}
        return ToolSpec(str(own.get("name") or builtin), builtin=str(builtin), extra=rest or None)
    return ToolSpec(str(own.get("type") or next(iter(own))), extra={"tool": own, "wire": reader.wire})
