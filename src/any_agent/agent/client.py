"""A conversation with a model: prompts in, events or blocks out, history kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator, Sequence
from typing import TYPE_CHECKING, Any

from any_agent.adapters.create import create_adapter
from any_agent.adapters.openai_sdk import create_client
from any_agent.agent.conversation import Conversation
from any_agent.agent.hooks import Hooks, UserPromptSubmitEvent, hooks_from
from any_agent.agent.loop import Limits, run_turn
from any_agent.agent.output import OutputType
from any_agent.agent.results import LongResults
from any_agent.agent.steps import LocalSteps, read_window
from any_agent.agent.turn import Turn
from any_agent.agent.window import Window
from any_agent.errors import AgentSDKError, MaxTurnsExceeded, PromptBlocked
from any_agent.events import Done, Event, Failed, TextDelta, ThinkingDelta, ToolCall, ToolResult
from any_agent.types import Block, LLMResponse, Message, TextBlock, ThinkingBlock, ToolResultBlock, Usage
from any_agent.wire.history import MessageLike, parse_message
from any_agent.wire.openai_request import openai_messages
from any_agent.wire.values import as_list

if TYPE_CHECKING:
    from openai import AsyncOpenAI

    from any_agent.adapters.base import BaseAdapter
    from any_agent.agent.options import AgentOptions

__all__ = ("Client",)


class Client:
    """A conversation. `await client.query(…)`, then iterate over `receive_messages()` or `events()`.

    >>> from any_agent import AgentOptions
    >>> client = Client(AgentOptions("Be brief.", "qwen3", "http://localhost:1234/v1"))
    >>> client.turn_count, client.message_history
    (0, [])
    """

    def __init__(self, options: AgentOptions) -> None:
        self.options = options
        self.turn_count = 0
        self._hooks = hooks_from(options.hooks)
        self._conversation = Conversation(Window(options.num_ctx), LongResults([tool.name for tool in options.tools]))
        self._adapter: BaseAdapter | None = None
        self._client: AsyncOpenAI | None = options.client
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False
        self._usage: Usage | None = None
        self._response: LLMResponse | None = None
        #: what the next reading sends: a prompt, or `None` to go on from what is there
        self._prompt: Message | None = None
        #: whether that is a turn of the user, and not a part of one
        self._counts = False
        #: the turn that waits to be read, or is read, or was the last
        self._turn: Turn | None = None

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop what is going on, and close all connections; the history can still be read."""
        self._check_loop()
        await self.interrupt()
        self._is_closed = True
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
        return self._conversation.messages

    @message_history.setter
    def message_history(self, messages: Sequence[MessageLike]) -> None:
        self._conversation.replace([parse_message(message) for message in messages])

    @property
    def history(self) -> list[dict[str, Any]]:
        """A copy of the conversation in OpenAI's format, ready for JSON."""
        return openai_messages(self._conversation.everything())

    @property
    def response(self) -> LLMResponse | None:
        """The last answer of the model, when its turn has come to its end; with `output_type`, `response.output`."""
        return self._response

    @property
    def long_results(self) -> dict[str, str]:
        """The tool results that were cut for the model, whole, by the handles under which it reads on."""
        return dict(self._conversation.long_results.whole)

    @property
    def turn_metadata(self) -> dict[str, Any]:
        """How many turns there were, what they used, and how full the window is as far as that is known."""
        usage = self._usage or Usage()
        return {
            "turn_count": self.turn_count,
            "max_turns": self.options.max_turns,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "total_tokens": usage.total_tokens,
            "context_tokens": self.context_tokens,
            "context_window": self._conversation.window.size,
        }

    @property
    def context_tokens(self) -> int:
        """About how many tokens the conversation has, corrected by what the server counted so far."""
        system = Message("system", self.options.system_prompt)
        return self._conversation.window.tokens([system, *self._conversation.everything()], self.options.tools)

    async def context_window(self) -> int | None:
        """How many tokens the server gives the model, asked from it if need be; `None` if it does not say.

        Servers that load models on demand know it after the first answer.
        """
        self._check_usable()
        await read_window(self._conversation.window, self._connected())
        return self._conversation.window.size

    async def query(self, prompt: str | list[Block]) -> None:
        """Say something; it is sent when the answer is read. An empty prompt goes on, as `resume()` does."""
        self._check_usable()
        blocks = as_list(prompt)
        if not isinstance(prompt, str) and not (prompt == blocks and all(isinstance(item, Block) for item in blocks)):
            raise TypeError(f"a prompt is a string, or a list of blocks such as TextBlock(…); it is {prompt!r:.200}")
        await self.interrupt()
        if not prompt:
            await self.resume()
            return
        continues = bool(self._conversation.waiting or self._conversation.open_calls())
        if not continues and self.turn_count >= self.options.max_turns:
            raise MaxTurnsExceeded(
                f"this conversation has had its {self.options.max_turns} prompts: set AgentOptions(max_turns=…) higher"
            )
        event = UserPromptSubmitEvent(prompt, list(self._conversation.messages))
        decision = await Hooks.decide(self._hooks.user_prompt_submit, event)
        if decision is not None and decision.action == "block":
            raise PromptBlocked(decision.reason)
        if decision is not None:
            prompt = decision.value
        self._begin(Message("user", prompt) if prompt else None, counts=not continues)

    async def resume(self) -> None:
        """Go on from what is there: results that were added, or a turn that was broken off."""
        self._check_usable()
        await self.interrupt()
        self._begin(None, counts=False)

    def _begin(self, prompt: Message | None, *, counts: bool) -> None:
        self._prompt, self._counts = prompt, counts
        self._turn = Turn(self._note_done)

    def add_tool_result(self, tool_call_id: str, content: Any, is_error: bool = False) -> _Noted:
        """Answer a call of the latest response. Works with and without `await`."""
        known = self._conversation.open_calls()
        turn = self._turn
        if turn is not None and not turn.ended and not self.options.auto_execute_tools:
            known |= {call.id for call in turn.calls}
        known -= {result.tool_use_id for result in self._conversation.waiting}
        if tool_call_id not in known:
            waiting = ", ".join(sorted(known)) or "none"
            raise AgentSDKError(f"no call {tool_call_id!r} waits for a result; waiting are: {waiting}")
        self._conversation.waiting.append(ToolResultBlock(tool_call_id, content, is_error))
        return _Noted()

    async def interrupt(self) -> None:
        """Stop at once: the connection is dropped, tools are cancelled, and the client can go on."""
        if self._turn is not None and not self._turn.ended:
            self._check_loop()
            await self._turn.interrupt()

    async def receive_messages(self) -> AsyncGenerator[Block, None]:
        """The answer as blocks: text and thoughts piece by piece, calls, and results of tools that ran.

        It ends quietly at an interrupt, and raises whatever else goes wrong.
        """
        turn = self._start()
        try:
            while batch := await turn.batch():
                for event in batch:
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
            await turn.aclose()

    async def events(self) -> AsyncGenerator[Event, None]:
        """The same turn in full detail; the last event is `Done` or `Failed`."""
        turn = self._start()
        try:
            while batch := await turn.batch():
                for event in batch:
                    yield event
        finally:
            await turn.aclose()

    def _start(self) -> Turn:
        """Start the turn that waits to be read."""
        self._check_usable()
        turn = self._turn
        if turn is None or turn.ended:
            raise AgentSDKError("there is nothing to read: call `await client.query(…)` first")
        if turn.started:
            raise AgentSDKError("this turn is being read already: only one loop can read it")
        turn.start(self._run(turn))
        return turn

    async def _run(self, turn: Turn) -> None:
        options = self.options
        output = OutputType(options.output_type) if options.output_type is not None else None
        steps = LocalSteps(options, self._connected(), self._conversation, self._hooks, output, turn)
        try:
            await run_turn(
                steps,
                turn.emit,
                history=self._conversation.everything(),
                prompt=self._prompt,
                limits=Limits(options.auto_execute_tools, options.max_tool_iterations, options.loop_guard),
                output=output,
            )
        finally:
            # a prompt that got no answer is not in the history, and may be sent again
            self.turn_count += self._counts and steps.has_appended

    def _note_done(self, event: Done) -> None:
        self._response = event.response
        usage = event.usage
        if usage is not None:
            total = self._usage = self._usage or Usage(0, 0, 0)
            total.input_tokens = (total.input_tokens or 0) + (usage.input_tokens or 0)
            total.output_tokens = (total.output_tokens or 0) + (usage.output_tokens or 0)
            total.total_tokens = (total.total_tokens or 0) + (usage.total_tokens or 0)

    def _check_usable(self) -> None:
        """Connections end with `aclose()`."""
        if self._is_closed:
            raise AgentSDKError("this client is closed: make a new Client(options), and give it this message_history")
        self._check_loop()

    def _check_loop(self) -> None:
        """Connections belong to one event loop."""
        loop = asyncio.get_running_loop()
        if self._loop is not None and self._loop is not loop:
            raise AgentSDKError(
                "this client was used in another event loop (another asyncio.run()): make a new Client(options) in "
                "this one, and give it this message_history"
            )
        self._loop = loop

    def _connected(self) -> BaseAdapter:
        if self._adapter is None:
            self._adapter = create_adapter(self.options)
        return self._adapter


class _Noted:
    """What `add_tool_result` returns: already done, and awaitable all the same."""

    def __await__(self) -> Generator[None, None, None]:
        yield from ()
