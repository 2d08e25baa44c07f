"""One tool call of an agent: hooks, checks, approval, the run, and a result, whatever happens."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from any_agent.agent.hooks import Allow, Deny, Hooks, PostToolUseEvent, PreToolUseEvent
from any_agent.events import Event, ToolProgress, ToolResult, ToolRunning
from any_agent.tools.context import ToolContext
from any_agent.tools.run import execute
from any_agent.tools.validate import InvalidArguments, checked_arguments
from any_agent.types import ImageBlock, Message, TextBlock, ToolResultBlock, ToolUseBlock
from any_agent.wire.history import result_text

if TYPE_CHECKING:
    from any_agent.agent.results import LongResults
    from any_agent.tools.define import Tool

__all__ = ("CallRunner", "Emit", "visible_result")

Emit: TypeAlias = Callable[[Event], None]


@dataclass(slots=True)
class CallRunner:
    """Runs the calls of an agent. Nothing that a tool does escapes; what a hook raises does."""

    tools: dict[str, Tool]
    hooks: Hooks
    can_use_tool: Callable[..., Any] | None
    timeout: float | None
    history: Sequence[Message]
    emit: Emit
    #: lets whoever reads the events have them before it goes on
    settle: Callable[[], Any]
    long_results: LongResults
    #: how many tokens of a result the model sees at once
    limit: int

    async def run(
        self, call: ToolUseBlock, idempotency_key: str, refusal: str | None = None, attempt: int = 1
    ) -> ToolResultBlock:
        """The result of a call, as the model will read it; with `refusal` it is that, and nothing runs."""
        started = time.monotonic()
        output, is_error, arguments = refusal, True, call.input
        if refusal is None:
            output, is_error, arguments = await self._attempt(call, idempotency_key, attempt)
        decision = await Hooks.decide(
            self.hooks.post_tool_use,
            PostToolUseEvent(call.name, arguments, call.id, list(self.history), output, is_error),
        )
        if decision is not None:
            output = decision.value if decision.action == "modify" else f"The result is withheld: {decision.reason}"
        content, notices = self.long_results.fit(call.name, visible_result(output), self.limit)
        for notice in notices:
            self.emit(notice)
        duration = time.monotonic() - started
        self.emit(ToolResult(call.id, call.name, content, is_error, duration))
        await self.settle()
        return ToolResultBlock(call.id, content, is_error)

    async def _attempt(
        self, call: ToolUseBlock, idempotency_key: str, attempt: int
    ) -> tuple[Any, bool, dict[str, Any]]:
        """(output, whether it is an error, the input that was used)."""
        arguments = call.input
        decision = await Hooks.decide(
            self.hooks.pre_tool_use, PreToolUseEvent(call.name, arguments, call.id, list(self.history))
        )
        if decision is not None and decision.action == "block":
            return f"The call was blocked: {decision.reason}", True, arguments
        if decision is not None:
            arguments = decision.value
        tool = self.tools.get(call.name)
        if tool is None:
            known = ", ".join(self.tools) or "none"
            return f"There is no tool {call.name!r}. The tools are: {known}.", True, arguments
        try:
            checked_arguments(tool, arguments)
        except InvalidArguments as problem:
            return str(problem), True, arguments
        context = ToolContext(
            call.name,
            tool_use_id=call.id,
            idempotency_key=idempotency_key,
            attempt=attempt,
            on_progress=lambda data: self.emit(ToolProgress(call.id, call.name, data)),
        )
        denied, arguments = await self._ask(call, arguments, context)
        if denied is not None:
            return f"The call was not allowed: {denied}", True, arguments
        self.emit(ToolRunning(call.id, call.name, arguments))
        await self.settle()
        return *(await self._execute(tool, arguments, context)), arguments

    async def _ask(
        self, call: ToolUseBlock, arguments: dict[str, Any], context: ToolContext
    ) -> tuple[str | None, dict[str, Any]]:
        """(why it was denied, the input that was allowed)."""
        # to read on in a result is no new deed
        if self.can_use_tool is None or call.name == self.long_results.tool.name:
            return None, arguments
        await self.settle()  # whoever is asked must have seen what for
        self.emit(ToolRunning(call.id, call.name, arguments, waiting_for_approval=True))
        answer = self.can_use_tool(call.name, arguments, context)
        decision: Any = await answer if inspect.isawaitable(answer) else answer
        if isinstance(decision, Deny):
            return decision.reason, arguments
        if isinstance(decision, Allow):
            return None, arguments if decision.updated_input is None else decision.updated_input
        raise TypeError(f"can_use_tool returned {decision!r}: return Allow() or Deny(reason)")

    async def _execute(self, tool: Tool, arguments: dict[str, Any], context: ToolContext) -> tuple[Any, bool]:
        limit = tool.timeout if tool.timeout is not None else self.timeout
        started = time.monotonic()
        try:
            return await execute(tool, arguments, context, timeout=limit), False
        except InvalidArguments as problem:
            return str(problem), True
        except TimeoutError as problem:
            if limit is not None and time.monotonic() - started >= limit:
                return f"{tool.name} did not finish within {limit:g} seconds", True
            return f"{tool.name} failed: TimeoutError: {problem}", True
        except asyncio.CancelledError as problem:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # nobody stopped the run: the tool has cancelled something of its own
            return f"{tool.name} failed: {type(problem).__name__}: {problem}", True
        except (Exception, SystemExit) as problem:  # one of the two places where any failure becomes a result
            return f"{tool.name} failed: {type(problem).__name__}: {problem}", True


def visible_result(output: Any) -> str | list[TextBlock | ImageBlock]:
    """What a tool gave back, as the model sees it: text, with images beside it where there are any."""
    if hasattr(output, "model_dump_json"):
        return str(output.model_dump_json())
    if isinstance(output, bytes | bytearray):
        try:
            return [ImageBlock.from_bytes(bytes(output))]
        except ValueError:
            return bytes(output).decode("utf-8", "replace")
    if isinstance(output, ImageBlock):
        return [output]
    items = list(cast("list[Any]", output)) if isinstance(output, list | tuple) else []
    is_shown = any(isinstance(item, TextBlock | ImageBlock) for item in items)
    if is_shown and all(isinstance(item, TextBlock | ImageBlock | str) for item in items):
        return [item if isinstance(item, ImageBlock) else _words(item) for item in items]
    return _unicode(result_text(output)[0])


def _words(item: TextBlock | str) -> TextBlock:
    return TextBlock(_unicode(item if isinstance(item, str) else item.text))


def _unicode(text: str) -> str:
    """A text that can be sent: names of files, say, may hold what is no Unicode."""
    return text.encode("utf-8", "replace").decode()
