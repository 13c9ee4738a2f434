"""The mistralai package: chat, whole and streamed."""

from __future__ import annotations

from typing import Any

from driver import Case, Outcome, call, failing, serve, typed
from mistralai.client import Mistral
from mistralai.client.utils import BackoffStrategy, RetryConfig


def client(case: Case, retries: bool = False) -> Mistral:
    backoff = RetryConfig("backoff", BackoffStrategy(1, 10, 1.5, 2000), False) if retries else None
    return Mistral(server_url=case.url, api_key=case.key, retry_config=backoff)


def said(case: Case) -> list[Any]:
    return [{"role": "system", "content": "Be brief."}, {"role": "user", "content": case.prompt}]


def declared(case: Case) -> list[Any]:
    return [{"type": "function", "function": {"name": name, **tool}} for name, tool in case.tools.items()]


def text(case: Case) -> Outcome:
    choice = typed(client(case).chat.complete(model=case.model, messages=said(case))).choices[0]
    return {"text": choice.message.content, "stop": choice.finish_reason}


def _chunks(case: Case, messages: list[Any], **more: Any) -> list[Any]:
    with client(case).chat.stream(model=case.model, messages=messages, **more) as stream:
        return [typed(event).data for event in stream]


def streaming(case: Case) -> Outcome:
    choices = [choice for chunk in _chunks(case, said(case)) for choice in chunk.choices]
    pieces = [choice.delta.content for choice in choices if choice.delta.content]
    return {"text": "".join(pieces), "pieces": len(pieces), "stop": choices[-1].finish_reason}


def _rounds(case: Case, ask: Any) -> Outcome:
    messages = said(case)
    rounds: list[list[Outcome]] = []
    while True:
        content, made = ask(messages)
        if not made:
            return {"rounds": rounds, "text": content}
        rounds.append([call(each.function.name, each.function.arguments) for each in made])
        calls = [each.model_dump(mode="json", exclude_none=True) for each in made]
        messages.append({"role": "assistant", "content": content or "", "tool_calls": calls})
        messages += [
            {"role": "tool", "tool_call_id": each.id, "name": each.function.name, "content": case.run(**done)}
            for each, done in zip(made, rounds[-1], strict=True)
        ]


def tools(case: Case) -> Outcome:
    def ask(messages: list[Any]) -> Any:
        answer = client(case).chat.complete(model=case.model, messages=messages, tools=declared(case))
        message = typed(answer).choices[0].message
        return message.content, message.tool_calls or []

    return _rounds(case, ask)


def tools_streamed(case: Case) -> Outcome:
    """Mistral sends each call whole, in one chunk; the SDK has nothing that would put pieces together."""

    def ask(messages: list[Any]) -> Any:
        deltas = [choice.delta for chunk in _chunks(case, messages, tools=declared(case)) for choice in chunk.choices]
        made = [each for delta in deltas for each in delta.tool_calls or ()]
        return "".join([delta.content or "" for delta in deltas]), made

    return _rounds(case, ask)


def _thoughts(content: Any) -> str:
    chunks = content if isinstance(content, list) else []
    return "".join([part.text for chunk in chunks if chunk.type == "thinking" for part in chunk.thinking])


def _words(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join([chunk.text for chunk in content or () if chunk.type == "text"])


def thinking(case: Case) -> Outcome:
    content = typed(client(case).chat.complete(model=case.model, messages=said(case))).choices[0].message.content
    return {"text": _words(content), "thinking": _thoughts(content)}


def thinking_streamed(case: Case) -> Outcome:
    contents = [choice.delta.content for chunk in _chunks(case, said(case)) for choice in chunk.choices]
    return {"text": "".join(map(_words, contents)), "thinking": "".join(map(_thoughts, contents))}


def images(case: Case) -> Outcome:
    picture = {"type": "image_url", "image_url": f"data:image/png;base64,{case.image}"}
    content: Any = [{"type": "text", "text": case.prompt}, picture]
    answer = client(case).chat.complete(model=case.model, messages=[{"role": "user", "content": content}])
    return {"text": typed(answer).choices[0].message.content}


def usage(case: Case) -> Outcome:
    whole = typed(client(case).chat.complete(model=case.model, messages=said(case))).usage
    last = _chunks(case, said(case))[-1]
    assert last.choices, "Mistral's usage comes with the last choice"
    counted = [[each.prompt_tokens, each.completion_tokens, each.total_tokens] for each in (whole, last.usage)]
    return {"whole": counted[0], "streamed": counted[1]}


def models(case: Case) -> Outcome:
    listed = [model.id for model in typed(client(case).models.list()).data]
    return {"listed": listed, "one": typed(client(case).models.retrieve(model_id=case.model)).id}


def bad_request(case: Case) -> Outcome:
    orphan = {"role": "tool", "tool_call_id": "abcdefghi", "name": "x", "content": "?"}
    return failing(lambda: client(case).chat.complete(model=case.model, messages=[*said(case), orphan]))


def refused(case: Case) -> Outcome:
    return failing(lambda: client(case).chat.complete(model=case.model, messages=said(case)))


def retried(case: Case) -> Outcome:
    answer = client(case, retries=True).chat.complete(model=case.model, messages=said(case))
    return {"text": typed(answer).choices[0].message.content}


if __name__ == "__main__":
    serve(
        {
            "text": text, "streaming": streaming, "tools": tools, "tools streamed": tools_streamed,
            "thinking": thinking, "thinking streamed": thinking_streamed, "images": images, "usage": usage,
            "models": models, "400": bad_request, "401": refused, "429": refused, "429 retried": retried,
        }
    )  # fmt: skip
