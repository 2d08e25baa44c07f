"""One response, put together: what the protocols have in common once their words are translated.

A decoder reads the words of its protocol and calls `text`, `thinking`, `call`, `finish` and so on; this
module turns them into events and, at the end, into one `LLMResponse`.

Rules:
- Exactly one `Done` or `Failed` is ever produced, and nothing after it.
- What was shown is never shown again, nor silently replaced: a new start is a `Reset`.
- The label under which a server stopped never makes or hides calls.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from any_agent.events import (
    Done,
    Event,
    Failed,
    ModelState,
    Notice,
    Reset,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    ToolInputDelta,
    ToolInputStart,
)
from any_agent.types import (
    Block,
    ImageBlock,
    LLMResponse,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    ToolUseError,
    Usage,
)
from any_agent.wire.channels import Channels, Piece
from any_agent.wire.failures import truncated
from any_agent.wire.repair import Parsed, coerce, parse_arguments
from any_agent.wire.stopping import odd_endings, stop_reason
from any_agent.wire.toolcalls import CallPiece, ToolAssembler
from any_agent.wire.values import as_number, as_object

if TYPE_CHECKING:
    from any_agent.wire.cumulative import TextStream
    from any_agent.wire.textcalls import FoundCall

if TYPE_CHECKING:
    from any_agent.errors import ProviderError

__all__ = ("Assembly", "DecodeSettings")


@dataclass(frozen=True, slots=True)
class DecodeSettings:
    """What a decoder has to know of the request and of the server."""

    #: declared tools and the schemas of their arguments
    tools: Mapping[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    #: repair arguments
    lenient: bool = True
    #: recover calls that were written as text
    text_calls: bool = True
    #: the model was told in words to write calls and answers as JSON
    prompted: bool = False
    #: the template opens a thought itself
    think_open: bool = False
    text_stream: TextStream = "auto"
    max_tokens: int | None = None
    #: the request demanded a call
    must_call: bool = False
    #: begins the ids that are made up, different for each response
    id_prefix: str = "call"


class Assembly:
    """Collects one response. The decoders call the methods; `events` are what came of it since `take()`."""

    def __init__(self, settings: DecodeSettings) -> None:
        self.settings = settings
        self.events: list[Event] = []
        self.id = ""
        self.model = ""
        self.ended = False
        #: the label under which the server stopped; a stop sequence is worth more than its label
        self.label: str | None = None
        self.stopped_by_sequence = False
        self.refused = False
        #: the limit was reached, whatever the label says
        self.ran_out = False
        #: something of the answer itself has come
        self.begun = False
        self.usage: Usage | None = None
        self.tokens_per_s: float | None = None
        self.raw: Any = None
        self._notices: list[Notice] = []
        self._made_ids = 0
        self.calls = ToolAssembler(settings.tools, lenient=settings.lenient, new_id=self._new_id)
        self._begin()

    def _begin(self) -> None:
        self.blocks: list[Block] = []
        self._parts: list[str] = []
        self._kind: Literal["", "text", "thinking"] = ""
        self._lead = ""
        self._plain = False
        self._channels = Channels(self.settings)
        self._kept: dict[str, list[Any]] = {}

    def take(self) -> list[Event]:
        """The events since the last time."""
        events, self.events = self.events, []
        return events

    def restart(self, reason: str) -> None:
        """The server begins the response anew: forget what came before."""
        self._begin()
        self.calls.clear()
        self.label = None
        self.refused = self.ran_out = self.stopped_by_sequence = False
        self.events.append(Reset(reason))

    def text(self, text: str) -> None:
        """Some more of what the server calls text."""
        if self._plain:
            if self._kind != "text":
                self._switch("text")
            self._parts.append(text)
            self.events.append(TextDelta(text))
        elif text:
            self.begun = True
            self._show(self._channels.words(text))
            self._plain = self._kind == "text" and self._channels.pass_by

    def thinking(self, text: str) -> None:
        """Some more of what the server calls thinking."""
        self.begun = True
        self._show(self._channels.thoughts(text))

    def end_block(self, *, signature: str = "", extra: dict[str, Any] | None = None) -> None:
        """The block that was being written is complete; a thought may carry things to be sent back."""
        self._show(self._channels.end_thought())
        if signature or extra:
            if self._kind != "thinking":
                self._switch("thinking")
                self._parts.append("")
            self._switch("")
            block = self.blocks[-1]
            assert isinstance(block, ThinkingBlock)
            block.signature = signature
            block.extra = extra
        else:
            self._switch("")

    def keep_thought(self, name: str, item: Any) -> None:
        """Something opaque that belongs to the thoughts, and goes back to the server with them."""
        self._kept.setdefault(name, []).append(item)

    def image(self, url: str) -> None:
        """The model drew a picture."""
        try:
            block = ImageBlock.from_url(url)
        except ValueError as error:
            self.notice("image", f"the model sent an image that cannot be read: {error}")
            return
        self._switch("")
        self.blocks.append(block)
        self.notice("image", "the model sent an image; it is in the content of the response")

    def call(self, piece: CallPiece) -> None:
        """A piece of a tool call."""
        self.begun = True
        self._show([*self._channels.end_thought(), piece])

    def notice(self, kind: str, message: str, data: dict[str, Any] | None = None) -> None:
        """Something that the reader should know."""
        self._tell(Notice(kind, message, data))

    def _pass_on(self, events: list[Event]) -> None:
        self._notices += [event for event in events if isinstance(event, Notice)]
        self.events += events

    def _tell(self, notice: Notice) -> None:
        self._notices.append(notice)
        self.events.append(notice)

    def state(self, state: Literal["queued", "loading", "prefill", "generating"], progress: float | None) -> None:
        """What the server says it is doing."""
        self.events.append(ModelState(state, progress))

    def read_progress(self, progress: Any) -> None:
        """How far llama.cpp is with the prompt."""
        data = as_object(progress)
        total, done = as_number(data.get("total")), as_number(data.get("processed"))
        if total is not None and done is not None and total > 0:
            self.state("prefill", min(max(done / total, 0.0), 1.0))

    def read_timings(self, timings: Any) -> None:
        """How fast llama.cpp was, by its own clock."""
        self.tokens_per_s = as_number(as_object(timings).get("predicted_per_second")) or self.tokens_per_s

    def used_all_tokens(self) -> bool:
        """Whether the answer is as long as it was allowed to be."""
        limit = self.settings.max_tokens
        output = self.usage.output_tokens if self.usage else None
        return limit is not None and output is not None and output >= limit

    def fail(self, error: ProviderError) -> None:
        """The response ends here, with an error."""
        if self.ended:
            return
        self._flush()
        self._switch("")
        self.ended = True
        self.events.append(Failed(error, self._response(self.blocks)))

    def cut(self, message: str) -> None:
        """The stream ended and the response had not."""
        self.fail(truncated(message))

    def finish(self) -> None:
        """The response is complete."""
        if self.ended:
            return
        self._flush()
        self._switch("")
        events: list[Event] = []
        calls = self.calls.finish(events)
        self._pass_on(events)
        calls += self._textual_calls(has_structured=bool(calls))
        if calls:
            self.blocks = [
                block for block in self.blocks if not (isinstance(block, TextBlock) and not block.text.strip())
            ]
        if self._kept:
            self._attach_kept()
        if self.usage is not None and self.tokens_per_s:
            self.usage.tokens_per_s = self.tokens_per_s
        for notice in odd_endings(self.label, self.blocks, calls, must_call=self.settings.must_call):
            self._tell(notice)
        response = self._response([*self.blocks, *calls])
        self.ended = True
        self.events.append(Done(response, response.usage))

    def release(self) -> None:
        """No more text follows."""
        self._show(self._channels.release())

    def _show(self, pieces: list[Piece]) -> None:
        for piece in pieces:
            if isinstance(piece, CallPiece):
                events: list[Event] = []
                self.calls.add(piece, events)
                self._pass_on(events)
            elif piece[0] == "text":
                self._show_text(piece[1])
            else:
                self._show_thinking(piece[1])

    def _show_text(self, text: str) -> None:
        """Show text, but not white space that nothing precedes: a call may follow."""
        if self._kind != "text":
            text = self._lead + text
            if not text.strip():
                self._lead = text
                return
            self._lead = ""
            self._switch("text")
        self._parts.append(text)
        self.events.append(TextDelta(text))

    def _show_thinking(self, text: str) -> None:
        if self._kind != "thinking":
            self._switch("thinking")
        self._parts.append(text)
        self.events.append(ThinkingDelta(text))

    def _switch(self, kind: Literal["", "text", "thinking"]) -> None:
        """Close the block that is being written, and begin one of `kind`."""
        if self._kind:
            text = "".join(self._parts)
            self.blocks.append(TextBlock(text) if self._kind == "text" else ThinkingBlock(text))
        self._parts = []
        self._kind = kind

    def _flush(self) -> None:
        """Let go of what was held back in case something followed."""
        self._plain = False
        self._show(self._channels.close())
        if self._lead and not self.calls and not self._channels.calls:
            lead, self._lead = self._lead, ""
            self._switch("text")
            self._parts.append(lead)
            self.events.append(TextDelta(lead))

    def _textual_calls(self, *, has_structured: bool) -> list[ToolUseBlock | ToolUseError]:
        """The calls that were written as text, unless the server understood them as well."""
        found = self._channels.calls
        if not found:
            return []
        names = [call.name for call in found]
        if has_structured:
            self.notice("text_tool_calls_dropped", f"the model also wrote its calls as text: {names}", {"names": names})
            return []
        blocks: list[ToolUseBlock | ToolUseError] = []
        for call in found:
            blocks += self._read_found(call)
        message = f"the server passed on calls as text; they were recovered: {', '.join(names)}"
        self.notice("text_tool_calls", message, {"names": names})
        self.events.extend(ToolCall(block) for block in blocks)
        return blocks

    def _read_found(self, call: FoundCall) -> list[ToolUseBlock | ToolUseError]:
        raw = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments, ensure_ascii=False)
        parsed = parse_arguments(call.arguments, lenient=self.settings.lenient)
        if call.is_cut and not (isinstance(call.arguments, str) and raw.strip()):
            parsed = Parsed([], "the output ended before the call did")
        if parsed.error is not None:
            identifier = self._new_id()
            self.events += (ToolInputStart(identifier, call.name), ToolInputDelta(identifier, raw))
            return [ToolUseError(parsed.error, raw, identifier, call.name)]
        blocks: list[ToolUseBlock | ToolUseError] = []
        for value in parsed.values:
            arguments, _ = coerce(value, self.settings.tools.get(call.name))
            block = ToolUseBlock(self._new_id(), call.name, arguments)
            written = json.dumps(arguments, ensure_ascii=False)
            self.events += (ToolInputStart(block.id, call.name), ToolInputDelta(block.id, written))
            blocks.append(block)
        return blocks

    def _attach_kept(self) -> None:
        thought = next((block for block in self.blocks if isinstance(block, ThinkingBlock)), None)
        if thought is None:
            thought = ThinkingBlock("")
            self.blocks.insert(0, thought)
        thought.extra = {**(thought.extra or {}), **self._kept}

    def _response(self, content: list[Block]) -> LLMResponse:
        return LLMResponse(
            id=self.id,
            model=self.model,
            content=content,
            stop_reason=self._stop_reason(content),
            raw_stop_reason=self.label,
            usage=self.usage,
            raw=self.raw,
            notices=self._notices,
        )

    def _stop_reason(self, content: list[Block]) -> StopReason:
        reason = stop_reason(self.label)
        calls = [block for block in content if isinstance(block, ToolUseBlock | ToolUseError)]
        # a call that breaks off where the tokens ran out was cut, under whatever label
        broken = bool(calls) and isinstance(calls[-1], ToolUseError)
        if reason == "max_tokens" or self.ran_out or (broken and self.used_all_tokens()):
            return "max_tokens"
        if reason in ("content_filter", "refusal") or self.refused:
            return "content_filter" if reason == "content_filter" else "refusal"
        if calls:
            return "tool_use"
        return "stop_sequence" if self.stopped_by_sequence else reason

    def _new_id(self) -> str:
        self._made_ids += 1
        return f"{self.settings.id_prefix}_{self._made_ids}"
