"""`any-agent run`: one question, one answer."""

from __future__ import annotations

import asyncio

import click

from any_agent.agent.client import Client
from any_agent.cli.connect import Connection, connect_options, connected
from any_agent.cli.inputs import read_image, whole_prompt
from any_agent.cli.screen import Screen
from any_agent.cli.view import View, watch, write_json
from any_agent.events import Failed
from any_agent.types import Block, TextBlock

__all__ = ("run_command",)


@click.command("run")
@click.argument("prompt", required=False)
@connect_options
@click.option("--image", "images", multiple=True, metavar="FILE", help="Show the model an image (a file or a URL).")
@click.option("--json", "as_json", is_flag=True, help="Print the events as lines of JSON.")
@click.option("--show-thinking", is_flag=True, help="Show what the model thinks before it answers.")
def run_command(
    prompt: str | None, connection: Connection, images: tuple[str, ...], as_json: bool, show_thinking: bool
) -> int:
    """Ask a model, and see the answer as it comes.

    Text that is piped in is the prompt, or follows it. The answer goes to standard output, all the rest to
    standard error.
    """
    text = whole_prompt(prompt)
    blocks: list[Block] = [*(read_image(image) for image in images), TextBlock(text)]
    return asyncio.run(_ask(connection, blocks if images else text, as_json=as_json, show_thinking=show_thinking))


async def _ask(connection: Connection, prompt: str | list[Block], *, as_json: bool, show_thinking: bool) -> int:
    screen = Screen()
    async with connected(connection, screen) as options, Client(options) as client:
        await client.query(prompt)
        events = client.events()
        last = await (write_json(events) if as_json else watch(events, View(screen, show_thinking=show_thinking)))
    if isinstance(last, Failed):
        raise last.error
    return 0 if last.reason == "complete" else 1
