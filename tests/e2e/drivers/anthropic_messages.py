"""The anthropic package: messages, its `.stream()` helper, and its tool runner."""

from __future__ import annotations

from typing import Any

from anthropic import Anthropic
from anthropic.lib.tools import BetaFunctionTool, beta_tool
from driver import Case, Outcome, call, failing, serve, typed


def client(case: Case, retries: int = 0) -> Anthropic:
    return Anthropic(base_url=case.url, api_key=case.key, max_retries=retries)


def _ask(case: Case, **more: Any) -> dict[str, Any]:
    return {
        "model": case.model, "max_tokens": 2000, "system": "Be brief.",
        "messages": [{"role": "user", "content": case.prompt}], **more,
    }  # fmt: skip


def _text(message: Any) -> str:
    return "".join([block.text for block in message.content if block.type == "text"])


def text(case: Case) -> Outcome:
    message = typed(client(case).messages.create(**_ask(case)))
    return {"text": _text(message), "stop": message.stop_reason}


def streaming(case: Case) -> Outcome:
    with client(case).messages.stream(**_ask(case)) as stream:
        pieces = list(stream.text_stream)
        message = typed(stream.get_final_message())
    for event in client(case).messages.create(**_ask(case, stream=True)):
        typed(event)
    return {"text": _text(message), "pieces": len(pieces), "stop": message.stop_reason}


def _runnable(case: Case) -> list[BetaFunctionTool[Any]]:
    @beta_tool
    def read_file(path: str) -> str:
        """Read a file.

        Args:
            path: Where it is.
        """
        return case.run("read_file", {"path": path})

    @beta_tool
    def list_files(path: str) -> str:
        """List the files of a folder.

        Args:
            path: The folder.
        """
        return case.run("list_files", {"path": path})

    return [read_file, list_files]


def _calls(message: Any) -> list[Outcome]:
    return [call(block.name, block.input) for block in message.content if block.type == "tool_use"]


def _thinks(case: Case) -> dict[str, Any]:
    return {"thinking": {"type": "adaptive", "display": "summarized"}}


def tools(case: Case, **more: Any) -> Outcome:
    """Whole answers, with thinking on: the runner has to give signed blocks back."""
    asked = _ask(case, tools=_runnable(case), **_thinks(case), **({"thread": False} | more))
    runner = client(case).beta.messages.tool_runner(**asked)
    messages = [typed(message) for message in runner]
    return {"rounds": [made for message in messages if (made := _calls(message))], "text": _text(messages[-1])}


def threads(case: Case) -> Outcome:
    """The runner's default: the host holds the conversation, and each request sends only what is new."""
    return tools(case, thread=None)


def tools_streamed(case: Case) -> Outcome:
    runner = client(case).beta.messages.tool_runner(**_ask(case, tools=_runnable(case), stream=True, thread=False))
    messages = []
    for stream in runner:
        for _ in stream:
            pass
        messages.append(stream.get_final_message())
    return {"rounds": [made for message in messages if (made := _calls(message))], "text": _text(messages[-1])}


def thinking(case: Case) -> Outcome:
    message = typed(client(case).messages.create(**_ask(case, **_thinks(case))))
    thoughts = [block for block in message.content if block.type == "thinking"]
    assert all(block.signature for block in thoughts)
    return {"text": _text(message), "thinking": "".join([block.thinking for block in thoughts])}


def thinking_streamed(case: Case) -> Outcome:
    with client(case).messages.stream(**_ask(case, **_thinks(case))) as stream:
        thoughts = [event.thinking for event in stream if event.type == "thinking"]
        message = typed(stream.get_final_message())
    assert all(block.signature for block in message.content if block.type == "thinking")
    return {"text": _text(message), "thinking": "".join(thoughts)}


def images(case: Case) -> Outcome:
    source: Any = {"type": "base64", "media_type": "image/png", "data": case.image}
    content: Any = [{"type": "image", "source": source}, {"type": "text", "text": case.prompt}]
    message = client(case).messages.create(**_ask(case, messages=[{"role": "user", "content": content}]))
    return {"text": _text(typed(message))}


def usage(case: Case) -> Outcome:
    whole = typed(client(case).messages.create(**_ask(case))).usage
    with client(case).messages.stream(**_ask(case)) as stream:
        last = stream.get_final_message().usage
    counted = [
        [each.input_tokens, each.output_tokens, each.input_tokens + each.output_tokens] for each in (whole, last)
    ]
    return {"whole": counted[0], "streamed": counted[1]}


def models(case: Case) -> Outcome:
    listed = [typed(model).id for model in client(case).models.list()]
    return {"listed": listed, "one": typed(client(case).models.retrieve(case.model)).id}


def count_tokens(case: Case) -> Outcome:
    asked = _ask(case)
    asked.pop("max_tokens")
    return {"input": typed(client(case).messages.count_tokens(**asked)).input_tokens}


def bad_request(case: Case) -> Outcome:
    orphan: Any = [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "?"}]
    return failing(lambda: client(case).messages.create(**_ask(case, messages=[{"role": "user", "content": orphan}])))


def refused(case: Case) -> Outcome:
    return failing(lambda: client(case).messages.create(**_ask(case)))


def retried(case: Case) -> Outcome:
    return {"text": _text(client(case, retries=2).messages.create(**_ask(case)))}


if __name__ == "__main__":
    serve(
        {
            "text": text, "streaming": streaming, "tools": tools, "tools streamed": tools_streamed, "tools threaded": threads,
            "thinking": thinking, "thinking streamed": thinking_streamed, "images": images, "usage": usage,
            "models": models, "count tokens": count_tokens, "400": bad_request, "401": refused, "429": refused,
            "429 retried": retried,
        }
    )  # fmt: skip
