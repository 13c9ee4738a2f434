"""The official clients read our streams over loopback, keep-alives included: text, thinking and two calls, and an error in mid-stream.

A canned server sends what the `answer` rooms wrote; nothing else of midstream runs. Group `e2e` of pyproject.toml.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from midstream.wires.answer import AnswerContext, make_writer
from tests.e2e.test_answer_types import need
from tests.wires.answers import Act, Answer, speak

ANSWER = Answer(
    (
        Act("thinking", ("Let me ", "see."), signature="c2ln"),
        Act("text", ("It is ", "sunny.")),
        Act("call", ('{"city": ', '"Oslo"}'), "get_weather"),
        Act("call", ('{"city": "Bergen"}',), "get_weather"),
    ),
    "tool_use",
)
FAILING = Answer((Act("text", ("It ",)),), failure="rate_limited")
CALLS = [("get_weather", {"city": "Oslo"}), ("get_weather", {"city": "Bergen"})]


def stream(wire: str, answer: Answer) -> tuple[str, bytes]:
    """The media type and the bytes, with a keep-alive before every event."""
    writer = make_writer(wire, AnswerContext("m", "resp_1", 1_790_000_000, include=("reasoning.encrypted_content",)))
    return writer.media_type, b"".join([writer.keep_alive() + writer.event(event) for event in speak(answer, wire)])


class _Handler(BaseHTTPRequestHandler):
    served: tuple[str, bytes] = ("", b"")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        kind, data = self.served
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@pytest.fixture
def serve() -> Iterator[Callable[[tuple[str, bytes]], str]]:
    handler = type("Handler", (_Handler,), {})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()

        def start(served: tuple[str, bytes]) -> str:
            handler.served = served  # type: ignore[attr-defined]
            return f"http://127.0.0.1:{server.server_address[1]}"

        yield start
        server.shutdown()
        thread.join(timeout=10)


MESSAGES = [{"role": "user", "content": "weather?"}]


def openai_chat(url: str) -> tuple[str, list[tuple[str, Any]]]:
    client = need("openai").OpenAI(base_url=url, api_key="k", max_retries=0)
    with client, client.chat.completions.stream(model="m", messages=MESSAGES) as events:
        for _ in events:
            pass
        message = events.get_final_completion().choices[0].message
    calls = [(call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls]
    return message.content, calls


def openai_responses(url: str) -> tuple[str, list[tuple[str, Any]]]:
    client = need("openai").OpenAI(base_url=url, api_key="k", max_retries=0)
    with client, client.responses.stream(model="m", input="weather?") as events:
        for _ in events:
            pass
        response = events.get_final_response()
    calls = [item for item in response.output if item.type == "function_call"]
    return response.output_text, [(call.name, json.loads(call.arguments)) for call in calls]


def anthropic(url: str) -> tuple[str, list[tuple[str, Any]]]:
    client = need("anthropic").Anthropic(base_url=url, api_key="k", max_retries=0)
    with client, client.messages.stream(model="m", max_tokens=99, messages=MESSAGES) as events:
        for _ in events:
            pass
        message = events.get_final_message()
    assert [block.signature for block in message.content if block.type == "thinking"] == ["c2ln"]
    text = "".join([block.text for block in message.content if block.type == "text"])
    return text, [(block.name, block.input) for block in message.content if block.type == "tool_use"]


def google(url: str) -> tuple[str, list[tuple[str, Any]]]:
    genai = need("google.genai")
    client = genai.Client(api_key="k", http_options=genai.types.HttpOptions(base_url=url))
    parts = []
    for chunk in client.models.generate_content_stream(model="m", contents="weather?"):
        for candidate in chunk.candidates or ():
            parts += candidate.content.parts or []
    client.close()
    calls = [(part.function_call.name, part.function_call.args) for part in parts if part.function_call]
    return "".join([part.text for part in parts if part.text and not part.thought]), calls


def ollama(url: str) -> tuple[str, list[tuple[str, Any]]]:
    client = need("ollama").Client(host=url)
    chunks = list(client.chat(model="m", messages=MESSAGES, stream=True))
    client._client.close()
    calls = [call.function for chunk in chunks for call in chunk.message.tool_calls or ()]
    text = "".join([chunk.message.content or "" for chunk in chunks])
    return text, [(call.name, dict(call.arguments)) for call in calls]


def cohere(url: str) -> tuple[str, list[tuple[str, Any]]]:
    client = need("cohere").ClientV2(base_url=url, api_key="k")
    text: list[str] = []
    calls: list[list[str]] = []
    for event in client.chat_stream(model="m", messages=MESSAGES):
        if event.type == "content-delta" and event.delta.message.content.text:
            text.append(event.delta.message.content.text)
        elif event.type == "tool-call-start":
            calls.append([event.delta.message.tool_calls.function.name, ""])
        elif event.type == "tool-call-delta":
            calls[-1][1] += event.delta.message.tool_calls.function.arguments
    return "".join(text), [(name, json.loads(arguments)) for name, arguments in calls]


CLIENTS = {
    "openai-chat": openai_chat,
    "openai-responses": openai_responses,
    "anthropic": anthropic,
    "gemini": google,
    "ollama": ollama,
    "cohere": cohere,
}
Serve = Callable[[tuple[str, bytes]], str]


@pytest.mark.filterwarnings("default")  # other people's warnings are theirs
@pytest.mark.parametrize("wire", CLIENTS)
def test_the_wires_own_client_reads_our_stream(wire: str, serve: Serve) -> None:
    assert CLIENTS[wire](serve(stream(wire, ANSWER))) == ("It is sunny.", CALLS)


ERRORS = {
    "openai-chat": "openai.APIError",
    "anthropic": "anthropic.APIError",
    "gemini": "google.genai.errors.APIError",
    "ollama": "ollama.ResponseError",
}
"""What each client raises for an error in mid-stream. The Responses client hands `response.failed` on as an event, and Cohere's an
end with a finish reason of ERROR."""


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("wire", ERRORS)
def test_the_wires_own_client_raises_our_error_in_mid_stream(wire: str, serve: Serve) -> None:
    module, _, name = ERRORS[wire].rpartition(".")
    with pytest.raises(getattr(need(module), name), match="it was not to be"):
        CLIENTS[wire](serve(stream(wire, FAILING)))
