"""The same errands for any client of OpenAI's shape: the package's, and ours where it is not installed."""

from __future__ import annotations

from typing import Any

from .tour import MODELS, SCHEMA, errand, weather

TOOLS: list[Any] = [
    {"type": "function", "function": {"name": "get_weather", "description": "The weather.", "parameters": SCHEMA}}
]
RESPONSES_TOOLS: list[Any] = [
    {"type": "function", "name": "get_weather", "description": "The weather.", "parameters": SCHEMA, "strict": False}
]


def as_dict(message: Any) -> dict[str, Any]:
    """A message as people write it back by hand: content and calls, nothing else."""
    calls = [
        {
            "id": each.id,
            "type": "function",
            "function": {"name": each.function.name, "arguments": each.function.arguments},
        }
        for each in message.tool_calls or ()
    ]
    return {"role": "assistant", "content": message.content, **({"tool_calls": calls} if calls else {})}


def gathered(stream: Any) -> dict[str, Any]:
    """A streamed answer, gathered as the package's documentation shows it."""
    text, calls = "", {}
    for chunk in stream:
        if not chunk.choices:
            continue
        delta = chunk.choices[0].delta
        text += delta.content or ""
        for piece in delta.tool_calls or ():
            call = calls.setdefault(
                piece.index, {"id": piece.id, "type": "function", "function": {"name": "", "arguments": ""}}
            )
            call["function"]["name"] += piece.function.name or ""
            call["function"]["arguments"] += piece.function.arguments or ""
    return {"role": "assistant", "content": text, **({"tool_calls": list(calls.values())} if calls else {})}


def chat_tour(client: Any) -> list[Any]:
    """A conversation through all models: whole answers and streamed ones, sent back as objects and as dictionaries."""
    messages: list[Any] = [{"role": "system", "content": "Be brief."}]
    for number, model in enumerate(MODELS):
        messages.append({"role": "user", "content": errand(number)})
        for _ in range(2):
            asked = {"model": model, "messages": messages, "tools": TOOLS, "reasoning_effort": "medium"}
            if number % 2:
                message: Any = gathered(client.chat.completions.create(**asked, stream=True))
                calls = message.get("tool_calls", [])
            else:
                message = client.chat.completions.create(**asked).choices[0].message
                calls = as_dict(message).get("tool_calls", [])
                message = message if number else as_dict(message)
            messages.append(message)
            messages += [
                {"role": "tool", "tool_call_id": call["id"], "content": weather(f"Town {number}")} for call in calls
            ]
    return messages


def responses_tour(client: Any) -> list[Any]:
    """The same over `responses.create`: the output goes back as input, as the package's documentation shows it."""
    items: list[Any] = []
    for number, model in enumerate(MODELS):
        items.append({"role": "user", "content": errand(number)})
        for _ in range(2):
            reply = client.responses.create(
                model=model, input=items, tools=RESPONSES_TOOLS, reasoning={"effort": "medium"}
            )
            items += [item.model_dump(exclude_none=True) for item in reply.output]
            items += [
                {"type": "function_call_output", "call_id": item.call_id, "output": weather(f"Town {number}")}
                for item in reply.output
                if item.type == "function_call"
            ]
    return items
