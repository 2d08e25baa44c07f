"""Hooks: functions of the program that see, change or block what an agent is about to do."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

if TYPE_CHECKING:
    from any_agent.types import Message

__all__ = (
    "Allow",
    "Deny",
    "HookDecision",
    "Hooks",
    "PostToolUseEvent",
    "PreToolUseEvent",
    "UserPromptSubmitEvent",
    "checked_callable",
    "hooks_from",
)


@dataclass(slots=True)
class PreToolUseEvent:
    """A tool is about to be called."""

    tool_name: str
    tool_input: dict[str, Any]
    tool_use_id: str
    history: list[Message]


@dataclass(slots=True)
class PostToolUseEvent:
    """A tool has been called, or its call has failed."""

    tool_name: str
    tool_input: dict[str, Any]
    tool_use_id: str
    history: list[Message]
    tool_result: Any
    is_error: bool


@dataclass(slots=True)
class UserPromptSubmitEvent:
    """The user's prompt is about to be sent."""

    prompt: Any
    history: list[Message]


@dataclass(frozen=True, slots=True)
class HookDecision:
    """What a hook decides. `None` is the same as `continue_()`: the next hook speaks.

    >>> HookDecision.block("not on my disk").reason
    'not on my disk'
    """

    action: Literal["continue", "block", "modify"]
    value: Any = None
    reason: str = ""

    @classmethod
    def continue_(cls) -> HookDecision:
        """Nothing to say; the next hook may."""
        return cls("continue")

    @classmethod
    def block(cls, reason: str) -> HookDecision:
        """Do not call the tool (the model reads why), or do not send the prompt."""
        return cls("block", reason=reason)

    @classmethod
    def modify_input(cls, input: Any, reason: str = "") -> HookDecision:
        """Call the tool with this input; in a post hook: give the model this result."""
        return cls("modify", input, reason)

    @classmethod
    def modify_prompt(cls, prompt: Any, reason: str = "") -> HookDecision:
        """Send this prompt."""
        return cls("modify", prompt, reason)

    @classmethod
    def modify_result(cls, result: Any, reason: str = "") -> HookDecision:
        """Give the model this result."""
        return cls("modify", result, reason)


@dataclass(frozen=True, slots=True)
class Allow:
    """The answer of `can_use_tool`: go ahead, perhaps with another input."""

    updated_input: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Deny:
    """The answer of `can_use_tool`: no. The model reads the reason."""

    reason: str = "the user did not allow it"


Hook: TypeAlias = Callable[[Any], HookDecision | Awaitable[HookDecision | None] | None]


@dataclass(slots=True)
class Hooks:
    """The hooks of an agent; each list in order, and the first decision that blocks or modifies wins.

    >>> len(Hooks().add_pre_tool_use(lambda event: None).pre_tool_use)
    1
    """

    pre_tool_use: list[Hook] = field(default_factory=list[Hook])
    post_tool_use: list[Hook] = field(default_factory=list[Hook])
    user_prompt_submit: list[Hook] = field(default_factory=list[Hook])

    def add_pre_tool_use(self, hook: Hook) -> Hooks:
        """Called before each tool call, with a `PreToolUseEvent`."""
        self.pre_tool_use.append(_checked(hook))
        return self

    def add_post_tool_use(self, hook: Hook) -> Hooks:
        """Called after each tool call, failed ones too, with a `PostToolUseEvent`."""
        self.post_tool_use.append(_checked(hook))
        return self

    def add_user_prompt_submit(self, hook: Hook) -> Hooks:
        """Called with each prompt of the user, with a `UserPromptSubmitEvent`."""
        self.user_prompt_submit.append(_checked(hook))
        return self

    @staticmethod
    async def decide(hooks: Sequence[Hook], event: Any) -> HookDecision | None:
        """The first decision that blocks or modifies; what a hook raises is an error of the program."""
        for hook in hooks:
            answer = hook(event)
            decision = await answer if inspect.isawaitable(answer) else answer
            if decision is not None and not isinstance(decision, HookDecision):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError(f"the hook {_name(hook)} returned {decision!r}: return a HookDecision, or None")
            if decision is not None and decision.action != "continue":
                return decision
        return None


def hooks_from(given: Hooks | Mapping[str, Sequence[Hook]] | None) -> Hooks:
    """Hooks as they are, or from a dict of lists such as `{"pre_tool_use": [fn]}`."""
    if given is None:
        return Hooks()
    if not isinstance(given, Hooks | Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"hooks must be Hooks(), or a dict of lists of functions; it is {given!r}")
    known = ("pre_tool_use", "post_tool_use", "user_prompt_submit")
    lists: Mapping[str, Any] = {name: getattr(given, name) for name in known} if isinstance(given, Hooks) else given
    for name, hooks in lists.items():
        if name not in known:
            raise ValueError(f"hooks: there are no hooks called {name!r}; there are {', '.join(known)}")
        if not isinstance(hooks, list):
            raise TypeError(f"hooks: {name} must be a list of functions; it is {hooks!r}")
        for hook in cast("list[Hook]", hooks):
            _checked(hook)
    return given if isinstance(given, Hooks) else Hooks(**{name: list(hooks) for name, hooks in given.items()})


def checked_callable(function: Any, called: str, *arguments: str) -> None:
    """`TypeError` unless this is a function that can be called with so many arguments."""
    if not callable(function):
        raise TypeError(f"{called}: {function!r} is no function")
    try:
        signature = inspect.signature(function)
    except ValueError:
        return  # a built-in without a signature
    try:
        signature.bind(*arguments)
    except TypeError:
        wanted = "one argument, the event" if len(arguments) == 1 else f"the arguments {', '.join(arguments)}"
        raise TypeError(f"{called}: {_name(function)}{signature} must take {wanted}") from None


def _checked(hook: Hook) -> Hook:
    checked_callable(hook, "hooks", "event")
    return hook


def _name(hook: Any) -> str:
    return getattr(hook, "__qualname__", repr(hook))
