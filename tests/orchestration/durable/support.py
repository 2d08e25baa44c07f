"""What the tests of the durable agents share."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

from any_agent import Tool
from any_agent.events import Event, Reset, TextDelta
from any_agent.orchestration import AgentConfig
from any_agent.orchestration.durable.agents import AgentRecords
from any_agent.orchestration.durable.database import Database
from any_agent.orchestration.durable.host import Agents
from any_agent.orchestration.durable.tasks import Tasks
from any_agent.orchestration.durable.worker import TaskWorker
from any_agent.testing import Received, Reply, ScriptedServer, chat_events
from any_agent.types import TextBlock, ToolResultBlock, ToolUseBlock

_T = TypeVar("_T")
LIMIT_S = 50
NOWHERE = "http://127.0.0.1:1/v1"


def add_agents(database: Database, *names: str) -> Tasks:
    for name in names:
        AgentRecords(database).add(AgentConfig(name, "openai", "scripted", base_url=NOWHERE))
    return Tasks(database)


def appear(database: Database, *ids: str, host: str = "elsewhere", silent: float = 0) -> None:
    """Workers of another machine, which were heard so many seconds ago."""
    for id in ids:
        database.transact(
            lambda transaction, id=id: transaction.run(
                "INSERT INTO aa_workers (id, host, pid, agents, room, started, beat) "
                "VALUES (:id, :host, 1, NULL, 10, {now}, {now} - :silent)",
                id=id,
                host=host,
                silent=silent,
            )
        )


def at_once(database: Database, *works: Callable[[Database], _T]) -> list[_T]:
    """Do all at the same moment, each in a thread with a connection of its own; what they return."""
    barrier = threading.Barrier(len(works))
    results: list[Any] = [None] * len(works)
    problems: list[BaseException] = []

    def run(number: int, work: Callable[[Database], _T]) -> None:
        try:
            with closing(Database(database.url)) as own:
                own.read("SELECT 1")
                barrier.wait(LIMIT_S)
                results[number] = work(own)
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=run, args=item) for item in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
        assert not thread.is_alive()
    if problems:
        raise problems[0]
    return results


def states(tasks: Tasks, ids: Sequence[str]) -> list[str]:
    return [tasks.find(id).state for id in ids]


#: tools that write down when they begin and end, and wait where a test wants to look at them
DEEDS = '''
import asyncio
import time
from pathlib import Path
from any_agent import ToolContext, tool

FOLDER = Path(__file__).parent

def deed(name, context, word):
    with open(FOLDER / "deeds", "a") as file:
        file.write(f"{name} {word} {context.idempotency_key} {context.attempt}\\n")
    while (FOLDER / "hold").exists() and (FOLDER / "hold").read_text() in ("", word):
        time.sleep(0.005)
    with open(FOLDER / "done", "a") as file:
        file.write(f"{name} {word} {context.idempotency_key} {context.attempt}\\n")
    return f"{name} of {word}"

@tool(effect="pure")
def look(word: str, context: ToolContext) -> str:
    """Looks."""
    return deed("look", context, word)

@tool
def put(word: str, context: ToolContext) -> str:
    """Puts."""
    return deed("put", context, word)

@tool(effect="once")
def pay(word: str, context: ToolContext) -> str:
    """Pays."""
    return deed("pay", context, word)

@tool
async def hang(word: str, context: ToolContext) -> str:
    """Hangs."""
    (FOLDER / "hangs").touch()
    try:
        await asyncio.sleep(10000)
    except asyncio.CancelledError:
        (FOLDER / "cancelled").touch()
        raise

@tool
def fail(word: str) -> str:
    """Fails."""
    raise RuntimeError(f"no {word}")

@tool
def much(word: str) -> str:
    """Gives back a long text."""
    return f"{word} " * 20000
'''


HALF = "\ue000"


class Model:
    """What a scripted model answers: what it is told to do, it does with tools, and then says that it is done.

    "do put a, pay b" is a prompt for two calls, one after the other; "do put a + pay b" for both at once. Anything else
    is answered by "heard: " and the prompt.
    """

    def __init__(self) -> None:
        #: what each request was about: its prompt, and how many rounds of calls were done
        self.asked: list[tuple[str, int]] = []
        #: requests that are held back, by the same, until somebody sets the event
        self.held: dict[tuple[str, int], Sequence[Any]] = {}
        #: requests at which it reads on in a long result
        self.reads_on: dict[tuple[str, int], dict[str, Any]] = {}
        #: what it calls a tool instead, and what it says at the end of each answer
        self.names: dict[str, str] = {}
        self.suffix = ""
        #: seconds between two pieces of an answer
        self.pace = 0.0

    def __call__(self, request: Received) -> Reply:
        if request.method != "POST":
            return Reply.json({"error": "no"}, 404)
        messages = request.json["messages"]
        last = max(number for number, message in enumerate(messages) if message["role"] == "user")
        prompt = str(messages[last]["content"])
        rounds = sum(message["role"] == "assistant" for message in messages[last:])
        self.asked.append((prompt, rounds))
        steps = prompt.removeprefix("do ").split(", ") if prompt.startswith("do ") else []
        if (prompt, rounds) in self.reads_on:
            arguments = json.dumps(self.reads_on[prompt, rounds])
            call = {"id": "call_0", "function": {"name": "read_result", "arguments": arguments}}
            events = chat_events(tool_calls=[call], finish="tool_calls")
        elif rounds < len(steps):
            calls = [
                {
                    "id": f"call_{number}",
                    "function": {"name": self.names.get(name, name), "arguments": f'{{"word": "{word}"}}'},
                }
                for number, (name, word) in enumerate(step.split(" ") for step in steps[rounds].split(" + "))
            ]
            events = chat_events(tool_calls=calls, finish="tool_calls")
        else:
            events = chat_events("heard: ", prompt + self.suffix)
        # only the first request of a kind is held back
        held = self.held.pop((prompt, rounds), ())
        paced = [step for event in events[2:] for step in (*([self.pace] if self.pace else []), event)]
        steps = [*events[:2], *held, *paced]
        # half of a pair of UTF-16, as a server may write it that cuts a character in two
        return Reply([step.replace(HALF.encode(), b"\\ud83d") if isinstance(step, bytes) else step for step in steps])


def texts(events: Sequence[Event]) -> list[str]:
    """What a reader has seen of each attempt at a response."""
    seen = [""]
    for event in events:
        if isinstance(event, Reset):
            seen.append("")
        elif isinstance(event, TextDelta):
            seen[-1] += event.text
    return seen


def kinds(events: Sequence[Event]) -> list[str]:
    return [event.type for event in events]


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


async def spawn(agents: Agents, server: ScriptedServer, *names: str) -> None:
    tools = [f"deeds:{name}" for name in ("look", "put", "pay", "hang", "fail", "much")]
    for name in names:
        config = AgentConfig(name, "openai", "scripted", base_url=server.url, tools=tools)
        await asyncio.to_thread(agents._records.add, config)  # the tools are found by the workers, not here


async def read(agents: Agents, id: str, after: int = 0) -> list[Event]:
    return [event async for event in agents.events(id, after)]


async def said(agents: Agents, name: str) -> list[str]:
    """The conversation, a line each."""
    found: list[str] = []
    for message in await agents.history(name):
        blocks = [TextBlock(message.content)] if isinstance(message.content, str) else message.content
        for block in blocks:
            if isinstance(block, TextBlock):
                found.append(f"{message.role}: {block.text}")
            elif isinstance(block, ToolUseBlock):
                found.append(f"call: {block.name} {block.input.get('word', '')}".strip())
            elif isinstance(block, ToolResultBlock):
                found.append(f"result: {block.content}")
    return found


def written(agents: Agents, id: str) -> str:
    """What is in the log of a task by now."""
    return "".join(body for (body,) in agents.database.read("SELECT body FROM aa_events WHERE task = :id", id=id))


def worker_of(agents: Agents, tools: Sequence[Tool] = (), room: int = 10) -> TaskWorker:
    """A worker for the agent "a"."""
    return TaskWorker(agents.database, tools={"a": tools}, room=room)
