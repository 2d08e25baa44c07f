"""An agent with two tools on a real model, with nothing installed but any_agent: `make demo` runs this.

The model comes with any_agent: a small one, in a llama.cpp server that runs as long as somebody needs it. With a server
of your own the options begin with `AgentOptions("Be brief.", "qwen3", "http://localhost:1234/v1", …)`; the rest stays.
"""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime, timedelta

from any_agent import AgentOptions, AgentSDKError, Client, Failed, tool
from any_agent.cli.embed import embedded_model
from any_agent.cli.screen import Screen
from any_agent.cli.view import View, watch

QUESTIONS = ("What's the weather in Oslo?", "What time is it in Tokyo?")
HOURS_FROM_GREENWICH = {"Accra": 0, "Lima": -5, "Tokyo": 9}


@tool
async def get_weather(city: str) -> str:
    """Get the current weather for a city"""
    await asyncio.sleep(1.5)  # as long as a weather station takes to answer
    return "It is 18 degrees and sunny."


@tool
def get_time(city: str) -> str:
    """Get the current time in a city"""
    return f"{datetime.now(UTC) + timedelta(hours=HOURS_FROM_GREENWICH[city]):%H:%M}"


async def main() -> None:
    screen = Screen()
    async with embedded_model(None, screen) as server:
        options = AgentOptions(
            "You are a helpful assistant.",
            **server.settings,
            tools=[get_weather, get_time],
            auto_execute_tools=True,
        )
        for question in QUESTIONS:
            screen.line(f"> {question}", "bold")
            async with Client(options) as client:
                await client.query(question)
                # in a program of your own: `async for event in client.events()`
                last = await watch(client.events(), View(screen))
                if isinstance(last, Failed):
                    raise last.error


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except AgentSDKError as error:
        sys.exit(f"demo: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
