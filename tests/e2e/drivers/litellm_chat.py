"""litellm: OpenAI's chat on the outside, the host's own wire on the inside. `case.host` is its name for the wire."""

from __future__ import annotations

import os
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it fetches a price list when it is imported

import litellm
from driver import Case, Outcome, call, failing, serve

litellm.suppress_debug_info = True


def ask(case: Case, messages: list[Any] | None = None, retries: int = 0, **more: Any) -> Any:
    return litellm.completion(
        model=f"{case.host}/{case.model}", api_base=case.url, api_key=case.key, max_retries=retries,
        messages=messages or said(case), **more,
    )  # fmt: skip


def said(case: Case) -> list[Any]:
    return [{"role": "system", "content": "Be brief."}, {"role": "user", "content": case.prompt}]


def text(case: Case) -> Outcome:
    choice = ask(case).choices[0]
    return {"text": choice.message.content, "stop": choice.finish_reason}


def streaming(case: Case) -> Outcome:
    choices = [choice for chunk in ask(case, stream=True) for choice in chunk.choices]
    pieces = [choice.delta.content for choice in choices if choice.delta.content]
    return {"text": "".join(pieces), "pieces": len(pieces), "stop": choices[-1].finish_reason}


def _rounds(case: Case, stream: bool) -> Outcome:
    declared = [{"type": "function", "function": {"name": name, **tool}} for name, tool in case.tools.items()]
    messages = said(case)
    rounds: list[list[Outcome]] = []
    while True:
        answer = ask(case, messages, tools=declared, stream=stream)
        if stream:
            answer = litellm.stream_chunk_builder(list(answer), messages=messages)
        message = answer.choices[0].message
        if not message.tool_calls:
            return {"rounds": rounds, "text": message.content}
        rounds.append([call(each.function.name, each.function.arguments) for each in message.tool_calls])
        messages.append(message)
        messages += [
            {"role": "tool", "tool_call_id": each.id, "content": case.run(**done)}
            for each, done in zip(message.tool_calls, rounds[-1], strict=True)
        ]


def tools(case: Case) -> Outcome:
    return _rounds(case, stream=False)


def tools_streamed(case: Case) -> Outcome:
    return _rounds(case, stream=True)


def _effort(case: Case) -> dict[str, Any]:
    """On OpenAI's own wire nothing has to be asked for: the models that think there do so by themselves."""
    return {} if case.host == "openai" else {"reasoning_effort": "low"}


def thinking(case: Case) -> Outcome:
    message = ask(case, **_effort(case)).choices[0].message
    return {"text": message.content, "thinking": getattr(message, "reasoning_content", None)}


def thinking_streamed(case: Case) -> Outcome:
    deltas = [choice.delta for chunk in ask(case, stream=True, **_effort(case)) for choice in chunk.choices]
    return {
        "text": "".join([delta.content or "" for delta in deltas]),
        "thinking": "".join([getattr(delta, "reasoning_content", None) or "" for delta in deltas]),
    }


def images(case: Case) -> Outcome:
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{case.image}"}}
    content = [{"type": "text", "text": case.prompt}, picture]
    return {"text": ask(case, [{"role": "user", "content": content}]).choices[0].message.content}


def usage(case: Case) -> Outcome:
    whole = ask(case).usage
    last = list(ask(case, stream=True, stream_options={"include_usage": True}))[-1].usage
    counted = [[each.prompt_tokens, each.completion_tokens, each.total_tokens] for each in (whole, last)]
    return {"whole": counted[0], "streamed": counted[1]}


def bad_request(case: Case) -> Outcome:
    orphan = {"role": "tool", "tool_call_id": "call_1", "name": "x", "content": "?"}
    return failing(lambda: ask(case, [*said(case), orphan]))


def refused(case: Case) -> Outcome:
    return failing(lambda: ask(case))


def retried(case: Case) -> Outcome:
    return {"text": ask(case, num_retries=2).choices[0].message.content}


if __name__ == "__main__":
    serve(
        {
            "text": text, "streaming": streaming, "tools": tools, "tools streamed": tools_streamed,
            "thinking": thinking, "thinking streamed": thinking_streamed, "images": images, "usage": usage,
            "400": bad_request, "401": refused, "429": refused, "429 retried": retried,
        },
        warns=True,  # its own types do not fit each other
    )  # fmt: skip
