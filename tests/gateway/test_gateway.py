"""Four wires in, every wire out: whole conversations with tools through a gateway over real sockets, judged by the doubles."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from midstream import Client, Conversation, Options, ToolSpec, Turn, human, tool_result
from midstream.client.catalog import Catalog
from midstream.core.dialect import Endpoint
from midstream.dialects.provider import Provider
from midstream.dialects.registry import resolve
from midstream.gateway.issued_ids import from_issued
from tests.gateway.serving import Gate, asynchronous, gate
from tests.long_run import each_once

CLIENTS = {
    "openai-chat": ("openai-compatible/x", "/v1"),
    "openai-responses": ("responses-compatible/x", "/v1"),
    "anthropic": ("anthropic/claude-sonnet-5", ""),
    "gemini": ("gemini/gemini-3-pro-preview", "/v1beta"),
}
"""A client wire, a model whose dialect speaks it, and what its base URL ends with."""
TARGETS = (
    "kimi-k2.5", "kimi-k3", "kimi-k2-thinking", "claude-sonnet-5", "claude-sonnet-4-5", "gpt-5.2", "gpt-4o",
    "gemini-3-pro-preview", "gemini-2.5-flash", "mistral-large-latest", "deepseek-reasoner", "moonshotai/Kimi-K2.5", "qwen3:4b",
    "command-a-reasoning-08-2025",
)  # fmt: skip
PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
TOOLS = (ToolSpec("read_file", "Reads a file.", PATH), ToolSpec("list_files", "Lists a folder.", PATH))
ASK = "Read the file a.txt and read the file b.txt. Then list files."


def client_of(gateway: Gate, wire: str) -> Client:
    """A client of ours that speaks this wire to the gateway, whatever model it asks for."""
    name, tail = CLIENTS[wire]
    dialect = replace(
        resolve(name).dialect, provider="gate", native=None, ids="standard" if wire != "anthropic" else "anthropic"
    )
    row = Provider("gate", Endpoint(gateway.url + tail, auth="none"), (("", dialect),))
    return Client(Catalog(providers=[row], environ={}))


async def loop(client: Client, models: Sequence[str], *, stream: bool, options: Options | None = None) -> list[Turn]:
    """A tool loop in which each round may go to another model. The client keeps nothing but what its wire gave it."""
    conversation = Conversation((human(ASK),), system="You are an agent.")
    answers: list[Turn] = []
    for model in models:
        name = f"gate/sim/{model}"
        if stream:
            turn = await client.stream(name, conversation, tools=TOOLS, options=options)
        else:
            turn = await client.complete(name, conversation, tools=TOOLS, options=options)
        answers.append(turn.raise_for_failure())
        conversation = conversation.add(turn)
        if not turn.tool_calls:
            break
        results = [
            tool_result(call, f"{call.name} says {json.loads(call.arguments)['path']}!") for call in turn.tool_calls
        ]
        conversation = conversation.add(Turn("tool", tuple(results)))
    return answers


@pytest.mark.parametrize("wire", CLIENTS)
@asynchronous
async def test_every_target_answers_a_tool_loop(wire: str) -> None:
    async with gate() as gateway, client_of(gateway, wire) as client:
        for number, target in enumerate(TARGETS):
            answers = await loop(client, [target] * 4, stream=number % 2 == 0)
            assert [len(turn.tool_calls) for turn in answers] == [2, 1, 0], target
            said = answers[-1].text
            assert "a.txt" in said and "b.txt" in said, target
            assert all(turn.usage is not None and turn.usage.output for turn in answers), target
        assert gateway.sim.refused == []


@pytest.mark.parametrize("wire", CLIENTS)
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@asynchronous
async def test_the_model_changes_in_the_middle_of_a_loop(wire: str, stream: bool) -> None:
    async with gate() as gateway, client_of(gateway, wire) as client:
        for first in TARGETS[:9:2]:
            for second in TARGETS[1::2]:
                answers = await loop(client, [first, second, first, second], stream=stream)
                assert [len(turn.tool_calls) for turn in answers] == [2, 1, 0], (first, second)
        assert gateway.sim.refused == []


@pytest.mark.parametrize("wire", CLIENTS)
@asynchronous
async def test_ids_are_ours_and_lead_back(wire: str) -> None:
    async with gate() as gateway, client_of(gateway, wire) as client:
        (answer, *_) = await loop(client, ["kimi-k2.5"], stream=True)
        ids = [call.raw_id or "" for call in answer.tool_calls]
        assert len(set(ids)) == 2 and all(from_issued(each) for each in ids)


RESULT = "it says hello"
FUNCTION = {"name": "read_file", "parameters": PATH}


async def chat_round(gateway: Gate, model: str, history: list[Any], keep: bool) -> None:
    """One round as a plain program does it: the message goes back as it came, with or without what it never heard of."""
    body = {"model": model, "messages": history, "tools": [{"type": "function", "function": FUNCTION}]}
    _, _, answer = await gateway.post("/v1/chat/completions", body)
    message = answer["choices"][0]["message"]
    calls = message.get("tool_calls") or []
    known = ("role", "content", "tool_calls", *(["reasoning_content"] if keep else []))
    history.append({name: message[name] for name in known if name in message})
    history += [{"role": "tool", "tool_call_id": call["id"], "content": RESULT} for call in calls]


async def responses_round(gateway: Gate, model: str, history: list[Any], keep: bool) -> None:
    include = {"include": ["reasoning.encrypted_content"]} if keep else {}
    body = {"model": model, "input": history, "tools": [{"type": "function", **FUNCTION}], "store": False, **include}
    _, _, answer = await gateway.post("/v1/responses", body)
    items = [item for item in answer["output"] if keep or item["type"] != "reasoning"]
    history += items
    calls = [item for item in items if item["type"] == "function_call"]
    history += [{"type": "function_call_output", "call_id": call["call_id"], "output": RESULT} for call in calls]


async def messages_round(gateway: Gate, model: str, history: list[Any], keep: bool) -> None:
    tool = {"name": "read_file", "input_schema": PATH}
    body = {"model": model, "messages": history, "tools": [tool], "max_tokens": 4000}
    if keep:
        body["thinking"] = {"type": "adaptive"}
    _, _, answer = await gateway.post("/v1/messages", body)
    history.append({"role": "assistant", "content": answer["content"]})
    calls = [block for block in answer["content"] if block["type"] == "tool_use"]
    results = [{"type": "tool_result", "tool_use_id": call["id"], "content": RESULT} for call in calls]
    if results:
        history.append({"role": "user", "content": results})


async def gemini_round(gateway: Gate, model: str, history: list[Any], keep: bool) -> None:
    asked = {
        "contents": [
            each if "parts" in each else {"role": "user", "parts": [{"text": each["content"]}]} for each in history
        ]
    }
    body: dict[str, Any] = {**asked, "tools": [{"functionDeclarations": [FUNCTION]}]}
    if keep:
        body["generationConfig"] = {"thinkingConfig": {"includeThoughts": True}}
    _, _, answer = await gateway.post(f"/v1beta/models/{model}:generateContent", body)
    content = answer["candidates"][0]["content"]
    history.append(content)
    calls = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
    results = [{"functionResponse": {**call, "args": None, "response": {"output": RESULT}}} for call in calls]
    if results:
        history.append({"role": "user", "parts": results})


ROUNDS = {
    "openai-chat": chat_round,
    "openai-responses": responses_round,
    "anthropic": messages_round,
    "gemini": gemini_round,
}
LOOP = "Read the file a.txt. Then read the file b.txt. Then read the file c.txt. Then read the file d.txt."


@pytest.mark.parametrize("wire", ROUNDS)
@pytest.mark.parametrize("keep", [True, False], ids=["asks for thinking", "never heard of thinking"])
@asynchronous
async def test_kimis_own_reasoning_is_back_after_others_have_answered(wire: str, keep: bool) -> None:
    async with gate() as gateway:
        history: list[Any] = [{"role": "user", "content": LOOP}]
        for model in ("kimi-k2.5", "kimi-k2.5", "claude-sonnet-5", "mistral-large-latest", "kimi-k2.5"):
            await ROUNDS[wire](gateway, f"sim/{model}", history, keep)
        last = gateway.sim.seen[-1].body
        spoken = [message.get("reasoning_content") for message in last["messages"] if message["role"] == "assistant"]
        assert ["Step 1" in spoken[0], "Step 2" in spoken[1]] == [True, True]
        assert spoken[2:] == [" ", " "]  # another model's reasoning is not Kimi's
        assert gateway.sim.refused == []


@pytest.mark.parametrize("wire", ROUNDS)
@asynchronous
async def test_without_vault_and_seal_the_operator_may_have_it_fail(wire: str) -> None:
    off = '[vault]\nenabled = false\nseal = false\n[defaults]\nmissing_reasoning = "fail"'
    async with gate(off) as gateway:
        history: list[Any] = [{"role": "user", "content": LOOP}]
        await ROUNDS[wire](gateway, "sim/kimi-k2.5", history, False)
        before = len(gateway.sim.seen)
        with pytest.raises((KeyError, IndexError)):  # there is an error where the answer should be
            await ROUNDS[wire](gateway, "sim/kimi-k2.5", history, False)
        assert len(gateway.sim.seen) == before and gateway.sim.refused == []


@asynchronous
async def test_a_client_that_did_not_ask_sees_no_thinking() -> None:
    async with gate() as gateway:
        body = {"model": "sim/kimi-k2.5", "max_tokens": 500, "messages": [{"role": "user", "content": "hi"}]}
        _, headers, answer = await gateway.post("/v1/messages", body)
        assert [block["type"] for block in answer["content"]] == ["text"]
        assert headers["x-midstream-model"] == "sim/kimi-k2.5"
        stream = await gateway.stream("/v1/messages", {**body, "stream": True})
        assert b"thinking_delta" not in stream


SHAPES = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "hi"}]},
    "/v1/responses": {"input": "hi"},
    "/v1/messages": {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 10},
    "/v1beta/models/{model}:generateContent": {"contents": [{"parts": [{"text": "hi"}]}]},
}


def _error_text(path: str, answer: Any) -> str:
    assert "error" in answer
    if path == "/v1/messages":
        assert answer["type"] == "error"
    return str(answer["error"]["message"])


@pytest.mark.parametrize("path", SHAPES)
@asynchronous
async def test_errors_are_in_the_clients_shape(path: str) -> None:
    async with gate() as gateway:
        status, headers, answer = await gateway.post(
            path.format(model="nobody/knows"), {"model": "nobody/knows", **SHAPES[path]}
        )
        assert status in (400, 404) and headers["x-should-retry"] == "false"
        assert "nobody/knows" in _error_text(path, answer)
        for garbage in (b"", b"{", b"[]", b'{"model": 3}', b'"' + b"\xff" * 10, b"[" * 100_000):
            async with gateway.http.post(gateway.url + path.format(model="sim/gpt-4o"), data=garbage) as answered:
                assert 400 <= answered.status < 500, garbage[:20]
                _error_text(path, await answered.json())


FAULTS = {"429": 429, "500": 500}


@each_once(("path", SHAPES), ("fault", FAULTS))
@asynchronous
async def test_an_upstreams_trouble_reaches_the_client(path: str, fault: str) -> None:
    async with gate(retries=0) as gateway:
        gateway.sim.inject(fault)
        status, headers, answer = await gateway.post(
            path.format(model="sim/gpt-4o"), {"model": "sim/gpt-4o", **SHAPES[path]}
        )
        assert status == FAULTS[fault], answer
        _error_text(path, answer)
        assert "x-should-retry" not in headers and int(headers["retry-after"]) >= 1
        assert "anthropic-ratelimit" not in str(headers)


@pytest.mark.parametrize("path", SHAPES)
@asynchronous
async def test_an_answer_that_breaks_off_ends_in_the_stream(path: str) -> None:
    async with gate(retries=0) as gateway:
        gateway.sim.inject("cut")
        body = {"model": "sim/kimi-k2.5", **SHAPES[path], "stream": True}
        data = await gateway.stream(
            path.format(model="sim/kimi-k2.5").replace(":generate", ":streamGenerate") + "?alt=sse", body
        )
        assert b"error" in data or b"failed" in data
        assert b"[DONE]" not in data and b"message_stop" not in data and b"response.completed" not in data


CHAIN = """
[aliases]
chain = ["sim/gpt-4o", "sim/kimi-k2.5"]
"""


@pytest.mark.parametrize("path", SHAPES)
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@asynchronous
async def test_the_next_of_a_chain_answers(path: str, stream: bool) -> None:
    async with gate(CHAIN, retries=0) as gateway:
        gateway.sim.inject("500")
        body = {"model": "chain", **SHAPES[path], "stream": stream}
        where = path.format(model="chain")
        if stream:
            data = await gateway.stream(where.replace(":generate", ":streamGenerate") + "?alt=sse", body)
            assert b"kimi-k2.5" in data
        else:
            _, headers, answer = await gateway.post(where, body)
            assert "This is kimi-k2.5" in json.dumps(answer)
            assert headers["x-midstream-model"] == "sim/kimi-k2.5" and headers["x-midstream-attempts"] == "2"


@asynchronous
async def test_a_field_that_only_the_first_of_a_chain_takes_is_sent_to_none() -> None:
    chain = '[aliases]\nchain = ["sim/gpt-4o", "sim/mistral-large-latest"]'
    async with gate(chain, retries=0) as gateway:
        gateway.sim.inject("500")
        body = {"model": "chain", **SHAPES["/v1/chat/completions"], "logit_bias": {"1": 2}}
        status, headers, _ = await gateway.post("/v1/chat/completions", body)
        assert (status, headers["x-midstream-model"]) == (200, "sim/mistral-large-latest")
        assert "unsupported_option" in headers["x-midstream-notes"]
        assert gateway.sim.refused == []


SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}
LOOK_UP = "Perform a web search for the query: weather oslo"


@asynchronous
async def test_a_search_that_no_model_has_is_answered_as_one_that_failed() -> None:
    body = {"model": "sim/kimi-k2.5", "max_tokens": 900, "messages": [{"role": "user", "content": LOOK_UP}]}
    async with gate() as gateway:
        status, headers, answer = await gateway.post("/v1/messages", {**body, "tools": [SEARCH]})
        assert (status, answer["stop_reason"], headers["x-midstream-notes"]) == (200, "end_turn", "foreign_builtin")
        assert [block["type"] for block in answer["content"]] == ["server_tool_use", "web_search_tool_result", "text"]
        assert answer["content"][1]["content"]["error_code"] == "unavailable"
        assert "x-midstream-model" not in headers and answer["usage"] == {"input_tokens": 0, "output_tokens": 0}
        data = await gateway.stream("/v1/messages", {**body, "tools": [SEARCH], "stream": True})
        assert b'"error_code":"unavailable"' in data and data.endswith(b'{"type":"message_stop"}\n\n')
        assert gateway.sim.requests == 0
        # What came of it may stand in the history of the next request, for any model.
        said = [*body["messages"], {"role": "assistant", "content": answer["content"]}, body["messages"][0]]
        for model in ("kimi-k2.5", "claude-sonnet-5", "gpt-5.2"):
            assert (await gateway.post("/v1/messages", {**body, "model": f"sim/{model}", "messages": said}))[0] == 200
        status, headers, _ = await gateway.post(
            "/v1/messages", {**body, "tools": [SEARCH, {"name": "look", "input_schema": {"type": "object"}}]}
        )
        assert status == 200 and "foreign_builtin" in headers["x-midstream-notes"]
        assert [tool["function"]["name"] for tool in gateway.sim.seen[-1].body["tools"]] == ["look"]
        tool = {"type": "web_search"}
        status, _, answer = await gateway.post(
            "/v1/responses", {"model": "sim/kimi-k2.5", "input": "x", "tools": [tool]}
        )
        assert status == 400 and "has no web_search" in answer["error"]["message"]
        assert not gateway.sim.refused


@asynchronous
async def test_a_response_is_kept_continued_and_deleted() -> None:
    async with gate() as gateway:
        tool = {"type": "function", "name": "read_file", "parameters": PATH}
        body = {"model": "sim/kimi-k2.5", "input": "Read the file a.txt", "tools": [tool]}
        _, _, first = await gateway.post("/v1/responses", body)
        call = next(item for item in first["output"] if item["type"] == "function_call")
        result = {"type": "function_call_output", "call_id": call["call_id"], "output": "hello from a"}
        more = {**body, "input": [result], "previous_response_id": first["id"]}
        _, _, second = await gateway.post("/v1/responses", {**more, "model": "sim/claude-sonnet-5"})
        assert "hello from a" in json.dumps(second["output"]) and second["previous_response_id"] == first["id"]
        assert await gateway.get(f"/v1/responses/{first['id']}") == (200, first)
        _, items = await gateway.get(f"/v1/responses/{second['id']}/input_items")
        assert items["data"][0].get("type", "message") == "message" and len(items["data"]) >= 3
        async with gateway.http.delete(f"{gateway.url}/v1/responses/{first['id']}") as gone:
            assert gone.status == 200
        status, answer = await gateway.get(f"/v1/responses/{first['id']}")
        assert status == 404 and "error" in answer
        status, _, answer = await gateway.post("/v1/responses", more)
        assert status == 400 and answer["error"]["code"] == "previous_response_not_found"
        _, _, unkept = await gateway.post("/v1/responses", {**body, "store": False})
        assert (await gateway.get(f"/v1/responses/{unkept['id']}"))[0] == 404
        stream = await gateway.stream("/v1/responses", {**body, "stream": True})
        done = json.loads(stream.split(b"event: response.completed\ndata: ")[1])["response"]
        status, kept = await gateway.get(f"/v1/responses/{done['id']}")
        assert status == 200 and kept["output"] == done["output"]
        assert gateway.sim.refused == []


@asynchronous
async def test_models_in_each_clients_shape() -> None:
    async with gate(CHAIN) as gateway:
        _, openai = await gateway.get("/v1/models")
        assert openai["data"][0] == {
            "id": "chain",
            "object": "model",
            "created": 1_790_000_000,
            "owned_by": "midstream",
        }
        _, anthropic = await gateway.get("/v1/models?limit=1000", **{"anthropic-version": "2023-06-01"})
        assert all(each["id"].startswith(("claude", "anthropic")) for each in anthropic["data"])
        assert len(anthropic["data"]) == len(openai["data"])
        for each in anthropic["data"]:
            body = {"model": each["id"], "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
            assert (await gateway.post("/v1/messages", body))[0] == 200, each["id"]
        _, page = await gateway.get("/v1/models?limit=2", **{"anthropic-version": "1"})
        assert page["has_more"] is True and page["last_id"] == page["data"][1]["id"]
        _, gemini = await gateway.get("/v1beta/models")
        assert gemini["models"][0]["name"] == "models/chain"
        assert (await gateway.get("/v1/models/chain"))[1]["id"] == "chain"
        assert (await gateway.get("/v1/models/none"))[0] == 404


@asynchronous
async def test_counting_says_that_it_estimates() -> None:
    async with gate() as gateway:
        said = {"messages": [{"role": "user", "content": "hello there " * 50}]}
        for path, body, field in (
            ("/v1/messages/count_tokens?beta=true", {"model": "m", **said}, "input_tokens"),
            ("/v1/responses/input_tokens", {"model": "m", "input": "hello there " * 50}, "input_tokens"),
            ("/v1beta/models/m:countTokens", {"contents": [{"parts": [{"text": "hello there " * 50}]}]}, "totalTokens"),
        ):
            status, headers, answer = await gateway.post(path, body)
            assert (status, headers["x-midstream-estimate"]) == (200, "true")
            assert 100 < answer[field] < 250


@asynchronous
async def test_the_doors_that_clients_knock_on() -> None:
    async with gate() as gateway:
        async with gateway.http.head(f"{gateway.url}/api/hello") as hello:
            assert hello.status == 200
        for signal in ("metrics", "logs", "traces"):
            assert (await gateway.post(f"/v1/{signal}", {}))[0] == 200
        for path in ("/health", "/health/liveliness", "/health/liveness", "/health/readiness"):
            assert (await gateway.get(path))[0] == 200
        async with gateway.http.get(f"{gateway.url}/metrics") as metrics:
            assert metrics.status == 200 and b"midstream_requests" in await metrics.read()
        assert (await gateway.get("/v1/responses"))[0] == 405
        for path in ("/nothing/here", "/v1/nothing", "/v1/v1/models"):
            status, answer = await gateway.get(path)
            assert (status, answer["error"]["code"]) == (404, "unknown_url"), path
        status, answer = await gateway.get("/v1/models/nobody-knows")
        assert (status, answer["error"]["code"]) == (404, "model_not_found")
        status, answer = await gateway.get("/v1/responses/resp_none")
        assert (status, answer["error"]["code"]) == (404, "response_not_found")
        async with gateway.http.get(
            f"{gateway.url}/v1/responses",
            headers={
                "upgrade": "websocket",
                "connection": "upgrade",
                "sec-websocket-key": "x",
                "sec-websocket-version": "13",
            },
        ) as upgrade:
            assert upgrade.status == 426
        for path in ("/chat/completions", "/messages", "/responses"):
            body = {
                "model": "sim/gpt-4o",
                "max_tokens": 9,
                "messages": [{"role": "user", "content": "hi"}],
                "input": "hi",
            }
            assert (await gateway.post(path, body))[0] == 200


@asynchronous
async def test_embeddings_are_refused_in_plain_words_or_passed_on() -> None:
    async with gate() as gateway:
        status, _, answer = await gateway.post("/v1/embeddings", {"model": "sim/claude-sonnet-5", "input": "x"})
        assert status == 400 and "OpenAI-compatible" in answer["error"]["message"]
        status, _, answer = await gateway.post("/v1/embeddings", {"model": "sim/gpt-4o", "input": "x"})
        assert status == 404 and "error" in answer  # the double has no such path: that is the host's answer


@asynchronous
async def test_silence_is_broken_and_the_head_comes_early() -> None:
    async with gate(retries=0) as gateway:
        assert gateway.app.gateway is not None
        gateway.app.gateway.settings = replace(gateway.app.gateway.settings, silence=0.05)
        gateway.sim.inject("stall")
        body = {"model": "sim/gpt-4o", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
        async with gateway.http.post(f"{gateway.url}/v1/chat/completions", json=body) as answer:
            assert answer.status == 200
            heard = b""
            while b": keep-alive" not in heard:
                heard += await answer.content.readany()


@pytest.mark.parametrize("own", [True, False], ids=["a client's own key", "the operator's key"])
@asynchronous
async def test_failures_with_a_clients_own_key_close_no_host_for_others(own: bool) -> None:
    config = '[defaults]\npass_client_keys = true\n[aliases.pair]\nmodels = ["sim/gpt-4o", "sim/gpt-4o-mini"]'
    async with gate(config, retries=0) as gateway:
        body = {"model": "sim/gpt-4o", **SHAPES["/v1/chat/completions"]}
        headers = {"x-midstream-provider-key": "sk-mine"} if own else {}
        gateway.sim.inject("500", times=5)
        for _ in range(5):
            assert (await gateway.post("/v1/chat/completions", body, **headers))[0] == 500
        # After five failures of everybody's, a chain passes over what the host serves first; a single model is asked all the same.
        assert (await gateway.post("/v1/chat/completions", {**body, "model": "pair"}))[0] == 200
        assert gateway.sim.seen[-1].body["model"] == ("gpt-4o" if own else "gpt-4o-mini")
        assert (await gateway.post("/v1/chat/completions", body))[0] == 200


@asynchronous
async def test_any_asgi_server_gets_the_body_of_a_whole_answer() -> None:
    """Ours takes it with the head; what another one does not know it passes over."""
    asked = {"model": "sim/kimi-k2.5", "messages": [{"role": "user", "content": "hello"}]}
    told: list[Any] = []

    async def send(message: Any) -> None:
        told.append(message)

    async with gate() as gateway:

        async def receive() -> Any:
            return given.pop() if given else await asyncio.Event().wait()

        given = [{"type": "http.request", "body": json.dumps(asked).encode(), "more_body": False}]
        scope = {"type": "http", "method": "POST", "path": "/v1/chat/completions", "query_string": b"", "headers": []}
        await gateway.app(scope, receive, send)
        assert [message["type"] for message in told] == ["http.response.start", "http.response.body"]
        assert json.loads(told[1]["body"])["choices"][0]["message"]["content"]
        _, _, answer = await gateway.post("/v1/chat/completions", asked)
        assert answer["choices"][0]["message"]["content"]
