"""Clients of the four wires, as far as a history goes: what they are answered they send again, each in its own manner."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from midstream.core.blocks import Origin, Thinking, ToolCall, Turn
from midstream.core.events import (
    Done,
    Event,
    Start,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from midstream.gateway.history import read_request, take_in
from midstream.gateway.issued_ids import IssuedIds
from midstream.gateway.seal import Sealer
from midstream.gateway.sealed_answer import SealedAnswer
from midstream.gateway.state import GatewayState, open_state
from midstream.gateway.vault import Vault
from midstream.wires.answer import answer_to, make_writer
from midstream.wires.request import ParsedRequest

TOOL = {"type": "object", "properties": {"path": {"type": "string"}}}
NAMES = ("read_file", "list_files")


class Client:
    """One client's history. `messages` is what its wire calls it."""

    wire = ""

    def __init__(self, *, thinking: bool = True) -> None:
        self.thinking = thinking
        self.messages: list[dict[str, Any]] = []

    def request(self) -> bytes:
        return json.dumps(self.body()).encode()

    def body(self) -> dict[str, Any]:
        raise NotImplementedError

    def says(self, text: str) -> None:
        raise NotImplementedError

    def hears(self, body: dict[str, Any]) -> None:
        """Take in a whole answer."""
        raise NotImplementedError

    def hears_stream(self, events: list[dict[str, Any]]) -> None:
        raise NotImplementedError

    def calls(self) -> list[str]:
        """The ids of the calls that wait for their results."""
        raise NotImplementedError

    def answers(self, call_id: str, text: str) -> None:
        raise NotImplementedError

    def strip(self) -> None:
        """Forget all reasoning, as clients do that never heard of it."""
        raise NotImplementedError

    def rewrite(self) -> None:
        """Write all arguments again, as clients do that hold them as objects."""


def rewritten(text: str) -> str:
    return json.dumps(json.loads(text), sort_keys=True, indent=1)


class ChatClient(Client):
    wire = "openai-chat"

    def body(self) -> dict[str, Any]:
        tools = [{"type": "function", "function": {"name": name, "parameters": TOOL}} for name in NAMES]
        return {"model": "m", "messages": self.messages, "tools": tools}

    def says(self, text: str) -> None:
        self.messages.append({"role": "user", "content": text})

    def hears(self, body: dict[str, Any]) -> None:
        self.messages.append(body["choices"][0]["message"])

    def hears_stream(self, events: list[dict[str, Any]]) -> None:
        message: dict[str, Any] = {"role": "assistant", "content": None}
        calls: dict[int, dict[str, Any]] = {}
        for event in events:
            for choice in event["choices"]:
                delta = choice["delta"]
                for key in ("content", "reasoning_content"):
                    if isinstance(delta.get(key), str):
                        message[key] = (message.get(key) or "") + delta[key]
                for piece in delta.get("tool_calls", ()):
                    call = calls.setdefault(piece["index"], {"function": {"arguments": ""}})
                    call |= {key: piece[key] for key in ("id", "type") if key in piece}
                    call["function"]["arguments"] += piece["function"]["arguments"]
                    call["function"] |= {"name": piece["function"]["name"]} if "name" in piece["function"] else {}
        if calls:
            message["tool_calls"] = list(calls.values())
        self.messages.append(message)

    def calls(self) -> list[str]:
        return [call["id"] for call in self.messages[-1].get("tool_calls") or ()]

    def answers(self, call_id: str, text: str) -> None:
        self.messages.append({"role": "tool", "tool_call_id": call_id, "content": text})

    def strip(self) -> None:
        for message in self.messages:
            message.pop("reasoning_content", None)

    def rewrite(self) -> None:
        for message in self.messages:
            for call in message.get("tool_calls") or ():
                call["function"]["arguments"] = rewritten(call["function"]["arguments"])


class MessagesClient(Client):
    wire = "anthropic"

    def body(self) -> dict[str, Any]:
        tools = [{"name": name, "input_schema": TOOL} for name in NAMES]
        body = {"model": "m", "max_tokens": 9000, "messages": self.messages, "tools": tools}
        return {**body, "thinking": {"type": "enabled", "budget_tokens": 2000}} if self.thinking else body

    def says(self, text: str) -> None:
        self.messages.append({"role": "user", "content": text})

    def hears(self, body: dict[str, Any]) -> None:
        self.messages.append({"role": "assistant", "content": body["content"]})

    def hears_stream(self, events: list[dict[str, Any]]) -> None:
        blocks: list[dict[str, Any]] = []
        for event in events:
            match event:
                case {"type": "content_block_start", "content_block": block}:
                    blocks.append(dict(block))
                    if block["type"] == "tool_use":
                        blocks[-1]["input"] = ""
                case {"type": "content_block_delta", "delta": delta}:
                    for key, name in (("text", "text"), ("thinking", "thinking"), ("signature", "signature")):
                        if key in delta:
                            blocks[-1][name] += delta[key]
                    if "partial_json" in delta:
                        blocks[-1]["input"] += delta["partial_json"]
                case {"type": "content_block_stop"} if blocks[-1]["type"] == "tool_use":
                    blocks[-1]["input"] = json.loads(blocks[-1]["input"] or "{}")
        self.messages.append({"role": "assistant", "content": blocks})

    def calls(self) -> list[str]:
        return [block["id"] for block in self.messages[-1]["content"] if block["type"] == "tool_use"]

    def answers(self, call_id: str, text: str) -> None:
        result = {"type": "tool_result", "tool_use_id": call_id, "content": text}
        if self.messages[-1]["role"] == "user":
            self.messages[-1]["content"].append(result)
        else:
            self.messages.append({"role": "user", "content": [result]})

    def strip(self) -> None:
        for message in self.messages:
            if message["role"] == "assistant":
                message["content"] = [block for block in message["content"] if "thinking" not in block["type"]]


class ResponsesClient(Client):
    wire = "openai-responses"

    def body(self) -> dict[str, Any]:
        tools = [{"type": "function", "name": name, "parameters": TOOL} for name in NAMES]
        body = {"model": "m", "input": self.messages, "tools": tools, "store": False}
        return {**body, "include": ["reasoning.encrypted_content"]} if self.thinking else body

    def says(self, text: str) -> None:
        self.messages.append({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]})

    def hears(self, body: dict[str, Any]) -> None:
        self.messages += body["output"]

    def hears_stream(self, events: list[dict[str, Any]]) -> None:
        self.messages += [event["item"] for event in events if event["type"] == "response.output_item.done"]

    def calls(self) -> list[str]:
        answered = {item["call_id"] for item in self.messages if item["type"] == "function_call_output"}
        made = [item["call_id"] for item in self.messages if item["type"] == "function_call"]
        return [call_id for call_id in made if call_id not in answered]

    def answers(self, call_id: str, text: str) -> None:
        self.messages.append({"type": "function_call_output", "call_id": call_id, "output": text})

    def strip(self) -> None:
        self.messages = [item for item in self.messages if item["type"] != "reasoning"]

    def rewrite(self) -> None:
        for item in self.messages:
            if item["type"] == "function_call":
                item["arguments"] = rewritten(item["arguments"])


class GeminiClient(Client):
    wire = "gemini"

    def body(self) -> dict[str, Any]:
        tools = [{"functionDeclarations": [{"name": name, "parametersJsonSchema": TOOL} for name in NAMES]}]
        body = {"contents": self.messages, "tools": tools}
        return {**body, "generationConfig": {"thinkingConfig": {"includeThoughts": True}}} if self.thinking else body

    def says(self, text: str) -> None:
        self.messages.append({"role": "user", "parts": [{"text": text}]})

    def hears(self, body: dict[str, Any]) -> None:
        self.messages.append(body["candidates"][0]["content"])

    def hears_stream(self, events: list[dict[str, Any]]) -> None:
        """Parts as they came, without the last chunk's empty one."""
        parts = [part for event in events for part in event["candidates"][0]["content"].get("parts", ())]
        self.messages.append({"role": "model", "parts": [part for part in parts if part != {"text": ""}]})

    def calls(self) -> list[str]:
        return [part["functionCall"]["id"] for part in self.messages[-1]["parts"] if "functionCall" in part]

    def answers(self, call_id: str, text: str) -> None:
        made = {
            part["functionCall"]["id"]: part["functionCall"]["name"]
            for content in self.messages
            for part in content["parts"]
            if "functionCall" in part
        }
        response = {"functionResponse": {"id": call_id, "name": made[call_id], "response": {"result": text}}}
        if self.messages[-1]["role"] == "user":
            self.messages[-1]["parts"].append(response)
        else:
            self.messages.append({"role": "user", "parts": [response]})

    def strip(self) -> None:
        for content in self.messages:
            content["parts"] = [part for part in content["parts"] if not part.get("thought")]
            for part in content["parts"]:
                part.pop("thoughtSignature", None)


CLIENTS: dict[str, type[Client]] = {
    client.wire: client for client in (ChatClient, MessagesClient, ResponsesClient, GeminiClient)
}
MANNERS: dict[str, Callable[[Client], None]] = {
    "echoes verbatim": lambda client: None,
    "strips reasoning": lambda client: client.strip(),
    "rewrites arguments": lambda client: client.rewrite(),
}


async def make_sealer(state: GatewayState | None = None, now: float = 1000.0) -> Sealer:
    sealer = Sealer()
    if state is None:
        state = open_state(None)
        await state.open()
    await sealer.refresh(state, now)
    return sealer


class Door:
    """The way through the gateway of one tenant's clients, without any of its HTTP."""

    def __init__(self, tenant: str, sealer: Sealer | None, vault: Vault | None) -> None:
        self.tenant = tenant
        self.sealer = sealer
        self.vault = vault
        self.number = 0

    async def take_in(self, client: Client, target: Origin) -> tuple[ParsedRequest, list[Any]]:
        parsed = read_request(client.wire, client.request(), model="m")
        return await take_in(
            parsed, wire=client.wire, tenant=self.tenant, vault=self.vault, sealer=self.sealer, target=target
        )

    async def answer(self, client: Client, parsed: ParsedRequest, turn: Turn, *, stream: bool) -> bytes:
        """Give a client an answer; what it got, as bytes."""
        self.number += 1
        context = answer_to(parsed, response_id=f"resp_{self.number}", created=0, ids=IssuedIds(client.wire))
        sealed = SealedAnswer(client.wire, self.tenant, self.sealer, parsed.requested)
        writer = make_writer(client.wire, context)
        if self.vault is not None and sealed.for_vault(turn):
            await self.vault.put(self.tenant, turn)
        if not stream:
            data = writer.body(sealed.turn(turn))
            client.hears(json.loads(data))
            return data
        data = b"".join([writer.event(sealed.event(event)) for event in events_of(turn)])
        lines = [line[6:] for line in data.splitlines() if line.startswith(b"data: ") and line != b"data: [DONE]"]
        client.hears_stream([json.loads(line) for line in lines])
        return data


def events_of(turn: Turn) -> list[Event]:
    """The events that an answer came as."""
    events: list[Event] = [Start()]
    for index, block in enumerate(turn.blocks):
        if isinstance(block, Thinking):
            half = len(block.text) // 2
            pieces = [piece for piece in (block.text[:half], block.text[half:]) if piece]
            events += [ThinkingStart(index), *[ThinkingDelta(index, piece) for piece in pieces]]
            events.append(ThinkingEnd(index, block))
        elif isinstance(block, ToolCall):
            events += [ToolCallStart(index, block.id, block.name), ToolCallDelta(index, block.arguments)]
            events.append(ToolCallEnd(index, block))
        else:
            events += [TextStart(index), TextDelta(index, block.text), TextEnd(index, block)]  # type: ignore[union-attr, arg-type]
    return [*events, Done(turn)]
