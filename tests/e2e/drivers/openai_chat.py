"""The openai package on chat completions, with its `.stream()` helper."""

from __future__ import annotations

from typing import Any

from driver import Case, Outcome, call, failing, serve, typed
from openai import OpenAI


def client(case: Case, retries: int = 0) -> OpenAI:
    return OpenAI(base_url=case.url, api_key=case.key, max_retries=retries)


def said(case: Case) -> list[Any]:
    return [{"role": "system", "content": "Be brief."}, {"role": "user", "content": case.prompt}]


def declared(case: Case) -> list[Any]:
    return [
        {"type": "function", "function": {"name": name, "strict": True, **tool}} for name, tool in case.tools.items()
    ]


def text(case: Case) -> Outcome:
    answer = typed(client(case).chat.completions.create(model=case.model, messages=said(case)))
    return {"text": answer.choices[0].message.content, "stop": answer.choices[0].finish_reason}


def streaming(case: Case) -> Outcome:
    stream = client(case).chat.completions.create(model=case.model, messages=said(case), stream=True)
    choices = [choice for chunk in stream for choice in typed(chunk).choices]
    pieces = [choice.delta.content for choice in choices if choice.delta.content]
    return {"text": "".join(pieces), "pieces": len(pieces), "stop": choices[-1].finish_reason}


def _rounds(case: Case, ask: Any) -> Outcome:
    messages = said(case)
    rounds: list[list[Outcome]] = []
    while True:
        message = ask(messages)
        if not message.tool_calls:
            return {"rounds": rounds, "text": message.content}
        calls = [call(each.function.name, each.function.arguments) for each in message.tool_calls]
        rounds.append(calls)
        messages.append(message.to_dict(mode="json"))
        messages += [
            {"role": "tool", "tool_call_id": each.id, "content": case.run(**made)}
            for each, made in zip(message.tool_calls, calls, strict=True)
        ]


def tools(case: Case) -> Outcome:
    def ask(messages: list[Any]) -> Any:
        answer = client(case).chat.completions.create(model=case.model, messages=messages, tools=declared(case))
        return typed(answer).choices[0].message

    return _rounds(case, ask)


def tools_streamed(case: Case) -> Outcome:
    def ask(messages: list[Any]) -> Any:
        with client(case).chat.completions.stream(
            model=case.model, messages=messages, tools=declared(case), stream_options={"include_usage": True}
        ) as stream:
            for event in stream:
                if event.type == "chunk":
                    typed(event.chunk)
            message = stream.get_final_completion().choices[0].message
        for each in message.tool_calls or ():
            each.function.parsed_arguments = None  # the helper's own; no host takes it back
        return message

    return _rounds(case, ask)


def thinking(case: Case) -> Outcome:
    answer = client(case).chat.completions.create(model=case.model, messages=said(case))
    message = typed(answer).choices[0].message
    return {"text": message.content, "thinking": (message.model_extra or {}).get("reasoning_content")}


def thinking_streamed(case: Case) -> Outcome:
    stream = client(case).chat.completions.create(model=case.model, messages=said(case), stream=True)
    deltas = [choice.delta for chunk in stream for choice in typed(chunk).choices]
    thoughts = [(delta.model_extra or {}).get("reasoning_content") or "" for delta in deltas]
    return {"text": "".join([delta.content or "" for delta in deltas]), "thinking": "".join(thoughts)}


def images(case: Case) -> Outcome:
    picture: Any = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{case.image}"}}
    content: Any = [{"type": "text", "text": case.prompt}, picture]
    answer = client(case).chat.completions.create(model=case.model, messages=[{"role": "user", "content": content}])
    return {"text": typed(answer).choices[0].message.content}


def usage(case: Case) -> Outcome:
    api = client(case).chat.completions
    whole = typed(api.create(model=case.model, messages=said(case))).usage
    asked = list(api.create(model=case.model, messages=said(case), stream=True, stream_options={"include_usage": True}))
    plain = list(api.create(model=case.model, messages=said(case), stream=True))
    last = asked[-1]
    assert not last.choices and all(chunk.usage is None for chunk in asked[:-1]), (
        "usage comes last, in a chunk of its own"
    )
    assert all(chunk.usage is None for chunk in plain), "usage was not asked for"
    return {
        "whole": [whole.prompt_tokens, whole.completion_tokens, whole.total_tokens],
        "streamed": [last.usage.prompt_tokens, last.usage.completion_tokens, last.usage.total_tokens],
    }


def models(case: Case) -> Outcome:
    listed = [typed(model).id for model in client(case).models.list()]
    return {"listed": listed, "one": typed(client(case).models.retrieve(case.model)).id}


def bad_request(case: Case) -> Outcome:
    orphan: Any = {"role": "tool", "tool_call_id": "call_1", "content": "?"}
    return failing(lambda: client(case).chat.completions.create(model=case.model, messages=[*said(case), orphan]))


def refused(case: Case) -> Outcome:
    return failing(lambda: client(case).chat.completions.create(model=case.model, messages=said(case)))


def retried(case: Case) -> Outcome:
    answer = client(case, retries=2).chat.completions.create(model=case.model, messages=said(case))
    return {"text": typed(answer).choices[0].message.content}


if __name__ == "__main__":
    serve(
        {
            "text": text, "streaming": streaming, "tools": tools, "tools streamed": tools_streamed,
            "thinking": thinking, "thinking streamed": thinking_streamed, "images": images, "usage": usage,
            "models": models, "400": bad_request, "401": refused, "429": refused, "429 retried": retried,
        }
    )  # fmt: skip
