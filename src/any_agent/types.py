"""What a conversation is made of: blocks, messages, responses, and the settings of a request."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from any_agent.events import Notice

__all__ = (
    "AssistantMessage",
    "Block",
    "ImageBlock",
    "LLMResponse",
    "Message",
    "Profile",
    "Protocol",
    "RetryConfig",
    "Role",
    "StopReason",
    "TextBlock",
    "ThinkingBlock",
    "Timeouts",
    "ToolResultBlock",
    "ToolSpec",
    "ToolUseBlock",
    "ToolUseError",
    "Usage",
)

Role = Literal["system", "user", "assistant", "tool"]
StopReason = Literal["end_turn", "tool_use", "max_tokens", "stop_sequence", "content_filter", "refusal"]
Protocol = Literal["openai", "ollama", "anthropic", "responses"]


@dataclass(slots=True)
class TextBlock:
    """Words of the model or of the user.

    >>> TextBlock("Hello").type
    'text'
    """

    text: str
    type: Literal["text"] = field(default="text", init=False)


@dataclass(slots=True)
class ThinkingBlock:
    """What the model thought before it answered. `extra` is opaque, and goes back to the server as it came."""

    thinking: str
    signature: str = ""
    extra: dict[str, Any] | None = field(default=None, repr=False, compare=False, kw_only=True)
    type: Literal["thinking"] = field(default="thinking", init=False)


@dataclass(slots=True)
class ToolUseBlock:
    """The model wants a tool to be called.

    >>> ToolUseBlock("call_1", "search", {"q": "paris"}).input["q"]
    'paris'
    """

    id: str
    name: str
    input: dict[str, Any]
    extra: dict[str, Any] | None = field(default=None, repr=False, compare=False, kw_only=True)
    #: the input as the model wrote it, if it came as text
    arguments: str | None = field(default=None, repr=False, compare=False, kw_only=True)
    type: Literal["tool_use"] = field(default="tool_use", init=False)


@dataclass(slots=True)
class ToolUseError:
    """The model tried to call a tool, and what it wrote cannot be understood. `raw_data` is what it wrote."""

    error: str
    raw_data: str | None = None
    id: str | None = None
    name: str | None = None
    type: Literal["tool_use_error"] = field(default="tool_use_error", init=False)


@dataclass(slots=True)
class ToolResultBlock:
    """What a tool gave back, for the model to read."""

    tool_use_id: str
    content: Any
    is_error: bool = False
    type: Literal["tool_result"] = field(default="tool_result", init=False)


_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


def _media_type(data: bytes) -> str | None:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((media for magic, media in _MAGIC if data.startswith(magic)), None)


@dataclass(slots=True)
class ImageBlock:
    """A picture: `data` in base64 with its `media_type`, or the `url` where the server finds it.

    >>> ImageBlock.from_bytes(b"GIF89a...").media_type
    'image/gif'
    >>> ImageBlock.from_url("https://example.org/cat.png").url
    'https://example.org/cat.png'
    """

    data: str = field(default="", repr=False)
    media_type: str = ""
    url: str | None = None
    type: Literal["image"] = field(default="image", init=False)

    @classmethod
    def from_bytes(cls, data: bytes, media_type: str | None = None) -> ImageBlock:
        """A picture from its bytes: png, jpeg, webp or gif."""
        found = _media_type(data)
        if found is None:
            raise ValueError(f"these {len(data)} bytes are no image that models take: use png, jpeg, webp or gif")
        if media_type not in (None, found):
            raise ValueError(f"these bytes are {found}, not {media_type}: leave media_type out")
        return cls(base64.b64encode(data).decode("ascii"), found)

    @classmethod
    def from_path(cls, path: str | Path) -> ImageBlock:
        """A picture from a local file, read at once."""
        file = Path(path)
        if not file.is_file():
            raise FileNotFoundError(f"there is no image file at {str(file)!r}")
        try:
            return cls.from_bytes(file.read_bytes())
        except ValueError:
            raise ValueError(f"{str(file)!r} is no image that models take: use png, jpeg, webp or gif") from None

    @classmethod
    def from_url(cls, url: str) -> ImageBlock:
        """A picture by its http(s) address, which the server fetches, or from a `data:` URL."""
        if url.startswith("data:"):
            head, _, body = url.partition(",")
            if not head.endswith(";base64"):
                raise ValueError("a data: URL of an image must be in base64: data:image/png;base64,…")
            try:
                return cls.from_bytes(base64.b64decode(body, validate=True))
            except ValueError as error:
                raise ValueError(f"the data: URL holds no image: {error}") from None
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"{url[:80]!r} is no image address: use http(s)://, data:, or ImageBlock.from_path()")
        return cls(url=url)

    def as_url(self) -> str:
        """The address to send: the http(s) one, or the bytes as a `data:` URL."""
        return self.url or f"data:{self.media_type};base64,{self.data}"


Block: TypeAlias = TextBlock | ThinkingBlock | ImageBlock | ToolUseBlock | ToolUseError | ToolResultBlock


@dataclass(slots=True)
class Message:
    """One message of a conversation.

    >>> Message("user", "What is 2+2?").content
    'What is 2+2?'
    """

    role: Role
    content: str | list[Block]

    def __post_init__(self) -> None:
        if self.role not in ("system", "user", "assistant", "tool"):
            raise ValueError(f"role {self.role!r} is none of system, user, assistant, tool")


@dataclass(slots=True)
class AssistantMessage:
    """What `query()` yields: a piece of the answer, as blocks."""

    content: list[Block]
    role: Literal["assistant"] = field(default="assistant", init=False)


@dataclass(slots=True)
class Usage:
    """Tokens as the server counted them. `None` stands for what it did not say."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None
    first_token_s: float | None = None
    tokens_per_s: float | None = None


@dataclass(slots=True)
class LLMResponse:
    """One whole answer of a model.

    >>> response = LLMResponse(content=[TextBlock("4")])
    >>> response.text, response.stop_reason, response.usage
    ('4', 'end_turn', None)
    """

    id: str = ""
    model: str = ""
    content: list[Block] = field(default_factory=list[Block])
    stop_reason: StopReason = "end_turn"
    raw_stop_reason: str | None = None
    usage: Usage | None = None
    raw: Any = field(default=None, repr=False)
    notices: list[Notice] = field(default_factory=list["Notice"], repr=False)
    #: the object that `output_type` asked for
    output: Any = None

    @property
    def text(self) -> str | None:
        """The words of the answer; `None` if there are none."""
        return "".join(block.text for block in self.content if isinstance(block, TextBlock)) or None

    @property
    def thinking(self) -> str | None:
        """The thoughts; `None` if the server showed none."""
        return "".join(block.thinking for block in self.content if isinstance(block, ThinkingBlock)) or None

    @property
    def tool_calls(self) -> list[ToolUseBlock]:
        """The calls that can be run."""
        return [block for block in self.content if isinstance(block, ToolUseBlock)]

    @property
    def tool_errors(self) -> list[ToolUseError]:
        """The calls that cannot be understood."""
        return [block for block in self.content if isinstance(block, ToolUseError)]


@dataclass(slots=True)
class ToolSpec:
    """What a model is told of a tool: its name, what it does, and the JSON Schema of its arguments."""

    name: str
    description: str
    parameters: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds to wait: for a connection, for the first byte of an answer, and between two events of it.

    Local models load slowly, so the first byte may take minutes. `None` waits for ever.
    """

    connect: float | None = 10
    first_byte: float | None = 600
    between_events: float | None = 120

    def __post_init__(self) -> None:
        for name in ("connect", "first_byte", "between_events"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"Timeouts.{name} must be more than 0 seconds, or None; it is {value!r}")


@dataclass(frozen=True, slots=True)
class RetryConfig:
    """How often a request is tried, and how long to wait in between (doubling, with full jitter)."""

    max_attempts: int = 3
    base_delay_ms: int = 500
    jitter: bool = True

    def __post_init__(self) -> None:
        if self.max_attempts < 1:
            raise ValueError(f"RetryConfig.max_attempts must be at least 1; it is {self.max_attempts!r}")
        if self.base_delay_ms < 0:
            raise ValueError(f"RetryConfig.base_delay_ms must not be negative; it is {self.base_delay_ms!r}")


@dataclass(frozen=True, slots=True)
class Profile:
    """What one kind of server can do, and how it wants to be asked. Data: see `profiles/builtin.toml`."""

    name: str
    protocol: Protocol = "openai"
    base_url: str | None = None
    #: hosts (also their subdomains) that are this service; a key from `api_key_env` goes only there
    hosts: tuple[str, ...] = ()
    #: loopback ports on which this server listens if nobody says otherwise
    ports: tuple[int, ...] = ()
    #: what the response header `Server` begins with
    server_header: str | None = None
    api_key_env: str | None = None
    api_key_header: Literal["authorization", "x-api-key", "api-key"] = "authorization"
    headers: dict[str, str] = field(default_factory=dict[str, str])
    #: organisation and telemetry headers of the OpenAI SDK may be sent
    identify: bool = False
    #: a server that the user runs: repair arguments, recover textual calls
    local: bool = False

    # requests
    max_tokens_field: str = "max_tokens"
    stream_usage: bool = True
    extra_body: dict[str, Any] = field(default_factory=dict[str, Any])
    stream_extra_body: dict[str, Any] = field(default_factory=dict[str, Any])
    #: ask for a stream also where a whole answer is wanted: the server notices a lost connection only when it writes
    invoke_streams: bool = False
    thinking_on: dict[str, Any] | None = None
    thinking_off: dict[str, Any] | None = None
    structured_output: Literal["json_schema", "json_object", "none"] = "json_schema"
    native_tools: bool = True
    #: where the server tells how large a window it loaded the model with, below its address
    window_path: str | None = None
    #: tools and a schema for the answer work in one request
    schema_with_tools: bool = True

    # messages
    system_first: bool = True
    alternate_roles: bool = False
    #: a missing turn of the model between results and a prompt is filled in
    bridge_turns: bool = False
    tool_call_id: Literal["any", "word", "nine_alphanumeric"] = "any"
    tool_result_name: bool = True
    empty_assistant_content: Literal["null", "empty"] = "null"
    replay_thinking: str | None = None
    image_urls: bool = True

    # schemas
    inline_refs: bool = False
    schema_drop: tuple[str, ...] = ()
    schema_needs_type: bool = False
