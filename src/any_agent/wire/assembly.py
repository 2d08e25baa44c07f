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
from any_agent.wire.cumulative import CumulativeText, TextStream
from any_agent.wire.failures import truncated
from any_agent.wire.harmony import HarmonySplitter
from any_agent.wire.repair import coerce, parse_arguments
from any_agent.wire.stopping import odd_endings, stop_reason
from any_agent.wire.textcalls import FoundCall, TextCallScanner
from any_agent.wire.thinktags import ThinkSplitter
from any_agent.wire.toolcalls import CallPiece, ToolAssembler
from any_agent.wire.values import as_object

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
        settings = self.settings
        scan = settings.text_calls and bool(settings.tools)
        self.blocks: list[Block] = []
        self._parts: list[str] = []
        self._kind: Literal["", "text", "thinking"] = ""
        self._lead = ""
        self._plain = False
        self._cumulative = CumulativeText(settings.text_stream)
        self._thinker = ThinkSplitter(think_open=settings.think_open)
        self._harmony: HarmonySplitter | None = None
        self._scanner = TextCallScanner(settings.tools) if scan else None
        self._thought_scanner = TextCallScanner(settings.tools, bare_json=False) if scan else None
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
            text = text if self._cumulative.settled else self._cumulative.feed(text)
            if text:
                self._split_text(text)

    def thinking(self, text: str) -> None:
        """Some more of what the server calls thinking."""
        self.begun = True
        if self._thought_scanner is not None:
            text = self._thought_scanner.feed(text)
        if text:
            self._show_thinking(text)

    def end_block(self, *, signature: str = "", extra: dict[str, Any] | None = None) -> None:
        """The block that was being written is complete; a thought may carry things to be sent back."""
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
        self.calls.add(piece, self.events)

    def notice(self, kind: str, message: str, data: dict[str, Any] | None = None) -> None:
        """Something that the reader should know."""
        self._tell(Notice(kind, message, data))

    def _tell(self, notice: Notice) -> None:
        self._notices.append(notice)
        self.events.append(notice)

    def state(self, state: Literal["queued", "loading", "prefill", "generating"], progress: float | None) -> None:
        """What the server says it is doing."""
        self.events.append(ModelState(state, progress))

    def read_progress(self, progress: Any) -> None:
        """How far llama.cpp is with the prompt."""
        data = as_object(progress)
        total, done = data.get("total"), data.get("processed")
        if isinstance(total, int | float) and isinstance(done, int | float) and total > 0:
            self.state("prefill", min(max(done / total, 0.0), 1.0))

    def read_timings(self, timings: Any) -> None:
        """How fast llama.cpp was, by its own clock."""
        rate = as_object(timings).get("predicted_per_second")
        if isinstance(rate, int | float):
            self.tokens_per_s = float(rate)

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
        calls = self.calls.finish(self.events)
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

    def _split_text(self, text: str) -> None:
        """Text that may yet turn out to be thoughts, calls, or white space before a call."""
        thinking = ""
        if not self._thinker.settled:
            thinking, text = self._thinker.feed(text)
            if self._thinker.harmony:
                self._harmony = HarmonySplitter(self.settings.tools)
        if self._harmony is not None:
            thinking, text = self._harmony.feed(text)
        if thinking:
            self._show_thinking(thinking)
        if text:
            self._scan_text(text)
        self._plain = (
            self._scanner is None
            and self._harmony is None
            and self._thinker.settled
            and self._cumulative.settled
            and self._kind == "text"
        )

    def _scan_text(self, text: str) -> None:
        if self._scanner is not None:
            text = self._scanner.feed(text)
        if text:
            self._show_text(text)

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
        held = self._cumulative.close()
        if held:
            self._split_text(held)
        splitters = (self._thinker,) if self._harmony is None else (self._harmony,)
        for splitter in splitters:
            thinking, text = splitter.close()
            if thinking:
                self._show_thinking(thinking)
            if text:
                self._scan_text(text)
        if self._scanner is not None and (rest := self._scanner.close()):
            self._show_text(rest)
        if self._thought_scanner is not None and (rest := self._thought_scanner.close()):
            self._show_thinking(rest)
        if self._lead and not self.calls and not self._found_calls():
            lead, self._lead = self._lead, ""
            self._switch("text")
            self._parts.append(lead)
            self.events.append(TextDelta(lead))

    def _found_calls(self) -> list[FoundCall]:
        finders = (self._harmony, self._scanner, self._thought_scanner)
        found = [finder.calls for finder in finders if finder is not None and finder.calls]
        return found[0] if found else []

    def _textual_calls(self, *, has_structured: bool) -> list[ToolUseBlock | ToolUseError]:
        """The calls that were written as text, unless the server understood them as well."""
        found = self._found_calls()
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
        identifier = self._new_id()
        self.events += (ToolInputStart(identifier, call.name), ToolInputDelta(identifier, raw))
        if parsed.error is not None:
            return [ToolUseError(parsed.error, raw, identifier, call.name)]
        arguments, _ = coerce(parsed.values[0], self.settings.tools.get(call.name))
        return [ToolUseBlock(identifier, call.name, arguments)]

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
