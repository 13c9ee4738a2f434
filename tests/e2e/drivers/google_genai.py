"""The google-genai package, on the Gemini API."""

from __future__ import annotations

import base64
from typing import Any

from driver import Case, Outcome, call, failing, serve, typed
from google import genai
from google.genai import types


def client(case: Case, attempts: int = 1) -> genai.Client:
    retry = types.HttpRetryOptions(attempts=attempts, initial_delay=0.01)
    return genai.Client(api_key=case.key, http_options=types.HttpOptions(base_url=case.url, retry_options=retry))


def _config(**more: Any) -> types.GenerateContentConfig:
    off = types.AutomaticFunctionCallingConfig(disable=True)
    return types.GenerateContentConfig(system_instruction="Be brief.", automatic_function_calling=off, **more)


def text(case: Case) -> Outcome:
    with client(case) as api:
        answer = typed(api.models.generate_content(model=case.model, contents=case.prompt, config=_config()))
        return {"text": answer.text, "stop": answer.candidates[0].finish_reason.name}


def streaming(case: Case) -> Outcome:
    with client(case) as api:
        stream = api.models.generate_content_stream(model=case.model, contents=case.prompt, config=_config())
        chunks = [typed(chunk) for chunk in stream]
    pieces = [chunk.text for chunk in chunks if chunk.text]
    stop = chunks[-1].candidates[0].finish_reason
    return {"text": "".join(pieces), "pieces": len(pieces), "stop": stop.name if stop else None}


def _rounds(case: Case, ask: Any) -> Outcome:
    declared: Any = [
        types.FunctionDeclaration(name=name, description=tool["description"], parameters_json_schema=tool["parameters"])
        for name, tool in case.tools.items()
    ]
    config = _config(tools=[types.Tool(function_declarations=declared)])
    contents: list[Any] = [types.Content(role="user", parts=[types.Part(text=case.prompt)])]
    rounds: list[list[Outcome]] = []
    with client(case) as api:
        while True:
            parts = ask(api, contents, config)
            made = [part.function_call for part in parts if part.function_call]
            if not made:
                return {"rounds": rounds, "text": "".join([part.text or "" for part in parts if not part.thought])}
            rounds.append([call(each.name, each.args) for each in made])
            contents.append(types.Content(role="model", parts=parts))
            answers = [
                types.Part(
                    function_response=types.FunctionResponse(
                        id=each.id, name=each.name, response={"output": case.run(**done)}
                    )
                )
                for each, done in zip(made, rounds[-1], strict=True)
            ]
            contents.append(types.Content(role="user", parts=answers))


def tools(case: Case) -> Outcome:
    def ask(api: genai.Client, contents: list[Any], config: Any) -> Any:
        answer = typed(api.models.generate_content(model=case.model, contents=contents, config=config))
        return answer.candidates[0].content.parts

    return _rounds(case, ask)


def tools_streamed(case: Case) -> Outcome:
    def ask(api: genai.Client, contents: list[Any], config: Any) -> Any:
        stream = api.models.generate_content_stream(model=case.model, contents=contents, config=config)
        contents_of = [typed(chunk).candidates[0].content for chunk in stream]
        return [part for content in contents_of if content for part in content.parts or ()]

    return _rounds(case, ask)


def _thinks() -> types.GenerateContentConfig:
    return _config(thinking_config=types.ThinkingConfig(include_thoughts=True))


def _split(parts: list[Any]) -> Outcome:
    return {
        "text": "".join([part.text or "" for part in parts if not part.thought]),
        "thinking": "".join([part.text or "" for part in parts if part.thought]),
    }


def thinking(case: Case) -> Outcome:
    with client(case) as api:
        answer = typed(api.models.generate_content(model=case.model, contents=case.prompt, config=_thinks()))
        return _split(answer.candidates[0].content.parts)


def thinking_streamed(case: Case) -> Outcome:
    with client(case) as api:
        stream = api.models.generate_content_stream(model=case.model, contents=case.prompt, config=_thinks())
        return _split([part for chunk in stream for part in typed(chunk).candidates[0].content.parts or ()])


def images(case: Case) -> Outcome:
    picture = types.Part.from_bytes(data=base64.b64decode(case.image), mime_type="image/png")
    with client(case) as api:
        answer = api.models.generate_content(model=case.model, contents=[picture, case.prompt], config=_config())
        return {"text": typed(answer).text}


def _counted(usage: Any) -> list[int]:
    out = (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0)
    return [usage.prompt_token_count, out, usage.total_token_count]


def usage(case: Case) -> Outcome:
    with client(case) as api:
        whole = api.models.generate_content(model=case.model, contents=case.prompt, config=_config()).usage_metadata
        stream = api.models.generate_content_stream(model=case.model, contents=case.prompt, config=_config())
        return {"whole": _counted(whole), "streamed": _counted(list(stream)[-1].usage_metadata)}


def models(case: Case) -> Outcome:
    with client(case) as api:
        listed = [typed(model).name.removeprefix("models/") for model in api.models.list()]
        return {"listed": listed, "one": typed(api.models.get(model=case.model)).name.removeprefix("models/")}


def count_tokens(case: Case) -> Outcome:
    with client(case) as api:
        return {"input": typed(api.models.count_tokens(model=case.model, contents=case.prompt)).total_tokens}


def bad_request(case: Case) -> Outcome:
    orphan = types.Part(function_response=types.FunctionResponse(name="x", response={"output": "?"}))
    contents: Any = [types.Content(role="user", parts=[orphan])]
    with client(case) as api:
        return failing(lambda: api.models.generate_content(model=case.model, contents=contents, config=_config()))


def refused(case: Case) -> Outcome:
    with client(case) as api:
        return failing(lambda: api.models.generate_content(model=case.model, contents=case.prompt, config=_config()))


def retried(case: Case) -> Outcome:
    with client(case, attempts=3) as api:
        return {"text": api.models.generate_content(model=case.model, contents=case.prompt, config=_config()).text}


if __name__ == "__main__":
    serve(
        {
            "text": text, "streaming": streaming, "tools": tools, "tools streamed": tools_streamed,
            "thinking": thinking, "thinking streamed": thinking_streamed, "images": images, "usage": usage,
            "models": models, "count tokens": count_tokens, "400": bad_request, "401": refused, "429": refused,
            "429 retried": retried,
        }
    )  # fmt: skip
