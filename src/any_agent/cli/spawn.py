"""`any-agent spawn`: a new agent with a name."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from any_agent.cli.inputs import find_named
from any_agent.errors import ProviderError
from any_agent.orchestration.settings import resolve

__all__ = ("spawn_command",)


@click.command("spawn")
@click.option("--name", required=True, help="What the agent is called.")
@click.option("--type", "agent_type", default="api", metavar="TYPE", help="How it works: api.")
@click.option("--provider", metavar="NAME", help="Who has the model: openai, ollama, lmstudio, anthropic, …")
@click.option("-m", "--model", help="The model, or an alias of providers.toml.")
@click.option("--profile", metavar="ALIAS", help="An alias of providers.toml, or a provider.")
@click.option("--base-url", metavar="URL", help="Where the server is.")
@click.option("--api-key-env", metavar="NAME", help="The environment variable that holds the key.")
@click.option("--system-prompt", metavar="TEXT", help="What the model is told before the conversation.")
@click.option("--tool", "tools", multiple=True, metavar="MODULE:FUNCTION", help="A function that the model may call.")
@click.option("--temperature", type=float, metavar="NUMBER", help="How freely the model chooses its words.")
@click.option("--max-tokens", type=int, metavar="NUMBER", help="How long an answer may be.")
@click.option("--thinking/--no-thinking", default=None, help="Ask the model to think first, or not to.")
@click.option(
    "--compaction",
    type=click.Choice(["drop-oldest", "summarise"]),
    help="What to do when the conversation fills the model's window; else tasks fail then.",
)
def spawn_command(**given: Any) -> int:
    """Make an agent that has a name, and remembers: `any-agent task NAME "…"` asks it something.

    It lives in the database until it is stopped; no process has to run for it.
    """
    from any_agent.orchestration.durable.host import Agents

    alias = find_named(given["model"], given.pop("profile"))
    config = resolve({**given, "tools": list(given["tools"])}, alias)

    async def spawn() -> None:
        async with Agents() as agents:
            try:
                await agents.spawn(config)
            except ProviderError as problem:
                if config.model is None:
                    raise ProviderError(f"{problem.message}: name it with --model") from problem
                raise

    asyncio.run(spawn())
    model = f"{config.model} of {config.provider}" if config.model else config.provider
    click.echo(f'{config.name} is there ({model}): any-agent task {config.name} "…"')
    return 0
