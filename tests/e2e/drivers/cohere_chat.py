"""The cohere package, version 2 of its chat."""

from __future__ import annotations

from typing import Any

import cohere
from driver import Case, Outcome, call, failing, serve, typed


def client(case: Case) -> cohere.ClientV2:
    return cohere.ClientV2(api_key=case.key, base_url=case.url)


def said(case: Case) -> list[Any]:
    return [{"role": "system", "content": "Be brief."}, {"role": "user", "content": case.prompt}]


def _words(content: Any) -> str:
    return "".join([item.text for item in content or () if item.type == "text"])


def text(case: Case) -> Outcome:
    answer = typed(client(case).chat(model=case.model, messages=said(case)))
    return {"text": _words(answer.message.content), "stop": answer.finish_reason}


def _events(case: Case, messages: list[Any], **more: Any) -> list[Any]:
    return [typed(event) for event in client(case).chat_stream(model=case.model, messages=messages, **more)]


def _pieces(events: list[Any]) -> list[str]:
    return [
        event.delta.message.content.text
        for event in events
        if event.type == "content-delta" and event.delta.message.content.text
    ]


def streaming(case: Case) -> Outcome:
    events = _events(case, said(case))
    pieces = _pieces(events)
    return {"text": "".join(pieces), "pieces": len(pieces), "stop": events[-1].delta.finish_reason}


def _rounds(case: Case, ask: Any) -> Outcome:
    messages = said(case)
    declared = [{"type": "function", "function": {"name": name, **tool}} for name, tool in case.tools.items()]
    rounds: list[list[Outcome]] = []
    while True:
        words, calls = ask(messages, declared)
        if not calls:
            return {"rounds": rounds, "text": words}
        rounds.append([call(each["function"]["name"], each["function"]["arguments"]) for each in calls])
        messages.append({"role": "assistant", "tool_calls": calls, "tool_plan": "Looking."})
        messages += [
            {"role": "tool", "tool_call_id": each["id"], "content": case.run(**done)}
            for each, done in zip(calls, rounds[-1], strict=True)
        ]


def tools(case: Case) -> Outcome:
    def ask(messages: list[Any], declared: list[Any]) -> Any:
        message = typed(client(case).chat(model=case.model, messages=messages, tools=declared)).message
        return _words(message.content), [each.model_dump(mode="json") for each in message.tool_calls or ()]

    return _rounds(case, ask)


def tools_streamed(case: Case) -> Outcome:
    def ask(messages: list[Any], declared: list[Any]) -> Any:
        events = _events(case, messages, tools=declared)
        calls: dict[int, Any] = {}
        for event in events:
            if event.type == "tool-call-start":
                calls[event.index] = event.delta.message.tool_calls.model_dump(mode="json")
            elif event.type == "tool-call-delta":
                calls[event.index]["function"]["arguments"] += event.delta.message.tool_calls.function.arguments
        return "".join(_pieces(events)), list(calls.values())

    return _rounds(case, ask)


def _thoughts(content: Any) -> str:
    return "".join([item.thinking for item in content or () if item.type == "thinking"])


def thinking(case: Case) -> Outcome:
    content = typed(client(case).chat(model=case.model, messages=said(case))).message.content
    return {"text": _words(content), "thinking": _thoughts(content)}


def thinking_streamed(case: Case) -> Outcome:
    events = _events(case, said(case))
    thoughts = [
        event.delta.message.content.thinking
        for event in events
        if event.type == "content-delta" and event.delta.message.content.thinking
    ]
    return {"text": "".join(_pieces(events)), "thinking": "".join(thoughts)}


def images(case: Case) -> Outcome:
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{case.image}"}}
    content: Any = [{"type": "text", "text": case.prompt}, picture]
    answer = client(case).chat(model="command-a-vision-07-2025", messages=[{"role": "user", "content": content}])
    return {"text": _words(typed(answer).message.content)}


def usage(case: Case) -> Outcome:
    whole = client(case).chat(model=case.model, messages=said(case)).usage.tokens
    last = _events(case, said(case))[-1].delta.usage.tokens
    counted = [
        [int(each.input_tokens), int(each.output_tokens), int(each.input_tokens + each.output_tokens)]
        for each in (whole, last)
    ]
    return {"whole": counted[0], "streamed": counted[1]}


def models(case: Case) -> Outcome:
    listed = [model.name for model in typed(client(case).models.list()).models]
    return {"listed": listed, "one": typed(client(case).models.get(case.model)).name}


def bad_request(case: Case) -> Outcome:
    return failing(
        lambda: client(case).chat(model=case.model, messages=said(case), p=2.0)
    )  # the reference: at most 0.99


def refused(case: Case) -> Outcome:
    once: Any = {"max_retries": 0}
    return failing(lambda: client(case).chat(model=case.model, messages=said(case), request_options=once))


def retried(case: Case) -> Outcome:
    again: Any = {"max_retries": 2}
    answer = client(case).chat(model=case.model, messages=said(case), request_options=again)
    return {"text": _words(answer.message.content)}


if __name__ == "__main__":
    serve(
        {
            "text": text, "streaming": streaming, "tools": tools, "tools streamed": tools_streamed,
            "thinking": thinking, "thinking streamed": thinking_streamed, "images": images, "usage": usage,
            "models": models, "400": bad_request, "401": refused, "429": refused, "429 retried": retried,
        }
    )  # fmt: skip
