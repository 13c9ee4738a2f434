"""A reply, or a client of the doubles, that is dropped before its end leaves no warning: in the loop, after it, or at exit."""

from __future__ import annotations

import subprocess
import sys

import pytest

_BEGIN = """
import asyncio, gc
from midstream import SyncSession, stream_sync
from midstream.testing import sim_server

MODEL = "sim/kimi-k2.5"
server = sim_server()
sim = server.__enter__()

async def asked(client):
    await client.complete(MODEL, "hi")

async def begun(client):
    async for _ in client.stream(MODEL, "hi"):
        break
"""

PROGRAMS = {
    "a reply left in a for": """
with SyncSession(MODEL, client=sim.client()) as session:
    for event in session.send("hi"):
        break
""",
    "a reply left in a for, of one answer": """
for event in stream_sync(MODEL, "hi", catalog=sim.catalog()):
    break
""",
    "a reply's text left": """
for words in stream_sync(MODEL, "hi", catalog=sim.catalog()).iter_text():
    break
""",
    "a reply dropped": """
reply = stream_sync(MODEL, "hi", catalog=sim.catalog())
next(iter(reply))
del reply
""",
    "a reply that lasts longer than its session": """
session = SyncSession(MODEL, client=sim.client())
reply = session.send("hi")
next(iter(reply))
session.close()
""",
    "a reply kept until the end of the program": """
reply = stream_sync(MODEL, "hi", catalog=sim.catalog())
next(iter(reply))
""",
    "a client that was never used": "sim.client()",
    "a client dropped after an answer": "asyncio.run(asked(sim.client()))",
    "a client dropped in an answer": "asyncio.run(begun(sim.client()))",
    "a client kept until the end of the program": """
client = sim.client()
asyncio.run(asked(client))
""",
    "clients dropped in a loop that goes on": """
async def main():
    for _ in range(3):
        await asked(sim.client())
        gc.collect()
asyncio.run(main())
""",
}
_END = """
gc.collect()
server.__exit__(None, None, None)
print("done")
"""


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_dropped_leaves_no_warning(name: str) -> None:
    program = _BEGIN + PROGRAMS[name] + _END
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", program], check=False, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("done\n", "")
