"""What happens in a run, and when: a line for each event, with the seconds since the start.

    python examples/timeline.py [BASE_URL] [MODEL]

Without arguments, server and model are those in ANY_AGENT_BASE_URL and ANY_AGENT_MODEL. A server that wants a key gets
the one in ANY_AGENT_API_KEY.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time

from any_agent import AgentOptions, Client, Event, ToolContext, tool

BASE_URL = os.environ.get("ANY_AGENT_BASE_URL", "http://localhost:1234/v1")
MODEL = os.environ.get("ANY_AGENT_MODEL", "qwen3")
API_KEY = os.environ.get("ANY_AGENT_API_KEY", "not-needed")


@tool
async def get_weather(city: str, context: ToolContext) -> str:
    """Get the current weather for a city"""
    for percent in (25, 50, 75, 100):
        await asyncio.sleep(0.5)
        context.progress(f"{percent} %")
    return f"{city}: 18 degrees, sunny"


def content(event: Event) -> str:
    """What an event is about, in a few words."""
    match event.type:
        case "text" | "thinking":
            return event.text
        case "tool_input_start":
            return event.name
        case "tool_input_delta":
            return event.partial_json
        case "tool_use":
            return str(event.block.input) if event.block.type == "tool_use" else event.block.error
        case "tool_running":
            return f"{event.name} {event.input}"
        case "tool_progress":
            return str(event.data)
        case "tool_result":
            return f"{event.output} (after {event.duration_s:.2f} s)"
        case "model_state":
            return event.state if event.progress is None else f"{event.state} {event.progress:.0%}"
        case "response":
            return event.response.stop_reason
        case "done":
            return event.reason
        case "error" | "retry":
            return str(event.error)
        case "notice":
            return event.message
        case "reset":
            return event.reason


async def main(base_url: str = BASE_URL, model: str = MODEL) -> None:
    options = AgentOptions(
        system_prompt="",
        model=model,
        base_url=base_url,
        api_key=API_KEY,
        temperature=0,
        tools=[get_weather],
        auto_execute_tools=True,
        max_tool_iterations=3,
    )
    async with Client(options) as client:
        await client.query("What is the weather in Paris?")
        start, last = time.monotonic(), ""
        async for event in client.events():
            # the pieces of a text share a line, which grows as they come
            if event.type != last or event.type not in ("text", "thinking", "tool_input_delta"):
                print(f"\n{time.monotonic() - start:7.2f} s  {event.type:<17} ", end="")
            print(content(event).replace("\n", " "), end="", flush=True)
            last = event.type
    print()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
