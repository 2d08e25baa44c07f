"""What many machines would do to one Postgres: a simulation from what one machine was measured at. See docs/scaling.md.

Every worker takes tasks as long as it has room. A task asks its model some times: each time it takes CPU of its worker
and of Postgres, waits for commits, waits for a free slot of a model server, and keeps that for a while. Polling and
live events take a part of Postgres that nothing else can use. The backlog never ends, so what is full shows.

What is not in it: locks and checkpoints in Postgres, the network, machines that fail.
"""

import heapq
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from random import Random

CROWD, PATIENCE = 10, 8  # how polling gets slower with many workers, as in `worker.py`


@dataclass(frozen=True, slots=True)
class Costs:
    """As `benchmarks/durable.py` measured them, in seconds of CPU, on a slow core that was shared with others."""

    worker_call: float = 0.010  # of the worker, for each time the model is asked
    postgres_call: float = 0.0025
    commits: float = 6.0  # that are waited for, for each time the model is asked
    worker_live: float = 0.004  # per second in which one agent speaks
    postgres_live: float = 0.002  # with one that reads along
    postgres_poll: float = 0.0004  # for each look into the queue
    postgres_row: float = 0.000002  # of a list that is read (not measured)


@dataclass(frozen=True, slots=True)
class Fleet:
    machines: int
    calls: int = 2  # how often a task asks its model; tools come in between
    call_s: float = 10.0  # how long an answer takes
    tool_s: float = 1.0
    room: int = 10  # tasks at once in a worker; one worker a machine
    slots: int = 40  # answers at once of all model servers
    cores: int = 8  # of Postgres
    fsync_s: float = 0.002
    connections_per_worker: int = 8  # 3 of our own, 5 of the engine

    def polls(self, costs: Costs) -> float:
        """Cores of Postgres that go into looking whether there is something to do."""
        patience = min(max(1.0, self.machines / CROWD), PATIENCE)
        looks = 11 + 22 / patience  # a second and worker: the engine and heartbeats; the queue
        rows = self.machines / patience  # of the list of workers, a second and worker
        return self.machines * (looks * costs.postgres_poll + rows * costs.postgres_row)


@dataclass(frozen=True, slots=True)
class Outcome:
    fleet: Fleet
    rate: float  # tasks a second
    models: float  # how much of it is used, 0 to 1
    workers: float
    postgres: float
    polls: float  # cores of Postgres
    live: float
    commits: float  # a second

    @property
    def full(self) -> str:
        """What is used most, if that is nearly all there is."""
        used = {"models": self.models, "workers' CPU": self.workers, "Postgres": self.postgres}
        most = max(used, key=lambda name: used[name])
        return most if used[most] > 0.9 else "room for tasks"


class Station:
    """So many places, and a queue before them. Without places there is room for all, as in waiting."""

    def __init__(self, places: int | None = None) -> None:
        self.places = places
        self.taken = 0
        self.queue: deque[tuple[Visits, float]] = deque()
        self.busy = 0.0  # seconds of all places, in the time that counts


Visits = Iterator[tuple[Station, float]]  # where a task goes next, and for how long


class Simulation:
    """The time, and what happens next."""

    def __init__(self, since: float, until: float) -> None:
        self.since, self.until = since, until  # the time that counts
        self.now = 0.0
        self.ends: list[tuple[float, int, Station, Visits]] = []
        self.number = count()

    def run(self, tasks: Iterable[Visits]) -> None:
        for task in tasks:
            self.go_on(task)
        while self.ends and self.ends[0][0] <= self.until:
            self.now, _, station, task = heapq.heappop(self.ends)
            station.taken -= 1
            if station.queue:
                self.stay(station, *station.queue.popleft())
            self.go_on(task)

    def go_on(self, task: Visits) -> None:
        station, seconds = next(task)
        if station.places is not None and station.taken >= station.places:
            station.queue.append((task, seconds))
        else:
            self.stay(station, task, seconds)

    def stay(self, station: Station, task: Visits, seconds: float) -> None:
        station.taken += 1
        end = self.now + seconds
        station.busy += max(0.0, min(end, self.until) - max(self.now, self.since))
        heapq.heappush(self.ends, (end, next(self.number), station, task))


def simulate(fleet: Fleet, costs: Costs | None = None, seed: int = 1) -> Outcome:
    """A fleet for some rounds of tasks, after it has run in."""
    costs = costs or Costs()
    polls = min(fleet.polls(costs), fleet.cores)
    slower = fleet.cores / max(fleet.cores - polls, 0.05)  # for tasks, which have the rest
    postgres, models, waiting = Station(fleet.cores), Station(fleet.slots), Station()
    workers = [Station(1) for _ in range(fleet.machines)]
    length = fleet.calls * (fleet.call_s + fleet.tool_s)
    simulation, random = Simulation(10 * length, 16 * length), Random(seed)
    answers = 0

    def tasks(worker: Station) -> Visits:
        """One after the other."""
        nonlocal answers
        yield waiting, random.random() * length  # not all in chorus
        while True:
            for call in range(fleet.calls):
                if call:
                    yield waiting, fleet.tool_s
                yield worker, costs.worker_call
                yield postgres, (costs.postgres_call + costs.postgres_live * fleet.call_s) * slower
                yield waiting, costs.commits * fleet.fsync_s
                yield models, fleet.call_s * random.uniform(0.5, 1.5)
                answers += simulation.now > simulation.since

    simulation.run(tasks(worker) for worker in workers for _ in range(fleet.room))
    seconds = simulation.until - simulation.since
    speaking = models.busy / seconds
    return Outcome(
        fleet,
        rate=answers / fleet.calls / seconds,
        models=speaking / fleet.slots,
        workers=(sum(worker.busy for worker in workers) / seconds + speaking * costs.worker_live) / fleet.machines,
        postgres=(postgres.busy / seconds / slower + polls) / fleet.cores,
        polls=polls,
        live=answers / seconds * fleet.call_s * costs.postgres_live,
        commits=answers / seconds * costs.commits,
    )


def table(outcomes: Iterable[Outcome]) -> str:
    """As Markdown."""
    lines = [
        "| machines | answers at once | connections | tasks/s | models | workers' CPU | Postgres | of it polls | "
        "live events | commits/s | full |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for one in outcomes:
        fleet = one.fleet
        columns = (
            f"{fleet.machines:,}",
            f"{fleet.slots:,}",
            f"{fleet.machines * fleet.connections_per_worker:,}",
            f"{one.rate:,.1f}",
            f"{one.models:.0%}",
            f"{one.workers:.0%}",
            f"{one.postgres:.0%}",
            f"{one.polls / fleet.cores:.0%}",
            f"{one.live / fleet.cores:.0%}",
            f"{one.commits:,.0f}",
            one.full,
        )
        lines.append(f"| {' | '.join(columns)} |")
    return "\n".join(lines)


MACHINES = (10, 100, 1_000)


def main() -> None:
    print("A server with 4 slots on each machine, answers of 10 s, a tool round:\n")
    print(table(simulate(Fleet(machines, slots=4 * machines)) for machines in MACHINES))
    print("\nOne fast server with 256 slots for all, the same answers:\n")
    print(table(simulate(Fleet(machines, slots=256)) for machines in MACHINES))
    print("\nIn bulk: short answers of 1 s, no tools, 10 slots on each machine:\n")
    print(table(simulate(Fleet(machines, calls=1, call_s=1.0, slots=10 * machines)) for machines in MACHINES))


if __name__ == "__main__":
    main()
