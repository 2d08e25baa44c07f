"""`any-agent task`: asks agents something, one of them, all, or in bulk."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path

import click

from any_agent.cli.inputs import whole_prompt
from any_agent.cli.screen import Screen
from any_agent.cli.tasking import INTERRUPTED, show_task, show_tasks
from any_agent.errors import AgentSDKError
from any_agent.orchestration.durable.batch import Prompt, Results, read_prompts, run_batch
from any_agent.orchestration.durable.host import Agents
from any_agent.orchestration.types import AgentState

__all__ = ("task_command",)

_IN = click.Path(path_type=Path, dir_okay=False, exists=True)
_OUT = click.Path(path_type=Path, dir_okay=False)


@click.command("task")
@click.argument("words", nargs=-1, metavar="[AGENT] [PROMPT]")
@click.option("--all", "to_all", is_flag=True, help="Ask all agents.")
@click.option("--id", "id", metavar="ID", help="What the task is called; the same id is not done twice.")
@click.option("--detach", is_flag=True, help="Do not wait for the answer: a worker does it.")
@click.option("--file", "file", type=_IN, help='Many prompts: lines of JSON, {"prompt": "…"}.')
@click.option("--out", "out", type=_OUT, help="With --file: where the answers go, as lines of JSON.")
@click.option(
    "--concurrency", type=click.IntRange(1), default=8, show_default=True, help="With --file: how many at once."
)
@click.option("--fresh", "is_fresh", is_flag=True, help="A conversation of its own, which the agent does not remember.")
@click.option("--json", "as_json", is_flag=True, help="Print the events as lines of JSON.")
@click.option("--show-thinking", is_flag=True, help="Show what the model thinks before it answers.")
def task_command(
    words: tuple[str, ...],
    to_all: bool,
    id: str | None,
    detach: bool,
    file: Path | None,
    out: Path | None,
    concurrency: int,
    is_fresh: bool,
    as_json: bool,
    show_thinking: bool,
) -> int:
    """Ask an agent something, and see the answer as it comes: any-agent task gpt "Say hello".

    Without a worker this process does it. Ctrl-C cancels the task, and stops the model.

    With --file many prompts are dealt out to the agents that are named. Whoever breaks that off and runs the same
    command again goes on with it.
    """
    if (file is None) != (out is None):
        raise click.UsageError("--file and --out belong together")
    if file is not None and out is not None:
        if detach or as_json:
            raise click.UsageError("--file goes neither with --detach nor with --json")
        return asyncio.run(_bulk(words, to_all, file, out, id, concurrency=concurrency, is_fresh=is_fresh))
    name, prompt = ("", words) if to_all else ("".join(words[:1]), words[1:])
    if len(prompt) > 1 or not (to_all or name):
        raise click.UsageError('write: any-agent task AGENT "PROMPT", with the prompt in quotes')
    text = whole_prompt(prompt[0] if prompt else None)
    if to_all:
        return asyncio.run(_everybody(text, id, detach=detach, is_fresh=is_fresh, as_json=as_json))
    shown = {"as_json": as_json, "show_thinking": show_thinking}
    return asyncio.run(_one(name, text, id, detach=detach, is_fresh=is_fresh, **shown))


async def _one(
    name: str, prompt: str, id: str | None, *, detach: bool, is_fresh: bool, as_json: bool, show_thinking: bool
) -> int:
    screen = Screen()
    async with Agents() as agents:
        task = await agents.submit(name, prompt, id=id, is_fresh=is_fresh)
        if detach:
            await _detach(agents, [task.id], screen)
            return 0
        return await show_task(agents, task, screen, cancels=True, as_json=as_json, show_thinking=show_thinking)


async def _everybody(prompt: str, id: str | None, *, detach: bool, is_fresh: bool, as_json: bool) -> int:
    screen = Screen()
    async with Agents() as agents:
        names = await _living(agents)
        batch = id or uuid.uuid4().hex[:12]
        prompts = [Prompt(batch, name, number, name, prompt) for number, name in enumerate(names, 1)]
        if detach:
            for one in prompts:
                await agents.submit(one.agent, one.text, id=one.id, is_fresh=is_fresh)
            await _detach(agents, [one.id for one in prompts], screen)
            return 0
        return await show_tasks(agents, prompts, screen, is_fresh=is_fresh, as_json=as_json)


async def _detach(agents: Agents, ids: list[str], screen: Screen) -> None:
    for id in ids:
        click.echo(id)
    if not any(worker.agents is None for worker in await agents.workers()):
        click.echo("any-agent: no worker runs: the task waits until `any-agent worker` is started", err=True)
    elif screen.is_live:
        screen.line(f"`any-agent attach {ids[0]}` shows what comes of it")


async def _bulk(
    names: tuple[str, ...], to_all: bool, file: Path, out: Path, id: str | None, *, concurrency: int, is_fresh: bool
) -> int:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    screen = Screen()
    async with Agents() as agents:
        prompts = read_prompts(file, await _living(agents) if to_all else list(names), id)
        for name in dict.fromkeys(prompt.agent for prompt in prompts):
            await agents.find(name)
        results = Results(out, prompts[0].batch)
        missing = [prompt for prompt in prompts if prompt.id not in results.known]
        failed = 0
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        try:
            with Progress(*columns, console=screen.console, disable=not screen.is_live) as progress:
                bar = progress.add_task(file.name, total=len(prompts), completed=len(prompts) - len(missing))
                async for prompt, task in run_batch(agents, missing, concurrency=concurrency, is_fresh=is_fresh):
                    results.add(prompt, task)
                    failed += task.state != "done"
                    progress.advance(bar)
        except asyncio.CancelledError:
            screen.line("broken off: the same command goes on where it stopped, `any-agent cancel AGENT` gives it up")
            return INTERRUPTED
        finally:
            results.close()
    news = f"{len(missing)} new" + (f", {failed} of them errors" if failed else "")
    screen.line(f"{len(prompts)} answers are in {out} ({news})")
    return 1 if failed else 0


async def _living(agents: Agents) -> list[str]:
    names = [record.config.name for record in await agents.list() if record.state != AgentState.TERMINATED]
    if not names:
        raise AgentSDKError("there are no agents: `any-agent spawn --name …` makes one")
    return names
