"""What named agents are made of: their configuration, their messages, their states, and the two protocols."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from any_agent.agent.options import AgentOptions
    from any_agent.events import Event
    from any_agent.tools.define import Tool

__all__ = (
    "Agent",
    "AgentConfig",
    "AgentProvider",
    "AgentState",
    "Message",
    "MessageType",
    "checked_keyring",
    "checked_url",
    "checked_variable",
    "looks_like_known_key",
)

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
#: all agents, and the person before the screen: a message may be addressed to them
_TAKEN = ("all", "user")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: what the keys of well-known services begin with
_KEY = re.compile(r"(sk|pk|rk|gsk|xai|hf|ghp|r8|pplx|csk|fw|nvapi)[-_]|AIza|eyJ")


class AgentState(StrEnum):
    """What an agent is doing."""

    IDLE = "idle"
    PROCESSING = "processing"
    FAILED = "failed"
    TERMINATED = "terminated"


class MessageType(StrEnum):
    """Words for somebody, or news of what an agent does."""

    CHAT = "chat"
    SYSTEM = "system"


@dataclass(slots=True)
class Message:
    """What agents and people send each other.

    >>> Message("Say hello", recipients=["gpt"]).sender
    'user'
    """

    content: str
    sender: str = "user"
    recipients: list[str] = field(default_factory=lambda: ["all"])
    message_type: MessageType = MessageType.CHAT
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(slots=True)
class AgentConfig:
    """What makes a named agent. It may name the place where a key is kept, and is stored without the key itself.

    >>> config = AgentConfig(name="gpt", provider="openai", model="gpt-4o-mini", api_key="secret")
    >>> config.to_dict()
    {'name': 'gpt', 'provider': 'openai', 'model': 'gpt-4o-mini', 'agent_type': 'api'}
    """

    name: str
    provider: str
    model: str | None = None
    base_url: str | None = None
    #: for programs; never stored
    api_key: str | None = field(default=None, repr=False)
    system_prompt: str | None = None
    agent_type: str = "api"
    #: the environment variable that holds the key
    api_key_env: str | None = None
    #: "service/user": the entry of the keyring that holds the key
    api_key_keyring: str | None = None
    #: "module:function"
    tools: list[str] = field(default_factory=list[str])
    temperature: float | None = None
    max_tokens: int | None = None
    thinking: bool | None = None
    #: what is done when the window is too small for the conversation; else the task fails
    compaction: Literal["drop-oldest", "summarise"] | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or self.name in _TAKEN:
            raise ValueError(
                f"name {self.name!r} is no name for an agent: up to 64 letters, digits, '.', '_' and '-', "
                f"not '.' or '-' at the beginning, and none of {', '.join(_TAKEN)}"
            )
        if self.agent_type != "api":
            raise ValueError(f"agent_type must be 'api'; it is {self.agent_type!r}")
        if self.compaction not in (None, "drop-oldest", "summarise"):
            raise ValueError(f"compaction must be 'drop-oldest' or 'summarise'; it is {self.compaction!r}")
        if self.base_url is not None:
            checked_url(self.base_url, "base_url")
        if self.api_key_env is not None:
            checked_variable(self.api_key_env, "api_key_env")
        if self.api_key_keyring is not None:
            checked_keyring(self.api_key_keyring, "api_key_keyring")
        if self.api_key_env and self.api_key_keyring:
            raise ValueError("api_key_env and api_key_keyring are two places for one key: name one of them")

    def to_dict(self) -> dict[str, Any]:
        """What is stored: all that is set, but for the key."""
        given = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "api_key"}
        return {name: value for name, value in given.items() if value is not None and value != []}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> AgentConfig:
        """The configuration that `to_dict` wrote down."""
        unknown = data.keys() - {item.name for item in fields(cls)}
        if unknown:
            raise ValueError(f"an agent's configuration has unknown fields: {', '.join(sorted(unknown))}")
        return cls(**data)


def checked_url(value: str, where: str) -> str:
    """An address, if it holds no secret: it is stored, and shown."""
    parts = urlsplit(value)
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError(f"{where} must be an address without a user name, a password or a query: keys are named apart")
    return value


def checked_variable(value: str, where: str) -> str:
    """The name of an environment variable, if it is one and not a key that was written in its place."""
    if not _VARIABLE.fullmatch(value) or _looks_like_key(value):
        # what stands there may be a key: it is not shown
        raise ValueError(f"{where} must be the name of an environment variable, such as MY_API_KEY, never a key itself")
    return value


def checked_keyring(value: str, where: str) -> str:
    """The name of an entry of the keyring, "service/user"."""
    service, _, user = value.rpartition("/")
    if not service or not user or looks_like_known_key(value):
        raise ValueError(f'{where} must name an entry of the keyring as "service/user", never a key itself')
    return value


def looks_like_known_key(text: str) -> bool:
    """Whether this begins as the keys of well-known services do.

    >>> looks_like_known_key("sk-live-51Hx"), looks_like_known_key("HF_TOKEN_2")
    (True, False)
    """
    return bool(_KEY.match(text)) and _has_digits(text)


def _looks_like_key(text: str) -> bool:
    """Whether this is more like a key than like a name that somebody chose for a variable.

    >>> _looks_like_key("OPENAI_API_KEY"), _looks_like_key("a8Xk2pLq9ZtR4vBn7cWd")
    (False, True)
    """
    is_mixed = text != text.upper() and text != text.lower()
    return looks_like_known_key(text) or (len(text) >= 20 and is_mixed and _has_digits(text))


def _has_digits(text: str) -> bool:
    return any(letter.isdigit() for letter in text)


@runtime_checkable
class Agent(Protocol):
    """Somebody who answers messages under a name."""

    @property
    def name(self) -> str:
        """The name under which it is addressed."""
        ...

    @property
    def agent_type(self) -> str:
        """How it works: `"api"` asks a model over its API."""
        ...

    @property
    def state(self) -> AgentState:
        """What it is doing."""
        ...

    def handle_message(self, message: Message) -> AsyncIterator[Message]:
        """The answer, in whole messages."""
        ...

    def stream_message(self, message: Message) -> AsyncIterator[Event]:
        """The same turn as it happens; the last event is `Done` or `Failed`."""
        ...

    async def shutdown(self) -> None:
        """The end: connections are closed, and no message is taken any more."""
        ...


@runtime_checkable
class AgentProvider(Protocol):
    """Makes agents that ask one kind of server."""

    @property
    def provider_type(self) -> str:
        """The name under which it is found."""
        ...

    async def create_agent(self, config: AgentConfig) -> Agent:
        """An agent in this process. Nothing is sent yet."""
        ...

    def validate_credentials(self) -> bool:
        """Whether an agent could be made without giving a key; asks nobody, and never raises."""
        ...

    def options(self, config: AgentConfig, tools: Sequence[Tool] | None = None) -> AgentOptions:
        """Everything that is needed to ask the model, the key included; `tools` are for those that `config` names."""
        ...
