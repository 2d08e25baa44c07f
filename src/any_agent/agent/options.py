"""Everything that can be set for a query or a client."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from any_agent.agent.compaction import Compaction
from any_agent.agent.hooks import checked_callable, hooks_from
from any_agent.agent.output import OutputType
from any_agent.profiles import get_profile
from any_agent.types import Profile, Protocol, RetryConfig, Timeouts, ToolSpec

if TYPE_CHECKING:
    from pathlib import Path

    from openai import AsyncOpenAI

    from any_agent.tools.define import Tool

__all__ = ("AgentOptions",)

_CHOICES: dict[str, tuple[str, ...]] = {
    "protocol": ("openai", "ollama", "anthropic", "responses"),
    "text_stream": ("auto", "delta", "cumulative"),
    "tool_mode": ("auto", "native", "prompted"),
}


_AT_LEAST_ONE = (
    "max_turns",
    "max_tokens",
    "max_tool_iterations",
    "loop_guard",
    "num_ctx",
    "max_result_tokens",
)


@dataclass
class AgentOptions:
    """What to talk to, and how.

    >>> AgentOptions("Be brief.", "qwen3", "http://localhost:1234/v1").max_tokens
    4096
    """

    system_prompt: str
    model: str
    base_url: str
    max_turns: int = 1
    max_tokens: int | None = 4096
    temperature: float | None = 0.7
    api_key: str = field(default="not-needed", repr=False)
    # what to talk to, and how
    protocol: Protocol = "openai"
    profile: str | Profile | None = None
    client: AsyncOpenAI | None = field(default=None, repr=False)
    timeouts: Timeouts = field(default_factory=Timeouts)
    retry: RetryConfig = field(default_factory=RetryConfig)
    extra_headers: dict[str, str] = field(default_factory=dict[str, str], repr=False)
    extra_body: dict[str, Any] = field(default_factory=dict[str, Any])
    record_to: str | Path | None = None
    # generation
    stop: list[str] | None = None
    top_p: float | None = None
    seed: int | None = None
    tool_choice: str | dict[str, Any] | None = None
    text_stream: Literal["auto", "delta", "cumulative"] = "auto"
    thinking: bool | None = None
    output_type: Any = None
    # the window
    num_ctx: int | None = None
    compaction: Compaction | None = None
    max_result_tokens: int | None = None
    # tools
    tools: list[Tool] = field(default_factory=list["Tool"])
    auto_execute_tools: bool = False
    max_tool_iterations: int = 10
    loop_guard: int | None = 3
    parallel_tools: bool = True
    tool_timeout: float | None = None
    tool_mode: Literal["auto", "native", "prompted"] = "auto"
    allow_lenient_tool_json: bool | None = None
    can_use_tool: Callable[..., Any] | None = None
    hooks: Any = None

    def __post_init__(self) -> None:
        for name in (*_AT_LEAST_ONE, "temperature", "top_p", "tool_timeout"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, int | float):
                raise TypeError(f"{name} must be a number; it is {value!r}")
        for name in _AT_LEAST_ONE:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1; it is {value!r}")
        if self.temperature is not None and self.temperature < 0:
            raise ValueError(f"temperature must be at least 0; it is {self.temperature!r}")
        if self.top_p is not None and not 0 <= self.top_p <= 1:
            raise ValueError(f"top_p must be from 0 to 1; it is {self.top_p!r}")
        if self.tool_timeout is not None and self.tool_timeout <= 0:
            raise ValueError(f"tool_timeout must be more than 0 seconds; it is {self.tool_timeout!r}")
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} must be one of {', '.join(choices)}; it is {getattr(self, name)!r}")
        if isinstance(self.profile, str):
            get_profile(self.profile)
        if not isinstance(self.tools, list | tuple):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"tools must be a list of tools; it is {self.tools!r}")
        if no_tool := next((tool for tool in self.tools if not isinstance(tool, ToolSpec)), None):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"tools: {no_tool!r} is no Tool: decorate the function with @tool")
        names = [tool.name for tool in self.tools]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"tools: two tools are called {twice!r}; the model could not tell them apart")
        if self.num_ctx is not None and self.protocol != "ollama":
            raise ValueError("num_ctx is Ollama's, and only its own protocol can set it: add protocol='ollama'")
        policy: Any = self.compaction
        if policy is not None and not isinstance(policy, Compaction):
            raise TypeError(f"compaction must be a policy such as DropOldest(); it is {self.compaction!r}")
        if self.output_type is not None:
            OutputType(self.output_type)
        if self.can_use_tool is not None:
            checked_callable(self.can_use_tool, "can_use_tool", "name", "input", "context")
        hooks_from(self.hooks)

    @classmethod
    def for_profile(
        cls, name: str, *, model: str | None = None, system_prompt: str = "", **overrides: Any
    ) -> AgentOptions:
        """Options for a server that any_agent knows, at its usual address.

        `"embedded"` is a server of one's own: this starts it if it does not run yet, and returns when it is ready. It
        runs until the program ends. Without a model it is the small default model; `model` is the path of a GGUF file.

        >>> AgentOptions.for_profile("ollama", model="qwen3").protocol
        'ollama'
        """
        profile = get_profile(name)
        settings: dict[str, Any] = {"system_prompt": system_prompt, "profile": name, "model": model}
        settings |= {"base_url": profile.base_url, "protocol": profile.protocol}
        if profile.name == "embedded" and "base_url" not in overrides:
            from any_agent import embedded

            settings |= embedded.hold(model).settings
        settings |= overrides
        if not settings["base_url"]:
            raise ValueError(f"profile {name!r} has no usual address: give base_url=…")
        if not settings["model"]:
            raise ValueError(f"profile {name!r} has no usual model: give model=…")
        return cls(**settings)
