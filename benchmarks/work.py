"""What a client is asked to do, as the server, the peers' processes and the report all need to know it."""

from dataclasses import dataclass
from itertools import cycle, islice

WORDS = (
    " The",
    " cheapest",
    " token",
    " is",
    " one",
    " that",
    " was",
    " never",
    " parsed",
    ",",
    " naïve",
    " or",
    " not.\n",
)


@dataclass(frozen=True, slots=True)
class Work:
    """Requests for streams of `deltas` words: one after the other, or all `at_once`."""

    deltas: int
    pause_ms: int = 0  # between two deltas; without a pause the whole reply is written in one piece
    rounds: int = 0  # calls of a tool that come before the words, each in a reply of its own
    requests: int = 1
    at_once: bool = False
    seconds: float = 0  # do it all over again until these have passed
    kept: bool = False  # each request over a client of its own, which is kept

    @property
    def model(self) -> str:
        """The name that tells the server what to stream."""
        return f"words-{self.deltas}-{self.pause_ms}-{self.rounds}"

    @property
    def characters(self) -> int:
        return sum(len(word) for word in islice(cycle(WORDS), self.deltas))
