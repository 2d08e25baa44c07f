"""A conversation with a model: prompts in, events or blocks out, history kept."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from any_agent.adapters.create import create_adapter
from any_agent.adapters.openai_sdk import create_client
from any_agent.agent.calls import CallRunner, Emit
from any_agent.agent.hooks import Hooks, UserPromptSubmitEvent, hooks_from
from any_agent.agent.loop import Limits, run_turn
from any_agent.agent.turn import Turn
from any_agent.errors import AgentSDKError, MaxTurnsExceeded, PromptBlocked, StreamInterrupted
from any_agent.events import Done, Event, Failed, TextDelta, ThinkingDelta, ToolCall, ToolResult
from any_agent.types import (
    Block,
    LLMResponse,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    Usage,
)
from any_agent.wire.history import MessageLike, parse_message
from any_agent.wire.openai_request import openai_messages

if TYPE_CHECKING:
    from openai import AsyncOpenAI

    from any_agent.adapters.base import BaseAdapter
    from any_agent.agent.options import AgentOptions

__all__ = ("Client",)

_MAX_PARALLEL = 16


class Client:
    """A conversation. `await client.query(…)`, then iterate over `receive_messages()` or `events()`.

    >>> from any_agent import AgentOptions
    >>> client = Client(AgentOptions("Be brief.", "qwen3", "http://localhost:1234/v1"))
    >>> client.turn_count, client.message_history
    (0, [])
    """

    def __init__(self, options: AgentOptions) -> None:
        if options.output_type is not None:
            raise ValueError("output_type is yet to come: use output_schema= with an adapter, or a tool")
        self.options = options
        self.turn_count = 0
        self._hooks = hooks_from(options.hooks)
        self._history: list[Message] = []
        self._adapter: BaseAdapter | None = None
        self._client: AsyncOpenAI | None = options.client
        self._prompts = 0
        self._usage: Usage | None = None
        #: what the next reading sends: a prompt, or `None` to go on from what is there
        self._prompt: Message | None = None
        self._has_query = False
        #: results that were added and wait to be sent
        self._results: list[ToolResultBlock] = []
        self._turn: Turn | None = None

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop what is going on, and close all connections; the conversation stays."""
        await self.interrupt()
        adapter, self._adapter = self._adapter, None
        if adapter is not None:
            await adapter.aclose()
        client, self._client = self._client, self.options.client
        if client is not None and client is not self.options.client:
            await client.close()

    @property
    def client(self) -> AsyncOpenAI:
        """An `AsyncOpenAI` for the same server, made when first asked for."""
        if self._client is None:
            self._client = create_client(self.options)
        return self._client

    @property
    def message_history(self) -> list[Message]:
        """The conversation, live; assign typed messages, or dicts in OpenAI's format."""
        return self._history

    @message_history.setter
    def message_history(self, messages: Sequence[MessageLike]) -> None:
        self._history = [parse_message(message) for message in messages]
        self._results = []

    @property
    def history(self) -> list[dict[str, Any]]:
        """A copy of the conversation in OpenAI's format, ready for JSON."""
        return openai_messages([*self._history, *self._waiting()])

    @property
    def turn_metadata(self) -> dict[str, Any]:
        """How many turns there were, and what they used."""
        usage = self._usage or Usage()
        return {
            "turn_count": self.turn_count,
            "max_turns": self.options.max_turns,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "total_tokens": usage.total_tokens,
        }

    async def query(self, prompt: str | list[Block]) -> None:
        """Say something; it is sent when the answer is read. An empty prompt goes on, as `resume()` does."""
        await self.interrupt()
        if not prompt:
            await self.resume()
            return
        continues = bool(self._results or self._open_calls())
        if not continues and self._prompts >= self.options.max_turns:
            raise MaxTurnsExceeded(
                f"this conversation has had its {self.options.max_turns} prompts: set AgentOptions(max_turns=…) higher"
            )
        decision = await Hooks.decide(
            self._hooks.user_prompt_submit, UserPromptSubmitEvent(prompt, list(self._history))
        )
        if decision is not None and decision.action == "block":
            raise PromptBlocked(decision.reason)
        if decision is not None:
            prompt = decision.value
        self._prompt = Message("user", prompt) if prompt else None
        self._prompts += 0 if continues else 1
        self._has_query = True

    async def resume(self) -> None:
        """Go on from what is there: results that were added, or a turn that was broken off."""
        await self.interrupt()
        self._prompt = None
        self._has_query = True

    def add_tool_result(self, tool_call_id: str, content: Any, is_error: bool = False) -> _Noted:
        """Answer a call of the latest response. Works with and without `await`."""
        known = self._open_calls() | {call.id for call in (self._turn.calls if self._turn else [])}
        known -= {result.tool_use_id for result in self._results}
        if tool_call_id not in known:
            waiting = ", ".join(sorted(known)) or "none"
            raise AgentSDKError(f"no call {tool_call_id!r} waits for a result; waiting are: {waiting}")
        self._results.append(ToolResultBlock(tool_call_id, content, is_error))
        return _Noted()

    async def interrupt(self) -> None:
        """Stop at once: the connection is dropped, tools are cancelled, and the client can go on."""
        if self._turn is not None:
            await self._turn.interrupt()
            self._turn = None

    async def receive_messages(self) -> AsyncGenerator[Block, None]:
        """The answer as blocks: text and thoughts piece by piece, calls, and results of tools that ran.

        It ends quietly at an interrupt, and raises whatever else goes wrong.
        """
        events = self.events()
        try:
            async for event in events:
                if isinstance(event, TextDelta):
                    yield TextBlock(event.text)
                elif isinstance(event, ThinkingDelta):
                    yield ThinkingBlock(event.text)
                elif isinstance(event, ToolCall):
                    yield event.block
                elif isinstance(event, ToolResult):
                    yield ToolResultBlock(event.id, event.output, event.is_error)
                elif isinstance(event, Failed) and event.error.kind != "aborted":
                    raise event.error
        finally:
            await events.aclose()

    async def events(self) -> AsyncGenerator[Event, None]:
        """The same turn in full detail; the last event is `Done` or `Failed`."""
        if self._turn is not None and not self._turn.ended:
            raise AgentSDKError("this turn is being read already: only one loop can read it")
        if not self._has_query:
            raise AgentSDKError("there is nothing to read: call `await client.query(…)` first")
        self._has_query = False
        turn = self._turn = Turn()
        turn.start(self._run(turn))
        try:
            async for event in turn:
                if isinstance(event, Done):
                    self._note_done(event)
                yield event
        finally:
            await turn.aclose()

    async def _run(self, turn: Turn) -> None:
        prompt, self._prompt = self._prompt, None
        history = [*self._history, *self._waiting()]
        options = self.options
        await run_turn(
            _Steps(self, turn),
            turn.emit,
            history=history,
            prompt=prompt,
            limits=Limits(options.auto_execute_tools, options.max_tool_iterations),
        )

    def _note_done(self, event: Done) -> None:
        self.turn_count += 1
        usage = event.usage
        if usage is not None:
            total = self._usage = self._usage or Usage(0, 0, 0)
            total.input_tokens = (total.input_tokens or 0) + (usage.input_tokens or 0)
            total.output_tokens = (total.output_tokens or 0) + (usage.output_tokens or 0)
            total.total_tokens = (total.total_tokens or 0) + (usage.total_tokens or 0)

    def _open_calls(self) -> set[str]:
        last = self._history[-1] if self._history else None
        if last is None or last.role != "assistant":
            return set()
        return {block.id for block in last.content if isinstance(block, ToolUseBlock)}

    def _waiting(self) -> list[Message]:
        return [Message("tool", list(self._results))] if self._results else []

    def _connected(self) -> BaseAdapter:
        if self._adapter is None:
            self._adapter = create_adapter(self.options)
        return self._adapter


class _Noted:
    """What `add_tool_result` returns: already done, and awaitable all the same."""

    def __await__(self) -> Generator[None, None, None]:
        yield from ()


class _Steps:
    """The steps of a turn, in this process: plain calls."""

    def __init__(self, client: Client, turn: Turn) -> None:
        self._client = client
        self._turn = turn

    async def model(self, messages: Sequence[Message], emit: Emit) -> Done | Failed:
        client, options = self._client, self._client.options
        system = [Message("system", options.system_prompt)] if options.system_prompt else []
        stream = client._connected().stream(  # pyright: ignore[reportPrivateUsage]
            [*system, *messages],
            options.tools,
            temperature=options.temperature,
            max_tokens=options.max_tokens,
            stop=options.stop,
            top_p=options.top_p,
            seed=options.seed,
            tool_choice=options.tool_choice,
            thinking=options.thinking,
        )
        self._turn.read(stream)
        try:
            async for event in stream:
                if isinstance(event, Done | Failed):
                    return event
                emit(event)
        finally:
            self._turn.read(None)
            await stream.aclose()
        return Failed(StreamInterrupted("The answer was stopped", kind="aborted", retryable=False), LLMResponse())

    async def tools(
        self, calls: Sequence[ToolUseBlock], refusals: Mapping[str, str], iteration: int, emit: Emit
    ) -> list[ToolResultBlock]:
        options = self._client.options
        runner = CallRunner(
            tools={tool.name: tool for tool in options.tools},
            hooks=self._client._hooks,  # pyright: ignore[reportPrivateUsage]
            can_use_tool=options.can_use_tool,
            timeout=options.tool_timeout,
            history=self._client.message_history,
            emit=emit,
            settle=self._turn.settled,
        )
        limit = asyncio.Semaphore(_MAX_PARALLEL if options.parallel_tools else 1)

        async def run(position: int, call: ToolUseBlock) -> ToolResultBlock:
            async with limit:
                return await runner.run(call, f"{self._turn.id}:{iteration}:{position}", refusals.get(call.id))

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(run(position, call)) for position, call in enumerate(calls)]
        return [task.result() for task in tasks]

    async def append(self, messages: Sequence[Message]) -> None:
        client = self._client
        client._history += [*client._waiting(), *copy.copy(messages)]  # pyright: ignore[reportPrivateUsage]
        client._results = []  # pyright: ignore[reportPrivateUsage]
