"""Runs one tool: async in the loop, sync in a daemon thread, a generator with progress; with a time limit."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any

from any_agent.tools.validate import checked_arguments

if TYPE_CHECKING:
    from any_agent.tools.context import ToolContext
    from any_agent.tools.define import Tool

__all__ = ("execute",)


async def execute(tool: Tool, arguments: dict[str, Any], context: ToolContext, *, timeout: float | None = None) -> Any:
    """The result of a tool; `InvalidArguments`, `TimeoutError`, or whatever the function raises.

    A generator tells its progress: each thing it yields is one step, and the last is also the result.
    """
    if tool.fn is None:
        raise TypeError(f"the tool {tool.name!r} has no function: give Tool(..., fn=...) to run it")
    values = checked_arguments(tool, arguments)
    extra = {tool.context_parameter: context} if tool.context_parameter else {}
    call: Callable[[], Any] = (
        (lambda: tool.fn(values, **extra)) if tool.takes_dict else (lambda: tool.fn(**values, **extra))  # type: ignore[misc]
    )
    try:
        async with asyncio.timeout(tool.timeout if timeout is None else timeout):
            if inspect.isasyncgenfunction(tool.fn):
                return await _last(call(), context)
            if inspect.iscoroutinefunction(tool.fn):
                return await call()
            if inspect.isgeneratorfunction(tool.fn):
                return await _in_thread(lambda: _last_of(call(), context), tool.name)
            result = await _in_thread(call, tool.name)
            return await result if inspect.isawaitable(result) else result
    finally:
        context.cancelled = True


async def _last(steps: AsyncIterator[Any], context: ToolContext) -> Any:
    result = None
    async for result in steps:
        context.progress(result)
    return result


def _last_of(steps: Iterator[Any], context: ToolContext) -> Any:
    result = None
    for result in steps:
        if context.cancelled:
            break
        context.progress(result)
    return result


async def _in_thread(call: Callable[[], Any], name: str) -> Any:
    """Like `asyncio.to_thread`, in a thread that holds neither the loop nor the end of the program."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()
    variables = contextvars.copy_context()

    def settle(result: Any, error: BaseException | None) -> None:
        if not done.done():
            if error is None:
                done.set_result(result)
            else:
                done.set_exception(error)

    def run() -> None:
        result, error = None, None
        try:
            result = variables.run(call)
        except StopIteration as problem:
            error = RuntimeError(f"the tool raised StopIteration: {problem}")
        except BaseException as problem:
            error = problem
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, name=f"tool {name}", daemon=True).start()
    return await done
