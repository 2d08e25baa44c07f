"""One attempt at a request: sent, read to its end, and told as events, however it ends."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from any_agent.errors import ProviderError, ProviderTimeoutError, StreamInterrupted
from any_agent.events import Done, Event, Failed, ModelState, TextDelta, ThinkingDelta, ToolInputStart
from any_agent.transport.http import Reply, Transport, network_error
from any_agent.transport.watch import Closed, Watch

if TYPE_CHECKING:
    from any_agent.transport.tape import Tape
    from any_agent.types import Timeouts
    from any_agent.wire.decoder import Decoder

__all__ = ("Attempt", "stopped")

#: an answer that came in less time came all at once: that is no speed
_MEASURABLE_S = 0.005
_SHOWN = (TextDelta, ThinkingDelta, ToolInputStart)


class Attempt:
    """One attempt. Afterwards it tells whether anything was shown, and what the headers were."""

    def __init__(
        self,
        transport: Transport,
        path: str,
        body: dict[str, Any],
        *,
        decoder: Decoder,
        timeouts: Timeouts,
        watch: Watch,
        address: str,
        has_states: bool,
        tape: Tape | None,
    ) -> None:
        self.headers: dict[str, str] = {}
        self.has_shown = False
        #: the batch that is given, or was given, is the last one
        self.ended = False
        self.tape = tape
        self._transport = transport
        self._path = path
        self._body = body
        self._decoder = decoder
        self._timeouts = timeouts
        self._watch = watch
        self._address = address
        #: the server has told of its state, so that it is worth telling when it generates
        self._has_states = has_states
        self._started = 0.0
        self._first_output = 0.0

    async def batches(self) -> AsyncGenerator[list[Event], None]:
        """The events as they come, in batches; the last one of all is `Done` or `Failed`."""
        watch, decoder, limit = self._watch, self._decoder, self._timeouts.first_byte
        self._started = time.monotonic()
        reply: Reply | None = None
        is_whole = True
        expected: tuple[type[Exception], ...] = (ProviderError, Closed, TimeoutError)
        try:
            reply = await watch.wait(self._transport.open("POST", self._path, self._body), limit)
            expected += reply.errors
            self.headers = reply.headers
            if self.tape is not None:
                self.tape.status, self.tape.headers = reply.status, reply.headers
            if limit is not None:
                limit = max(limit - (time.monotonic() - self._started), 0.001)
            read = reply.read
            while not self.ended:
                chunk = await watch.wait(read(), limit)
                limit = self._timeouts.between_events
                if self.tape is not None:
                    self.tape.body += chunk
                events = decoder.feed(chunk) if chunk else decoder.close()
                if events and self.has_shown and not decoder.assembly.ended:
                    yield events  # nearly all of them: a clock has nothing to add
                else:
                    self._observe(events)
                    if events:
                        yield events
            await reply.drain()
        except expected as problem:
            is_whole = False
            events = self._broken_off(problem, has_reply=reply is not None)
            self._observe(events)
            yield events
        finally:
            if reply is not None:
                release = reply.release if self.ended and is_whole else None
                await (release or reply.aclose)()

    def _observe(self, events: list[Event]) -> None:
        """Note when the answer begins and ends, and add to the events what a clock can."""
        now = time.monotonic()
        if not self._first_output and self._decoder.assembly.begun:
            self._first_output = now
        if not self.has_shown:
            for position, event in enumerate(events):
                if isinstance(event, ModelState):
                    self._has_states = True
                elif isinstance(event, _SHOWN):
                    self.has_shown = True
                    if self._has_states:
                        events.insert(position, ModelState("generating"))
                    break
        self.ended = self._decoder.ended
        if self.ended:
            last = events[-1]
            assert isinstance(last, Done | Failed)
            usage = last.response.usage if isinstance(last, Done) else last.partial.usage
            if usage is not None and self._first_output and self._decoder.streamed:
                usage.first_token_s = self._first_output - self._started
                elapsed = now - self._first_output
                if usage.tokens_per_s is None and usage.output_tokens and elapsed > _MEASURABLE_S:
                    usage.tokens_per_s = usage.output_tokens / elapsed

    def _broken_off(self, problem: Exception, *, has_reply: bool) -> list[Event]:
        """How a response ends that was broken off: by a clock, by us, or by the network."""
        decoder = self._decoder
        if decoder.may_end and not isinstance(problem, Closed):
            return decoder.close()  # the server had said why it stops, and only did not hang up
        if isinstance(problem, ProviderError):
            error = problem
            if self.tape is not None and error.status_code is not None:
                self.tape.status = error.status_code
                self.tape.body += (error.body or "").encode()
        elif isinstance(problem, Closed):
            error = stopped()
        elif not isinstance(problem, TimeoutError):
            broken = network_error(problem, self._address)
            error = StreamInterrupted(f"The connection broke in the middle of the answer: {broken.message}")
        elif has_reply and decoder.assembly.begun:
            error = StreamInterrupted(
                f"The server at {self._address} fell silent for {self._timeouts.between_events} s in the middle of "
                "the answer; wait longer with Timeouts(between_events=…)",
                kind="timeout",
            )
        else:
            error = ProviderTimeoutError(
                f"The server at {self._address} sent nothing for {self._timeouts.first_byte} s: it may still be "
                "loading the model; wait longer with Timeouts(first_byte=…)",
                retryable=False,
            )
        if error is not problem and not isinstance(problem, Closed):
            error.__cause__ = problem
        decoder.assembly.fail(error)
        return decoder.assembly.take()


def stopped() -> StreamInterrupted:
    """The error of an answer that the program stopped."""
    return StreamInterrupted("The answer was stopped", kind="aborted", retryable=False)
