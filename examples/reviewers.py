"""Five agents review a manuscript at the same time, and a sixth sums up what they found.

    python examples/reviewers.py manuscript.md

Kill it in the middle and start it again: it goes on where it was, and asks nothing twice. What has been said is in a
database beside the manuscript; a manuscript that was changed is reviewed anew. `ANY_AGENT_DB=manuscript.md.reviews
any-agent list` shows the agents, while they work and afterwards.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import sys
from itertools import count
from pathlib import Path

from any_agent import AgentSDKError, Done, Failed, Reset
from any_agent.orchestration import AgentConfig, Agents
from any_agent.orchestration.durable.errors import AgentExists

REVIEWERS = {
    "plot": "You review whether the events follow from each other, and what is missing.",
    "style": "You review the style: what is long-winded, stilted, or said twice.",
    "facts": "You list every statement that should be checked before this is printed.",
    "reader": "You read for pleasure, and say where you would have stopped, and why.",
    "language": "You list mistakes in spelling, grammar and punctuation, with corrections.",
}
EDITOR = "You are the editor. Put the reviews in order: what must be changed, what might be, and what is good."


async def hire(agents: Agents, name: str, instructions: str) -> None:
    """An agent for that, unless it is there from an earlier run."""
    config = AgentConfig(
        name,
        provider="local",
        model=os.environ.get("ANY_AGENT_MODEL", "qwen3"),
        base_url=os.environ.get("ANY_AGENT_BASE_URL", "http://localhost:1234/v1"),
        api_key_env="ANY_AGENT_API_KEY" if "ANY_AGENT_API_KEY" in os.environ else None,
        system_prompt=instructions,
    )
    with contextlib.suppress(AgentExists):
        await agents.spawn(config)


async def ask(agents: Agents, name: str, prompt: str) -> str | None:
    """What the agent says of it; if it has been asked that before, what it said then. `None` if it failed."""
    asked = hashlib.sha256(prompt.encode()).hexdigest()[:12]
    task = await agents.submit(name, prompt, id=f"{name}:{asked}:1", is_fresh=True)
    for attempt in count(2):
        if task.state not in ("failed", "cancelled"):
            break
        # it went wrong in an earlier run: what is asked again is another task
        task = await agents.submit(name, prompt, id=f"{name}:{asked}:{attempt}", is_fresh=True)
    async for event in agents.work_on(task):
        if isinstance(event, Reset) and not task.is_over:
            print(f"({name} begins again: {event.reason})", flush=True)
        elif isinstance(event, Failed):
            print(f"── {name}: {event.error}\n", file=sys.stderr)
        elif isinstance(event, Done):
            print(f"── {name}\n{event.response.text}\n", flush=True)
            return event.response.text
    return None


async def review(manuscript: Path, text: str) -> None:
    async with Agents(f"{manuscript}.reviews") as agents:
        for name, instructions in {**REVIEWERS, "editor": EDITOR}.items():
            await hire(agents, name, instructions)
        reviews = await asyncio.gather(*(ask(agents, name, text) for name in REVIEWERS))
        sections = [f"# {name}\n\n{review}" for name, review in zip(REVIEWERS, reviews, strict=True) if review]
        if len(sections) < len(REVIEWERS) or await ask(agents, "editor", "\n\n".join(sections)) is None:
            sys.exit("some of it failed; the same command tries that again, and nothing else")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("which manuscript? python examples/reviewers.py FILE")
    try:
        file = Path(sys.argv[1])
        asyncio.run(review(file, file.read_text("utf-8")))
    except (AgentSDKError, OSError) as error:
        sys.exit(f"reviewers: {error}")
    except KeyboardInterrupt:
        sys.exit("stopped; the same command goes on")
