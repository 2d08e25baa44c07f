"""Nothing leaves this machine that the program did not send: no telemetry, no price lists, no look-ups."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from any_agent.profiles import is_loopback

PROGRAM = """
import json, sys
asked = []
watched = ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto", "urllib.Request")

def note(event, arguments):
    if event in watched:
        place = arguments[0] if event == "socket.getaddrinfo" else arguments[1]
        asked.append([event, place if isinstance(place, str | bytes | None) else list(place)])

sys.addaudithook(note)

import asyncio
from any_agent import AgentOptions, Client, tool
from any_agent.testing import Reply, ScriptedServer, chat_events

@tool
def add(a: float, b: float) -> float:
    return a + b

async def main():
    call = {"id": "c1", "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}}
    replies = [Reply(chat_events(tool_calls=[call])), Reply(chat_events("3"))]
    async with ScriptedServer(*replies) as server:
        async with Client(AgentOptions("", "m", server.url, tools=[add], auto_execute_tools=True)) as client:
            await client.query("go")
            async for event in client.events():
                pass
    return event.type

print(json.dumps({"ended": asyncio.run(main()), "asked": asked}))
"""


@pytest.mark.row("E6")
def test_whole_run_touches_loopback_only() -> None:
    result = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    told: dict[str, Any] = json.loads(result.stdout)
    assert told["ended"] == "done"
    assert any(event == "socket.connect" for event, _ in told["asked"]), "the connection to the server must be seen"
    for event, place in told["asked"]:
        host = place[0] if isinstance(place, list) else place
        assert is_loopback(str(host)), (event, place)
