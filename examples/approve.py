"""Ask before a tool writes. The request shows the whole call; a refusal tells the model why."""

import asyncio

from midstream import Agent, Approval, ApprovalRequest, Decision, Session, Toolbox, tool

KEPT: list[str] = []


@tool(writes=True)
def keep(note: str) -> str:
    """Keep a note."""
    KEPT.append(note)
    return "kept"


async def ask(request: ApprovalRequest) -> Decision:
    print(request.shown())
    return Decision(len(KEPT) == 0, "one note is enough")


async def main() -> None:
    async with Session("moonshot/kimi-k2.5") as session:
        agent = Agent(session, Toolbox([keep], approve=Approval(ask)))
        await agent.run("Call keep with note 'milk'.")
        await agent.run("Call keep with note 'bread'.")
        print(KEPT)


asyncio.run(main())
