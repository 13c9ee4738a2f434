"""The openai package on Responses, with its `.stream()` helper."""

from __future__ import annotations

from typing import Any

from driver import Case, Outcome, call, failing, serve, typed
from openai import OpenAI


def client(case: Case, retries: int = 0) -> OpenAI:
    return OpenAI(base_url=case.url, api_key=case.key, max_retries=retries)


def declared(case: Case) -> list[Any]:
    return [{"type": "function", "name": name, "strict": True, **tool} for name, tool in case.tools.items()]


def text(case: Case) -> Outcome:
    answer = client(case).responses.create(model=case.model, instructions="Be brief.", input=case.prompt)
    return {"text": typed(answer).output_text, "stop": answer.status}


def streaming(case: Case) -> Outcome:
    with client(case).responses.stream(model=case.model, instructions="Be brief.", input=case.prompt) as stream:
        pieces = [event.delta for event in stream if event.type == "response.output_text.delta"]
        final = stream.get_final_response()
    assert final.output_text == "".join(pieces)
    for number, event in enumerate(client(case).responses.create(model=case.model, input=case.prompt, stream=True)):
        assert typed(event).sequence_number == number
    return {"text": final.output_text, "pieces": len(pieces), "stop": final.status}


def _rounds(case: Case, ask: Any) -> Outcome:
    items: list[Any] = [{"role": "user", "content": case.prompt}]
    rounds: list[list[Outcome]] = []
    while True:
        answer = ask(items)
        made = [item for item in answer.output if item.type == "function_call"]
        if not made:
            return {"rounds": rounds, "text": answer.output_text}
        rounds.append([call(item.name, item.arguments) for item in made])
        items += [
            item.model_dump(mode="json", exclude={"parsed_arguments"}, exclude_none=True) for item in answer.output
        ]
        items += [
            {"type": "function_call_output", "call_id": item.call_id, "output": case.run(**each)}
            for item, each in zip(made, rounds[-1], strict=True)
        ]


def _more(case: Case) -> dict[str, Any]:
    return {
        "model": case.model, "tools": declared(case), "store": False, "include": ["reasoning.encrypted_content"],
    }  # fmt: skip


def tools(case: Case) -> Outcome:
    return _rounds(case, lambda items: typed(client(case).responses.create(input=items, **_more(case))))


def tools_streamed(case: Case) -> Outcome:
    def ask(items: list[Any]) -> Any:
        with client(case).responses.stream(input=items, **_more(case)) as stream:
            for _ in stream:
                pass
            return stream.get_final_response()

    return _rounds(case, ask)


def thinking(case: Case) -> Outcome:
    answer = client(case).responses.create(model=case.model, input=case.prompt, reasoning={"summary": "auto"})
    thoughts = [part.text for item in typed(answer).output if item.type == "reasoning" for part in item.summary]
    return {"text": answer.output_text, "thinking": "".join(thoughts)}


def thinking_streamed(case: Case) -> Outcome:
    events = list(
        client(case).responses.create(model=case.model, input=case.prompt, reasoning={"summary": "auto"}, stream=True)
    )
    thoughts = [event.delta for event in events if event.type == "response.reasoning_summary_text.delta"]
    return {"text": events[-1].response.output_text, "thinking": "".join(thoughts)}


def images(case: Case) -> Outcome:
    picture: Any = {"type": "input_image", "detail": "auto", "image_url": f"data:image/png;base64,{case.image}"}
    content: Any = [{"type": "input_text", "text": case.prompt}, picture]
    answer = client(case).responses.create(model=case.model, input=[{"role": "user", "content": content}])
    return {"text": typed(answer).output_text}


def usage(case: Case) -> Outcome:
    api = client(case).responses
    whole = typed(api.create(model=case.model, input=case.prompt)).usage
    last = list(api.create(model=case.model, input=case.prompt, stream=True))[-1].response.usage
    return {
        "whole": [whole.input_tokens, whole.output_tokens, whole.total_tokens],
        "streamed": [last.input_tokens, last.output_tokens, last.total_tokens],
    }


def models(case: Case) -> Outcome:
    listed = [typed(model).id for model in client(case).models.list()]
    return {"listed": listed, "one": typed(client(case).models.retrieve(case.model)).id}


def count_tokens(case: Case) -> Outcome:
    return {"input": typed(client(case).responses.input_tokens.count(model=case.model, input=case.prompt)).input_tokens}


def bad_request(case: Case) -> Outcome:
    orphan: Any = {"type": "function_call_output", "call_id": "call_1", "output": "?"}
    return failing(lambda: client(case).responses.create(model=case.model, input=[orphan]))


def refused(case: Case) -> Outcome:
    return failing(lambda: client(case).responses.create(model=case.model, input=case.prompt))


def retried(case: Case) -> Outcome:
    return {"text": client(case, retries=2).responses.create(model=case.model, input=case.prompt).output_text}


if __name__ == "__main__":
    serve(
        {
            "text": text, "streaming": streaming, "tools": tools, "tools streamed": tools_streamed,
            "thinking": thinking, "thinking streamed": thinking_streamed, "images": images, "usage": usage,
            "models": models, "count tokens": count_tokens, "400": bad_request, "401": refused, "429": refused,
            "429 retried": retried,
        }
    )  # fmt: skip
