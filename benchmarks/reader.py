"""Reads along, `python reader.py DATABASE TASK…`: prints how late each token was that says when it was sent."""

import asyncio
import json
import sys
import time

from any_agent.events import TextDelta
from any_agent.orchestration.durable.host import Agents


async def main(database: str, ids: list[str]) -> None:
    lags: list[float] = []

    async def read(agents: Agents, id: str) -> None:
        async for event in agents.events(id):
            if isinstance(event, TextDelta):
                now = time.monotonic()
                lags.extend(now - float(sent) for sent in event.text.split())

    async with Agents(database) as agents:
        print("reading", flush=True)
        await asyncio.gather(*(read(agents, id) for id in ids))
    print(json.dumps(lags))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
