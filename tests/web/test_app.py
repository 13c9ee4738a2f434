"""The API, as the page uses it: the demo's conversation, its seams and wires, talk, the doctor; and no secret in any answer."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from pathlib import Path

import pytest

from midstream.core.blocks import Conversation, Media, Origin, Text, Thinking, ToolCall, Turn, human, tool_result
from midstream.store import SqliteStore
from midstream.testing import sim_server
from midstream.web.app import static_files
from tests.gateway.serving import asynchronous
from tests.web.page import Got, ask, opened

KEY = "sk-a-key-that-nobody-may-see-0123456789"


@asynchronous
async def test_a_newcomer_sees_the_demo() -> None:
    async with opened() as (app, session):
        me = (await ask(app, "/web/api/me", session=session)).json
        assert me["screens"] == ["conversations", "live", "talk", "doctor", "usage", "models"]
        found = (await ask(app, "/web/api/conversations", session=session)).json
        assert found["total"] == 1 and found["rows"][0]["title"].startswith("The demo")
        assert len(found["rows"][0]["models"]) == 5
        path = f"/web/api/conversations/{found['rows'][0]['id']}"
        turns = (await ask(app, f"{path}/turns?from=0&to=50", session=session)).json
        assert [turn["index"] for turn in turns] == list(range(12))
        calls = [block for turn in turns for block in turn["blocks"] if block["type"] == "call"]
        # Every result stands beside its call, so that no turn of tools has any left.
        assert len(calls) == 7 and all(call["result"] is not None for call in calls)
        assert not any(turn["blocks"] for turn in turns if turn["speaker"] == "tool")
        seams = [turn for turn in turns if "seam" in turn]
        assert len(seams) == 5
        for turn in seams:
            report = (await ask(app, f"{path}/seams/{turn['index']}", session=session)).json
            assert report[0]["label"] == "kept"
        for format in ("markdown", "jsonl"):
            assert (await ask(app, f"{path}/export?format={format}", session=session)).body
        usage = (await ask(app, "/web/api/usage", session=session)).json
        assert usage["pending"] + len(usage["rows"]) >= 1


@asynchronous
async def test_the_sample_is_not_written_into_the_users_store(tmp_path: Path) -> None:
    async with opened(store_at=str(tmp_path / "own.db")) as (app, session):
        found = (await ask(app, "/web/api/conversations", session=session)).json
        assert found["total"] == 1
    store = SqliteStore(tmp_path / "own.db")
    assert not store.list()
    store.create(Conversation((human("mine"),)))
    store.close()
    async with opened(store_at=str(tmp_path / "own.db")) as (app, session):
        rows = (await ask(app, "/web/api/conversations", session=session)).json["rows"]
        assert [row["title"] for row in rows] == ["mine"]


@asynchronous
async def test_talk_streams_changes_its_model_and_is_stored(tmp_path: Path) -> None:
    async with opened(sample=None, store_at=str(tmp_path / "own.db")) as (app, session):
        body = {"text": "Say hello.", "model": "sim/kimi-k2.5"}
        got = await ask(app, "/web/api/talk", body=body, session=session)
        events = [json.loads(line[6:]) for line in got.body.decode().splitlines() if line.startswith("data: ")]
        kinds = [event["type"] for event in events]
        assert got.headers["content-type"].startswith("text/event-stream")
        assert kinds[:2] == ["stored", "start"] and kinds.count("text") > 1 and kinds[-1] == "done"
        # Whoever stops the answer, even before it begins, knows where to go on.
        made = events[0]["conversation"]
        assert made
        report = (
            await ask(app, f"/web/api/talk/preview?conversation={made}&model=sim/claude-sonnet-4-5", session=session)
        ).json
        assert report["model"] == "sim/claude-sonnet-4-5" and any(row["label"] == "dropped" for row in report["rows"])
        again = {"text": "And now?", "model": "sim/claude-sonnet-4-5", "conversation": made}
        assert b'"done"' in (await ask(app, "/web/api/talk", body=again, session=session)).body
        info = (await ask(app, f"/web/api/conversations/{made}", session=session)).json
        assert info["turns"] == 4 and info["models"] == ["sim/kimi-k2.5", "sim/claude-sonnet-4-5"]
        # Both answers are live traffic of this process, as they went out and came back.
        live = await ask(app, "/web/api/live", session=session, until=b"\n\n")
        rows = json.loads(live.body.split(b"data: ")[1].split(b"\n")[0])
        assert [row["model"] for row in rows] == ["sim/kimi-k2.5", "sim/claude-sonnet-4-5"]
        assert all(row["status"] == 200 and row["ttft"] and row["output"] for row in rows)
        detail = (await ask(app, f"/web/api/live/{rows[1]['number']}", session=session)).json
        assert "/v1/messages" in detail["upstream"]["line"] and "message_stop" in detail["upstream"]["answer"]
        assert detail["turn"]["blocks"] and detail["upstream"]["timeline"] and detail["notes"]
        assert [turn["speaker"] for turn in detail["conversation"]["turns"]] == ["human", "ai", "human"]
        turns = (await ask(app, f"/web/api/conversations/{made}/turns", session=session)).json
        assert all(0 < turn["ttft"] <= turn["ms"] for turn in turns if turn["speaker"] == "ai")
        # What keeps a message from being sent is a status that says what to do.
        for wrong, told in (
            ({"text": " ", "model": "sim/kimi-k2.5"}, "empty"),
            ({"text": "x", "model": "moonshot/kimi-k2.5"}, "MOONSHOT_API_KEY"),
            ({"text": "x", "model": "sim/kimi-k2.5", "tools": ["bash"]}, "no tool"),
            ({"text": "x", "model": "nobody/x"}, "unknown provider"),
            ({"text": 7, "model": "sim/kimi-k2.5"}, "Expected `str`"),
            ({"model": "sim/kimi-k2.5"}, "text"),
        ):
            refused = await ask(app, "/web/api/talk", body=wrong, session=session)
            assert refused.status == 400 and told in refused.json["error"], refused.body


@pytest.mark.parametrize("allow", [True, False])
def test_a_call_waits_for_a_yes_in_the_page(tmp_path: Path, allow: bool) -> None:
    (tmp_path / "plan.md").write_text("Night train to Oslo.")

    @asynchronous
    async def play() -> None:
        async with opened(sample=None, folder=tmp_path) as (app, session):
            assert app.talk is not None
            said = app.talk.say("Read plan.md, then say what is in it.", "sim/kimi-k2.5", tools=["read_file"])
            asked = 0
            results = []
            async for event in said:
                if event["type"] == "question":
                    # The whole call is in sight, also one that only reads.
                    assert event["tool"] == "read_file" and "plan.md" in event["shown"]
                    asked += 1
                    got = await ask(app, f"/web/api/talk/answers/{event['id']}", body={"allow": allow}, session=session)
                    assert got.status == 200
                if event["type"] == "result":
                    results.append(event["result"])
            assert asked == len(results) == 1
            assert bool(results[0].get("is_error")) is not allow
            assert ("Night train" in json.dumps(results)) is allow
            assert (await ask(app, "/web/api/talk/answers/x", body={"allow": True}, session=session)).status == 404

    play()


@asynchronous
async def test_numbers_that_nobody_has_are_not_found() -> None:
    async with opened() as (app, session):
        found = (await ask(app, "/web/api/conversations", session=session)).json["rows"][0]["id"]
        path = f"/web/api/conversations/{found}"
        # More digits than Python reads, on paths that are looked at before anybody is asked who he is.
        for number in ("9" * 5_000, "99999", "-1", "1.5", "x", "%00"):
            for place in (f"/web/api/live/{number}", f"{path}/seams/{number}", f"{path}/wires/{number}", f"{path}/wires/{number}?model=sim/kimi-k2.5"):  # fmt: skip
                got = await ask(app, place, session=session)
                assert got.status in (400, 404) and got.json["error"], (place, got.status)
                assert (await ask(app, place)).status == 401, place


@asynchronous
async def test_what_one_wire_refuses_another_shows(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "own.db")
    # Of nothing but thinking nothing is left in messages; a prompt has marks of its own.
    kimi = Origin("moonshot", "openai-chat", "kimi-k2.5")
    made = store.create(Conversation((Turn("ai", (Thinking("Hm.", origin=kimi),), origin=kimi),)))
    store.close()
    async with opened(store_at=str(tmp_path / "own.db")) as (app, session):
        place = f"/web/api/conversations/{made}/wires/0?model="
        kept, empty = "completions/kimi-k2", "anthropic/claude-sonnet-4-5"
        for models in ([kept, empty], [empty, kept], [kept, "nobody/x"], [empty, "nobody/x"]):
            got = await ask(app, place + "&model=".join(models), session=session)
            assert got.status == 200 and [each["model"] for each in got.json["views"]] == models
            for view in got.json["views"]:
                if view["model"] == kept:
                    assert view["parts"] and "refused" not in view
                else:
                    words = "the conversation is empty" if view["model"] == empty else "nobody"
                    assert words in view["refused"] and view["kind"] and "parts" not in view


@asynchronous
async def test_the_doctor_heals_a_broken_file() -> None:
    broken = [
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{"}}],
        },
        {"role": "user", "content": "and?"},
    ]
    async with opened(sample=None) as (app, session):
        got = await ask(app, "/web/api/doctor?name=history.json", raw=json.dumps(broken).encode(), session=session)
        found = got.json["conversations"][0]
        assert {finding["kind"] for finding in found["findings"]} >= {"unanswered call", "broken arguments"}
        assert any(verdict["problems"] for verdict in found["verdicts"]) and found["healed"]
        again = await ask(app, "/web/api/doctor?name=healed", raw=got.json["healed"].encode(), session=session)
        assert not again.json["conversations"][0]["findings"]
        many = b"".join([got.json["healed"].encode().replace(b'"id":"', b'"id":"%d' % at) for at in range(25)])
        several = (await ask(app, "/web/api/doctor?name=many", raw=many, session=session)).json
        assert len(several["conversations"]) == 20 and several["left_out"] == 5
        for wrong in (b"", b"\x00\xff", b"{", b"SQLite format 3\0", b"[" * 100_000):
            refused = await ask(app, "/web/api/doctor?name=x", raw=wrong, session=session)
            assert refused.status == 400 and refused.json["error"], wrong[:20]


@asynchronous
async def test_the_doctor_sees_one_file_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    free, now, most = threading.Event(), 0, 0

    def slowly(data: bytes, name: str) -> dict[str, str]:
        nonlocal now, most
        now += 1
        most = max(most, now)
        assert free.wait(20)
        now -= 1
        return {"name": name}

    monkeypatch.setattr("midstream.web.app.examined", slowly)
    async with opened(sample=None) as (app, session):

        async def visit() -> Got:
            return await ask(app, "/web/api/doctor?name=x", raw=b"[]", session=session)

        visits = [asyncio.create_task(visit()) for _ in range(4)]
        while len(app._examining) < 4:  # noqa: ASYNC110  (the page has no word for it)
            await asyncio.sleep(0.01)
        assert "try again" in (await visit()).json["error"]
        # Whoever leaves takes along nothing that a thread has begun.
        visits[0].cancel()
        await asyncio.wait([visits[0]])
        assert (await visit()).status == 400
        free.set()
        assert [(await each).status for each in visits[1:]] == [200] * 3
        assert most == 1 and (await visit()).status == 200


@asynchronous
async def test_a_fork_behind_the_end_is_refused() -> None:
    async with opened() as (app, session):
        found = (await ask(app, "/web/api/conversations", session=session)).json["rows"][0]["id"]
        for at in (13, 10**30, -1, True, "1"):
            got = await ask(app, f"/web/api/conversations/{found}/fork", body={"at": at}, session=session)
            assert got.status == 400 and got.json["error"], at


@asynchronous
async def test_no_answer_holds_a_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MOONSHOT_API_KEY", KEY)
    call = ToolCall("hist_tool_" + "a" * 24, "bash", json.dumps({"command": f"curl -H 'Bearer {KEY}'"}))
    origin = Origin("moonshot", "openai-chat", "kimi-k2.5")
    store = SqliteStore(tmp_path / "own.db")
    made = store.create(
        Conversation(
            (
                human(f"my key is {KEY}"),
                Turn("ai", (Text(KEY), call), key="k", origin=origin),
                Turn("tool", (tool_result(call, f"refused: {KEY}"),)),
            ),
            system=f"use {KEY}",
        )
    )
    store.close()
    async with opened(store_at=str(tmp_path / "own.db")) as (app, session):
        path = f"/web/api/conversations/{made}"
        for place in (
            "/web/api/me",
            "/web/api/models",
            "/web/api/conversations",
            "/web/api/conversations?q=key",
            "/web/api/usage",
            path,
            f"{path}/turns",
            f"{path}/wires/2?model=moonshot/kimi-k2.5&model=anthropic/claude-sonnet-4-5",
            f"{path}/export",
            f"{path}/export?format=markdown",
            "/web/api/talk/preview?model=moonshot/kimi-k2.5&conversation=" + made,
        ):
            got = await ask(app, place, session=session)
            assert got.status == 200, (place, got.body)
            assert KEY.encode() not in got.body, place
        # A client that mixes up its variables sends a key as the name of a model.
        assert app.traffic is not None
        exchange = app.traffic.open("", "openai-chat")
        exchange.asked = exchange.error = KEY
        app.traffic.close(exchange)
        live = await ask(app, "/web/api/live", session=session, until=b"\n\n")
        detail = await ask(app, f"/web/api/live/{exchange.number}", session=session)
        assert b'"number":1' in live.body and KEY.encode() not in live.body + detail.body


@pytest.mark.parametrize("key", [KEY, KEY.replace("-nobody", " nobody")])
@asynchronous
async def test_a_key_that_a_model_repeats_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, key: str
) -> None:
    with sim_server(f"It is {key}, you said.", "No key.") as sim:
        monkeypatch.setenv("MOONSHOT_API_KEY", key)
        monkeypatch.setenv("MOONSHOT_BASE_URL", sim.base_url("moonshot"))
        async with opened(store_at=str(tmp_path / "own.db")) as (app, session):
            for number, expected in ((1, "It is ***, you said."), (2, "No key.")):
                say = {"text": "What is my key?", "model": "moonshot/kimi-k2.5"}
                got = await ask(app, "/web/api/talk", body=say, session=session)
                told = [json.loads(line[6:]) for line in got.body.splitlines() if line.startswith(b"data: ")]
                assert "".join([each["text"] for each in told if each["type"] == "text"]) == expected
                answer = (await ask(app, f"/web/api/live/{number}", session=session)).json["upstream"]["answer"]
                # The double sends each word for itself: a key of two words is in none of the pieces.
                if number == 1 and " " in key:
                    assert answer.startswith("Not shown")
                else:
                    assert "".join(re.findall(r'"content":"([^"]+)"', answer)) == expected


@asynchronous
async def test_only_safe_images_are_sent_as_images(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "own.db")
    svg = Media.from_bytes(b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>", "image/svg+xml")
    made = store.create(Conversation((human(Media.from_bytes(b"\x89PNG", "image/png"), svg),)))
    store.close()
    async with opened(store_at=str(tmp_path / "own.db")) as (app, session):
        turn = (await ask(app, f"/web/api/conversations/{made}/turns", session=session)).json[0]
        assert ["data" in block for block in turn["blocks"]] == [True, False]


def test_the_page_is_small_and_asks_nobody_else() -> None:
    files = static_files()
    assert sum(len(data) for path, (data, _) in files.items() if path != "/") < 150 * 1024
    for path, (data, _) in files.items():
        text = data.decode()
        # The name of SVG's elements is an address that nobody asks.
        for word in ("http://", "https://"):
            assert word not in text.replace("http://www.w3.org/2000/svg", ""), path
        # No way from text to markup or code, and nothing inline that the policy would have to allow.
        for word in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
            "DOMParser",
        ):
            assert word not in text, (path, word)
        if path.endswith(".html"):
            assert "style=" not in text and "<style" not in text and "onclick" not in text
