"""`any-agent run`: one question, one answer."""

from __future__ import annotations

import asyncio
import json
import select
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing

import click

from any_agent.agent.client import Client
from any_agent.cli.connect import Connection, connect_options, connected
from any_agent.cli.inputs import read_image
from any_agent.cli.screen import Screen
from any_agent.cli.view import View, watch
from any_agent.events import Done, Event, Failed, to_dict
from any_agent.types import Block, TextBlock

__all__ = ("run_command",)

_PATIENCE_S = 2


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
    text = _whole_prompt(prompt)
    blocks: list[Block] = [*(read_image(image) for image in images), TextBlock(text)]
    return asyncio.run(_ask(connection, blocks if images else text, as_json=as_json, show_thinking=show_thinking))


async def _ask(connection: Connection, prompt: str | list[Block], *, as_json: bool, show_thinking: bool) -> int:
    screen = Screen()
    async with connected(connection, screen) as options, Client(options) as client:
        await client.query(prompt)
        events = client.events()
        last = await (_write_json(events) if as_json else watch(events, View(screen, show_thinking=show_thinking)))
    if isinstance(last, Failed):
        raise last.error
    return 0 if last.reason == "complete" else 1


async def _write_json(events: AsyncGenerator[Event, None]) -> Done | Failed:
    event: Event | None = None
    async with aclosing(events):
        async for event in events:
            # everything beyond ASCII is escaped: no terminal obeys it, and every line is one line
            sys.stdout.write(f"{json.dumps(to_dict(event))}\n")
            sys.stdout.flush()
    assert isinstance(event, Done | Failed)
    return event


def _whole_prompt(prompt: str | None) -> str:
    words = None if prompt == "-" else prompt
    piped = _piped(waits=words is None) if prompt == "-" or not sys.stdin.isatty() else ""
    text = "\n\n".join(part for part in (words, piped) if part and part.strip())
    if not text:
        raise ValueError('there is nothing to ask: any-agent run "a question", or pipe text into it')
    return text


def _piped(*, waits: bool) -> str:
    """What is piped in. With a prompt, a pipe that stays silent is likely a mistake: say what is waited for."""
    if not waits and sys.platform != "win32" and not select.select([sys.stdin], [], [], _PATIENCE_S)[0]:
        click.echo("any-agent: waiting for the end of standard input (without any: < /dev/null)", err=True)
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("what is piped in is no text in UTF-8") from None
