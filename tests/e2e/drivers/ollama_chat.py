"""The ollama package."""

from __future__ import annotations

from typing import Any

from driver import Case, Outcome, call, failing, serve, typed
from ollama import Client


def client(case: Case) -> Client:
    return Client(host=case.url, headers={"Authorization": f"Bearer {case.key}"})


def said(case: Case) -> list[Any]:
    return [{"role": "system", "content": "Be brief."}, {"role": "user", "content": case.prompt}]


def text(case: Case) -> Outcome:
    answer = typed(client(case).chat(model=case.model, messages=said(case)))
    return {"text": answer.message.content, "stop": answer.done_reason}


def streaming(case: Case) -> Outcome:
    chunks = [typed(chunk) for chunk in client(case).chat(model=case.model, messages=said(case), stream=True)]
    pieces = [chunk.message.content for chunk in chunks if chunk.message.content]
    return {"text": "".join(pieces), "pieces": len(pieces), "stop": chunks[-1].done_reason}


def _rounds(case: Case, stream: bool) -> Outcome:
    declared = [{"type": "function", "function": {"name": name, **tool}} for name, tool in case.tools.items()]
    messages = said(case)
    rounds: list[list[Outcome]] = []
    while True:
        answer: Any = client(case).chat(model=case.model, messages=messages, tools=declared, stream=stream)
        answers = [typed(chunk).message for chunk in (answer if stream else [answer])]
        content = "".join([message.content or "" for message in answers])
        made = [each.function for message in answers for each in message.tool_calls or ()]
        if not made:
            return {"rounds": rounds, "text": content}
        rounds.append([call(each.name, each.arguments) for each in made])
        calls = [{"function": each.model_dump(include={"name", "arguments"})} for each in made]
        messages.append({"role": "assistant", "content": content, "tool_calls": calls})
        messages += [{"role": "tool", "tool_name": done["name"], "content": case.run(**done)} for done in rounds[-1]]


def tools(case: Case) -> Outcome:
    return _rounds(case, stream=False)


def tools_streamed(case: Case) -> Outcome:
    return _rounds(case, stream=True)


def thinking(case: Case) -> Outcome:
    message = typed(client(case).chat(model=case.model, messages=said(case), think=True)).message
    return {"text": message.content, "thinking": message.thinking}


def thinking_streamed(case: Case) -> Outcome:
    answers = [typed(chunk).message for chunk in client(case).chat(case.model, said(case), think=True, stream=True)]
    return {
        "text": "".join([message.content or "" for message in answers]),
        "thinking": "".join([message.thinking or "" for message in answers]),
    }


def images(case: Case) -> Outcome:
    messages = [{"role": "user", "content": case.prompt, "images": [case.image]}]
    return {"text": typed(client(case).chat(model=case.model, messages=messages)).message.content}


def usage(case: Case) -> Outcome:
    whole = client(case).chat(model=case.model, messages=said(case))
    last = list(client(case).chat(model=case.model, messages=said(case), stream=True))[-1]
    counted = [
        [each.prompt_eval_count, each.eval_count, each.prompt_eval_count + each.eval_count] for each in (whole, last)
    ]
    assert all(each.total_duration and each.eval_duration for each in (whole, last)), "durations come with the usage"
    return {"whole": counted[0], "streamed": counted[1]}


def models(case: Case) -> Outcome:
    listed = [model.model for model in typed(client(case).list()).models]
    shown = typed(client(case).show(case.model))
    assert shown.modelinfo is not None and shown.capabilities, "what a model can do is in /api/show"
    return {"listed": listed, "one": case.model}


def bad_request(case: Case) -> Outcome:
    return failing(lambda: client(case).chat(model=case.model, messages=said(case), think="enormous"))


def refused(case: Case) -> Outcome:
    return failing(lambda: client(case).chat(model=case.model, messages=said(case)))


if __name__ == "__main__":
    serve(
        {
            "text": text, "streaming": streaming, "tools": tools, "tools streamed": tools_streamed,
            "thinking": thinking, "thinking streamed": thinking_streamed, "images": images, "usage": usage,
            "models": models, "400": bad_request, "429": refused,
        }
    )  # fmt: skip
