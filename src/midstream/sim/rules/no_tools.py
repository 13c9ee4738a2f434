"""The rule of a host, of any wire, that takes no tools for a model."""

from __future__ import annotations

from collections.abc import Iterator

from .rule import Body, Rule, Traits

_FIELDS = ("tools", "tool_choice", "parallel_tool_calls", "toolConfig", "functions")


def _declares_none(body: Body, traits: Traits) -> Iterator[str]:
    for field in _FIELDS:
        if field in body:
            yield f"{body.get('model') or traits.name} does not support tools"
            # One refusal is enough, however many of the fields are there.
            return


NO_TOOLS = Rule(
    "no tools",
    "observed",
    'Ollama: "registry.ollama.ai/library/gemma3:4b does not support tools" (ollama#9680); vLLM: "auto" tool choice requires '
    "--enable-auto-tool-choice (vllm#9986)",
    _declares_none,
    guide="hosts.md#models-without-tools",
)
