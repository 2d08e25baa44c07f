"""Who is measured, at what, and what has to come out. The one place to add a peer or a measure."""

from dataclasses import dataclass

from work import Work


@dataclass(frozen=True, slots=True)
class Peer:
    name: str  # of its module in peers/
    distribution: str
    imports: str | None = None  # the package whose import is timed
    core: bool = False  # compared in detail: more samples, longer bursts
    crowd: bool = True  # False: takes more than 20 seconds for it, which are spent only on a peer that is named
    rounds: bool = False  # has connect_rounds()
    idle: int = 0  # has connect_idle(): how many clients to make


PEERS = (
    Peer("limit", "msgspec", core=True),
    Peer("raw", "openai", core=True),
    Peer("any_agent", "any-agent-sdk", "any_agent", core=True, rounds=True, idle=10_000),
    Peer("any_agent_client", "any-agent-sdk", core=True),
    Peer("any_agent_query", "any-agent-sdk", core=True),
    Peer("openai", "openai", "openai", core=True, idle=300),
    Peer("any_llm", "any-llm-sdk", "any_llm"),
    Peer("openai_agents", "openai-agents", "agents", crowd=False, rounds=True),
    Peer("langchain_openai", "langchain-openai", "langchain_openai", crowd=False),
    Peer("pydantic_ai", "pydantic-ai-slim", "pydantic_ai", crowd=False, rounds=True),
    Peer("litellm", "litellm", "litellm", crowd=False),
    Peer("open_agent", "open-agent-sdk", "open_agent", crowd=False, rounds=True, idle=300),
)


@dataclass(frozen=True, slots=True)
class Samples:
    """How many to take."""

    core: int
    others: int

    def of(self, peer: Peer) -> int:
        return self.core if peer.core else self.others


@dataclass(frozen=True, slots=True)
class Row:
    """A block of the table, and the measure its numbers come from if that has another name."""

    name: str
    title: str
    measure: str = ""


BURST = Work(deltas=20_000, seconds=0.5)
SHORT_BURST = Work(deltas=5_000, seconds=0.5)  # as good a sample where a delta costs 50 times more
SINGLE = Work(deltas=2_000, pause_ms=1)
REQUESTS = Work(deltas=10, seconds=0.5)
TURN = Work(deltas=10, rounds=20)
CROWD = Work(deltas=40, pause_ms=50, requests=1_000, at_once=True)
IDLE = Work(deltas=10, kept=True)
WARM_UP = Work(deltas=10)

MEASURES = {
    "burst": Samples(7, 3),
    "single": Samples(7, 3),
    "requests": Samples(5, 3),
    "rounds": Samples(5, 3),
    "crowd": Samples(2, 1),
    "idle": Samples(1, 1),
    "import": Samples(5, 2),
    "first": Samples(5, 2),
}
QUICK = 3  # samples of what the targets need

ROWS = (
    Row("burst", "CPU µs per delta, 20,000 at once (frameworks: 5,000)"),
    Row("single", "CPU µs per delta, 2,000 one at a time, 1 ms apart"),
    Row("requests", "CPU µs per request for 10 deltas, one after the other"),
    Row("rounds", "CPU µs per tool round trip, 20 in a turn"),
    Row("crowd", "CPU s for 1,000 streams at the same time, 40 deltas each, 20 a second"),
    Row("memory", "peak RSS in MB of the process with these 1,000 streams", measure="crowd"),
    Row("made", "kB of RSS per client that was only made", measure="idle"),
    Row("idle", "kB of RSS per client that has had one answer and waits, 10,000 of them (others: 300)"),
    Row("import", "CPU ms to import the package, less that of an empty Python"),
    Row("first", "CPU ms of a process up to the end of its first request, less that of an empty Python"),
)


@dataclass(frozen=True, slots=True)
class Target:
    """How `value` of one peer must relate to that of another: `at_most` or `at_least` so many times as much."""

    row: str
    peer: str
    other: str
    at_most: float | None = None
    at_least: float | None = None

    def __str__(self) -> str:
        bound = f"at most {self.at_most:g}" if self.at_most is not None else f"at least {self.at_least:g}"
        return f"{self.row}: {self.peer} {bound} x {self.other}"

    def met(self, ratio: float) -> bool:
        return (self.at_most is None or ratio <= self.at_most) and (self.at_least is None or ratio >= self.at_least)


TARGETS = (
    Target("burst", "any_agent", "limit", at_most=3),
    Target("single", "any_agent", "limit", at_most=1.6),
    Target("burst", "any_agent_client", "any_agent", at_most=1.3),
    Target("single", "any_agent_client", "any_agent", at_most=1.3),
    Target("burst", "any_agent_query", "any_agent", at_most=1.3),
    Target("single", "any_agent_query", "any_agent", at_most=1.3),
    Target("burst", "openai", "any_agent", at_least=15),
    Target("single", "openai", "any_agent", at_least=2.5),
    Target("rounds", "openai_agents", "any_agent", at_least=3),
    Target("rounds", "pydantic_ai", "any_agent", at_least=3),
    Target("rounds", "open_agent", "any_agent", at_least=3),
    Target("import", "any_agent", "openai", at_most=0.1),
)
