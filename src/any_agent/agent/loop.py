"""The loop: ask the model, run its tools, ask again.

The loop knows neither sockets nor databases. `Steps` does what has effects, and `emit` takes the events; in a
process they are plain calls, and elsewhere each step can be made durable without a second loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from any_agent.agent.guards import LoopGuard
from any_agent.agent.output import InvalidOutput
from any_agent.errors import ContextLengthExceeded, ProviderAPIError, ProviderError
from any_agent.events import Done, DoneReason, Event, Failed, Notice, ResponseEnd, ToolResult
from any_agent.types import (
    Block,
    LLMResponse,
    Message,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    ToolUseError,
    Usage,
)
from any_agent.wire.values import as_list

if TYPE_CHECKING:
    from any_agent.agent.calls import Emit
    from any_agent.agent.output import OutputType

__all__ = ("Limits", "Steps", "run_turn")

_QUOTED = 500
_BROKEN_OFF = "The call was broken off before it had a result; what it did by then is not known."
#: how often the model is told that its answer is not the object that was asked for
_MISFITS = 2
_ADVICE = "That is not what was asked for: {problem}. Answer again, with nothing but JSON that fits the schema."


@dataclass(frozen=True, slots=True)
class Limits:
    """When a turn ends although the model would go on."""

    auto_execute: bool
    max_iterations: int
    loop_guard: int | None = 3


class Steps(Protocol):
    """What a turn does to the world."""

    async def fit(
        self,
        messages: Sequence[Message],
        pending: Sequence[Message],
        emit: Emit,
        overflow: ContextLengthExceeded | None = None,
    ) -> list[Message]:
        """The messages, or fewer if the window is too small for them (`overflow`: the server says that it is)."""
        ...

    async def model(self, messages: Sequence[Message], emit: Emit, *, answer_only: bool = False) -> Done | Failed:
        """Ask the model; its events go to `emit`, but for the last one, which is returned.

        With `answer_only` no tools are offered.
        """
        ...

    async def tools(
        self, calls: Sequence[ToolUseBlock], refusals: Mapping[str, str], iteration: int, emit: Emit
    ) -> list[ToolResultBlock]:
        """Run the calls, but for those whose ids are in `refusals`, with the reason; results in order of the calls."""
        ...

    async def append(self, messages: Sequence[Message]) -> None:
        """Add to the history what belongs together."""
        ...


async def run_turn(
    steps: Steps,
    emit: Emit,
    *,
    history: Sequence[Message],
    prompt: Message | None,
    limits: Limits,
    output: OutputType | None = None,
) -> None:
    """One turn, from a prompt (or from results that wait) to `Done` or `Failed`, which is emitted last.

    What is complete is in the history by then: an answer, or a round of calls with its results (of calls that were
    broken off, an error). A response that failed is not, nor is the prompt before it, unless a round came of it.
    """
    messages = list(history)
    pending = [prompt] if prompt is not None else []
    #: answers that were no `output`, each with what was said of it: for the model, not for the history
    misfits: list[Message] = []
    usage: Usage | None = None
    guard = LoopGuard(limits.loop_guard)
    iteration = 0
    while True:
        messages, outcome = await _answer(steps, emit, messages, pending, misfits)
        if isinstance(outcome, Failed):
            emit(outcome)
            return
        response = outcome.response
        usage = _added(usage, response.usage)
        if _is_empty(response):
            emit(Failed(_empty(response), response))
            return
        wants_tools = bool(response.tool_calls or response.tool_errors)
        problem = _read_output(output, response) if output is not None and not wants_tools else None
        emit(ResponseEnd(response))
        if problem is not None:
            if len(misfits) >= 2 * _MISFITS:
                emit(Failed(_no_output(problem), response))
                return
            emit(Notice("output_invalid", f"the answer is not what was asked for: {problem}; the model is told"))
            misfits += [Message("assistant", response.text or ""), Message("user", _ADVICE.format(problem=problem))]
            continue
        if not (limits.auto_execute and wants_tools):
            kept: list[Block] = [block for block in response.content if not isinstance(block, ToolUseError)]
            await steps.append([*pending, Message("assistant", kept)])
            emit(Done(response, usage))
            return
        iteration += 1
        answer, results = await _round(steps, response, pending, iteration, emit)
        reason = _verdict(guard, answer, results, iteration, limits, emit)
        done = [*pending, Message("assistant", answer), Message("tool", results)]
        await steps.append(done)
        messages += done
        pending, misfits = [], []
        if reason is not None:
            emit(Done(response, usage, reason))
            return


async def _answer(
    steps: Steps, emit: Emit, messages: list[Message], pending: list[Message], misfits: list[Message]
) -> tuple[list[Message], Done | Failed]:
    """Ask the model: (the messages, which may have become fewer; how it ended)."""
    try:
        messages = await steps.fit(messages, pending, emit)
        outcome = await steps.model([*messages, *pending, *misfits], emit, answer_only=bool(misfits))
        if isinstance(outcome, Failed) and isinstance(outcome.error, ContextLengthExceeded):
            shorter = await steps.fit(messages, pending, emit, outcome.error)
            if shorter != messages:
                messages = shorter
                outcome = await steps.model([*messages, *pending, *misfits], emit, answer_only=bool(misfits))
    except ProviderError as problem:  # the model was asked to make the conversation shorter
        outcome = Failed(problem, LLMResponse())
    return messages, outcome


async def _round(
    steps: Steps, response: LLMResponse, pending: list[Message], iteration: int, emit: Emit
) -> tuple[list[Block], list[Block]]:
    """Run the calls of a response: (the answer as it is stored, the results in the order of the calls)."""
    stored, refusals = _calls_to_run(response)
    calls = [block for block in stored if isinstance(block, ToolUseBlock)]
    finished: dict[str, Block] = {}

    def note(event: Event) -> None:
        if isinstance(event, ToolResult):
            finished[event.id] = ToolResultBlock(event.id, event.output, event.is_error)
        emit(event)

    is_complete = False
    try:
        results = await steps.tools(calls, refusals, iteration, note)
        is_complete = True
    finally:
        if not is_complete:  # interrupted, or a hook raised: what was done stays done, and must be known
            for call in calls:
                if call.id not in finished:
                    note(ToolResult(call.id, call.name, _BROKEN_OFF, is_error=True))
            await steps.append(
                [*pending, Message("assistant", stored), Message("tool", [finished[call.id] for call in calls])]
            )
    return stored, list(results)


def _calls_to_run(response: LLMResponse) -> tuple[list[Block], dict[str, str]]:
    """(the answer as it is stored, why some of its calls are not run, by their ids)."""
    stored: list[Block] = []
    refusals: dict[str, str] = {}
    for block in response.content:
        if isinstance(block, ToolUseError):
            call = ToolUseBlock(block.id or f"malformed_{len(stored)}", block.name or "unknown", {})
            wrote = f" You wrote: {block.raw_data[:_QUOTED]}" if block.raw_data else ""
            refusals[call.id] = f"The call was not understood: {block.error}.{wrote}"
            stored.append(call)
        else:
            stored.append(block)
    if response.stop_reason != "tool_use":
        why = f"not run: the answer was cut off ({response.stop_reason}), so the call may not be what was meant"
        refusals = {block.id: refusals.get(block.id, why) for block in stored if isinstance(block, ToolUseBlock)}
    return stored, refusals


def _verdict(
    guard: LoopGuard, answer: list[Block], results: list[Block], iteration: int, limits: Limits, emit: Emit
) -> DoneReason | None:
    """Why the turn ends here although the model would go on; before it turns in circles for long, it is told."""
    by_id = {result.tool_use_id: result for result in results if isinstance(result, ToolResultBlock)}
    calls = [block for block in answer if isinstance(block, ToolUseBlock)]
    state = guard.note([(call.name, call.input, by_id[call.id].content) for call in calls])
    if state == "stop":
        return "loop_guard"
    if state == "warn":
        message = f"the same calls gave the same results {limits.loop_guard} times in a row; the model was told"
        emit(Notice("loop_guard", message))
        last = by_id[calls[-1].id]
        hint = "You have made this same call with the same result several times. Do something else, or answer."
        blocks = as_list(last.content)  # where there are pictures in it
        last.content = [*blocks, TextBlock(hint)] if blocks else f"{last.content}\n\n{hint}"
    return "max_iterations" if iteration >= limits.max_iterations else None


def _read_output(output: OutputType, response: LLMResponse) -> str | None:
    """Read the object that was asked for into the response; what is wrong with the answer, if it is none."""
    if response.stop_reason == "max_tokens":
        return "it was cut off at max_tokens"
    try:
        response.output = output.read(response.text or "")
    except InvalidOutput as problem:
        return str(problem)
    return None


def _no_output(problem: str) -> ProviderAPIError:
    message = f"The model's answer does not fit output_type, also after {_MISFITS} corrections: {problem}"
    return ProviderAPIError(message, kind="invalid_response", retryable=True)


def _is_empty(response: LLMResponse) -> bool:
    visible = response.text or response.tool_calls or response.tool_errors
    has_image = any(block.type == "image" for block in response.content)
    return not visible and not has_image and response.stop_reason in ("end_turn", "stop_sequence", "tool_use")


def _empty(response: LLMResponse) -> ProviderAPIError:
    what = "nothing but thoughts" if response.thinking else "nothing at all"
    message = f"The model answered with {what}; ask again, or check that the conversation fits into its context window"
    return ProviderAPIError(message, kind="invalid_response", retryable=True)


def _added(total: Usage | None, more: Usage | None) -> Usage | None:
    """The usage of both; what only one of them knows counts as it is."""
    if total is None or more is None:
        return more if total is None else total
    names = ("input_tokens", "output_tokens", "total_tokens", "reasoning_tokens", "cached_tokens")
    sums: dict[str, Any] = {}
    for name in names:
        known = [value for value in (getattr(total, name), getattr(more, name)) if value is not None]
        sums[name] = sum(known) if known else None
    return Usage(**sums, first_token_s=total.first_token_s, tokens_per_s=more.tokens_per_s)
