"""Tasks on the screen, until they are over or somebody presses Ctrl-C."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING

from rich.text import Text

from any_agent.cli.cards import elapsed
from any_agent.cli.clean import one_line
from any_agent.cli.view import View, watch, write_json
from any_agent.events import Failed
from any_agent.orchestration.durable.batch import result_row, run_batch
from any_agent.orchestration.durable.errors import UnknownTask

if TYPE_CHECKING:
    from any_agent.cli.screen import Screen
    from any_agent.orchestration.durable.batch import Prompt
    from any_agent.orchestration.durable.host import Agents
    from any_agent.orchestration.durable.tasks import Task

__all__ = ("INTERRUPTED", "show_task", "show_tasks")

#: the exit code after Ctrl-C
INTERRUPTED = 130

#: how long the end of a task is waited for that was cancelled; and, by who wants to leave, a database that is away
_PATIENCE_S, _DATABASE_S = 5.0, 3.0
_TICK_S = 0.25
_CANCELLED = "cancelled"
_AWAY = "the database does not answer"


async def show_task(
    agents: Agents, task: Task, screen: Screen, *, cancels: bool, after: int = 0, as_json: bool, show_thinking: bool
) -> int:
    """The exit code. With `cancels`, Ctrl-C cancels the task; without, it goes on by itself."""
    ahead = 0 if task.is_over else await agents.ahead(task)
    if ahead:
        screen.line(f"{task.agent} has {ahead} {'task' if ahead == 1 else 'tasks'} to end before this one")
    events = agents.work_on(task, after)
    showing = write_json(events) if as_json else watch(events, View(screen, show_thinking=show_thinking))
    watching = asyncio.create_task(showing)
    try:
        last = await asyncio.shield(watching)
    except asyncio.CancelledError:
        said = await _cancel(agents, [task.id]) if cancels else None
        if said == _CANCELLED:
            await asyncio.wait({watching}, timeout=_PATIENCE_S)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        screen.line(said or await _left(agents, task))
        return INTERRUPTED
    if isinstance(last, Failed):
        raise last.error
    return 0 if last.reason == "complete" else 1


async def show_tasks(agents: Agents, prompts: list[Prompt], screen: Screen, *, is_fresh: bool, as_json: bool) -> int:
    """Each answer as soon as it is whole, and until then who is at it; the exit code. Ctrl-C cancels all."""
    at_it = [prompt.agent for prompt in prompts]
    ticking = asyncio.create_task(_tick(screen, at_it))
    failed = 0
    try:
        async for prompt, task in run_batch(agents, prompts, concurrency=len(prompts), is_fresh=is_fresh):
            at_it.remove(prompt.agent)
            failed += task.state != "done"
            if as_json:
                screen.answer(f"{json.dumps(result_row(prompt, task))}\n")
            elif task.state == "done":
                screen.answer(f"── {prompt.agent}\n{task.outcome['text'].strip()}\n\n")
            else:
                screen.line(f"── {prompt.agent}: {task.state} {one_line(task.outcome.get('error', ''))}", "red")
    except asyncio.CancelledError:
        ticking.cancel()
        screen.line(await _cancel(agents, [prompt.id for prompt in prompts]))
        return INTERRUPTED
    finally:
        ticking.cancel()
        screen.erase()
    return 1 if failed else 0


async def _tick(screen: Screen, at_it: list[str]) -> None:
    began = time.monotonic()
    while True:
        time_ = elapsed(time.monotonic() - began)
        screen.live([Text(f"● {time_}  {name}", "cyan", no_wrap=True, overflow="ellipsis") for name in at_it])
        await asyncio.sleep(_TICK_S)


async def _cancel(agents: Agents, ids: list[str]) -> str:
    """Cancel tasks; what is to be said of it."""
    for number, id in enumerate(ids, 1):
        try:
            async with asyncio.timeout(_DATABASE_S):
                await agents.cancel(id)
        except UnknownTask:
            continue  # it had not been submitted yet
        except TimeoutError:
            more = f" and {len(ids) - number} more" if number < len(ids) else ""
            return f"{_AWAY}, so {id}{more} could not be cancelled: try any-agent cancel when it is back"
    return _CANCELLED


async def _left(agents: Agents, task: Task) -> str:
    try:
        async with asyncio.timeout(_DATABASE_S):
            if (await agents.task(task.id)).is_over:
                return "it is over"
            is_served = await agents.is_served(task.id)
    except TimeoutError:
        return f"{_AWAY}; when it is back, `any-agent attach {task.id}` goes on from here"
    if is_served:
        return f"it goes on: any-agent attach {task.id}"
    return f"nobody works on it now; `any-agent attach {task.id}` or a worker goes on with it where it stopped"
