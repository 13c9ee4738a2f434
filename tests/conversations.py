"""Small histories that tests share: as a provider would have made them, with canonical ids."""

from __future__ import annotations

import itertools

from midstream.core.blocks import (
    Block,
    Conversation,
    Media,
    Origin,
    Text,
    Thinking,
    ToolCall,
    ToolResponse,
    Turn,
    human,
)
from midstream.core.ids import canonical_tool_call_id

ORIGIN = Origin("elsewhere", "elsewhere", "model-x")
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


class Story:
    """Builds a history turn by turn; `origin` is who answers from here on."""

    def __init__(self, origin: Origin = ORIGIN, system: str = "") -> None:
        self.origin = origin
        self.system = system
        self.turns: list[Turn] = []
        self._keys = itertools.count()
        self._open: list[ToolCall] = []

    def key(self) -> str:
        return f"k{next(self._keys)}"

    def says(self, *content: str | Media) -> Story:
        self.turns.append(human(*content, key=self.key()))
        return self

    def answers(self, text: str = "", *calls: tuple[str, str], thinking: str | None = None, **fields: object) -> Story:
        """An answer; calls are (name, arguments), their raw ids repeat from turn to turn as some hosts' do."""
        key = self.key()
        blocks: list[Block] = []
        if thinking is not None:
            blocks.append(Thinking(thinking, "reasoning_content", origin=self.origin))
        if text:
            blocks.append(Text(text))
        self._open = [
            ToolCall(
                canonical_tool_call_id(self.origin.provider, f"raw:{index}", name, key, index),
                name,
                arguments,
                f"raw:{index}",
                self.origin.provider,
            )
            for index, (name, arguments) in enumerate(calls)
        ]
        blocks += self._open
        stop = "tool_use" if calls else "end_turn"
        turn = Turn("ai", tuple(blocks), key=key, origin=self.origin, stop_reason=stop, **fields)  # type: ignore[arg-type]
        self.turns.append(turn)
        return self

    def results(self, *results: str | Media, error: bool = False) -> Story:
        """Results of the last calls, in order."""
        responses = tuple(
            ToolResponse(call.id, call.name, (Text(result) if isinstance(result, str) else result,), is_error=error)
            for call, result in zip(self._open, results, strict=True)
        )
        self.turns.append(Turn("tool", responses, key=self.key()))
        return self

    def done(self) -> Conversation:
        return Conversation(tuple(self.turns), self.system)


def weather_story(origin: Origin = ORIGIN, thinking: str | None = None) -> Story:
    """A question, two parallel calls, their results, an answer."""
    return (
        Story(origin, "Be brief.")
        .says("Weather and time in Oslo?")
        .answers(
            "Let me look.", ("get_weather", '{"city":"Oslo"}'), ("get_time", '{"city": "Oslo"}'), thinking=thinking
        )
        .results("12 C", "14:02")
        .answers("12 C, 14:02.", thinking=thinking)
        .says("And in Rome?")
    )
