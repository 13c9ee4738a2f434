"""`midstream web`: who lost the session finds a new address in the terminal."""

from __future__ import annotations

import json
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path

from tests.web.page import clean_environment


def test_another_browser_gets_an_address_of_its_own(tmp_path: Path) -> None:
    line = [sys.executable, "-m", "midstream.cli.main", "web", "--port", "0"]
    with subprocess.Popen(
        line, stdout=subprocess.PIPE, text=True, env=clean_environment(tmp_path), cwd=tmp_path
    ) as server:
        try:
            assert server.stdout is not None
            host, _, token = server.stdout.readline().split()[-1].removeprefix("http://").partition("/#token=")
            door = HTTPConnection(host, timeout=10)

            def enter(token: str) -> tuple[int, str]:
                body = json.dumps({"token": token})
                door.request("POST", "/web/api/session", body, {"content-type": "application/json"})
                answer = door.getresponse()
                return answer.status, json.loads(answer.read()).get("error", "")

            assert enter(token)[0] == 200
            status, why = enter(token)
            assert status == 401 and "newest address in the terminal" in why
            told = server.stdout.readline()
            assert told.startswith("for another browser") and host in told
            assert enter(told.split("#token=")[1].strip())[0] == 200
            door.close()
        finally:
            server.terminate()
            server.wait(timeout=20)
