"""Tools: how they are defined, how arguments are checked, and how they run."""

from __future__ import annotations

import asyncio
import enum
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Optional

import pytest
from pydantic import BaseModel

from any_agent import Tool, ToolContext, tool
from any_agent.tools.validate import InvalidArguments, checked_arguments


class Unit(enum.Enum):
    CELSIUS = "celsius"
    KELVIN = "kelvin"


@dataclass
class Place:
    city: str
    country: str = "NO"


class Person(BaseModel):
    name: str
    age: int


def unread(a: Elsewhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821


# ---- definitions


@pytest.mark.row("B7")
def test_schema_comes_from_hints_and_docstring() -> None:
    @tool
    def forecast(
        place: Place,
        unit: Unit,
        mode: Literal["short", "long"],
        tags: list[str],
        days: int = 3,
        note: Optional[str] = None,  # noqa: UP045 - this spelling must work too
        owner: Person | None = None,
    ) -> dict[str, Any]:
        """Weather forecast.

        Over several lines.

        Args:
            place: where
                exactly
            days (int): how many days

        Returns:
            The forecast.
        """
        return {}

    assert forecast.name == "forecast"
    assert forecast.description == "Weather forecast.\n\nOver several lines."
    schema = forecast.parameters
    assert schema["required"] == ["place", "unit", "mode", "tags"]
    properties = schema["properties"]
    assert properties["place"]["properties"] == {
        "city": {"type": "string"},
        "country": {"type": "string", "default": "NO"},
    }
    assert properties["place"]["description"] == "where exactly"
    assert properties["unit"]["enum"] == ["celsius", "kelvin"]
    assert properties["mode"]["enum"] == ["long", "short"]
    assert properties["tags"] == {"type": "array", "items": {"type": "string"}}
    assert properties["days"] == {"type": "integer", "default": 3, "description": "how many days"}
    assert {"type": "null"} in properties["note"]["anyOf"]
    assert "$ref" not in str(schema)
    assert "age" in str(properties["owner"])


@pytest.mark.row("B7")
def test_sphinx_docstrings_are_read_too() -> None:
    @tool
    def add(a: float) -> float:
        """Add.

        :param a: the first
        """
        return a

    assert add.parameters["properties"]["a"]["description"] == "the first"
    assert add.description == "Add."


@pytest.mark.row("B7")
async def test_name_description_and_types_make_a_tool() -> None:
    @tool("calculate", "Perform a calculation", {"a": float, "b": float, "op": str})
    async def calculate(args: dict[str, Any]) -> float:
        return args["a"] + args["b"]

    assert (calculate.name, calculate.description) == ("calculate", "Perform a calculation")
    assert calculate.parameters["properties"]["a"] == {"type": "number"}
    assert calculate.parameters["required"] == ["a", "b", "op"]
    assert await calculate.execute({"a": 1, "b": 2, "op": "+"}) == 3


@pytest.mark.row("B7")
async def test_builder_makes_a_tool() -> None:
    add = (
        tool("add", "Add two numbers")
        .param("a", "number")
        .param("b", "number", "the second", required=False)
        .build(lambda a, b=1: a + b)
    )
    assert add.parameters == {
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "number", "description": "the second"}},
        "required": ["a"],
    }
    assert await add.execute({"a": 2}) == 3
    with pytest.raises(ValueError, match="no type of JSON Schema"):
        tool("x", "").param("a", "float")


@pytest.mark.row("B7")
def test_json_schema_is_taken_as_it_is() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "number", "minimum": 0}}, "x-own": True}
    assert tool("t", "", schema)(lambda a: a).parameters is schema


def test_settings_of_a_tool() -> None:
    @tool(name="other", effect="once", timeout=5)
    def mine() -> None: ...

    assert (mine.name, mine.effect, mine.timeout) == ("other", "once", 5)


def test_parameter_without_a_type_is_refused_with_what_to_write() -> None:
    def untyped(city) -> str:  # type: ignore[no-untyped-def]
        return str(city)

    with pytest.raises(TypeError, match="write `city: str`"):
        tool(untyped)

    def open_ended(*args: int) -> None: ...

    with pytest.raises(TypeError, match="args"):
        tool(open_ended)

    def strange(a: threading.Thread) -> None: ...

    with pytest.raises(TypeError, match="without a JSON Schema"):
        tool(strange)
    with pytest.raises(TypeError, match="the parameter 'a' has a type without a JSON Schema"):
        tool("strange", "", {"a": threading.Thread})
    with pytest.raises(TypeError, match=r"'unread' cannot be read: name 'Elsewhere' .* top of the module"):
        tool(unread)


def test_pydantic_is_not_imported_by_tools() -> None:
    import subprocess

    program = "import sys; from any_agent import tool\n@tool\ndef f(a: int): return a\nprint('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout.strip() == "False"


# ---- arguments


@tool
def typed(place: Place, unit: Unit = Unit.CELSIUS, days: int = 1, owner: Person | None = None) -> Any:
    return place, unit, days, owner


@pytest.mark.row("B7")
async def test_arguments_become_values_of_their_types() -> None:
    arguments = {"place": {"city": "Oslo"}, "unit": "kelvin", "days": "3", "owner": {"name": "Ada", "age": "36"}}
    assert await typed.execute(arguments) == (Place("Oslo"), Unit.KELVIN, 3, Person(name="Ada", age=36))
    assert await typed.execute({"place": {"city": "Oslo"}}) == (Place("Oslo"), Unit.CELSIUS, 1, None)


@pytest.mark.row("B6")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "missing required field `place`"),
        ({"place": {"city": 5}}, r"Expected `str`, got `int` - at `\$.place.city`"),
        ({"place": {"city": "x"}, "days": "many"}, "days"),
        ({"place": {"city": "x"}, "unit": "rankine"}, "rankine"),
        ({"place": {"city": "x"}, "other": 1}, "unknown field `other`"),
        ({"place": {"city": "x"}, "owner": {"name": "Ada"}}, "age"),
    ],
)
def test_wrong_arguments_are_refused_in_words_a_model_can_act_on(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidArguments, match=says) as caught:
        checked_arguments(typed, arguments)
    assert "JSON Schema" in str(caught.value)


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "n": {"type": "integer", "minimum": 1, "maximum": 9},
        "mode": {"enum": ["a", "b"]},
        "names": {"type": "array", "items": {"type": "string"}},
        "where": {"$ref": "#/$defs/where"},
        "either": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "many": {"type": ["number", "boolean"]},
        "own": {"type": "a type of their own"},
    },
    "required": ["n"],
    "additionalProperties": False,
    "$defs": {"where": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}},
}
PLAIN = Tool("plain", "", SCHEMA, lambda **arguments: arguments)


@pytest.mark.row("B6")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "'n' is missing"),
        ({"n": "five"}, 'n must be integer, not "five"'),
        ({"n": True}, "n must be integer"),
        ({"n": 0}, "n must be at least 1"),
        ({"n": 10}, "n must be at most 9"),
        ({"n": 1, "mode": "c"}, "mode must be one of"),
        ({"n": 1, "names": ["x", 5]}, r"names\[1\] must be string"),
        ({"n": 1, "where": {}}, "'city' is missing"),
        ({"n": 1, "where": {"city": 5}}, r"where\.city must be string"),
        ({"n": 1, "either": 5}, "either"),
        ({"n": 1, "many": "x"}, "many must be number or boolean"),
        ({"n": 1, "other": 5}, "'other' is no parameter"),
    ],
)
def test_plain_schemas_are_checked_too(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidArguments, match=says):
        checked_arguments(PLAIN, arguments)


def test_what_fits_a_plain_schema_passes_unchanged() -> None:
    arguments = {
        "n": 5.0,
        "mode": "a",
        "names": [],
        "where": {"city": "x", "more": 1},
        "either": None,
        "many": False,
        "own": 1,
    }
    assert checked_arguments(PLAIN, arguments) is arguments


# ---- running


@pytest.mark.row("B5")
async def test_sync_tools_run_in_daemon_threads_and_leave_the_loop_free() -> None:
    seen: list[threading.Thread] = []
    gate = threading.Event()
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    @tool
    def slow() -> str:
        seen.append(threading.current_thread())
        loop.call_soon_threadsafe(begun.set)
        gate.wait(5)
        return "done"

    running = asyncio.create_task(slow.execute({}))
    await begun.wait()
    assert not running.done()
    gate.set()
    assert await running == "done"
    assert seen[0].daemon


@pytest.mark.row("B5")
def test_sync_tool_that_never_ends_does_not_hold_the_program() -> None:
    @tool(timeout=0.05)
    def stuck() -> None:
        threading.Event().wait(60)

    async def run() -> None:
        with pytest.raises(TimeoutError):
            await stuck.execute({})

    started = time.monotonic()
    asyncio.run(run())
    assert time.monotonic() - started < 5


async def _fail() -> None:
    raise ZeroDivisionError


def _fail_in_thread() -> None:
    raise ZeroDivisionError


def _stop() -> None:
    raise StopIteration("odd")


@pytest.mark.parametrize(
    ("fn", "error"), [(_fail, ZeroDivisionError), (_fail_in_thread, ZeroDivisionError), (_stop, RuntimeError)]
)
async def test_errors_of_a_tool_come_through(fn: Callable[..., Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        await tool(fn).execute({})


async def test_function_that_returns_an_awaitable_is_awaited() -> None:
    async def later() -> int:
        return 5

    assert await Tool("t", "", {}, lambda: later()).execute({}) == 5


@pytest.mark.row("E10")
async def test_progress_comes_from_generators_and_from_the_context() -> None:
    told: list[Any] = []

    @tool
    async def count(to: int) -> AsyncIterator[int]:
        for number in range(to):
            yield number

    @tool
    def letters(text: str) -> Iterator[str]:
        yield from text

    @tool
    def in_thread(context: ToolContext) -> str:
        context.progress("half")
        return context.tool_use_id

    assert await letters.execute({"text": "abc"}, ToolContext("letters", on_progress=told.append)) == "c"
    assert told == ["a", "b", "c"]
    told.clear()
    assert await count.execute({"to": 3}, ToolContext("count", on_progress=told.append)) == 2
    context = ToolContext("in_thread", tool_use_id="c1", on_progress=told.append)
    assert await in_thread.execute({}, context) == "c1"
    assert "context" not in in_thread.parameters["properties"]
    assert told == [0, 1, 2, "half"]
    context.progress("too late")
    assert told == [0, 1, 2, "half"]


@pytest.mark.row("E10")
async def test_progress_of_a_thread_that_comes_after_the_end_is_not_told() -> None:
    told: list[Any] = []
    context = ToolContext("t", on_progress=told.append)
    await asyncio.to_thread(context.progress, 1)
    assert told == [1]
    thread = threading.Thread(target=context.progress, args=[2])
    thread.start()
    thread.join()
    context.cancelled = True
    await asyncio.sleep(0)
    assert told == [1]


@pytest.mark.row("E10")
def test_progress_after_the_event_loop_has_ended_is_nobodys() -> None:
    async def make() -> ToolContext:
        return ToolContext("t", on_progress=print)

    context = asyncio.run(make())
    thread = threading.Thread(target=context.progress, args=[1])
    thread.start()
    thread.join()


async def test_cancelled_tool_can_see_it() -> None:
    context = ToolContext("t")
    gate = threading.Event()

    @tool
    def stuck(context: ToolContext) -> None:
        gate.wait(5)

    running = asyncio.create_task(stuck.execute({}, context))
    await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert context.cancelled
    gate.set()
