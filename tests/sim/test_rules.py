"""Each rule refuses what it is there to refuse: break it once, and it speaks, in the provider's words."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from midstream import Conversation, Text, Turn, encode_request, human
from midstream.core.dialect import Options
from midstream.doctor.matrix import SCENES, TOOLS
from midstream.sim.players import make_players
from midstream.sim.rules import HOSTS, Problem, judge

PLAYERS = make_players()
JUDGED = {
    "openai": "openai", "xai": "xai", "moonshot-k2": "moonshot-k2", "moonshot-k2-thinking": "moonshot-k2-thinking",
    "moonshot-k2.5": "moonshot-k2.5", "moonshot-k2.7-code": "moonshot-k2.7-code", "moonshot-k3": "moonshot-k3",
    "kimi-weights": "vllm-kimi-k2.5", "kimi-k3-weights": "vllm-kimi-k3", "mistral": "mistral", "deepseek": "deepseek", "deepseek-reasoner": "deepseek-reasoner",
    "minimax": "minimax", "qwen": "qwen", "zai": "zai", "compatible": "openai-compatible", "anthropic": "claude", "claude-4.8": "claude-4.8",
    "moonshot-anthropic": "moonshot-anthropic-k2.5", "compatible-anthropic": "deepseek-anthropic",
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


def verdict(body: dict[str, Any], host: str) -> list[Problem]:
    """What the double of that name says; a player's own double knows the seal of its provider."""
    return judge(body, PLAYERS[JUDGED[host]].host if host in JUDGED else host)


def chat_calls(body: dict[str, Any]) -> list[dict[str, Any]]:
    return body["messages"][2]["tool_calls"]


def think(body: dict[str, Any]) -> None:
    body["messages"][2].update(content=[{"type": "thinking", "thinking": "x"}])


Break = Callable[[dict[str, Any]], Any]
CHAT: dict[str, list[Break]] = {
    "shape": [
        lambda b: b.pop("model"),
        lambda b: b.update(messages=[]),
        lambda b: b["messages"][0].update(role="narrator"),
    ],
    "ids fit": [lambda b: chat_calls(b)[0].update(id="x" * 65), lambda b: b["messages"][3].update(tool_call_id="")],
    "paired": [
        lambda b: b["messages"].pop(3),
        lambda b: b["messages"].insert(1, b["messages"][3]),
        lambda b: b["messages"].append(b["messages"][3]),
        lambda b: b["messages"].insert(3, {"role": "user", "content": "wait"}),
        lambda b: b["messages"][2].update(tool_calls=[]),
    ],
    "calls are whole": [
        lambda b: chat_calls(b)[0]["function"].update(arguments="{"),
        lambda b: chat_calls(b)[0]["function"].update(arguments={}),
        lambda b: chat_calls(b)[0]["function"].update(name="a b"),
        lambda b: chat_calls(b)[0]["function"].pop("name"),
    ],
    "content is said": [
        lambda b: b["messages"][1].update(content=""),
        lambda b: b["messages"][1].update(content=[{"type": "text", "text": ""}]),
        lambda b: b["messages"].append({"role": "assistant", "content": ""}),
    ],
    "tools fit": [
        lambda b: b.update(tools=[]),
        lambda b: b["tools"][0]["function"].update(name="1st tool"),
        lambda b: b["tools"].append(b["tools"][0]),
        lambda b: b["tools"][0]["function"].update(parameters={"type": "string"}),
    ],
    "choice fits": [
        lambda b: (b.pop("tools"), b.update(tool_choice="auto")),
        lambda b: b.update(tool_choice={"type": "function", "function": {"name": "nobody"}}),
    ],
    "stream options": [lambda b: b.update(stream=False, stream_options={"include_usage": True})],
    "ids unique": [lambda b: chat_calls(b)[1].update(id=chat_calls(b)[0]["id"])],
    "ids count up": [lambda b: chat_calls(b)[0].update(id="call_1"), lambda b: chat_calls(b)[1].update(id="functions.read_file:0")],
    "last role": [lambda b: b["messages"].append({"role": "assistant", "content": "so"})],
    "known fields": [lambda b: b.update(surprise=1)],
}  # fmt: skip
SYSTEM: dict[str, Break] = {
    # what a host without this trait refuses
    "mid_system": lambda b: b["messages"].append({"role": "system", "content": "x"}),
    "developer_role": lambda b: b["messages"][0].update(role="developer"),
    "mid_tools": lambda b: b["messages"][0].update(tools=b["tools"]),
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
MOONSHOT: dict[str, list[Break]] = {
    **THINKING_CHAT,
    "tools fit": [
        lambda b: b["tools"][0]["function"]["parameters"]["properties"].update(x={"description": "untyped"}),
        lambda b: b["tools"][0]["function"]["parameters"]["properties"].update(x={"type": "string", "anyOf": [{"type": "string"}]}),
        lambda b: b.update(tools=b["tools"] * 60),
    ],
    "content is said": [lambda b: b["messages"][2].update(content="")],
}  # fmt: skip
FIXED: dict[str, list[Break]] = {
    "thinking is well said": [
        lambda b: b.update(thinking=True),
        lambda b: b.update(thinking={"type": "enabled"}, reasoning_effort="high"),
        lambda b: b.update(temperature=0.3),
    ],
    "choice fits": [
        lambda b: b.update(
            thinking={"type": "enabled"}, tool_choice={"type": "function", "function": {"name": "list_files"}}
        )
    ],
}
LOOSE: dict[str, list[Break]] = {"thinking is well said": [lambda b: b.update(thinking=True)]}
ANTHROPIC: dict[str, list[Break]] = {
    "no thread": [lambda b: b.update(thread={"type": "new"})],
    "shape": [lambda b: b.pop("max_tokens"), lambda b: b["messages"][0].update(role="system")],
    "alternates": [lambda b: b["messages"].insert(1, b["messages"][0]), lambda b: b["messages"].pop(0)],
    "system stands between": [
        lambda b: b["messages"].insert(2, {"role": "system", "content": "x"}),
        lambda b: [b["messages"].insert(1, dict(b["messages"][0])), b["messages"].insert(1, {"role": "system", "content": "x"})],
    ],
    "ids fit": [
        lambda b: tool_use(b).update(id="functions.read_file:0"),
        lambda b: b["messages"][2]["content"][0].update(tool_use_id="a b"),
        lambda b: tool_use(b).update(id=tool_use(b, 1)["id"]),
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
    ],
    "reasoning is own and followed": [
        lambda b: b["input"].append({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "foreign"}),
        lambda b: b["input"].append(item(b, "reasoning")),
        lambda b: [b.update(store=False), item(b, "reasoning").pop("encrypted_content")],
    ],
    "content fits": [
        lambda b: b["input"].append({"type": "message", "role": "user", "content": ""}),
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
    "shape": [
        lambda b: b.update(contents=[]),
        lambda b: b["contents"][0].update(role="assistant"),
        lambda b: b["contents"][0].update(parts=[]),
        lambda b: b["contents"][0].update(parts=[{}]),
    ],
    "alternates": [lambda b: b["contents"].insert(0, b["contents"][0]), lambda b: b["contents"].pop(0)],
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
    ],
    "tools fit": [
        lambda b: declaration(b).update(name="a b"),
        lambda b: declaration(b)["parameters"].update(additionalProperties=False),
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
    "paired": [lambda b: b["messages"].pop(3), lambda b: b["messages"].append(b["messages"][3]),
               lambda b: b["messages"].insert(3, {"role": "user", "content": "x"})],
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
        lambda b: b.update(stop=["x"] * 17),
        lambda b: b.update(num_responses=2),
    ],
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
    if wire == "openai-chat":
        more += [
            {"system is well placed": [way for trait, way in SYSTEM.items() if not getattr(HOSTS[host].traits, trait)]}
        ]
    if wire == "openai-responses":
        more += [
            NEWEST[""],
            *[NEWEST[trait] for trait in ("freeform", "namespaces") if not getattr(HOSTS[host].traits, trait)],
        ]
    if wire == "cohere":
        more += [] if HOSTS[host].traits.thinks_by_default else [THINKLESS]
        more += [] if HOSTS[host].traits.images else [SIGHTLESS]
    if wire == "openai-chat" and HOSTS[host].traits.id_max is None:  # ids that hold the tool's name may be long
        more = [{**part, "ids fit": part.get("ids fit", [])[1:]} for part in more]
    if host == "gemini-2":  # the older generation signs, but demands no signature
        more = [{**GEMINI, "signatures are own": GEMINI["signatures are own"][:1]}]
    names = {rule.name for rule in HOSTS[host].rules}
    return {name: [way for part in more for way in part.get(name, [])] for name in names}


@pytest.mark.parametrize("host", sorted(HOSTS))
def test_an_honest_request_passes(host: str) -> None:
    assert verdict(request(host), host) == []


@pytest.mark.parametrize("host", sorted(HOSTS))
def test_every_rule_refuses_its_breach(host: str) -> None:
    sound = request(host)
    table = breaks(host)
    for rule in HOSTS[host].rules:
        if rule.name == "reasoning is there" and not (
            HOSTS[host].traits.reasoning_field or HOSTS[host].traits.reasoning_message
        ):
            continue  # a model that does not think demands no reasoning
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
            assert judge(encode_request(model, story, cache=None).body, host) == []
    native = {
        "model": "m",
        "max_tokens": 9,
        "messages": [{"role": role, "content": "x"} for role in ("user", "system")],
    }
    assert judge(native, "claude-4.8") == []
    assert judge(native, "anthropic")


def test_every_rule_cites_where_it_is_known_from() -> None:
    for host in HOSTS.values():
        for rule in host.rules:
            assert len(rule.source) > 15, (host.name, rule.name)


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
