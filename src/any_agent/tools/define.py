"""Defines tools: from a typed function, from a name with a schema, or step by step.

The schema of the arguments comes from the type hints, through msgspec; the words come from the docstring.
"""

from __future__ import annotations

import copy
import inspect
import re
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, overload

import msgspec

from any_agent.tools.context import ToolContext
from any_agent.tools.pydantic_types import schema_hook
from any_agent.types import ToolSpec
from any_agent.wire.schema import simplify

__all__ = ("Effect", "Tool", "ToolBuilder", "tool")

Effect = Literal["pure", "idempotent", "once"]
JSON_TYPES: dict[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    dict: "object",
}


@dataclass(slots=True)
class Tool(ToolSpec):
    """A tool that a model may call. `fn` gets the arguments as keywords.

    >>> add = Tool("add", "Add two numbers", {"type": "object", "properties": {"a": {"type": "number"}}})
    >>> add.name
    'add'
    """

    fn: Callable[..., Any] | None = None
    #: may it run again after a crash: always (`pure`, `idempotent`), or at most `once`
    effect: Effect = field(default="idempotent", kw_only=True)
    timeout: float | None = field(default=None, kw_only=True)
    #: how `fn` wants its arguments: as keywords, or as one dict
    takes_dict: bool = field(default=False, kw_only=True, repr=False)
    #: what the arguments are converted to, when the schema came from type hints
    arguments: type[msgspec.Struct] | None = field(default=None, kw_only=True, repr=False)
    #: the parameter that gets the `ToolContext`, if there is one
    context_parameter: str | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        if self.fn is not None and self.context_parameter is None:
            self.context_parameter = _context_parameter(self.fn)

    async def execute(self, arguments: dict[str, Any], context: ToolContext | None = None) -> Any:
        """Check the arguments and run the function; whatever is wrong is raised."""
        from any_agent.tools.run import execute

        return await execute(self, arguments, context or ToolContext(self.name))


@overload
def tool(name: Callable[..., Any], /) -> Tool: ...
@overload
def tool(name: str, description: str, parameters: dict[str, Any], /) -> Callable[[Callable[..., Any]], Tool]: ...
@overload
def tool(name: str, description: str = "", /) -> ToolBuilder: ...
@overload
def tool(
    *, name: str | None = None, effect: Effect = "idempotent", timeout: float | None = None
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    name: Callable[..., Any] | str | None = None,
    description: str = "",
    parameters: dict[str, Any] | None = None,
    /,
    **settings: Any,
) -> Any:
    """A tool from a function: `@tool`, `@tool(effect="once")`, `@tool("name", "what it does", {"a": float})`.

    With a name and a description alone it begins a builder.

    >>> @tool
    ... def get_weather(city: str, days: int = 1) -> dict:
    ...     '''Weather for a city.
    ...
    ...     Args:
    ...         city: the city's name
    ...     '''
    >>> get_weather.parameters["properties"]["city"]
    {'type': 'string', 'description': "the city's name"}
    >>> tool("add", "Add two numbers").param("a", "number").build(lambda a: a).name
    'add'
    """
    if callable(name):
        return _from_function(name)
    if isinstance(name, str):
        if parameters is None:
            return ToolBuilder(name, description)
        schema = _schema_of(parameters)

        def decorate(fn: Callable[..., Any]) -> Tool:
            return Tool(name, description, schema, fn, takes_dict=_takes_dict(fn, schema))

        return decorate

    def decorate_typed(fn: Callable[..., Any]) -> Tool:
        return _from_function(fn, **settings)

    return decorate_typed


class ToolBuilder:
    """Builds a tool step by step: `tool("add", "Add").param("a", "number").build(fn)`."""

    def __init__(self, name: str, description: str) -> None:
        self._name = name
        self._description = description
        self._properties: dict[str, Any] = {}
        self._required: list[str] = []

    def param(
        self, name: str, type: str, description: str = "", *, required: bool = True, enum: list[Any] | None = None
    ) -> ToolBuilder:
        """One more parameter; `type` is a type of JSON Schema."""
        if type not in JSON_TYPES.values():
            raise ValueError(f"{type!r} is no type of JSON Schema: use one of {', '.join(JSON_TYPES.values())}")
        words = {"description": description} if description else {}
        self._properties[name] = {"type": type, **words, **({"enum": enum} if enum else {})}
        if required:
            self._required.append(name)
        return self

    def build(self, fn: Callable[..., Any]) -> Tool:
        """The tool that runs `fn`, with the parameters as keywords (or as one dict, if it takes only that)."""
        schema = {"type": "object", "properties": self._properties, "required": self._required}
        return Tool(self._name, self._description, schema, fn, takes_dict=_takes_dict(fn, schema))


def _from_function(
    fn: Callable[..., Any], *, name: str | None = None, effect: Effect = "idempotent", timeout: float | None = None
) -> Tool:
    signature = inspect.signature(fn)
    try:
        hints = typing.get_type_hints(fn, include_extras=True)
    except NameError as problem:
        raise TypeError(
            f"the type hints of the tool {fn.__name__!r} cannot be read: {problem}; define or import the type at the "
            "top of the module, and not under TYPE_CHECKING"
        ) from None
    described, words = _docstring(fn)
    context = _context_parameter(fn)
    fields: list[Any] = []
    for parameter in signature.parameters.values():
        if parameter.name == context:
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise TypeError(
                f"the tool {fn.__name__!r} cannot have the parameter {parameter}: give each a name and a type"
            )
        if parameter.name not in hints:
            raise TypeError(
                f"the parameter {parameter.name!r} of the tool {fn.__name__!r} has no type hint: "
                f"the model could not know what to give; write `{parameter.name}: str`"
            )
        default = {} if parameter.default is parameter.empty else {"default": parameter.default}
        fields.append((parameter.name, hints[parameter.name], _field(**default)))
    struct = msgspec.defstruct(fn.__name__, fields, kw_only=True, forbid_unknown_fields=True)
    try:
        schema = simplify(msgspec.json.schema(struct, schema_hook=schema_hook), drop=("title",))
    except TypeError as problem:
        raise TypeError(
            f"the tool {fn.__name__!r} has a parameter of a type without a JSON Schema: {problem}"
        ) from None
    for parameter_name, text in words.items():
        if parameter_name in schema.get("properties", {}):
            schema["properties"][parameter_name]["description"] = text
    return Tool(
        name or fn.__name__,
        described,
        schema,
        fn,
        effect=effect,
        timeout=timeout,
        arguments=struct,
        context_parameter=context,
    )


def _field(**settings: Any) -> Any:
    default = settings.get("default")
    if type(default) in (list, dict, set):
        return msgspec.field(default_factory=partial(copy.copy, default))
    return msgspec.field(**settings)


def _schema_of(parameters: dict[str, Any]) -> dict[str, Any]:
    """A JSON Schema as it is; or one made of `{"a": float}`."""
    if parameters.get("type") == "object" or "properties" in parameters:
        return parameters
    properties: dict[str, Any] = {}
    for name, hint in parameters.items():
        if isinstance(hint, dict):
            properties[name] = hint
        elif isinstance(hint, str):
            properties[name] = {"type": hint}
        else:
            try:
                properties[name] = simplify(msgspec.json.schema(hint, schema_hook=schema_hook), drop=("title",))
            except TypeError:
                raise TypeError(f"the parameter {name!r} has a type without a JSON Schema: {hint!r}") from None
    return {"type": "object", "properties": properties, "required": list(parameters)}


def _takes_dict(fn: Callable[..., Any], schema: dict[str, Any]) -> bool:
    """Whether a function takes all arguments as one dict: it has one parameter, which is none of the tool's."""
    names = [name for name in inspect.signature(fn).parameters if name != _context_parameter(fn)]
    return len(names) == 1 and names[0] not in schema.get("properties", {})


def _context_parameter(fn: Callable[..., Any]) -> str | None:
    for name, parameter in inspect.signature(fn).parameters.items():
        if name == "context" and (parameter.annotation is ToolContext or "ToolContext" in str(parameter.annotation)):
            return name
    return None


_SECTION = re.compile(r"^\s*(?:Args|Arguments|Parameters)\s*:\s*$")
_NEXT_SECTION = re.compile(r"^\s*[A-Z]\w+\s*:\s*$")
_ARGUMENT = re.compile(r"^\s+(\w+)\s*(?:\([^)]*\))?\s*:\s*(.+)$")
_SPHINX = re.compile(r"^\s*:param\s+(?:\w+\s+)?(\w+)\s*:\s*(.+)$")


def _docstring(fn: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """What a docstring says of the function, and of each parameter (in Google's or in Sphinx's style)."""
    described: list[str] = []
    words: dict[str, str] = {}
    state, last = "text", ""
    for line in (inspect.getdoc(fn) or "").splitlines():
        sphinx = _SPHINX.match(line)
        if sphinx:
            words[sphinx.group(1)] = sphinx.group(2).strip()
            state = "other"
        elif _SECTION.match(line):
            state = "arguments"
        elif _NEXT_SECTION.match(line):
            state = "other"
        elif state == "arguments" and (argument := _ARGUMENT.match(line)):
            last = argument.group(1)
            words[last] = argument.group(2).strip()
        elif state == "arguments" and last and line.strip():
            words[last] += f" {line.strip()}"
        elif state == "text":
            described.append(line)
    return "\n".join(described).strip(), words
