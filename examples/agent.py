"""Tools as plain functions: the schema comes from the type hints, the description from the docstring."""

import asyncio
import datetime

from midstream import Agent, RunLimits, Session


def today() -> str:
    """The date of today."""
    return datetime.date.today().isoformat()


def days_between(start: datetime.date, end: datetime.date) -> int:
    """How many days lie between two dates."""
    return (end - start).days


async def main() -> None:
    async with Session("moonshot/kimi-k2.5") as session:
        agent = Agent(session, [today, days_between], RunLimits(rounds=6, seconds=60))
        result = await agent.run("Call today, then call days_between with start '2026-01-01' and end '2026-12-24'.")
        print(result.text)
        print(f"{result.rounds} rounds, {result.usage.total} tokens, ended by {result.reason}")


asyncio.run(main())
