"""The steps of a turn in this process: plain calls that ask the model, run tools and keep the history."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from any_agent.agent.calls import CallRunner, Emit
from any_agent.agent.results import LongResults
from any_agent.errors import ProviderAPIError, StreamInterrupted
from any_agent.events import Done, Failed, Notice
from any_agent.types import LLMResponse, Message, ToolResultBlock, ToolUseBlock

if TYPE_CHECKING:
    from any_agent.adapters.base import BaseAdapter
    from any_agent.adapters.stream import EventStream
    from any_agent.agent.conversation import Conversation
    from any_agent.agent.hooks import Hooks
    from any_agent.agent.options import AgentOptions
    from any_agent.agent.output import OutputType
    from any_agent.agent.window import Window
    from any_agent.errors import ContextLengthExceeded
    from any_agent.tools.define import Tool

__all__ = ("LocalSteps", "Owner", "read_window", "together")

_T = TypeVar("_T")

_ENDS = (Done, Failed)  # a union would be made anew for each piece of an answer
_MAX_PARALLEL = 16
_NO_TEXT = "The model was asked to make the conversation shorter, and answered with nothing; it stays as it is"
_OUTPUT = "Your answer to the user must be JSON that fits this JSON Schema, and nothing else:\n"
#: the window is asked for in passing; nobody waits long for it
_WINDOW_S = 2.0


class Owner(Protocol):
    """Whoever reads the events of a turn, and may stop it."""

    #: tells this turn from all others
    id: str

    def read(self, stream: EventStream | None) -> None:
        """The model's stream, while it is read: it is what an interrupt has to stop."""
        ...

    async def settled(self) -> None:
        """Return when the events so far were seen, where the order on a screen matters."""
        ...


@dataclass(slots=True)
class LocalSteps:
    """What `run_turn` needs, for one turn."""

    options: AgentOptions
    adapter: BaseAdapter
    conversation: Conversation
    hooks: Hooks
    output: OutputType | None
    turn: Owner
    #: something of the turn is in the history
    has_appended: bool = field(default=False, init=False)
    #: what the model was asked last; the answer to it is not in the history while its calls run
    _asked: Sequence[Message] = field(default=(), init=False)

    async def fit(
        self,
        messages: Sequence[Message],
        pending: Sequence[Message],
        emit: Emit,
        overflow: ContextLengthExceeded | None = None,
    ) -> list[Message]:
        """The messages, made shorter where they fill the window with what is `pending`, and a policy says how."""
        policy, window = self.options.compaction, self.conversation.window
        said = overflow.details.get("n_ctx") if overflow is not None else None
        if isinstance(said, int):
            window.size = said
        if any(message.role == "assistant" for message in messages):
            await read_window(window, self.adapter)  # servers that load on demand know it after the first answer
        tokens = window.tokens(self._with_system([*messages, *pending]), self._tools())
        size = (policy.window if policy is not None else None) or window.size or (tokens if overflow else None)
        if policy is None or size is None or (overflow is None and tokens < size * policy.at):
            return list(messages)
        message = f"about {tokens} of {size} tokens are used: the conversation is made shorter"
        emit(Notice("compacting", message, {"tokens": tokens, "window": size}))
        shorter = await policy.compact(messages, size, window.tokens, self._ask)
        if shorter != list(messages):
            left = window.tokens(self._with_system([*shorter, *pending]), self._tools())
            message = f"the conversation was made shorter: it has about {left} tokens now"
            emit(Notice("compacted", message, {"before": tokens, "after": left}))
            self.conversation.replace(shorter)
        return shorter

    async def model(self, messages: Sequence[Message], emit: Emit, *, answer_only: bool = False) -> Done | Failed:
        """Ask the model; its events go to `emit`, but for the last one, which is returned."""
        options, window = self.options, self.conversation.window
        self._asked = messages
        sent, tools = self._with_system(messages), [] if answer_only else self._tools()
        notice = window.before(sent, tools)
        if notice is not None:
            emit(notice)
        stream = self.adapter.stream(
            sent,
            tools,
            temperature=options.temperature,
            max_tokens=options.max_tokens,
            stop=options.stop,
            top_p=options.top_p,
            seed=options.seed,
            tool_choice=options.tool_choice if tools else None,
            thinking=options.thinking,
            output_schema=self.output.schema if self.output is not None else None,
            **self._num_ctx(),
        )
        self.turn.read(stream)
        try:
            while batch := await stream.batch():
                last = batch[-1]
                if not isinstance(last, _ENDS):
                    for event in batch:
                        emit(event)
                    continue
                for event in batch[:-1]:
                    emit(event)
                if isinstance(last, Done):
                    notice = window.after(sent, tools, last.response.usage)
                    if notice is not None:
                        emit(notice)
                return last
        finally:
            self.turn.read(None)
            await stream.aclose()
        return Failed(StreamInterrupted("The answer was stopped", kind="aborted", retryable=False), LLMResponse())

    async def tools(
        self, calls: Sequence[ToolUseBlock], refusals: Mapping[str, str], iteration: int, emit: Emit
    ) -> list[ToolResultBlock]:
        """Run the calls, but for those whose ids are in `refusals`; results in the order of the calls."""
        works = [
            partial(self.call, call, refusals.get(call.id), f"{iteration}:{position}", emit)
            for position, call in enumerate(calls)
        ]
        return await together(works, self.options)

    async def call(
        self, call: ToolUseBlock, refusal: str | None, place: str, emit: Emit, attempt: int = 1
    ) -> ToolResultBlock:
        """Run one call; `place` tells it from all others of the turn."""
        options, long_results, window = self.options, self.conversation.long_results, self.conversation.window
        await read_window(window, self.adapter)
        runner = CallRunner(
            tools={tool.name: tool for tool in self._tools()},
            hooks=self.hooks,
            can_use_tool=options.can_use_tool,
            timeout=options.tool_timeout,
            history=self._asked,
            emit=emit,
            settle=self.turn.settled,
            long_results=long_results,
            limit=LongResults.limit(window.size, options.max_result_tokens),
        )
        return await runner.run(call, f"{self.turn.id}:{place}", refusal, attempt)

    async def append(self, messages: Sequence[Message]) -> None:
        """Add to the history what belongs together."""
        self.has_appended = True
        self.conversation.append(messages)

    def _with_system(self, messages: Sequence[Message]) -> list[Message]:
        prompt = self.options.system_prompt
        if self.output is not None:
            # most servers bind the output to the schema, and do not show it to the model
            prompt = f"{prompt}\n\n{_OUTPUT}{json.dumps(self.output.schema, ensure_ascii=False)}".strip()
        return [*([Message("system", prompt)] if prompt else []), *messages]

    def _tools(self) -> list[Tool]:
        long_results = self.conversation.long_results
        return [*self.options.tools, *([long_results.tool] if long_results.whole else [])]

    def _num_ctx(self) -> dict[str, Any]:
        """The window, for Ollama: without it a model that somebody loaded with another one is loaded anew."""
        options = self.options
        size = options.num_ctx or self.conversation.window.size
        return {"num_ctx": size} if options.protocol == "ollama" and size is not None else {}

    async def _ask(self, messages: Sequence[Message]) -> str:
        """A text from the model that is no part of the conversation."""
        stream = self.adapter.stream(messages, temperature=0, max_tokens=self.options.max_tokens, **self._num_ctx())
        self.turn.read(stream)
        try:
            async for event in stream:
                if isinstance(event, Failed):
                    raise event.error
                if isinstance(event, Done):
                    if not event.response.text:
                        raise ProviderAPIError(_NO_TEXT, kind="invalid_response", retryable=True)
                    return event.response.text
        finally:
            self.turn.read(None)
            await stream.aclose()
        raise StreamInterrupted("The answer was stopped", kind="aborted", retryable=False)


async def together(works: Sequence[Callable[[], Awaitable[_T]]], options: AgentOptions) -> list[_T]:
    """Begin all in their order, as many at once as the options allow; the results in the same order."""
    at_once = asyncio.Semaphore(_MAX_PARALLEL if options.parallel_tools else 1)

    async def run(work: Callable[[], Awaitable[_T]]) -> _T:
        async with at_once:
            return await work()

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(run(work)) for work in works]
    return [task.result() for task in tasks]


async def read_window(window: Window, adapter: BaseAdapter) -> None:
    """Ask the server, once, how large the window is, unless somebody said it."""
    if window.size is None and not window.asked:
        window.asked = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_WINDOW_S):
                window.size = await adapter.context_window()
