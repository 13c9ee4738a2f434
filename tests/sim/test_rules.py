"""Each rule refuses what it is there to refuse: break it once, and it speaks, in the provider's words."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from typing import Any, get_args

import pytest

from midstream import Conversation, Text, Turn, encode_request, human
from midstream.core.dialect import Options
from midstream.core.errors import LocalError
from midstream.doctor.matrix import SCENES, TOOLS
from midstream.sim.players import make_players
from midstream.sim.rules import HOSTS, Basis, Problem, Strict, judge
from midstream.sim.rules.hosts import NO_TOOLS
from tests.long_run import each_kind

from .rules_page import DOCS, idle, write_pages

PLAYERS = make_players()
JUDGED = {
    "openai": "openai", "xai": "xai", "moonshot-k2": "moonshot-k2", "moonshot-k2-thinking": "moonshot-k2-thinking",
    "moonshot-k2.5": "moonshot-k2.5", "moonshot-k2.6": "moonshot-k2.6", "moonshot-k2.7-code": "moonshot-k2.7-code", "moonshot-k3": "moonshot-k3",
    "kimi-weights": "vllm-kimi-k2.5", "kimi-k3-weights": "vllm-kimi-k3", "mistral": "mistral", "deepseek": "deepseek", "deepseek-reasoner": "deepseek-reasoner",
    "minimax": "minimax", "qwen": "qwen", "zai": "zai", "compatible": "openai-compatible", "anthropic": "claude", "claude-4.8": "claude-4.8",
    "moonshot-anthropic": "moonshot-anthropic-k2.5", "moonshot-anthropic-always": "moonshot-anthropic-always-thinking", "compatible-anthropic": "deepseek-anthropic",
    "openai-responses": "openai-responses-5", "xai-responses": "xai-responses", "compatible-responses": "responses-compatible",
    "gemini": "gemini-3-pro", "gemini-2": "gemini-2.5-flash", "ollama": "ollama",
    "cohere": "cohere", "cohere-reasoning": "cohere-reasoning", "cohere-vision": "cohere-vision",
    "completions": "completions-kimi-k2.5", "llamacpp": "llamacpp-kimi-k2.5-native",
}  # fmt: skip


def request(host: str, scene: str = "parallel calls", **options: Any) -> dict[str, Any]:
    if host == "deepinfra-native":
        prompt = "<|im_user|>user<|im_middle|>hi<|im_end|><|im_assistant|>assistant<|im_middle|><think>"
        return {"input": prompt, "stream": True}
    player = PLAYERS[JUDGED[host]]
    conversation = SCENES[scene](player, player).done()
    body: dict[str, Any] = json.loads(
        encode_request(player.target, conversation, tools=TOOLS, options=Options(**options), cache=None).body
    )
    return body


def verdict(body: dict[str, Any], host: str, strict: Strict = "paranoid") -> list[Problem]:
    """What the double of that name says; a player's own double knows the seal of its provider."""
    return judge(body, PLAYERS[JUDGED[host]].host if host in JUDGED else host, strict)


def chat_calls(body: dict[str, Any]) -> list[dict[str, Any]]:
    return body["messages"][2]["tool_calls"]


def think(body: dict[str, Any]) -> None:
    body["messages"][2].update(content=[{"type": "thinking", "thinking": "x"}])


Break = Callable[[dict[str, Any]], Any]
_CLOSED = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}
# What neither OpenAI's strict mode nor Anthropic's takes, and what only one of them refuses.
_OPEN_SCHEMAS: list[dict[str, Any]] = [
    {key: value for key, value in _CLOSED.items() if key != "additionalProperties"},
    {**_CLOSED, "properties": {"a": {"type": "string", "minLength": 1}}},
    {**_CLOSED, "properties": {"a": {"type": "object", "properties": {}, "required": []}}},
    {**_CLOSED, "properties": {"a": {"type": "array", "items": {"anyOf": [{"type": "array", "uniqueItems": True}]}}}},
]
_NOT_STRICT: list[dict[str, Any]] = [
    *_OPEN_SCHEMAS,
    {**_CLOSED, "required": []},
    {**_CLOSED, "properties": {"a": {"description": "anything"}}},
    {**_CLOSED, "properties": {"a": {"$ref": "#/$defs/b", "title": "b"}}, "$defs": {"b": {"type": "string"}}},
    {**_CLOSED, "properties": {"a": {"oneOf": [{"type": "string"}]}}},
]
_NOT_CLOSED: list[dict[str, Any]] = [
    *_OPEN_SCHEMAS,
    {**_CLOSED, "properties": {"a": {"type": "integer", "minimum": 1}}},
    {**_CLOSED, "properties": {"a": {"type": "array", "items": {"type": "string"}, "minItems": 2}}},
]


def wants(schema: Any, **more: Any) -> Break:
    """Ask for an answer by a schema, in the words of OpenAI's chat."""
    named = {"name": "answer", "schema": schema, **more}
    return lambda b: b.update(response_format={"type": "json_schema", "json_schema": named})


def wants_text(schema: Any, **more: Any) -> Break:
    """The same in the words of Responses."""
    return lambda b: b.update(text={"format": {"type": "json_schema", "name": "answer", "schema": schema, **more}})


def wants_output(schema: Any) -> Break:
    """The same in the words of Messages."""
    return lambda b: b.update(output_config={"format": {"type": "json_schema", "schema": schema}})


BITMAP, PIXEL = "Qk0AAAAAAAAAAAAAAAAAAAAA", "iVBORw0KGgoAAAANSUhEUgAA"  # how a BMP and a PNG begin


def shows(kind: str, data: str) -> Break:
    """Show an image, in the words of OpenAI's chat."""
    image = {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{data}"}}
    return lambda b: b["messages"][1].update(content=[image])


def shows_input(kind: str, data: str) -> Break:
    """The same in the words of Responses."""
    image = {"type": "input_image", "image_url": f"data:{kind};base64,{data}"}
    return lambda b: b["input"].append({"type": "message", "role": "user", "content": [image]})


def shows_block(kind: str, data: str) -> Break:
    """The same in the words of Messages."""
    image = {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}
    return lambda b: b["messages"][0].update(content=[image])


def shows_part(kind: str, data: str) -> Break:
    """The same in the words of Gemini."""
    return lambda b: b["contents"][0]["parts"].append({"inlineData": {"mimeType": kind, "data": data}})


def with_property(holder: tuple[str, ...], schema: Any) -> Break:
    """A tool with a property of this schema."""

    def change(body: dict[str, Any]) -> None:
        held = body["tools"][0]
        for key in holder:
            held = held[key]
        held["properties"]["odd"] = schema

    return change


CHAT: dict[str, list[Break]] = {
    "images are readable": [shows("image/svg+xml", "PHN2Zy8+"), shows("image/png", BITMAP)],
    "shape": [
        lambda b: b.pop("model"),
        lambda b: b.update(messages=[]),
        lambda b: b["messages"][0].update(role="narrator"),
    ],
    "ids fit": [
        lambda b: chat_calls(b)[0].update(id="x" * 65),
        lambda b: chat_calls(b)[0].update(id="x" * 41),
        lambda b: b["messages"][3].update(tool_call_id=""),
    ],
    "paired": [
        lambda b: b["messages"].pop(3),
        lambda b: b["messages"].insert(1, b["messages"][3]),
        lambda b: b["messages"].append(b["messages"][3]),
        lambda b: b["messages"].insert(3, {"role": "user", "content": "wait"}),
        lambda b: b["messages"].insert(4, b["messages"][3]),
        lambda b: b["messages"][2].update(tool_calls=[]),
    ],
    "lists are not empty": [lambda b: b.update(tools=[]), lambda b: b["messages"][2].update(tool_calls=[])],
    "calls are whole": [
        lambda b: chat_calls(b)[0]["function"].update(arguments={}),
        lambda b: chat_calls(b)[0]["function"].pop("name"),
    ],
    "arguments are JSON": [
        lambda b: chat_calls(b)[0]["function"].update(arguments="{"),
        lambda b: chat_calls(b)[0]["function"].update(arguments="[]"),
    ],
    "call names fit": [lambda b: chat_calls(b)[0]["function"].update(name="a b")],
    "content is there": [lambda b: b["messages"][1].update(content=None), lambda b: b["messages"][0].pop("content")],
    "content is said": [lambda b: b["messages"].append({"role": "assistant", "content": None})],
    "tools fit": [
        lambda b: b.update(tools={}),
        lambda b: b["tools"][0]["function"].update(name="1st tool"),
        lambda b: b["tools"].append(b["tools"][0]),
        lambda b: b["tools"][0]["function"].update(parameters={"type": "string"}),
    ],
    "choice fits": [
        lambda b: (b.pop("tools"), b.update(tool_choice="auto")),
        lambda b: b.update(tool_choice={"type": "function", "function": {"name": "nobody"}}),
        lambda b: b.update(tool_choice={"type": "custom", "custom": {"name": "nobody"}}),
    ],
    "stream options": [lambda b: b.update(stream=False, stream_options={"include_usage": True})],
    "format fits": [
        wants({"type": "array", "items": {"type": "string"}}), wants(_CLOSED, name="a b"), wants(_CLOSED, name=None),
        lambda b: b.update(response_format={"type": "json_schema"}), *[wants(each, strict=True) for each in _NOT_STRICT],
    ],
    "ids unique": [lambda b: chat_calls(b)[1].update(id=chat_calls(b)[0]["id"])],
    "ids count up": [lambda b: chat_calls(b)[0].update(id="call_1"), lambda b: chat_calls(b)[1].update(id="functions.read_file:0")],
    "last role": [lambda b: b["messages"].append({"role": "assistant", "content": "so"})],
    "known fields": [lambda b: b.update(surprise=1)],
}  # fmt: skip
IMAGE = {"type": "image_url", "image_url": {"url": "https://a/b"}}
WITHOUT: dict[str, dict[str, list[Break]]] = {
    # what a host without this trait refuses
    "mid_system": {
        "system is well placed": [lambda b: b["messages"].append({"role": "system", "content": "x"})],
    },
    "mid_tools": {"system is well placed": [lambda b: b["messages"][0].update(tools=b["tools"])]},
    "developer_role": {"roles are known": [lambda b: b["messages"][0].update(role="developer")]},
    "images": {"images are taken": [lambda b: b["messages"][1].update(content=[IMAGE])]},
    "allowed_tools": {"choice fits": [lambda b: b.update(tool_choice={"type": "allowed_tools"})]},
    "blank_content": {"content is said": [lambda b: b["messages"][2].update(content="")]},
    "blank_text": {
        "content is said": [
            lambda b: b["messages"][1].update(content=""),
            lambda b: b["messages"][1].update(content=" "),
            lambda b: b["messages"][1].update(content=[{"type": "text", "text": ""}]),
            lambda b: b["messages"].append({"role": "assistant", "content": ""}),
        ],
    },
}
FREEFORM = {"type": "custom_tool_call", "call_id": "c", "name": "p"}
NEWEST: dict[str, dict[str, list[Break]]] = {
    "freeform": {
        "outputs are text": [lambda b: b["input"].append({**FREEFORM, "input": "x"})],
        "tools fit": [lambda b: b["tools"].append({"type": "custom", "name": "p"})],
    },
    "namespaces": {
        "outputs are text": [lambda b: item(b, "function_call").update(namespace="n")],
        "tools fit": [lambda b: b["tools"].append({"type": "namespace", "name": "n", "tools": [b["tools"][0]]})],
    },
    "": {
        "outputs are text": [lambda b: b["input"].append(FREEFORM)],
        "tools fit": [
            lambda b: b["tools"].append({"type": "namespace", "name": "n", "tools": []}),
            lambda b: b["tools"].append(
                {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "a b"}]}
            ),
        ],
    },
}
THINKING_CHAT: dict[str, list[Break]] = {
    "reasoning is there": [
        lambda b: [b.update(thinking={"type": "enabled"}), b["messages"][2].pop("reasoning_content", None)]
    ],
}
BARE = {"role": "assistant", "content": "so"}
MOONSHOT: dict[str, list[Break]] = {
    **THINKING_CHAT,
    "preserved reasoning is there": [
        lambda b: b["messages"].append(BARE),
        lambda b: b["messages"].append({**BARE, "reasoning_content": None}),
    ],
    "tools fit": [
        lambda b: b["tools"][0]["function"]["parameters"]["properties"].update(x={"description": "untyped"}),
        lambda b: b["tools"][0]["function"]["parameters"]["properties"].update(x={"type": "string", "anyOf": [{"type": "string"}]}),
        *[with_property(("function", "parameters"), {"type": "object", **kind}) for kind in (
            {"properties": {"a": {"not": {}}}}, {"not": {"properties": {"a": {"if": {}}}}}, {"allOf": [{"if": {}}, {"if": {}}]},
        )],
        lambda b: b.update(tools=b["tools"] * 60),
    ],
    "content is said": [lambda b: b["messages"][2].update(content=[{"type": "text", "text": ""}])],
}  # fmt: skip
FIXED: dict[str, list[Break]] = {
    "thinking is well said": [
        lambda b: b.update(thinking=True),
        lambda b: b.update(thinking={"type": "enabled"}, reasoning_effort="high"),
        lambda b: b.update(temperature=0.3),
    ],
    "choice and thinking": [
        lambda b: b.update(
            thinking={"type": "enabled"}, tool_choice={"type": "function", "function": {"name": "list_files"}}
        )
    ],
}
LOOSE: dict[str, list[Break]] = {"thinking is well said": [lambda b: b.update(thinking=True)]}
FORCED: dict[str, list[Break]] = {
    "choice and thinking": [lambda b: b.update(tool_choice={"type": "function", "function": {"name": "list_files"}})]
}
ANTHROPIC: dict[str, list[Break]] = {
    "images are readable": [
        shows_block("image/svg+xml", "PHN2Zy8+"),
        shows_block("image/jpeg", PIXEL),
        lambda b: b["messages"][2]["content"][0].update(
            content=[{"type": "image", "source": {"type": "base64", "media_type": "image/tiff", "data": PIXEL}}]
        ),
    ],
    "format fits": [wants_output(each) for each in _NOT_CLOSED],
    "no thread": [lambda b: b.update(thread={"type": "new"})],
    "shape": [lambda b: b.pop("max_tokens"), lambda b: b["messages"][0].update(role="system")],
    "the user begins": [lambda b: b["messages"].pop(0)],
    "system stands between": [
        lambda b: b["messages"].insert(2, {"role": "system", "content": "x"}),
        lambda b: [b["messages"].insert(1, dict(b["messages"][0])), b["messages"].insert(1, {"role": "system", "content": "x"})],
    ],
    "ids fit": [
        lambda b: tool_use(b).update(id="functions.read_file:0"),
        lambda b: b["messages"][2]["content"][0].update(tool_use_id="a b"),
        lambda b: tool_use(b).update(id=tool_use(b, 1)["id"]),
        lambda b: tool_use(b).update(id="x" * 65),
    ],
    "paired": [
        lambda b: b["messages"].pop(2),
        lambda b: b["messages"][2]["content"].pop(0),
        lambda b: b["messages"][2]["content"].append({"type": "tool_result", "tool_use_id": "toolu_x"}),
        lambda b: b["messages"][2]["content"].append(b["messages"][2]["content"][0]),
    ],
    "results come first": [lambda b: b["messages"][2]["content"].insert(0, {"type": "text", "text": "so:"})],
    "text is said": [
        lambda b: b["messages"][0].update(content=""),
        lambda b: b["messages"][0].update(content=[{"type": "text", "text": " "}]),
        lambda b: b["messages"].append({"role": "assistant", "content": "so "}),
        lambda b: b.update(system=[{"type": "text", "text": ""}]),
        lambda b: b["messages"][0].update(content=[]),
    ],
    "thinking is own": [lambda b: b["messages"][1]["content"].insert(0, {"type": "thinking", "signature": "c2ltOganthropicZ1"})],
    "thinking leads": [
        lambda b: b.update(thinking={"type": "enabled", "budget_tokens": 10}),
        lambda b: b.update(thinking={"type": "enabled", "budget_tokens": 9000}, max_tokens=100),
        lambda b: b.update(thinking={"type": "enabled", "budget_tokens": 2000}, max_tokens=9000, temperature=0.2),
        lambda b: b.update(thinking={"type": "enabled", "budget_tokens": 2000}, max_tokens=9000, tool_choice={"type": "any"}),
        lambda b: [b.update(thinking={"type": "enabled", "budget_tokens": 2000}, max_tokens=9000), drop_thinking(b)],
    ],
    "tools fit": [
        lambda b: b["tools"][0].update(name="a b"),
        lambda b: b["tools"].append(b["tools"][0]),
        lambda b: b["tools"][0].update(input_schema={}),
        lambda b: b["tools"][0].update(input_schema={"type": "object", "anyOf": []}),
        lambda b: tool_use(b).update(input="{}"),
        lambda b: tool_use(b).update(name="a b"),
    ],
    "reasoning is there": [lambda b: [b.update(thinking={"type": "enabled", "budget_tokens": 2000}), drop_thinking(b)]],
}  # fmt: skip
RESPONSES: dict[str, list[Break]] = {
    "images are readable": [
        shows_input("image/svg+xml", "PHN2Zy8+"),
        shows_input("image/png", BITMAP),
        lambda b: item(b, "function_call_output").update(output=[{"type": "input_image", "image_url": "data:image/bmp;base64,Qk0="}]),
    ],
    "format fits": [wants_text({"type": "array"}), wants_text(_CLOSED, name=""), *[wants_text(each, strict=True) for each in _NOT_STRICT]],
    "shape": [
        lambda b: b.pop("model"),
        lambda b: b.pop("input"),
        lambda b: b.update(messages=[]),
        lambda b: b["input"].append({"x": 1}),
        lambda b: b["input"].append({"type": "message", "role": "tool", "content": "x"}),
    ],
    "ids fit": [
        lambda b: item(b, "function_call").update(call_id="x" * 65),
        lambda b: item(b, "function_call").update(id="call_1"),
        lambda b: b["input"].append(item(b, "function_call")),
    ],
    "paired": [
        lambda b: b["input"].remove(item(b, "function_call_output")),
        lambda b: b["input"].remove(item(b, "function_call")),
        lambda b: b["input"].append(item(b, "function_call_output")),
    ],
    "outputs are text": [
        lambda b: item(b, "function_call_output").update(output={"a": 1}),
        lambda b: item(b, "function_call_output").update(output=[{"type": "text", "text": "x"}]),
        lambda b: item(b, "function_call").update(arguments="{"),
        lambda b: item(b, "function_call").update(arguments={}),
    ],
    "reasoning is own and followed": [
        lambda b: b["input"].append({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "foreign"}),
        lambda b: b["input"].append(item(b, "reasoning")),
        lambda b: [b.update(store=False), item(b, "reasoning").pop("encrypted_content")],
    ],
    "content fits": [
        lambda b: b["input"].append({"type": "message", "role": "user"}),
        lambda b: b["input"].append({"type": "message", "role": "user", "content": []}),
        lambda b: b["input"].append({"type": "message", "role": "user", "content": [{"type": "output_text", "text": "x"}]}),
    ],
    "tools fit": [
        lambda b: b["tools"][0].update(function={"name": "x"}),
        lambda b: b["tools"][0].update(name="a b"),
        lambda b: b["tools"][0].update(parameters={"type": "array"}),
        lambda b: b.update(tools=[]),
    ],
}  # fmt: skip
GEMINI: dict[str, list[Break]] = {
    "images are readable": [shows_part("image/gif", "R0lGODlh"), shows_part("image/svg+xml", "PHN2Zy8+")],
    "shape": [
        lambda b: b.update(contents=[]),
        lambda b: b["contents"][0].update(role="assistant"),
        lambda b: b["contents"][0].update(parts=[]),
        lambda b: b["contents"][0].update(parts=[{}]),
    ],
    "model turns follow": [
        lambda b: b["contents"].pop(0),
        lambda b: b["contents"].insert(0, {"role": "model", "parts": [{"text": "Hello."}]}),
        lambda b: b["contents"].insert(1, {"role": "model", "parts": [{"text": "So."}]}),
    ],
    "paired": [
        lambda b: b["contents"][2]["parts"].pop(),
        lambda b: b["contents"].append(b["contents"][2]),
        lambda b: b["contents"][2]["parts"][0]["functionResponse"].update(response="text"),
        lambda b: b["contents"][2]["parts"][0]["functionResponse"].update(name="other"),
        lambda b: function_call(b).update(name="a b"),
        lambda b: function_call(b).update(args="{}"),
    ],
    "signatures are own": [
        lambda b: b["contents"][1]["parts"][-1].update(thoughtSignature="foreign"),
        lambda b: [part.pop("thoughtSignature", None) for part in b["contents"][1]["parts"]],
        lambda b: [
            *[part.pop("thoughtSignature", None) for part in b["contents"][1]["parts"]],
            b["contents"].append({"role": "user", "parts": [{"text": "Thanks."}]}),
        ],
    ],
    "tools fit": [
        lambda b: declaration(b).update(name="a b"),
        lambda b: declaration(b)["parameters"].update({"$schema": "x"}),
        lambda b: declaration(b)["parameters"].update(any_of=[{"const": 1}]),
        lambda b: declaration(b)["parameters"].update(type=["object", "null"]),
    ],
}  # fmt: skip
OLLAMA: dict[str, list[Break]] = {
    "shape": [
        lambda b: b.pop("model"),
        lambda b: b["messages"][0].update(role="developer"),
        lambda b: b["messages"][1].update(content=[]),
        lambda b: b["messages"][1].update(images=["data:image/png;base64,xx"]),
        lambda b: chat_calls(b)[0]["function"].update(arguments="{}"),
    ],
    "think is known": [lambda b: b.update(think="enormous"), lambda b: b.update(think=[])],
    "answered": [lambda b: b["messages"].pop(3), lambda b: b["messages"].insert(3, {"role": "user", "content": "x"})],
}  # fmt: skip
COHERE: dict[str, list[Break]] = {
    "shape": [
        lambda b: b.pop("model"),
        lambda b: b.update(messages=[]),
        lambda b: b["messages"][0].update(role="narrator"),
    ],
    "known fields": [lambda b: b.update(top_p=0.5)],
    "content fits": [
        lambda b: b["messages"][1].update(content=""),
        lambda b: b["messages"][1].update(content=[{"type": "document", "document": {}}]),
        lambda b: b["messages"][3].update(content=[{"type": "thinking", "thinking": "x"}]),
        lambda b: b["messages"][3].pop("content"),
        lambda b: b["messages"].append({"role": "assistant", "content": " "}),
    ],
    "no text beside calls": [
        lambda b: b["messages"][2].update(content="Looking."),
        lambda b: b["messages"][2].update(content=[{"type": "text", "text": "Looking."}]),
    ],
    "thinking fits": [
        lambda b: b.update(thinking=True),
        lambda b: b.update(thinking={"type": "enabled", "token_budget": 0}),
        lambda b: [b.update(thinking={"type": "disabled"}), think(b)],
        lambda b: [think(b), b["messages"][2].update(tool_plan="x")],
    ],
    "paired": [
        lambda b: b["messages"].pop(3),
        lambda b: b["messages"].insert(1, b["messages"][3]),
        lambda b: b["messages"].append(b["messages"][3]),
        lambda b: b["messages"].insert(3, {"role": "user", "content": "wait"}),
        lambda b: b["messages"][2].update(tool_calls=[]),
        lambda b: [b["messages"].pop(3), b["messages"].pop(3), b["messages"].append({"role": "user", "content": "so?"})],
        lambda b: chat_calls(b)[1].update(id=chat_calls(b)[0]["id"]),
    ],
    "calls are whole": [
        lambda b: chat_calls(b)[0]["function"].update(arguments="{"),
        lambda b: chat_calls(b)[0]["function"].update(arguments={}),
        lambda b: chat_calls(b)[0]["function"].update(name="list-files"),
        lambda b: chat_calls(b)[0].pop("type"),
        lambda b: chat_calls(b)[0].update(id=""),
    ],
    "tools fit": [
        lambda b: b.update(tools=[]),
        lambda b: b["tools"][0]["function"].update(name="list-files"),
        lambda b: b["tools"].append(b["tools"][0]),
        lambda b: b["tools"][0]["function"].update(parameters={"type": "string"}),
        lambda b: b["tools"][0]["function"].pop("parameters"),
    ],
    "choice fits": [
        lambda b: b.update(tool_choice="required"),
        lambda b: [b.pop("tools"), b.update(tool_choice="NONE")],
    ],
    "in range": [lambda b: b.update(p=1), lambda b: b.update(presence_penalty=-1), lambda b: b.update(stop_sequences=["x"] * 6)],
    "format stands alone": [
        lambda b: b.update(response_format={"type": "json_object"}),
        lambda b: b.update(response_format={"type": "json_schema"}),
    ],
}  # fmt: skip
THINKLESS: dict[str, list[Break]] = {"thinking fits": [lambda b: b.update(thinking={"type": "enabled"}), think]}
SIGHTLESS: dict[str, list[Break]] = {
    "content fits": [lambda b: b["messages"][1].update(content=[{"type": "image_url", "image_url": {"url": "https://a/b"}}])]
}  # fmt: skip
NATIVE: dict[str, list[Break]] = {
    "shape": [
        lambda b: b.pop("input"),
        lambda b: b.update(messages=[]),
    ],
    "in range": [lambda b: b.update(stop=["x"] * 17), lambda b: b.update(num_responses=2)],
    "prompt is the model's": [
        lambda b: b.update(input=b["input"].replace(">user<", ">ChatMessageRole.USER<")),
        lambda b: b.update(input="<|im_user|>user<|im_middle|>hi<|im_end|>"),
    ],
}  # fmt: skip
PROMPTED: dict[str, list[Break]] = {
    "shape": [lambda b: b.pop("prompt"), lambda b: b.update(messages=[])],
    "model is named": [lambda b: b.pop("model")],
    "prompt is the model's": [
        lambda b: b.update(prompt=b["prompt"].replace(">user<", ">ChatMessageRole.USER<")),
        lambda b: b.update(prompt="<|im_user|>user<|im_middle|>hi<|im_end|>"),
    ],
}


def tool_use(body: dict[str, Any], number: int = 0) -> dict[str, Any]:
    return [block for block in body["messages"][1]["content"] if block["type"] == "tool_use"][number]


def drop_thinking(body: dict[str, Any]) -> None:
    content = body["messages"][1]["content"]
    content[:] = [block for block in content if block["type"] == "tool_use"]


def item(body: dict[str, Any], kind: str) -> dict[str, Any]:
    return next(item for item in body["input"] if item.get("type") == kind)


def function_call(body: dict[str, Any]) -> dict[str, Any]:
    return next(part["functionCall"] for part in body["contents"][1]["parts"] if "functionCall" in part)


def declaration(body: dict[str, Any]) -> dict[str, Any]:
    return body["tools"][0]["functionDeclarations"][0]


INVALID: list[Any] = [
    {"type": "any"}, {"type": []}, {"required": True}, {"properties": None}, {"enum": []}, {"anyOf": []}, {"minimum": "1"},
    {"items": [{"type": "string"}]}, {"description": None}, {"minLength": 1.5}, {"required": [1]}, "string",
]  # fmt: skip


def breaks(host: str) -> dict[str, list[Break]]:
    wire = HOSTS[host].traits.wire
    table = {
        "anthropic": ANTHROPIC, "openai-responses": RESPONSES, "gemini": GEMINI, "ollama": OLLAMA, "completion": NATIVE,
        "openai-chat": CHAT, "cohere": COHERE,
    }[wire]  # fmt: skip
    more = [PROMPTED if host in ("completions", "llamacpp") else table]
    if host.startswith("moonshot-k"):
        thinks = bool(HOSTS[host].traits.reasoning_field)
        more += [MOONSHOT if thinks else {**MOONSHOT, "reasoning is there": []}]
        more += [FIXED if HOSTS[host].traits.fixed_sampling else LOOSE]
    if host.startswith("deepseek"):
        more += [THINKING_CHAT]
    traits = HOSTS[host].traits
    if traits.checks_schemas:
        holder = {"openai-chat": ("function", "parameters"), "anthropic": ("input_schema",)}.get(wire, ("parameters",))
        kinds = (
            INVALID if wire == "anthropic" else [*INVALID, {"type": "array"}, {"anyOf": [{"type": ["array", "null"]}]}]
        )
        more += [{"tools fit": [with_property(holder, kind) for kind in kinds]}]
    if wire == "anthropic" and traits.moonshot_schema:
        more += [{"tools fit": [with_property(("input_schema",), {"not": {}})]}]
    if host == "moonshot-anthropic-always":
        more += [{"reasoning is there": [lambda b: b["messages"].append(BARE)]}]
    if wire == "openai-chat":
        more += [ways for trait, ways in WITHOUT.items() if not getattr(HOSTS[host].traits, trait)]
        if not HOSTS[host].traits.forced_choice_thinking:
            more += [FORCED]
    if wire == "openai-responses":
        more += [
            NEWEST[""],
            *[NEWEST[trait] for trait in ("freeform", "namespaces") if not getattr(HOSTS[host].traits, trait)],
        ]
    if wire == "cohere":
        more += [] if HOSTS[host].traits.thinks_by_default else [THINKLESS]
        more += [] if HOSTS[host].traits.images else [SIGHTLESS]
    if wire == "openai-chat" and HOSTS[host].traits.id_max is None:  # ids that hold the tool's name may be long
        more = [{**part, "ids fit": part.get("ids fit", [])[2:]} for part in more]
    if host == "gemini-2":  # the older generation signs, but demands no signature
        more = [{**GEMINI, "signatures are own": GEMINI["signatures are own"][:1]}]
    names = {rule.name for rule in HOSTS[host].rules}
    return {name: [way for part in more for way in part.get(name, [])] for name in names}


@pytest.mark.parametrize("host", sorted(HOSTS))
def test_an_honest_request_passes_and_every_rule_refuses_its_breach(host: str) -> None:
    sound = request(host)
    assert verdict(sound, host) == []
    table = breaks(host)
    for rule in HOSTS[host].rules:
        if rule.name in idle(host):
            continue
        assert table[rule.name], f"{host}: no planted breach for the rule {rule.name!r}"
        for number, way in enumerate(table[rule.name]):
            body = copy.deepcopy(sound)
            way(body)
            caught = {problem.rule for problem in verdict(body, host)}
            assert rule.name in caught, f"{host}: breach {number} of {rule.name!r} passed; caught only {caught}"


def test_an_instruction_may_stand_among_the_messages_only_where_the_generation_takes_it() -> None:
    for host, model in (("claude-4.8", "anthropic/claude-opus-4-8"), ("anthropic", "anthropic/claude-sonnet-4-5")):
        for first in ((), (human("x"),)):
            story = Conversation((*first, Turn("human", (Text("be kind"),), role="system"), human("y")))
            assert judge(encode_request(model, story, cache=None).body, host, "paranoid") == []
    native = {
        "model": "m",
        "max_tokens": 9,
        "messages": [{"role": role, "content": "x"} for role in ("user", "system")],
    }
    assert judge(native, "claude-4.8", "paranoid") == []
    assert judge(native, "anthropic")


RULES = {id(rule): rule for host in HOSTS.values() for rule in (*host.rules, NO_TOOLS)}.values()
BASES = get_args(Basis)


def test_every_rule_says_how_and_where_it_is_known_from() -> None:
    for rule in RULES:
        assert rule.basis in BASES and len(rule.source) > 15, rule.name
        for apart in rule.apart:
            assert apart.basis in BASES and apart.basis != rule.basis and apart.words, rule.name
            assert apart.basis == "assumed" or len(apart.source) > 15, (rule.name, apart.words)
        assert not rule.hosts or rule.basis != "assumed", f"{rule.name}: what is assumed is assumed of every host"


def test_the_pages_list_what_the_doubles_refuse() -> None:
    there = [DOCS / "doubles-rules.md", *(DOCS / "doubles-rules").glob("*.md")]
    found = {str(path.relative_to(DOCS)): path.read_text("utf-8") for path in there}
    assert found == write_pages(), "python -m tests.sim.rules_page writes the pages anew"


def test_every_rule_speaks_of_a_host_that_has_it() -> None:
    for rule in RULES:
        for beginning in rule.hosts:
            having = [host.name for host in HOSTS.values() if rule in host.rules and host.name.startswith(beginning)]
            assert having, (rule.name, beginning)


def test_a_problem_is_known_as_its_rule_says() -> None:
    """Every label of a rule is on a problem it finds in a planted breach, at a host its source speaks of, and no other."""
    said: dict[int, set[str]] = {}
    for host in sorted(HOSTS):
        table = breaks(host)
        for rule in HOSTS[host].rules:
            for way in table[rule.name]:
                body = request(host)
                way(body)
                problems = [each for each in verdict(body, host) if each.rule == rule.name]
                if rule.hosts and not host.startswith(rule.hosts):
                    assert {problem.basis for problem in problems} <= {"assumed"}, (host, rule.name)
                else:
                    said.setdefault(id(rule), set()).update(problem.basis for problem in problems)
    labels = {id(rule): {rule.basis, *[apart.basis for apart in rule.apart]} for rule in RULES if rule is not NO_TOOLS}
    names = {id(rule): rule.name for rule in RULES}
    assert {(names[key], *sorted(bases)) for key, bases in labels.items() if bases != said.get(key)} == set()


@pytest.mark.parametrize("host", sorted(HOSTS))
def test_what_is_only_assumed_is_refused_only_by_the_paranoid(host: str) -> None:
    for ways in breaks(host).values():
        for way in ways:
            body = request(host)
            way(body)
            known = [problem for problem in verdict(body, host) if problem.basis != "assumed"]
            assert verdict(body, host, "documented") == verdict(body, host, True) == known
            assert verdict(body, host, False) == []


def test_a_strictness_that_is_none_is_said() -> None:
    with pytest.raises(LocalError, match="expected documented, paranoid or False"):
        judge({}, "openai", "strict")  # type: ignore[arg-type]


USER = {"role": "user", "content": "hi"}
CHOICE = {
    "type": "allowed_tools",
    "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "read_file"}}]},
}
ACCEPTED: list[tuple[str, str, Break]] = [
    ("anthropic", "the reference: consecutive turns of a role are combined", lambda b: b["messages"].insert(1, USER)),
    ("anthropic", "the same for the assistant's", lambda b: b["messages"].insert(1, {"role": "assistant", "content": "So."})),
    ("anthropic", "results in two messages are combined", lambda b: b["messages"].insert(3, {
        "role": "user", "content": [b["messages"][2]["content"].pop(), *[b["messages"][2]["content"].pop() for _ in b["messages"][2]["content"][2:]]]
    })),
    ("anthropic", "adaptive thinking: turns need not start with a thinking block", lambda b: [b.update(thinking={"type": "adaptive"}), drop_thinking(b)]),
    ("anthropic", "the SDK: max_tokens 0 fills the cache", lambda b: b.update(max_tokens=0)),
    ("anthropic", "its error text allows names of 128 characters", lambda b: b["tools"][0].update(name="x" * 128)),
    ("mistral", "fields of the SDK", lambda b: b.update(
        reasoning_effort="high", prompt_cache_key="x", service_tier="default", top_k=3, min_tokens=1, logprobs=True)),
    ("gemini", "the API takes either spelling", lambda b: declaration(b)["parameters"].update(
        additional_properties=False, any_of=[{"type": "object", "min_properties": 1}], property_ordering=[])),
    ("gemini", "Schema of the SDK", lambda b: declaration(b)["parameters"].update(additionalProperties=False)),
    ("gemini", "consecutive contents of a user", lambda b: b["contents"].insert(0, {"role": "user", "parts": [{"text": "hi"}]})),
    ("gemini", "the reference: role is optional", lambda b: b["contents"][0].pop("role")),
    ("openai", "the reference: allowed_tools", lambda b: b.update(tool_choice=CHOICE)),
    ("openai", "the reference: a custom tool as the choice", lambda b: [
        b["tools"].append({"type": "custom", "custom": {"name": "p"}}), b.update(tool_choice={"type": "custom", "custom": {"name": "p"}})]),
    ("openai", "a text may be empty", lambda b: b["messages"][1].update(content="")),
    ("openai", "so may a part", lambda b: b["messages"][1].update(content=[{"type": "text", "text": ""}])),
    ("openai-responses", "the reference: allowed_tools", lambda b: b.update(
        tool_choice={"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "read_file"}]})),
    ("openai-responses", "a text may be empty", lambda b: b["input"].append({"role": "user", "content": ""})),
    ("openai-responses", "the SDK: a stored prompt names model and input", lambda b: [b.pop("model"), b.pop("input"), b.update(prompt={"id": "pmpt_1"})]),
    ("openai-responses", "a conversation holds the call", lambda b: [
        b["input"].remove(item(b, "function_call")), b.update(conversation="conv_1"), b["input"].remove(item(b, "reasoning"))]),
    ("ollama", "its templates print a tool message without a call", lambda b: b["messages"].append({"role": "tool", "content": "x"})),
    ("openai", "a PNG", shows("image/png", PIXEL)),
    ("anthropic", "a PNG", shows_block("image/png", PIXEL)),
    ("openai-responses", "a PNG", shows_input("image/png", PIXEL)),
    ("gemini", "the guide: HEIC", shows_part("image/heic", "QUJD")),
    ("completions", "the reference: a list of prompts", lambda b: b.update(prompt=[b["prompt"]])),
]  # fmt: skip


@pytest.mark.parametrize(("host", "why", "way"), ACCEPTED, ids=[f"{host}: {why}" for host, why, _ in ACCEPTED])
def test_what_a_provider_documents_is_accepted(host: str, why: str, way: Break) -> None:
    body = request(host)
    way(body)
    assert verdict(body, host) == []


@pytest.mark.parametrize(
    ("host", "way"),
    [
        ("moonshot-k2.5", lambda b: b["messages"][2].update(content="")),  # reports say both
        ("moonshot-k3", lambda b: b["messages"].extend([{**BARE, "content": " ", "reasoning_content": " "}, USER])),
        ("zai", lambda b: b["messages"][2].update(content="")),
        ("compatible", lambda b: b["messages"].pop(3)),  # observed at OpenAI; a host of one's own may take it
        ("kimi-weights", lambda b: [chat_calls(b)[0].update(id="call_1"), b["messages"][3].update(tool_call_id="call_1")]),
        ("gemini", lambda b: b["contents"].insert(0, {"role": "model", "parts": [{"text": "Hello."}]})),
        ("openai-responses", lambda b: b.update(tools=[])),
        ("ollama", lambda b: b["messages"].pop(3)),
    ],
)  # fmt: skip
def test_what_is_not_known_is_refused_by_the_paranoid_alone(host: str, way: Break) -> None:
    body = request(host)
    way(body)
    assert verdict(body, host) and verdict(body, host, "documented") == []


@pytest.mark.parametrize(
    ("host", "way", "words"),
    [
        ("moonshot-k2.5", lambda b: b["messages"][2].pop("reasoning_content"),
         "thinking is enabled but reasoning_content is missing in assistant tool call message at index 2"),
        ("mistral", lambda b: chat_calls(b)[0].update(id="call_abc"),
         "Tool call id was call_abc but must be a-z, A-Z, 0-9, with a length of 9."),
        ("cohere", lambda b: b["messages"][2].update(content="Looking."), "text content is not allowed when tool_calls are provided."),
        ("anthropic", lambda b: tool_use(b).update(id="functions.f:0"), "String should match pattern '^[a-zA-Z0-9_-]+$'"),
    ],
)  # fmt: skip
def test_the_words_are_the_providers_own(host: str, way: Break, words: str) -> None:
    body = request(host)
    way(body)
    assert any(words in problem.message for problem in verdict(body, host))


JUNK: list[Any] = [
    None,
    True,
    0,
    -1,
    1.5,
    "",
    " ",
    "x",
    [],
    [[]],
    [None],
    {},
    {"a": 1},
    [{}],
    ["x"],
    {"type": []},
    [{"type": {}}],
]
OPTIONS = "thinking tool_choice reasoning_effort temperature stop stop_sequences response_format max_tokens system num_responses p k".split()


@each_kind("host", sorted(HOSTS), lambda host: HOSTS[host].traits.wire)
def test_whatever_a_request_has_in_any_place_is_judged(host: str) -> None:
    """A double answers 400 or takes it: nothing in a body makes a rule fail itself."""
    sound = request(host)
    places = [*_places(sound), *[(field,) for field in OPTIONS]]
    chance = random.Random(host)
    for _ in range(150):
        body = copy.deepcopy(sound)
        if chance.random() < 0.3:
            body["thinking"] = {"type": "enabled", "budget_tokens": 2000}
        *way, last = chance.choice(places)
        at: Any = body
        for step in way:
            at = at[step]
        at[last] = copy.deepcopy(chance.choice(JUNK))
        verdict(body, host)


def _places(value: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for step, inside in (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    ):
        yield (*before, step)
        yield from _places(inside, (*before, step))
