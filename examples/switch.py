"""Another model goes on, in the middle of a tool loop, and the report says what it will see."""

import asyncio

from midstream import Agent, Session


def population(city: str) -> int:
    """How many people live in a city."""
    return {"Oslo": 709_000, "Bergen": 294_000}.get(city, 0)


async def main() -> None:
    async with Session("moonshot/kimi-k2.5") as session:
        agent = Agent(session, [population])
        for model, question in (
            ("moonshot/kimi-k2.5", "Call population with city 'Oslo'."),
            ("anthropic/claude-sonnet-4-5", "Now call population with city 'Bergen'."),
            ("mistral/mistral-large-latest", "Which of the two is larger?"),
            ("moonshot/kimi-k2.5", "Thank you."),
        ):
            print(f"-- {model}", *session.switch_model(model).lines(), sep="\n   ")
            print((await agent.run(question)).text)


asyncio.run(main())
