"""The automatic loop: nothing hidden, nothing lost, and an end in any case."""

from __future__ import annotations

import asyncio
import datetime
import json
import sys
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pydantic
import pytest

from any_agent import (
    AgentOptions,
    Allow,
    Client,
    Deny,
    Done,
    Event,
    Failed,
    HookDecision,
    Hooks,
    ImageBlock,
    ModelState,
    PostToolUseEvent,
    PreToolUseEvent,
    ResponseEnd,
    Retry,
    TextBlock,
    Tool,
    ToolCall,
    ToolContext,
    ToolInputDelta,
    ToolInputStart,
    ToolProgress,
    ToolResult,
    ToolRunning,
    tool,
)
from any_agent.testing import Received, Reply, ScriptedServer, chat_events, sse


def call(name: str, arguments: str = "{}", id: str = "c1") -> dict[str, Any]:
    return {"id": id, "function": {"name": name, "arguments": arguments}}


def calls(*given: dict[str, Any], finish: str = "tool_calls") -> Reply:
    return Reply(chat_events(tool_calls=given, finish=finish))


DONE = Reply(chat_events("Done."))


async def run(*replies: Reply, tools: list[Tool], **more: Any) -> tuple[list[Event], list[Received], Client]:
    """One turn with these replies: its events, the requests, and the client."""
    async with ScriptedServer(*replies) as server:
        options = AgentOptions("", "m", server.url, tools=tools, auto_execute_tools=True, **more)
        async with Client(options) as client:
            await client.query("go")
            return [event async for event in client.events()], server.requests, client


def results(events: list[Event]) -> list[ToolResult]:
    return [event for event in events if isinstance(event, ToolResult)]


def reason(events: list[Event]) -> str:
    assert isinstance(events[-1], Done), events[-1]
    return events[-1].reason


@tool
def add(a: float, b: float) -> float:
    """Add."""
    return a + b


ADDS = '{"a": 1, "b": 2}'
ADD = call("add", ADDS)


@pytest.mark.row("B1", "B2", "B4")
async def test_order_of_a_call() -> None:
    told: list[str] = []

    def pre(event: PreToolUseEvent) -> None:
        told.append(f"pre {event.tool_name} {event.tool_input}")

    def post(event: PostToolUseEvent) -> None:
        told.append(f"post {event.tool_result} {event.is_error}")

    async def allow(name: str, arguments: dict[str, Any], context: ToolContext) -> Allow:
        told.append(f"ask {name} {context.tool_use_id}")
        return Allow()

    hooks = Hooks().add_pre_tool_use(pre).add_post_tool_use(post)
    events, requests, client = await run(calls(ADD), DONE, tools=[add], hooks=hooks, can_use_tool=allow)
    kinds = [event.type for event in events]
    assert kinds == [
        "tool_input_start", "tool_input_delta", "tool_use", "response", "tool_running", "tool_running", "tool_result",
        "text", "response", "done",
    ]  # fmt: skip
    running = [event for event in events if isinstance(event, ToolRunning)]
    assert [event.waiting_for_approval for event in running] == [True, False]
    assert told == ["pre add {'a': 1, 'b': 2}", "ask add c1", "post 3.0 False"]
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert requests[1].json["messages"][-1]["content"] == "3.0"
    assert reason(events) == "complete"
    assert [message.role for message in client.message_history] == ["user", "assistant", "tool", "assistant"]


@pytest.mark.row("B1", "B12", "B14", "E2")
async def test_nothing_that_happens_before_the_first_word_is_hidden() -> None:
    def chunk(**fields: Any) -> dict[str, Any]:
        return {"choices": [{"index": 0, "delta": fields.pop("delta", {}), "finish_reason": None}], **fields}

    progress = {"total": 100, "cache": 0, "processed": 50, "time_ms": 1}
    begun = sse(chunk(prompt_progress=progress), chunk(delta={"reasoning_content": "Hm."}), done=False)
    busy = Reply.json({"error": {"message": "busy"}}, 429, retry_after="0")
    events, _, client = await run(busy, Reply([*begun, *chat_events("Done.")[1:]]), tools=[add])
    assert [event.type for event in events] == [
        "retry", "model_state", "model_state", "thinking", "text", "response", "done",
    ]  # fmt: skip
    retry, prefill, generating = events[:3]
    assert isinstance(retry, Retry)
    assert (retry.attempt, retry.error.kind) == (2, "rate_limit")
    assert isinstance(prefill, ModelState)
    assert isinstance(generating, ModelState)
    assert [(prefill.state, prefill.progress), generating.state] == [("prefill", 0.5), "generating"]
    assert client.response is not None
    assert (client.response.thinking, client.response.text) == ("Hm.", "Done.")


@pytest.mark.row("B1", "D4")
async def test_usage_of_the_turn_is_that_of_all_its_responses() -> None:
    def counted(prompt: int, completion: int) -> dict[str, int]:
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}

    replies = [
        Reply(chat_events(tool_calls=[ADD], finish="tool_calls", usage=counted(10, 5))),
        Reply(chat_events("Done.", usage=counted(20, 3))),
    ]
    events, _, client = await run(*replies, tools=[add])
    done = events[-1]
    assert isinstance(done, Done)
    assert done.usage is not None
    assert (done.usage.input_tokens, done.usage.output_tokens, done.usage.total_tokens) == (30, 8, 38)
    assert [event.response.usage.input_tokens for event in events if isinstance(event, ResponseEnd)] == [10, 20]  # type: ignore[union-attr]
    assert client.turn_metadata["total_tokens"] == 38


@pytest.mark.row("B2", "B3")
async def test_reader_has_control_between_running_and_result() -> None:
    painted: list[str] = []

    @tool
    def instant() -> str:
        painted.append("ran")
        return "x"

    async with ScriptedServer(calls(call("instant")), DONE) as server:
        options = AgentOptions("", "m", server.url, tools=[instant], auto_execute_tools=True)
        async with Client(options) as client:
            await client.query("go")
            async for event in client.events():
                if isinstance(event, ToolRunning | ToolResult):
                    painted.append(event.type)
                    await asyncio.sleep(0.02)
    assert painted == ["tool_running", "ran", "tool_result"]


@pytest.mark.row("B2")
async def test_slow_tool_is_seen_running_while_everything_stays_responsive() -> None:
    @tool
    def slow() -> str:
        time.sleep(0.4)
        return "x"

    frames = 0
    seen: dict[str, float] = {}
    async with ScriptedServer(calls(call("slow")), DONE) as server:
        options = AgentOptions("", "m", server.url, tools=[slow], auto_execute_tools=True)
        async with Client(options) as client:
            await client.query("go")

            async def render() -> None:
                nonlocal frames
                while "tool_result" not in seen:
                    frames += "tool_running" in seen
                    await asyncio.sleep(0.02)

            renderer = asyncio.create_task(render())
            async for event in client.events():
                seen.setdefault(event.type, time.monotonic())
            await renderer
    assert seen["tool_result"] - seen["tool_running"] >= 0.35
    assert frames >= 5


@pytest.mark.row("B5")
async def test_calls_run_in_parallel_with_results_in_order_of_completion_and_history_in_order_of_the_calls() -> None:
    both = asyncio.Barrier(2)
    first_may_end = asyncio.Event()

    @tool
    async def first() -> str:
        await both.wait()
        await first_may_end.wait()
        return "1"

    @tool
    async def second() -> str:
        await both.wait()
        first_may_end.set()
        return "2"

    reply = calls(call("first", id="a"), call("second", id="b"))
    events, requests, _ = await run(reply, DONE, tools=[first, second])
    assert {result.id for result in results(events)} == {"a", "b"}
    sent = [message for message in requests[1].json["messages"] if message["role"] == "tool"]
    assert [message["tool_call_id"] for message in sent] == ["a", "b"]


@pytest.mark.row("B5")
async def test_one_by_one_when_asked() -> None:
    running = 0

    @tool
    async def alone() -> str:
        nonlocal running
        running += 1
        assert running == 1
        await asyncio.sleep(0.01)
        running -= 1
        return "x"

    events, _, _ = await run(
        calls(call("alone", id="a"), call("alone", id="b")), DONE, tools=[alone], parallel_tools=False
    )
    assert [result.is_error for result in results(events)] == [False, False]


@tool
def fails() -> None:
    raise ZeroDivisionError("by zero")


@tool(timeout=0.05)
async def hangs() -> None:
    await asyncio.sleep(60)


@tool
def stuck() -> None:
    threading.Event().wait(1)


@tool
async def waits() -> None:
    await asyncio.sleep(60)


@pytest.mark.row("B15", "B5", "B6")
async def test_limit_of_all_tools_holds_where_a_tool_has_none_of_its_own() -> None:
    reply = calls(call("stuck", id="a"), call("waits", id="b"), call("hangs", id="c"), call("add", ADDS, "d"))
    events, _, _ = await run(reply, DONE, tools=[stuck, waits, hangs, add], tool_timeout=0.02)
    assert reason(events) == "complete"
    assert {result.id: result.output for result in results(events)} == {
        "a": "stuck did not finish within 0.02 seconds",
        "b": "waits did not finish within 0.02 seconds",
        "c": "hangs did not finish within 0.05 seconds",
        "d": "3.0",
    }


@pytest.mark.row("B6")
@pytest.mark.parametrize(
    ("given", "says"),
    [
        (call("multiply"), "There is no tool 'multiply'. The tools are: add, fails, hangs."),
        (call("fails"), "fails failed: ZeroDivisionError: by zero"),
        (call("hangs"), "hangs did not finish within 0.05 seconds"),
        (call("add", '{"a": 1}'), "missing required field `b`"),
        (call("add", '{"a": 1, "b": '), 'You wrote: {"a": 1, "b": '),
    ],
    ids=["unknown", "failing", "timeout", "invalid", "malformed"],
)
async def test_whatever_goes_wrong_is_a_result_that_the_model_sees(given: dict[str, Any], says: str) -> None:
    events, requests, client = await run(calls(given), DONE, tools=[add, fails, hangs])
    assert reason(events) == "complete"
    sent = requests[1].json["messages"][-1]
    assert sent["role"] == "tool"
    assert says in sent["content"]
    assert client.history[-2]["content"] == sent["content"]


@tool
async def cancels() -> None:
    raise asyncio.CancelledError("of its own")


@tool
def exits() -> None:
    sys.exit("usage: exits")


@tool
async def exits_in_the_loop() -> None:
    sys.exit(2)


@pytest.mark.row("B6")
@pytest.mark.parametrize("bad", [cancels, exits, exits_in_the_loop], ids=lambda bad: bad.name)
async def test_tool_can_end_neither_the_run_nor_the_program(bad: Tool) -> None:
    events, requests, _ = await run(calls(call(bad.name, id="a"), call("add", ADDS, "b")), DONE, tools=[bad, add])
    assert reason(events) == "complete"
    told = {message.get("tool_call_id"): message["content"] for message in requests[1].json["messages"]}
    assert told["a"].startswith(f"{bad.name} failed: ")
    assert told["b"] == "3.0"


@pytest.mark.row("B5")
async def test_not_all_of_many_calls_run_at_once() -> None:
    running, most = 0, 0

    @tool
    async def one() -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return running

    events, _, _ = await run(calls(*(call("one", id=f"c{n}") for n in range(40))), DONE, tools=[one])
    assert len(results(events)) == 40
    assert 1 < most <= 16


@pytest.mark.row("B2", "B10")
async def test_blocked_and_invalid_calls_never_run() -> None:
    seen: list[tuple[Any, bool]] = []
    hooks = {
        "pre_tool_use": [lambda event: HookDecision.block("not now") if event.tool_input["a"] == 1 else None],
        "post_tool_use": [lambda event: seen.append((event.tool_result, event.is_error))],
    }
    reply = calls(call("add", '{"a": 1, "b": 1}', "a"), call("add", '{"a": 2}', "b"))
    events, requests, _ = await run(reply, DONE, tools=[add], hooks=hooks)
    assert not [event for event in events if isinstance(event, ToolRunning)]
    assert "The call was blocked: not now" in [message.get("content") for message in requests[1].json["messages"]]
    assert [is_error for _, is_error in seen] == [True, True]


@pytest.mark.row("B9")
async def test_hooks_change_input_and_result_and_the_first_decision_wins() -> None:
    hooks = (
        Hooks()
        .add_pre_tool_use(lambda event: HookDecision.continue_())
        .add_pre_tool_use(lambda event: HookDecision.modify_input({"a": 10, "b": 20}))
        .add_pre_tool_use(lambda event: HookDecision.block("too late"))
        .add_post_tool_use(lambda event: HookDecision.modify_result({"sum": event.tool_result}))
    )
    events, requests, _ = await run(calls(ADD), DONE, tools=[add], hooks=hooks)
    [running] = [event for event in events if isinstance(event, ToolRunning)]
    assert running.input == {"a": 10, "b": 20}
    assert requests[1].json["messages"][-1]["content"] == '{"sum": 30.0}'


@pytest.mark.row("B9")
async def test_in_a_post_hook_to_modify_the_input_is_to_modify_the_result() -> None:
    hooks = Hooks().add_post_tool_use(lambda event: HookDecision.modify_input("other"))
    events, requests, _ = await run(calls(ADD), DONE, tools=[add], hooks=hooks)
    assert [result.output for result in results(events)] == ["other"]
    assert requests[1].json["messages"][-1]["content"] == "other"


@pytest.mark.row("B9")
async def test_hooks_see_the_prompt_that_led_to_the_call() -> None:
    seen: list[list[str]] = []
    hooks = Hooks().add_pre_tool_use(lambda event: seen.append([message.role for message in event.history]))
    await run(calls(ADD), calls(ADD), DONE, tools=[add], hooks=hooks)
    assert seen == [["user"], ["user", "assistant", "tool"]]


@pytest.mark.row("B10")
async def test_post_hook_sees_unknown_failed_and_denied_calls() -> None:
    seen: list[tuple[str, bool]] = []
    hooks = Hooks().add_post_tool_use(lambda event: seen.append((event.tool_name, event.is_error)))
    reply = calls(call("nobody", id="a"), call("fails", id="b"), call("hangs", id="c"), call("add", ADDS, "d"))
    await run(
        reply,
        DONE,
        tools=[add, fails, hangs],
        hooks=hooks,
        parallel_tools=False,
        can_use_tool=lambda name, arguments, context: Deny() if name == "add" else Allow(),
    )
    assert seen == [("nobody", True), ("fails", True), ("hangs", True), ("add", True)]


@pytest.mark.row("B10")
async def test_hook_that_raises_is_an_error_of_the_program() -> None:
    def broken(event: PreToolUseEvent) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await run(calls(ADD), DONE, tools=[add], hooks=Hooks().add_pre_tool_use(broken))


@pytest.mark.row("B10", "A24")
async def test_what_ran_before_a_hook_raised_is_in_the_history() -> None:
    def broken(event: PostToolUseEvent) -> None:
        if event.tool_use_id == "b":
            raise KeyError("mine")

    reply = calls(call("add", '{"a": 1, "b": 2}', "a"), call("add", '{"a": 3, "b": 4}', "b"))
    async with ScriptedServer(reply) as server:
        options = AgentOptions("", "m", server.url, tools=[add], auto_execute_tools=True, parallel_tools=False)
        options.hooks = Hooks().add_post_tool_use(broken)
        async with Client(options) as client:
            await client.query("go")
            with pytest.raises(KeyError, match="mine"):
                async for _ in client.events():
                    pass
            told = {message["tool_call_id"]: message["content"] for message in client.history[2:]}
    assert told["a"] == "3.0"
    assert "broken off" in told["b"]


@pytest.mark.row("A24", "A25", "B3")
async def test_interrupted_round_stays_with_what_was_done_and_the_turn_can_go_on() -> None:
    is_sent, hanging = asyncio.Event(), asyncio.Event()

    @tool
    async def send() -> str:
        return "sent"

    @tool
    async def hang() -> None:
        hanging.set()
        await asyncio.sleep(60)

    reply = calls(call("send", id="a"), call("hang", id="b"))
    async with ScriptedServer(reply, DONE) as server:
        options = AgentOptions("", "m", server.url, tools=[send, hang], auto_execute_tools=True)
        async with Client(options) as client:

            async def stop() -> None:
                await is_sent.wait()
                await hanging.wait()
                await client.interrupt()

            stopper = asyncio.create_task(stop())
            await client.query("go")
            events: list[Event] = []
            async for event in client.events():
                events.append(event)
                if isinstance(event, ToolResult) and event.id == "a":
                    is_sent.set()
            await stopper
            assert isinstance(events[-1], Failed)
            assert events[-1].error.kind == "aborted"
            assert [(result.id, result.is_error) for result in results(events)] == [("a", False), ("b", True)]
            assert [message["role"] for message in client.history] == ["user", "assistant", "tool", "tool"]
            await client.resume()
            assert reason([event async for event in client.events()]) == "complete"
        sent = [message["content"] for message in server.requests[1].json["messages"] if message["role"] == "tool"]
    assert sent[0] == "sent"
    assert "broken off" in sent[1]


@pytest.mark.row("B9")
@pytest.mark.parametrize(
    ("hooks", "error", "says"),
    [
        (Hooks(pre_tool_use=[lambda: None]), TypeError, "must take one argument, the event"),  # type: ignore[list-item,misc]
        ({"post_tool_use": [lambda a, b: None]}, TypeError, "must take one argument, the event"),
        ({"user_prompt_submit": ["audit"]}, TypeError, "'audit' is no function"),
        ({"pre_tool_use": print}, TypeError, "pre_tool_use must be a list of functions"),
        ({"before": []}, ValueError, "no hooks called 'before'; there are pre_tool_use"),
        ([lambda event: None], TypeError, r"must be Hooks\(\), or a dict"),
    ],
    ids=["no parameter", "two parameters", "no function", "no list", "unknown name", "no dict"],
)
def test_hooks_that_cannot_be_called_are_refused_at_once(hooks: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        AgentOptions("", "m", "http://localhost:1", hooks=hooks)


def test_hook_with_the_wrong_signature_is_refused() -> None:
    with pytest.raises(TypeError, match="one argument"):
        Hooks().add_pre_tool_use(lambda: None)  # type: ignore[arg-type,misc]
    with pytest.raises(TypeError, match="no function"):
        Hooks().add_post_tool_use(5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"can_use_tool.*must take the arguments name, input, context"):
        AgentOptions("", "m", "http://localhost:1", can_use_tool=lambda name: Allow())


async def test_hook_that_returns_something_else_is_an_error_of_the_program() -> None:
    with pytest.raises(TypeError, match="returned False: return a HookDecision, or None"):
        await run(calls(ADD), DONE, tools=[add], hooks={"pre_tool_use": [lambda event: False]})


@pytest.mark.row("B11")
async def test_approval_may_deny_and_may_change_the_input() -> None:
    async def ask(name: str, arguments: dict[str, Any], context: ToolContext) -> Allow | Deny:
        return Deny("ask me first") if arguments["a"] == 1 else Allow({"a": 5, "b": 5})

    reply = calls(call("add", '{"a": 1, "b": 1}', "a"), call("add", '{"a": 2, "b": 2}', "b"))
    _, requests, _ = await run(reply, DONE, tools=[add], can_use_tool=ask)
    sent = [message["content"] for message in requests[1].json["messages"] if message["role"] == "tool"]
    assert sent == ["The call was not allowed: ask me first", "10.0"]


@pytest.mark.row("B11", "B2")
async def test_approval_may_take_its_time_while_the_events_say_that_it_waits() -> None:
    answered = asyncio.Event()
    seen: list[str] = []
    shown_before: list[str] = []

    async def ask(name: str, arguments: dict[str, Any], context: ToolContext) -> Allow:
        shown_before.extend(seen)
        await answered.wait()
        return Allow()

    async with ScriptedServer(calls(ADD), DONE) as server:
        options = AgentOptions("", "m", server.url, tools=[add], auto_execute_tools=True, can_use_tool=ask)
        async with Client(options) as client:
            await client.query("go")
            async for event in client.events():
                await asyncio.sleep(0)  # a screen that takes its time
                seen.append("waiting" if isinstance(event, ToolRunning) and event.waiting_for_approval else event.type)
                if seen[-1] == "waiting":
                    asyncio.get_running_loop().call_later(0.05, answered.set)
    assert shown_before == ["tool_input_start", "tool_input_delta", "tool_use", "response"]
    assert seen[4:] == ["waiting", "tool_running", "tool_result", "text", "response", "done"]


@pytest.mark.row("B11", "B13")
async def test_interrupt_ends_the_waiting_for_approval() -> None:
    async def ask(name: str, arguments: dict[str, Any], context: ToolContext) -> Allow:
        await asyncio.sleep(60)
        return Allow()

    async with ScriptedServer(calls(ADD)) as server:
        options = AgentOptions("", "m", server.url, tools=[add], auto_execute_tools=True, can_use_tool=ask)
        async with Client(options) as client:
            await client.query("go")
            events: list[Event] = []
            async for event in client.events():
                events.append(event)
                if isinstance(event, ToolRunning):
                    await client.interrupt()
    assert isinstance(events[-1], Failed)
    assert [result.is_error for result in results(events)] == [True]


@pytest.mark.row("B11")
async def test_approval_that_is_no_answer_is_an_error_of_the_program() -> None:
    with pytest.raises(TypeError, match=r"can_use_tool returned True: return Allow\(\) or Deny\(reason\)"):
        await run(calls(ADD), DONE, tools=[add], can_use_tool=lambda name, arguments, context: True)


@pytest.mark.row("B4")
async def test_loop_ends_at_its_limit() -> None:
    replies = [calls(call("add", f'{{"a": {number}, "b": 0}}')) for number in range(9)]
    events, requests, client = await run(*replies, tools=[add], max_tool_iterations=3)
    assert reason(events) == "max_iterations"
    assert len(requests) == 3
    assert client.message_history[-1].role == "tool"


@pytest.mark.row("E4", "B4")
async def test_loop_guard_tells_the_model_and_then_ends_the_run() -> None:
    events, requests, _ = await run(calls(ADD), tools=[add])
    assert reason(events) == "loop_guard"
    assert len(requests) == 4
    assert "Do something else" in requests[3].json["messages"][-1]["content"]
    assert [event.kind for event in events if event.type == "notice"] == ["loop_guard"]


@pytest.mark.row("E4")
async def test_loop_guard_can_be_set_and_switched_off() -> None:
    events, requests, _ = await run(calls(ADD), tools=[add], loop_guard=1)
    assert (reason(events), len(requests)) == ("loop_guard", 2)
    events, requests, _ = await run(calls(ADD), tools=[add], loop_guard=None, max_tool_iterations=7)
    assert (reason(events), len(requests)) == ("max_iterations", 7)


@pytest.mark.row("E4")
async def test_polling_a_changing_state_is_legitimate() -> None:
    states = iter(range(100))

    @tool
    def poll() -> int:
        return next(states)

    events, requests, _ = await run(calls(call("poll")), tools=[poll], max_tool_iterations=6)
    assert reason(events) == "max_iterations"
    assert len(requests) == 6


@pytest.mark.row("B4")
async def test_calls_of_an_answer_that_was_cut_are_not_run() -> None:
    events, requests, _ = await run(calls(ADD, finish="length"), DONE, tools=[add])
    assert not [event for event in events if isinstance(event, ToolRunning)]
    assert "cut off" in requests[1].json["messages"][-1]["content"]


@pytest.mark.row("E10")
async def test_progress_is_seen_before_the_result() -> None:
    @tool
    async def count(to: int) -> AsyncIterator[int]:
        for number in range(to):
            yield number

    events, _, _ = await run(calls(call("count", '{"to": 2}')), DONE, tools=[count])
    seen = [event for event in events if isinstance(event, ToolProgress | ToolResult)]
    assert [getattr(event, "data", "result") for event in seen] == [0, 1, "result"]


@pytest.mark.row("E10")
async def test_progress_from_a_thread_is_seen_while_the_tool_runs() -> None:
    seen = threading.Event()

    @tool
    def slow(context: ToolContext) -> bool:
        time.sleep(0.05)  # by then the event loop sleeps as well
        context.progress("begun")
        return seen.wait(2)

    async with ScriptedServer(calls(call("slow")), DONE) as server:
        options = AgentOptions("", "m", server.url, tools=[slow], auto_execute_tools=True)
        async with Client(options) as client:
            await client.query("go")
            async for event in client.events():
                if isinstance(event, ToolProgress):
                    seen.set()
                elif isinstance(event, ToolResult):
                    assert event.output == "true"


@pytest.mark.row("E10")
async def test_nothing_is_told_of_a_tool_that_was_given_up() -> None:
    given_up, told = threading.Event(), threading.Event()

    @tool(timeout=0.05)
    def slow(context: ToolContext) -> None:
        given_up.wait(5)
        context.progress("too late")
        told.set()

    async with ScriptedServer(calls(call("slow")), DONE) as server:
        options = AgentOptions("", "m", server.url, tools=[slow], auto_execute_tools=True)
        async with Client(options) as client:
            await client.query("go")
            kinds: list[str] = []
            async for event in client.events():
                kinds.append(event.type)
                if isinstance(event, ToolResult):
                    given_up.set()
                    await asyncio.to_thread(told.wait, 5)
    assert kinds[-5:] == ["tool_running", "tool_result", "text", "response", "done"]


@dataclass
class Point:
    x: int


class Place(pydantic.BaseModel):
    name: str
    when: datetime.date = datetime.date(2026, 1, 2)


OSLO = '{"name":"Oslo","when":"2026-01-02"}'


@pytest.mark.row("B8")
@pytest.mark.parametrize(
    ("value", "visible"),
    [
        ("text", "text"),
        ({"a": 1}, '{"a": 1}'),
        ([1, 2], "[1, 2]"),
        (5, "5"),
        (None, "null"),
        (True, "true"),
        (2.5, "2.5"),
        (b"raw", "raw"),
        (Point(1), '{"x":1}'),
        ([Point(1), Point(2)], '[{"x":1},{"x":2}]'),
        (Place(name="Oslo"), OSLO),
        ({"at": [Place(name="Oslo")]}, f'{{"at":[{OSLO}]}}'),
        (datetime.date(2026, 1, 2), '"2026-01-02"'),
        (1j, "1j"),
        ([TextBlock("a"), "b"], "a\nb"),
    ],
    ids=str,
)
async def test_any_value_can_be_a_result(value: Any, visible: str) -> None:
    _, requests, _ = await run(calls(call("give")), DONE, tools=[Tool("give", "", {"type": "object"}, lambda: value)])
    assert requests[1].json["messages"][-1]["content"] == visible


@pytest.mark.row("B8", "D6")
async def test_image_as_a_result_follows_in_a_user_message() -> None:
    picture = Tool("draw", "", {"type": "object"}, lambda: ImageBlock.from_bytes(b"GIF89a"))
    _, requests, _ = await run(calls(call("draw")), DONE, tools=[picture])
    last = requests[1].json["messages"][-1]
    assert last["role"] == "user"
    assert last["content"][0]["image_url"]["url"].startswith("data:image/gif;base64,")


@pytest.mark.row("B8", "D6")
@pytest.mark.parametrize("value", [b"GIF89a", ["a chart", ImageBlock.from_bytes(b"GIF89a")]], ids=["bytes", "mixed"])
async def test_picture_is_shown_and_not_written_out(value: Any) -> None:
    _, requests, _ = await run(calls(call("draw")), DONE, tools=[Tool("draw", "", {"type": "object"}, lambda: value)])
    result, picture = (
        m for m in requests[1].json["messages"] if m["role"] in ("tool", "user") and m["content"] != "go"
    )
    assert "R0lG" not in result["content"]
    assert picture["content"][0]["image_url"]["url"] == "data:image/gif;base64,R0lGODlh"


@pytest.mark.row("E4", "B8")
async def test_loop_guard_leaves_a_picture_what_it_is() -> None:
    picture = Tool("draw", "", {"type": "object"}, lambda: ImageBlock.from_bytes(b"GIF89a"))
    events, requests, _ = await run(calls(call("draw")), tools=[picture])
    assert reason(events) == "loop_guard"
    told = json.dumps(requests[-1].json["messages"])
    assert told.count("data:image/gif") == 3
    assert "Do something else" in told
    assert "ImageBlock" not in told


@pytest.mark.row("B3")
async def test_every_call_has_a_start_an_input_and_an_end() -> None:
    reply = calls(call("add", '{"a": 1, "b": 2}', "a"), call("nobody", "{}", "b"), call("add", '{"a": ', "c"))
    events, _, client = await run(reply, DONE, tools=[add])
    for identifier in "abc":
        assert [e for e in events if isinstance(e, ToolInputStart) and e.id == identifier]
        assert [e for e in events if isinstance(e, ToolInputDelta) and e.id == identifier]
        assert [e for e in events if isinstance(e, ToolCall) and e.block.id == identifier]
    assert {result.id for result in results(events)} == {"a", "b", "c"}
    open_calls = {c["id"] for message in client.history for c in message.get("tool_calls", [])}
    assert open_calls == {message["tool_call_id"] for message in client.history if message["role"] == "tool"}
    assert not isinstance(events[-1], Failed)
