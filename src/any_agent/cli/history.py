"""`any-agent history`: what was said in the conversation with an agent."""

from __future__ import annotations

import asyncio
import json

import click

from any_agent.cli.clean import cleaned, cut, one_line
from any_agent.orchestration.durable.host import Agents
from any_agent.types import Message, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from any_agent.wire.history import result_text
from any_agent.wire.openai_request import openai_messages

__all__ = ("history_command",)

_RESULT = 300


@click.command("history")
@click.argument("name", metavar="AGENT")
@click.option("--json", "as_json", is_flag=True, help="Write it as JSON, in OpenAI's format.")
def history_command(name: str, as_json: bool) -> int:
    """Show what was said in the conversation with an agent."""
    return asyncio.run(_history(name, as_json=as_json))


async def _history(name: str, *, as_json: bool) -> int:
    async with Agents() as agents:
        messages = await agents.history(name)
    if as_json:
        click.echo(json.dumps(openai_messages(messages), ensure_ascii=False, indent=2))
        return 0
    for message in messages:
        _show(message)
    return 0


def _show(message: Message) -> None:
    blocks = [TextBlock(message.content)] if isinstance(message.content, str) else message.content
    for block in blocks:
        if isinstance(block, TextBlock):
            click.echo(click.style(f"{message.role}:", bold=True) + f" {cleaned(block.text)}")
        elif isinstance(block, ThinkingBlock):
            click.echo(click.style(f"(thought) {cut(block.thinking, _RESULT)}", dim=True))
        elif isinstance(block, ToolUseBlock):
            click.echo(f"● {block.name} {cut(json.dumps(block.input, ensure_ascii=False), _RESULT)}")
        elif isinstance(block, ToolResultBlock):
            text, _ = result_text(block.content)
            click.echo(f"  {'✗' if block.is_error else '✓'} {cut(one_line(text), _RESULT)}")
