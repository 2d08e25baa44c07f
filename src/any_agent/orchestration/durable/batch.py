"""Many prompts for some agents, from a file to a file, in such a way that it can be broken off anywhere.

Each line of the file is a task whose id is made of what the file says. So whoever runs the same batch again goes on
with it, and what has been answered is not asked again.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from any_agent.orchestration.durable.tasks import Scope

if TYPE_CHECKING:
    from any_agent.orchestration.durable.host import Agents
    from any_agent.orchestration.durable.tasks import Task

__all__ = ("Prompt", "Results", "read_prompts", "result_row", "run_batch")

_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class Prompt:
    """One line of a batch."""

    #: what the batch is called, and what this line is called in it
    batch: str
    name: str
    line: int
    agent: str
    text: str

    @property
    def id(self) -> str:
        """Of its task."""
        return f"{self.batch}:{self.name}"


def read_prompts(path: Path, agents: Sequence[str], name: str | None = None) -> list[Prompt]:
    """The prompts of a file: each line `{"prompt": "…"}`, perhaps with an `agent` and an `id` of its own.

    Those that name no agent are dealt out among `agents` in turn. `name` is what the batch is called; another name
    makes other tasks of the same lines.
    """
    data = path.read_bytes()
    batch = name or hashlib.sha256(data + "\0".join(agents).encode()).hexdigest()[:12]
    prompts: list[Prompt] = []
    try:
        lines = data.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is no text in UTF-8") from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            row: Any = json.loads(line)
        except ValueError as problem:
            raise ValueError(f"{where}: no JSON: {problem}") from None
        given = cast("dict[str, Any]", row) if isinstance(row, dict) else {}
        text, agent = given.get("prompt"), given.get("agent")
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f'{where}: a line is {{"prompt": "…"}}, perhaps with "agent" and "id"')
        if agent is None and not agents:
            raise ValueError(f"{where}: names no agent: name one here, or on the command line")
        own = str(given["id"]) if "id" in given else f"{number:07d}"
        chosen = agents[len(prompts) % len(agents)] if agent is None else str(agent)
        prompts.append(Prompt(batch, own, number, chosen, text))
    if not prompts:
        raise ValueError(f"{path} has no prompts")
    ids = [prompt.id for prompt in prompts]
    if len(set(ids)) < len(ids):
        twice = next(prompt for prompt in prompts if ids.count(prompt.id) > 1)
        raise ValueError(f'{path}:{twice.line}: the "id" {twice.name!r} is there twice')
    return prompts


class Results:
    """The file with the answers of one batch, a line each, in the order in which they came."""

    def __init__(self, path: Path, batch: str) -> None:
        self.path = path
        #: the ids of the tasks whose answers are there
        self.known: set[str] = set()
        whole = 0
        if path.exists():
            for line in path.read_bytes().splitlines(keepends=True):
                try:
                    self.known.add(json.loads(line)["task"])
                except (ValueError, TypeError, KeyError):
                    if line.endswith(b"\n"):
                        raise ValueError(f"{path} is there, and is no file of results: name another one") from None
                    break  # the power went in the middle of this one
                whole += len(line)
        if not all(id.startswith(f"{batch}:") for id in self.known):
            raise ValueError(
                f"{path} has the answers to other prompts, or of other agents: name another file, or the batch (--id)"
            )
        self._file = path.open("r+b" if path.exists() else "wb")
        self._file.seek(whole)
        self._file.truncate()

    def add(self, prompt: Prompt, task: Task) -> None:
        """Write down what came of a prompt; it is on the disk then."""
        self._file.write(json.dumps(result_row(prompt, task), ensure_ascii=False).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.known.add(task.id)

    def close(self) -> None:
        """No more results come."""
        self._file.close()


def result_row(prompt: Prompt, task: Task) -> dict[str, Any]:
    """What came of a prompt: `text`, or `error`."""
    row = {"task": task.id, "line": prompt.line, "agent": task.agent, "prompt": prompt.text, "state": task.state}
    return {**row, **task.outcome}


async def run_batch(
    agents: Agents, prompts: Sequence[Prompt], *, concurrency: int, is_fresh: bool = False
) -> AsyncGenerator[tuple[Prompt, Task], None]:
    """Each prompt with its task, as soon as that is over. While there is no worker elsewhere this process is one.

    An agent does one thing at a time, and remembers; with `is_fresh` each prompt is a conversation of its own.
    """
    names = tuple(dict.fromkeys(prompt.agent for prompt in prompts))
    rest = iter(_mixed(prompts))
    waiting: dict[str, Prompt] = {}
    async with AsyncExitStack() as stack:
        worker = None
        while True:
            if worker is None and not any(other.agents is None for other in await agents.workers()):
                worker = await stack.enter_async_context(agents.worker(Scope(names), room=concurrency))
            while len(waiting) < concurrency and (prompt := next(rest, None)) is not None:
                await agents.submit(prompt.agent, prompt.text, id=prompt.id, is_fresh=is_fresh)
                waiting[prompt.id] = prompt
            if not waiting:
                return
            for task in await agents.over(list(waiting)):
                yield waiting.pop(task.id), task
            if worker is not None and worker.failure.done():
                worker.failure.result()
            await asyncio.sleep(_POLL_S)


def _mixed(prompts: Sequence[Prompt]) -> list[Prompt]:
    """The first prompt of each agent, then the second of each, and so on: an agent does one thing at a time."""
    count = Counter[str]()
    places: list[tuple[int, Prompt]] = []
    for prompt in prompts:
        places.append((count[prompt.agent], prompt))
        count[prompt.agent] += 1
    return [prompt for _, prompt in sorted(places, key=lambda place: place[0])]
